"""What an owner does, a call of the log's storage a step: it becomes the owner, recovers the log, commits and retains.

    standby ─► floor ─► list ─► last ─► serve ─► data ─► schemas ─► create ─► follows ─► sweep ─► acknowledge ─► serve
                                          └─► learn ─► unnamed ─► read ─► next ─► note ─► manifests ─► files ─► serve

A process asks whether its lease lives (`check_held`) where an operation begins, and can sleep after that: so it sleeps through the later
questions of the product, too. What was listed is as old as the freezes between two calls make it: the notes of retention are listed before
the other files, the worst order of a listing that is no snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from tests.model.rules import Rules, below, lacks, orphans_of
from tests.model.state import (
    NONE,
    Bounds,
    Manifest,
    Name,
    Owner,
    Violation,
    World,
    floor_of,
    manifest_at,
    names_of,
    with_file,
    without,
)

ENDS = ("standby", "serve", "stopped")
"""Between two operations."""

Steps = Iterator[World]


def operations(rules: Rules, bounds: Bounds, world: World, number: int) -> Steps:
    """The operations that a process between two of them may begin."""
    owner = world.owners[number]
    if owner.at == "standby" and not world.lease:
        yield _acquire(rules, world, number)
    elif owner.at == "serve" and world.lease != owner.epoch:
        yield put(world, number, Owner())
    elif owner.at == "serve":
        yield from (put(world, number, _with_draft(rules, owner, draft)) for draft in _drafts(rules, bounds, world, owner))
        if world.report > NONE and (retaining := _retaining(rules, world, owner)) is not None:
            yield put(world, number, retaining)


def put(world: World, number: int, owner: Owner) -> World:
    owners = (*world.owners[:number], owner, *world.owners[number + 1 :])
    return world._replace(owners=owners, running=NONE if owner.at in ENDS else number)


def _acquire(rules: Rules, world: World, number: int) -> World:
    """`sidecar/adapters/etcd/owner.py::EtcdOwner._try`: one transaction."""
    epoch = rules.next_epoch(world.epoch)
    return put(world._replace(lease=epoch, epoch=epoch), number, Owner("floor", epoch))


def _release(world: World, owner: Owner) -> World:
    """`sidecar/adapters/etcd/owner.py::EtcdOwner.release`."""
    return world._replace(lease=0) if world.lease == owner.epoch else world


def _stand_by(world: World, number: int) -> World:
    """`sidecar/shared/log/segment_log.py::FolderLog.commit` raises LogTaken, which ends the term: the process stands by again."""
    return put(_release(world, world.owners[number]), number, Owner())


def _break_off(world: World, number: int, why: str) -> World:
    """LogBroken ends the process of an owner, `sidecar/run/term.py::Term._judging_the_log`. Nobody but an operator may cause it."""
    owner = world.owners[number]
    if world.lease != owner.epoch:
        return put(world, number, Owner())
    if not world.restored:
        raise Violation("stopped", f"the owner of epoch {owner.epoch} stops: {why}")
    return put(_release(world, owner), number, Owner("stopped"))


# ---- recovery -----------------------------------------------------------------------------------------------------


def _floor(_rules: Rules, _bounds: Bounds, world: World, number: int) -> Steps:
    """The first page of the listing in `sidecar/shared/log/segment_log.py::looked_at`."""
    yield put(world, number, world.owners[number]._replace(at="list", floor=floor_of(world.files)))


def _list(rules: Rules, _bounds: Bounds, world: World, number: int) -> Steps:
    """The second page: `sidecar/shared/log/layout.py::Contents.run`."""
    owner, files = world.owners[number], world.files
    present = sorted(name[1] for name in names_of(files, "manifest") if rules.sees(name[1], owner.floor))
    stop = owner.floor + len(present)
    beyond = any(name[1] > stop for name in names_of(files, "data"))
    if present != [*range(owner.floor, stop)] or beyond or (owner.floor and not present):
        yield _look_again(rules, world, number, (owner.floor, *present))
        return
    names = tuple(name for name, _ in files if name[0] == "schemas" and name[1] < owner.epoch)
    owner = owner._replace(at="last", start=owner.floor, stop=stop, unnamed=names, seen=(owner.floor, *present))
    last = manifest_at(files, stop - 1)
    owner = owner._replace(orphans=tuple(sorted(orphans_of(files, owner, last))))
    yield put(world, number, owner)


def _look_again(rules: Rules, world: World, number: int, seen: tuple[int, ...]) -> World:
    """Once more, where the look before showed something else: `sidecar/shared/log/segment_log.py::looked_at`."""
    owner = world.owners[number]
    if rules.looks_again(seen, owner.before):
        return put(world, number, Owner("floor", owner.epoch, before=seen))
    return _break_off(world, number, f"the log has the floor and manifests {seen}")


def _last(rules: Rules, bounds: Bounds, world: World, number: int) -> Steps:
    """`sidecar/shared/log/segment_log.py::FolderLog._whole`, then `sidecar/pipeline.py::attach`, which seeks the feed."""
    owner = world.owners[number]
    last = manifest_at(world.files, owner.stop - 1) if owner.stop > owner.start else None
    if owner.stop > owner.start and (last is None or lacks(world.files, last.files)):
        yield _look_again(rules, world, number, owner.seen)
        return
    upto = rules.resumes_behind(last, world.acknowledged)
    if bounds.forgets and upto < world.acknowledged:
        if rules.looks_behind_a_gap() and manifest_at(world.files, owner.stop) is not None:
            yield _stand_by(world, number)
            return
        yield _break_off(world, number, f"the feed has forgotten what comes after change {upto}")
        return
    if rules.sweeps_at_once():
        world, owner = _remove(world, owner.orphans), owner._replace(orphans=())
    yield put(
        world,
        number,
        owner._replace(
            at="serve",
            floor=0,
            seen=(),
            before=(),
            upto=upto,
            unread=tuple(range(owner.start, owner.stop)),
            previous_open=last.open_from if last else NONE,
        ),
    )


# ---- a segment ----------------------------------------------------------------------------------------------------


def _drafts(rules: Rules, bounds: Bounds, world: World, owner: Owner) -> Iterator[Manifest]:
    """What the next segment may be: `sidecar/pipeline.py::Pipeline._write`. It has one change or two; the first one of a term may have none
    (`Pipeline.write_soon`). A dump's window may open in it, and one that is open may close."""
    for changes in (0, 1, 2):
        upto = owner.upto + changes
        if upto > bounds.changes or (not changes and (owner.committed or not owner.stop)):
            continue
        data: Name | tuple[()] = ("data", owner.stop, rules.data_epoch(owner.epoch)) if changes else ()
        schemas = ("schemas", rules.schemas_epoch(owner.epoch), upto % 2)
        plain = Manifest(owner.stop, owner.epoch, owner.upto, upto, owner.stop, owner.open_from, data, schemas)
        yield plain
        if owner.open_from != NONE:
            yield plain._replace(first=owner.open_from, open_from=NONE)
        elif world.left.windows:
            yield plain._replace(open_from=owner.stop)


