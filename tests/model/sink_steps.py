"""What a worker does for one sink, a call of the log's storage or of the sink's target a step.

closed ─► look ─► has ─► open ─► swap ─► again ─► resume ─► ready ─► read ─► begin ─► plan ─► rows ─► task ─► … ─► accept
                                                              ▲                                                    │
                                                              └───────── report ◄─ record ◄────────────────────────┘
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.model.rules import Rules, lacks
from tests.model.state import (
    NONE,
    Bounds,
    Loop,
    Manifest,
    Position,
    Record,
    Segment,
    Target,
    Violation,
    Worker,
    World,
    floor_of,
    manifest_at,
    names_of,
    read,
    with_file,
)

ENDS = ("off", "closed", "ready", "stopped")
"""Between two operations."""

Steps = Iterator[World]


class At:
    """A loop among the processes: worker `worker`, sink `sink`, process `number`."""

    def __init__(self, world: World, number: int) -> None:
        self.number = number
        self.worker, self.sink = divmod(number - len(world.owners), len(world.targets))

    def loop(self, world: World) -> Loop:
        return world.workers[self.worker].loops[self.sink]

    def put(self, world: World, loop: Loop) -> World:
        before = world.workers[self.worker]
        worker = before._replace(loops=(*before.loops[: self.sink], loop, *before.loops[self.sink + 1 :]))
        workers = (*world.workers[: self.worker], worker, *world.workers[self.worker + 1 :])
        return world._replace(workers=workers, running=NONE if loop.at in ENDS else self.number)

    def target(self, world: World) -> Target:
        return world.targets[self.sink]

    def put_target(self, world: World, target: Target) -> World:
        return world._replace(targets=(*world.targets[: self.sink], target, *world.targets[self.sink + 1 :]))

    def record(self, world: World) -> Record | None:
        content = read(world.files, ("record", self.sink, 0))
        return content if isinstance(content, Record) else None


def operations(_rules: Rules, _bounds: Bounds, world: World, number: int) -> Steps:
    """The operations that a loop between two of them may begin: `spark_merge/delivery/loop.py::SinkLoop._deliver`."""
    at = At(world, number)
    loop = at.loop(world)
    if loop.at == "closed":
        yield at.put(world, loop._replace(at="look"))
    elif loop.at == "ready" and _has_next(world, _next_seq(loop)):
        yield from (at.put(world, loop._replace(at="read", limit=limit)) for limit in (1, 2))


def _has_next(world: World, first: int) -> bool:
    """A segment, or a hole: `spark_merge/log/read.py::_check_nothing_is_lost`."""
    if manifest_at(world.files, first) is not None or floor_of(world.files) > first:
        return True
    return first > 0 and manifest_at(world.files, first - 1) is None


def with_worker(world: World, number: int, epoch: int) -> World:
    """`sidecar/run/own_worker.py::OwnWorker.start`: a worker for the owner of `epoch`."""
    loops = (Loop("closed"),) * len(world.targets)
    return world._replace(workers=(*world.workers[:number], Worker(epoch, loops), *world.workers[number + 1 :]))


def without_worker(world: World, worker: int) -> World:
    """`spark_merge/worker/worker.py::Worker`: the process is gone, with the threads of all sinks."""
    off = Worker(0, (Loop(),) * len(world.targets))
    return world._replace(workers=(*world.workers[:worker], off, *world.workers[worker + 1 :]), running=NONE)


def _next_seq(loop: Loop) -> int:
    return (loop.accepted.seq if loop.accepted else NONE) + 1


def _fence_off(at: At, world: World) -> World:
    """OwnershipLost ends the worker."""
    return without_worker(world, at.worker)


def _refuse(at: At, world: World, why: str) -> World:
    """SinkError or LogBroken: nobody but an operator may cause it. It ends a worker that has been replaced, as OwnershipLost does, and what
    another one has opened meanwhile is looked at again."""
    loop, position = at.loop(world), at.target(world).position
    if position.owner > loop.owner > (0, 0):
        return _fence_off(at, world)
    if loop.at == "has" and position.accepted != loop.before:
        return at.put(world, Loop("closed"))
    if not world.restored:
        raise Violation("stopped", f"sink {at.sink} stops: {why}")
    return at.put(world, Loop("stopped"))


# ---- opening ------------------------------------------------------------------------------------------------------


def _look(_rules: Rules, _bounds: Bounds, world: World, number: int) -> Steps:
    """`spark_merge/sinks/kit/position.py::PositionKeeper.look`."""
    at = At(world, number)
    before = at.target(world).position.accepted
    yield at.put(world, at.loop(world)._replace(at="has" if before else "open", before=before))


def _lacks(same: Callable[[Segment, Manifest], bool], world: World, segment: Segment | tuple[()]) -> bool:
    """`spark_merge/log/follow.py::check_has`."""
    if not segment:
        return False
    there = manifest_at(world.files, segment.seq)
    if there is not None:
        return not same(segment, there)
    stop = max((name[1] + 1 for name in names_of(world.files, "manifest")), default=0)
    return segment.seq >= stop


def _has(rules: Rules, _bounds: Bounds, world: World, number: int) -> Steps:
    """Before the sink is opened: `spark_merge/delivery/batches.py::Delivery.__init__`."""
    at = At(world, number)
    loop = at.loop(world)
    if _lacks(rules.is_same, world, loop.before):
        yield _refuse(at, world, f"the log has another segment than {loop.before}")
    else:
        yield at.put(world, loop._replace(at="open"))


def _open(_rules: Rules, _bounds: Bounds, world: World, number: int) -> Steps:
    """`spark_merge/sinks/kit/position.py::PositionKeeper.open` reads; `spark_merge/port/contract.py::Owner.after`."""
    at, epoch = At(world, number), world.workers[At(world, number).worker].epoch
    stored = at.target(world).position
    if stored.owner[0] > epoch:
        yield _fence_off(at, world)
        return
    owner = (epoch, stored.owner[1] + 1 if stored.owner[0] == epoch else 1)
    yield at.put(world, at.loop(world)._replace(at="swap", owner=owner, stored=stored))


def _swap(rules: Rules, _bounds: Bounds, world: World, number: int) -> Steps:
    """`PositionKeeper.open` swaps; what earlier workers left aside is swept (`spark_merge/sinks/memory/hidden.py::HiddenSink.open`)."""
    at = At(world, number)
    loop, target = at.loop(world), at.target(world)
    assert isinstance(loop.stored, Position), "it was read"
    if not rules.swaps(target.position, loop.stored):
        yield at.put(world, loop._replace(at="open", stored=()))
        return
    position = loop.stored._replace(owner=loop.owner)
    aside = tuple(one for one in target.aside if one[0] >= loop.owner)
    world = at.put_target(world, target._replace(position=position, aside=aside))
    yield at.put(world, loop._replace(at="again", stored=(), accepted=position.accepted, begun=position.begun))


def _again(rules: Rules, _bounds: Bounds, world: World, number: int) -> Steps:
    """`spark_merge/delivery/batches.py::Delivery._opened`: the log has what is begun, and what was accepted since the look."""
    at = At(world, number)
    loop = at.loop(world)
    if _lacks(rules.is_begun, world, loop.begun) or (loop.accepted != loop.before and _lacks(rules.is_same, world, loop.accepted)):
        yield _refuse(at, world, f"the log has another segment than {loop.begun or loop.accepted}")
    else:
        yield at.put(world, loop._replace(at="resume" if loop.accepted else "ready", before=()))


def _resume(rules: Rules, _bounds: Bounds, world: World, number: int) -> Steps:
    """`spark_merge/delivery/sink_record.py::SinkRecord.resume`: what the file lacks is read from the log, where it is still there."""
    at = At(world, number)
    loop, record = at.loop(world), at.record(world)
    assert isinstance(loop.accepted, Segment), "it has segments"
    there = None if record is None else manifest_at(world.files, record.seq)
    foreign = record is not None and there is not None and there.upto != record.known
    if record is None or (foreign and world.restored):
        record = Record(loop.accepted.seq, loop.accepted.upto, loop.owner)
    for seq in range(record.seq + 1, loop.accepted.seq + 1):
        if (manifest := manifest_at(world.files, seq)) is not None:
            record = _follow(world, record, manifest)
    if record.seq < loop.accepted.seq and not world.restored:
        raise Violation(
            "record", f"sink {at.sink} has accepted {loop.accepted.seq}, its record ends at {record.seq}, and the rest is removed"
        )
    yield at.put(
        world, loop._replace(at="report" if record == at.record(world) or rules.reports_first() else _to_record(rules), tables=record)
    )


def _follow(world: World, record: Record, manifest: Manifest) -> Record:
    """`spark_merge/delivery/complete.py::followed`, of each segment. One that is passed over is never known."""
    if manifest.after != record.known and not world.restored:
        raise Violation("record", f"the record knows up to change {record.known}, and segment {manifest.seq} follows {manifest.after}")
    return record._replace(seq=manifest.seq, known=manifest.upto)


# ---- a batch ------------------------------------------------------------------------------------------------------


def _read(rules: Rules, _bounds: Bounds, world: World, number: int) -> Steps:
    """`spark_merge/delivery/batches.py::Delivery._next`, then what `Delivery._batch` checks."""
    at, epoch = At(world, number), world.workers[At(world, number).worker].epoch
    loop = at.loop(world)
    first, limit = _next_seq(loop), loop.limit
    if loop.begun:
        if loop.begun.seq < first:
            yield _refuse(at, world, f"what is begun ends with {loop.begun.seq}, and {first} comes next")
            return
        limit = rules.redone(loop.begun, first - 1, limit)
    batch: list[Manifest] = []
    while len(batch) < limit and (one := manifest_at(world.files, first + len(batch))) is not None:
        batch.append(one)
    loop = loop._replace(limit=0)
    if not batch:
        yield _refuse(at, world, f"segment {first} is gone")
    elif not rules.serves(epoch, batch):
        yield _fence_off(at, world)
    elif loop.begun and not rules.is_still_begun(loop.begun, batch[-1]):
        yield _refuse(at, world, f"{loop.begun} is begun, and the log has {batch[-1]}")
    elif not rules.continues(loop.accepted, batch):
        yield _refuse(at, world, f"segment {first} does not follow {loop.accepted}")
    else:
        yield at.put(world, loop._replace(at="plan" if loop.tables else "begin", batch=tuple(batch)))


def _begin(rules: Rules, _bounds: Bounds, world: World, number: int) -> Steps:
    """`spark_merge/delivery/sink_record.py::SinkRecord.begin`."""
    at = At(world, number)
    loop, there = at.loop(world), at.record(world)
    if not rules.may_begin_record(loop.owner, there):
        yield _fence_off(at, world)
        return
    record = Record(loop.batch[0].seq - 1, loop.batch[0].after, loop.owner)
    world = world._replace(files=with_file(world.files, ("record", at.sink, 0), record))
    yield at.put(world, loop._replace(at="plan", tables=record))


def _plan(rules: Rules, bounds: Bounds, world: World, number: int) -> Steps:
    """`spark_merge/port/contract.py::Sink.plan`; then `spark_merge/delivery/batches.py::Delivery._needed`."""
    at = At(world, number)
    loop, target = at.loop(world), at.target(world)
    begun, position = Segment.of(loop.batch[-1]), _own(loop)
    if rules.records_batch(bounds.kinds[at.sink]) and not loop.begun:
        if not rules.swaps(target.position, position):
            yield _fence_off(at, world)
            return
        world = at.put_target(world, target._replace(position=position._replace(begun=begun), slots=0))
        loop = loop._replace(begun=begun)
    first = min(one.first for one in loop.batch)
    if lacks(world.files, [("manifest", seq, 0) for seq in range(first, loop.batch[0].seq)]):
        yield _refuse(at, world, f"a window of segment {loop.batch[-1].seq} needs segment {first}, which is gone")
    else:
        yield at.put(world, loop._replace(at="rows"))


def _own(loop: Loop) -> Position:
    """`spark_merge/sinks/kit/position.py::PositionKeeper.state`."""
    return Position(loop.owner, loop.accepted, loop.begun)


def _rows(_rules: Rules, bounds: Bounds, world: World, number: int) -> Steps:
    """`spark_merge/merge/task.py::run` reads: of each segment of the task, and of its windows."""
    at = At(world, number)
    loop = at.loop(world)
    segments = [loop.batch[loop.task]] if bounds.kinds[at.sink] == "committing" else loop.batch
    earlier = [manifest_at(world.files, seq) for one in segments for seq in range(one.first, one.seq)]
    for one in (*segments, *earlier):
        if one is None or lacks(world.files, one.files) or (one.data and read(world.files, one.data) != (one.after, one.upto)):
            yield _refuse(at, world, f"a file of {one} is gone, or another one")
            return
    yield at.put(world, loop._replace(at="task"))


def _task(rules: Rules, bounds: Bounds, world: World, number: int) -> Steps:
    """A writer: rows of a hidden sink go aside (`spark_merge/sinks/memory/hidden.py::WriteAside`), a committing one's are a transaction
    (`spark_merge/sinks/memory/committing.py::Commit`)."""
    at = At(world, number)
    loop, target = at.loop(world), at.target(world)
    if bounds.kinds[at.sink] != "committing":
        rows = (rules.attempt(loop.owner), (loop.batch[0].after, loop.batch[-1].upto))
        aside = tuple(sorted([*(one for one in target.aside if one[0] != rows[0]), rows]))
        yield at.put(at.put_target(world, target._replace(aside=aside)), loop._replace(at="accept"))
        return
    if not rules.may_write(target.position, loop.owner):
        yield _fence_off(at, world)
        return
    if target.position.begun and target.position.begun != Segment.of(loop.batch[-1]):
        raise Violation("begun", f"{target.position.begun} is begun, and rows of {loop.batch[-1]} are written")
    if not rules.is_done(target.slots, loop.task):
        segment = loop.batch[loop.task]
        target = _show(at, target, segment.after, segment.upto)._replace(slots=loop.task + 1)
    last = loop.task + 1 == len(loop.batch)
    world = at.put_target(world, target)
    yield at.put(world, loop._replace(at="accept", task=0) if last else loop._replace(at="rows", task=loop.task + 1))


def _show(at: At, target: Target, after: int, upto: int) -> Target:
    if after != target.has:
        raise Violation("order", f"sink {at.sink} has the changes up to {target.has} and shows those of ({after}, {upto}]")
    return target._replace(has=upto)


def _accept(rules: Rules, bounds: Bounds, world: World, number: int) -> Steps:
    """`spark_merge/sinks/kit/position.py::PositionKeeper.accept`."""
    at = At(world, number)
    loop, target = at.loop(world), at.target(world)
    if not rules.swaps(target.position, _own(loop)):
        yield _fence_off(at, world)
        return
    last = loop.batch[-1]
    if target.position.begun and target.position.begun != Segment.of(last):
        raise Violation("begun", f"{target.position.begun} is begun, and {last} is accepted")
    if bounds.kinds[at.sink] != "committing":
        after, upto = dict(target.aside)[rules.attempt(loop.owner)]
        target = _show(at, target, after, upto)
    accepted = Segment.of(last)
    if target.has != last.upto or (not world.restored and world.history[last.seq] != (last.epoch, last.upto)):
        raise Violation("accepted", f"sink {at.sink} accepts {accepted}, and has the changes up to {target.has}")
    aside = tuple(one for one in target.aside if one[0] != loop.owner)
    target = target._replace(position=Position(loop.owner, accepted), slots=0, aside=aside)
    then = "report" if rules.reports_first() else _to_record(rules)
    tables = loop.tables
    for manifest in loop.batch:
        assert isinstance(tables, Record), "begin or resume comes first"
        tables = _follow(world, tables, manifest) if manifest.seq > tables.seq else tables
    loop = loop._replace(at=then, accepted=accepted, begun=(), batch=(), tables=tables)
    yield at.put(at.put_target(world, target), loop)


def _to_record(rules: Rules) -> str:
    return "whose_record" if rules.looks_long_before() else "record"


def _whose_record(rules: Rules, _bounds: Bounds, world: World, number: int) -> Steps:
    """`spark_merge/delivery/sink_record.py::SinkRecord._check_owner`, as a step of its own (gaps.py)."""
    at = At(world, number)
    loop = at.loop(world)
    yield at.put(world, loop._replace(at="record")) if rules.may_write_record(loop.owner, at.record(world)) else _fence_off(at, world)


def _record(rules: Rules, _bounds: Bounds, world: World, number: int) -> Steps:
    """`spark_merge/delivery/sink_record.py::SinkRecord.passed`: it looks whose the file is, and writes it."""
    at = At(world, number)
    loop = at.loop(world)
    assert isinstance(loop.tables, Record), "it is known"
    if not rules.looks_long_before() and not rules.may_write_record(loop.owner, at.record(world)):
        yield _fence_off(at, world)
        return
    record = loop.tables._replace(owner=loop.owner)
    world = world._replace(files=with_file(world.files, ("record", at.sink, 0), record))
    yield at.put(world, loop._replace(at="ready" if rules.reports_first() else "report", tables=record))


def _report(rules: Rules, _bounds: Bounds, world: World, number: int) -> Steps:
    """`spark_merge/worker/worker.py::Worker._report`: of all sinks of the worker, as each was accepted last."""
    at = At(world, number)
    accepted = [
        loop.accepted.seq if loop.accepted and loop.at not in rules.not_to_report() else NONE for loop in world.workers[at.worker].loops
    ]
    loop = at.loop(world)._replace(at="record" if rules.reports_first() else "ready")
    yield at.put(world._replace(report=rules.report(accepted)), loop)


STEPS: dict[str, Callable[[Rules, Bounds, World, int], Steps]] = {
    "look": _look,
    "has": _has,
    "open": _open,
    "swap": _swap,
    "again": _again,
    "resume": _resume,
    "read": _read,
    "begin": _begin,
    "plan": _plan,
    "rows": _rows,
    "task": _task,
    "accept": _accept,
    "whose_record": _whose_record,
    "record": _record,
    "report": _report,
}
"""By the call that comes next, `Loop.at`."""