def _with_draft(rules: Rules, owner: Owner, draft: Manifest) -> Owner:
    first_call = "data" if draft.data else "schemas"
    return owner._replace(at="acknowledge" if rules.acknowledges_first() else first_call, draft=draft)


def _draft(owner: Owner) -> Manifest:
    assert isinstance(owner.draft, Manifest), "a segment is being written"
    return owner.draft


def _data(_rules: Rules, _bounds: Bounds, world: World, number: int) -> Steps:
    """`sidecar/shared/log/segment_log.py::FolderLog.write_data`."""
    owner = world.owners[number]
    draft = _draft(owner)
    assert draft.data, "it has rows"
    files = with_file(world.files, draft.data, (draft.after, draft.upto))
    yield put(world._replace(files=files), number, owner._replace(at="schemas"))


def _schemas(_rules: Rules, _bounds: Bounds, world: World, number: int) -> Steps:
    """`sidecar/shared/log/segment_log.py::FolderLog.write_schemas`: what this owner has written last is not looked at again."""
    owner = world.owners[number]
    name = _draft(owner).schemas
    files = world.files if name == owner.schemas else with_file(world.files, name)
    yield put(world._replace(files=files), number, owner._replace(at="create", schemas=name))


def _create(rules: Rules, _bounds: Bounds, world: World, number: int) -> Steps:
    """`sidecar/shared/log/segment_log.py::FolderLog.commit`, the exclusive creation. The first one of a segment is its history."""
    owner = world.owners[number]
    draft = _draft(owner)
    if not rules.may_create(world.files, draft.seq):
        yield _stand_by(world, number)
        return
    history, left = world.history, world.left
    if draft.seq == len(history):
        history = (*history, (draft.epoch, draft.upto))
    if draft.open_from == draft.seq:
        left = left._replace(windows=left.windows - 1)
    world = world._replace(files=with_file(world.files, draft.name, draft), history=history, left=left)
    yield put(world, number, owner._replace(at="follows"))


def _follows(rules: Rules, _bounds: Bounds, world: World, number: int) -> Steps:
    """`sidecar/shared/log/segment_log.py::FolderLog._follows`, and what `FolderLog.commit` remembers then."""
    owner = world.owners[number]
    draft = _draft(owner)
    if not rules.follows(world.files, draft.seq):
        yield _stand_by(world, number)
        return
    if world.history[draft.seq][0] != draft.epoch:
        raise Violation("one manifest", f"epochs {world.history[draft.seq][0]} and {draft.epoch} have committed segment {draft.seq}")
    yield put(
        world,
        number,
        owner._replace(
            at="sweep" if owner.orphans else "acknowledge",
            stop=draft.seq + 1,
            upto=draft.upto,
            open_from=draft.open_from,
            previous_open=NONE,
            committed=True,
            learned=(*owner.learned, draft),
            draft=(),
        ),
    )


def _sweep(_rules: Rules, _bounds: Bounds, world: World, number: int) -> Steps:
    """Orphans, behind the first commit: `sidecar/shared/log/segment_log.py::FolderLog.commit`."""
    owner = world.owners[number]
    yield put(_remove(world, owner.orphans), number, owner._replace(at="acknowledge", orphans=()))


def _acknowledge(rules: Rules, _bounds: Bounds, world: World, number: int) -> Steps:
    """The last step of `sidecar/pipeline.py::Pipeline._write`."""
    owner = world.owners[number]
    upto = owner.draft.upto if isinstance(owner.draft, Manifest) else owner.upto
    world = world._replace(acknowledged=max(world.acknowledged, upto))
    then = ("data" if owner.draft.data else "schemas") if isinstance(owner.draft, Manifest) and rules.acknowledges_first() else "serve"
    yield put(world, number, owner._replace(at=then))


# ---- retention ----------------------------------------------------------------------------------------------------


def _retaining(rules: Rules, world: World, owner: Owner) -> Owner | None:
    """`sidecar/shared/log/segment_log.py::FolderLog.retain` begins, where it has something to do."""
    retaining = owner._replace(at="learn", delivered=world.report)
    if owner.unread or (owner.unnamed and rules.may_forget(owner)):
        return retaining
    return retaining if _keep(rules, retaining) > owner.start else None


def _keep(rules: Rules, owner: Owner) -> int:
    return rules.keep_from(owner, [*rules.reaches(owner), *rules.open_windows(owner), *rules.previous_windows(owner)])


def _learn(rules: Rules, _bounds: Bounds, world: World, number: int) -> Steps:
    """`sidecar/shared/log/segment_log.py::FolderLog._learn_all`."""
    owner = world.owners[number]
    there = tuple(one for seq in owner.unread if (one := manifest_at(world.files, seq)) is not None)
    named = {name for one in (*there, *owner.learned) for name in one.files}
    after = owner._replace(
        at="unnamed",
        learned=tuple(sorted({*there, *owner.learned})),
        unnamed=tuple(name for name in owner.unnamed if name not in named),
    )
    if len(there) < len(owner.unread):
        yield put(world, number, after._replace(at="floor_again", then="unnamed"))
    else:
        yield put(world, number, after._replace(unread=()))


def _floor_again(rules: Rules, _bounds: Bounds, world: World, number: int) -> Steps:
    """Manifests are gone: `sidecar/shared/log/segment_log.py::FolderLog._raise_floor`."""
    owner, floor = world.owners[number], floor_of(world.files)
    known = {one.seq for one in (owner.gone if owner.then == "next" else owner.learned)}
    wanted = range(owner.gone_from, owner.gone_stop) if owner.then == "next" else owner.unread
    lost = [seq for seq in wanted if seq not in known and rules.is_lost(seq, floor)]
    if lost:
        yield _break_off(world, number, f"manifests {lost} are gone, the floor is {floor}")
    elif floor >= owner.stop:
        yield _stand_by(world, number)
    else:
        learned = tuple(one for one in owner.learned if one.seq >= floor)
        yield put(world, number, owner._replace(at=owner.then, then="", unread=(), start=max(owner.start, floor), learned=learned))


def _unnamed(rules: Rules, _bounds: Bounds, world: World, number: int) -> Steps:
    """What no manifest names, and then which segments go: `sidecar/shared/log/segment_log.py::FolderLog.retain`."""
    owner = world.owners[number]
    if owner.unnamed and rules.may_forget(owner):
        world, owner = _remove(world, owner.unnamed), owner._replace(unnamed=())
    keep = _keep(rules, owner)
    if keep <= owner.start:
        yield put(world, number, _end_retention(owner))
    else:
        yield put(world, number, owner._replace(at="read", gone_from=owner.start, gone_stop=keep))


def _end_retention(owner: Owner) -> Owner:
    return owner._replace(at="serve", delivered=NONE, gone=(), gone_from=0, gone_stop=0, left=(), then="")


def _read(_rules: Rules, _bounds: Bounds, world: World, number: int) -> Steps:
    """`sidecar/shared/log/segment_log.py::FolderLog._read`, of the segments that go."""
    owner = world.owners[number]
    wanted = range(owner.gone_from, owner.gone_stop)
    gone = tuple(one for seq in wanted if (one := manifest_at(world.files, seq)) is not None)
    owner = owner._replace(at="next", gone=gone, left=gone)
    yield put(world, number, owner if len(gone) == len(wanted) else owner._replace(at="floor_again", then="next"))


def _next(rules: Rules, _bounds: Bounds, world: World, number: int) -> Steps:
    """Whether another owner has written on: `sidecar/shared/log/segment_log.py::FolderLog._remove_segments`."""
    owner = world.owners[number]
    if manifest_at(world.files, owner.stop) is not None:
        yield _stand_by(world, number)
    else:
        yield put(world, number, owner._replace(at="note" if rules.notes_first() else "manifests"))


def _note(rules: Rules, _bounds: Bounds, world: World, number: int) -> Steps:
    """`sidecar/shared/log/layout.py::retained_name`."""
    owner = world.owners[number]
    files = with_file(world.files, ("retained", owner.gone_stop, 0))
    owner = owner._replace(start=max(owner.start, owner.gone_stop))
    yield put(world._replace(files=files), number, owner._replace(at="manifests" if rules.notes_first() and owner.left else "files"))


def _manifests(rules: Rules, _bounds: Bounds, world: World, number: int) -> Steps:
    """One of those that may go next: `sidecar/shared/log/segment_log.py::FolderLog._remove_segments`."""
    owner = world.owners[number]
    for one in rules.removed_next(owner.left):
        left = tuple(other for other in owner.left if other != one)
        at = "manifests" if left else "files" if rules.notes_first() else "note"
        yield put(_remove(world, [one.name]), number, owner._replace(at=at, left=left))


def _files(rules: Rules, _bounds: Bounds, world: World, number: int) -> Steps:
    """What only they named, and whatever is left of them: `sidecar/shared/log/segment_log.py::FolderLog._forget` and the sweep."""
    owner = world.owners[number]
    learned = tuple(one for one in owner.learned if one not in owner.gone and one.seq >= owner.gone_stop)
    still = {one.schemas for one in learned} | {owner.schemas}
    unnamed = {one.schemas for one in owner.gone if one.schemas not in still}
    owner = owner._replace(learned=learned)
    if not rules.may_forget(owner):
        owner, unnamed = owner._replace(unnamed=tuple(sorted({*owner.unnamed, *unnamed}))), set()
    names = {*unnamed, *(one.data for one in owner.gone if one.data), *below(world.files, owner.gone_stop)}
    yield put(_remove(world, sorted(names)), number, _end_retention(owner))


def _remove(world: World, names: Collection[Name]) -> World:
    """`sidecar/shared/log/segment_log.py::FolderLog._remove`. Nothing of it may be needed."""
    if not world.restored and (needed := {name for name in names if name in _needed(world)}):
        raise Violation("retention", f"{sorted(needed)} are removed, and a sink or the next owner needs them")
    return world._replace(files=without(world.files, names))


def _needed(world: World) -> set[Name]:
    """The segments that some sink lacks, those in which windows of these begin, and the last one: of the manifests that count."""
    accepted = min(target.position.accepted.seq if target.position.accepted else NONE for target in world.targets)
    counting = [one for seq in range(len(world.history)) if (one := manifest_at(world.files, seq)) is not None]
    lacking = [one for one in counting if one.epoch == world.history[one.seq][0] and (one.seq > accepted or one == counting[-1])]
    first = min((one.first for one in lacking if one.seq > accepted), default=len(world.history))
    return {name for one in counting if one in lacking or one.seq >= first for name in (one.name, *one.files)}


STEPS: dict[str, Callable[[Rules, Bounds, World, int], Steps]] = {
    "floor": _floor,
    "list": _list,
    "last": _last,
    "data": _data,
    "schemas": _schemas,
    "create": _create,
    "follows": _follows,
    "sweep": _sweep,
    "acknowledge": _acknowledge,
    "learn": _learn,
    "floor_again": _floor_again,
    "unnamed": _unnamed,
    "read": _read,
    "next": _next,
    "note": _note,
    "manifests": _manifests,
    "files": _files,
}
"""By the call that comes next, `Owner.at`."""
