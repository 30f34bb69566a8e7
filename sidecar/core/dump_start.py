"""What a dump begins with: what it shares with others, and its progress from an operator's request. It rejects what cannot be."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import Protocol

from sidecar.core.marks import DUMP_ID_LENGTH
from sidecar.core.window import Windows
from sidecar.shared.errors import DumpsWait, RefusedRequest, parted, with_hint
from sidecar.shared.model.messages import DELIVERY_BOUND_MAX_S, READERS_MAX, Brackets, RestartDump, Settings, StartDump
from sidecar.shared.model.nouns import CommitTs, Seq
from sidecar.shared.model.progress import OVER, DumpState, Progress, TableProgress, keys_bytes, unread

KEYS_BYTES_MAX = 512 << 10
"""Of all dumps that are not over (progress.keys_bytes): each manifest has them."""


@dataclass(frozen=True, slots=True)
class DumpLimits:
    """`readers`: windows that a dump reads at one time. `window_chunks_max`: chunks in a window, so that few marks serve many
    small chunks. `open_windows_max` and `chunk_bytes_max`: what all dumps may have read and not in the log: the back-pressure.
    `delivery_bound_s`: of a dump that does not say its own; 0: by what delivery takes without a dump (sidecar/pace), within
    `delivery_bound_max_s`. `strict_bound`: of each dump. `sinks`: the names of the sinks that there are; empty: not known.
    `no_marks`: what keeps marks out of the feed, with the way out; empty: they come."""

    readers: int = 2
    window_chunks_max: int = 8
    open_windows_max: int = 256
    chunk_bytes_max: int = 256 << 20
    delivery_bound_s: float = 0.0
    delivery_bound_max_s: float = DELIVERY_BOUND_MAX_S
    strict_bound: bool = False
    sinks: tuple[str, ...] = ()
    no_marks: str = ""


@dataclass(frozen=True, slots=True)
class DumpRoom:
    """What is left to a dump (P3). `rows`, `bytes`: of windows that may close in the log now, each chunk as one row more. `width_rows`:
    `rows` where sinks have accepted all that there is of the dump: then one window closes, however large; 0: there is no width.
    `window_rows`: a window is cut to so many, so that several of them make a width. `open_rows`: read or being read, in windows that are
    not in the log; one chunk where nothing is."""

    rows: int
    bytes: int
    width_rows: int
    window_rows: int
    open_rows: int

    def fits(self, rows: int, size: int) -> bool:
        """Whether a window of so much may close in the log."""
        return 0 < self.width_rows <= self.rows or (rows <= self.rows and size <= self.bytes)

    def less(self, rows: int, size: int) -> DumpRoom:
        """After a window of so much. Sinks that had nothing of the dump have one window first: they begin with that, so what they take next
        is there when they are done, and batches of several sizes tell what a row costs."""
        left = 0 if 0 < self.width_rows <= self.rows else self.rows - rows
        return replace(self, rows=left, bytes=self.bytes - size)

    def none(self) -> DumpRoom:
        """Where no window fits, not even one without a row."""
        return replace(self, rows=-1, bytes=0, width_rows=0)


UNLIMITED = DumpRoom(1 << 62, 1 << 62, 0, 1 << 62, 1 << 62)


@dataclass(frozen=True, slots=True)
class Demand:
    """What a dump takes and would take. `open_rows`: read or being read, in windows that are not in the log, and `ready_rows` of them in
    windows that could close. `held`: such windows are there, so the sinks leave too little room. `opened`: windows ever opened, and
    `waiting` of them wait for their high marks. `starved`: it would have read more if `DumpRoom.open_rows` had let it.
    `delivery_bound_s`: its own, or the sidecar's; 0: by what delivery takes without it, within `delivery_bound_max_s`. `readers`: of a
    dump that does not say its own. `sinks`: as of Progress."""

    open_rows: int = 0
    held: bool = False
    delivery_bound_s: float = 0.0
    delivery_bound_max_s: float = DELIVERY_BOUND_MAX_S
    readers: int = 0
    strict_bound: bool = False
    sinks: tuple[str, ...] = ()
    ready_rows: int = 0
    opened: int = 0
    waiting: int = 0
    starved: bool = False


class Open(Protocol):
    """What a dump has open."""

    progress: Progress
    windows: Windows

    def open_rows(self) -> int: ...
    def demand(self) -> Demand: ...


@dataclass(slots=True)
class Ground:
    """What dumps share and what outlives them: whose marks they are, their bounds, where the log ends, what the sinks leave to them, and
    what each of them has open. `chunks`: how many were requested; their numbers name files, so none is used twice. `dumps`: how many were
    started or, after a failure, resumed: they begin in this order. `revision`: the highest of all their records. `windows`: how many were
    opened."""

    changefeed_id: str
    epoch: int
    limits: DumpLimits
    after_ts: CommitTs
    next_seq: Seq
    chunks: int = 0
    dumps: int = 0
    revision: int = 0
    windows: int = 0
    room: DumpRoom = UNLIMITED
    runs: list[Open] = field(default_factory=list)

    def next_revision(self) -> int:
        """Of a record that changes."""
        self.revision += 1
        return self.revision

    def next_number(self) -> int:
        """Of a dump that starts."""
        self.dumps += 1
        return self.dumps - 1

    def open_rows(self) -> int:
        """Read or requested, in windows that are not in the log."""
        return sum(run.open_rows() for run in self.runs)

    def take(self, rows: int, size: int) -> bool:
        """Whether the sinks leave room for a window of so much, which closes in the log then. Behind one that does not fit no window of any
        dump closes until there is another room: small ones could keep from it for ever that sinks have nothing left."""
        fits = self.room.fits(rows, size)
        self.room = self.room.less(rows, size) if fits else self.room.none()
        return fits

    def open_windows(self) -> int:
        return sum(len(run.windows) for run in self.runs)

    def bytes_held(self) -> int:
        return sum(run.windows.bytes_held for run in self.runs)

    def full(self) -> bool:
        """Whether what is read and not in the log has reached its bounds."""
        return self.open_windows() >= self.limits.open_windows_max or self.bytes_held() >= self.limits.chunk_bytes_max


def demand_of(ground: Ground) -> Demand:
    """Of all dumps together that run or have windows open: the narrowest of their bounds holds."""
    each = [run.demand() for run in ground.runs if run.progress.state is DumpState.RUNNING or run.windows]
    if not each:
        limits = ground.limits
        return Demand(
            delivery_bound_s=limits.delivery_bound_s, delivery_bound_max_s=limits.delivery_bound_max_s, strict_bound=limits.strict_bound
        )
    return Demand(
        open_rows=sum(one.open_rows for one in each),
        held=any(one.held for one in each),
        delivery_bound_s=min((one.delivery_bound_s for one in each if one.delivery_bound_s), default=0.0),
        delivery_bound_max_s=ground.limits.delivery_bound_max_s,
        readers=ground.limits.readers,
        strict_bound=any(one.strict_bound for one in each),
        sinks=tuple(sorted({sink for one in each for sink in one.sinks})) if all(one.sinks for one in each) else (),
        ready_rows=sum(one.ready_rows for one in each),
        opened=ground.windows,
        waiting=sum(one.waiting for one in each),
        starved=any(one.starved for one in each),
    )


def started(request: StartDump, *, among: Collection[Progress], ground: Ground) -> Progress:
    """A dump that is queued; `among`: those that are there. Raises RefusedRequest."""
    if len(request.dump_id) != DUMP_ID_LENGTH or any(other.dump_id == request.dump_id for other in among):
        raise RefusedRequest(
            f"dump id {request.dump_id!r} is not new or not {DUMP_ID_LENGTH} characters", hint="let the sidecar choose the dump id"
        )
    if request.chunk_rows < 1 or len(set(request.tables)) < len(request.tables):
        raise RefusedRequest("chunk_rows is below 1, or a table is named twice", hint="ask for at least one row, and each table once")
    if not {table for table, _ in (*request.where, *request.keys)} <= set(request.tables):
        raise RefusedRequest("a predicate or a key is for a table that is not dumped", hint="name only tables of the dump's scope")
    if request.brackets is Brackets.WATERMARK and (why := ground.limits.no_marks):
        raise RefusedRequest(f"marks do not come by the feed: {parted(why)[0]}", hint=f"use --brackets snapshot; or {parted(why)[1]}")
    if not request.tables:
        raise RefusedRequest("no table matches the dump's scope", hint="check --tables against the changefeed's filter")
    where, keys = dict(request.where), dict(request.keys)
    return Progress(
        dump_id=request.dump_id,
        state=DumpState.QUEUED,
        brackets=request.brackets,
        chunk_rows=request.chunk_rows,
        epoch=ground.epoch,
        revision=ground.next_revision() if among else 0,
        seq=Seq(ground.next_seq - 1),
        tables=tuple(
            TableProgress(
                table,
                unread(keys.get(table, ())),
                where=where.get(table),
                since_seq=ground.next_seq,
                keys=keys.get(table, ()),
                whole=table not in request.narrowed,
            )
            for table in request.tables
        ),
        pace=request.pace,
        grows=request.grows,
        sinks=request.sinks,
        number=ground.next_number(),
        read_with=request.read_with,
        for_ddl=request.for_ddl,
        exact=request.exact,
    )


def check_keys_fit(request: StartDump, others: Iterable[Progress]) -> None:
    """`others`: the dumps that stay. Raises RefusedRequest, DumpsWait where it will fit later."""
    size = sum(keys_bytes(keys) for _, keys in request.keys)
    taken = sum(keys_bytes(table.keys) for other in others if other.state not in OVER for table in other.tables)
    if size > KEYS_BYTES_MAX:
        raise RefusedRequest(f"its keys take {size:,} bytes, more than {KEYS_BYTES_MAX:,}", hint="dump them in parts")
    if size and size + taken > KEYS_BYTES_MAX:
        raise DumpsWait(
            f"its keys take {size:,} bytes, those of the dumps that run or wait {taken:,}, and all together may take {KEYS_BYTES_MAX:,}",
            hint="wait until one of these dumps is over, or end one with dumpstop",
        )


def changed(progress: Progress, settings: Settings) -> Progress:
    """The dump with an operator's other settings. Raises RefusedRequest."""
    chunk_rows, pace = settings.of(progress.chunk_rows, progress.pace)
    if chunk_rows < 1 or not 0 <= pace.readers <= READERS_MAX or min(pace.rows_per_s, pace.bytes_per_s, pace.delivery_bound_s) < 0:
        raise RefusedRequest(
            f"{chunk_rows} chunk rows, {pace.readers} readers or a bound below 0 cannot be",
            hint=f"ask for at least one row a chunk, at most {READERS_MAX} readers, and bounds of 0 (none) or more",
        )
    return replace(progress, chunk_rows=chunk_rows, pace=pace)


def resumed(failed: Progress, settings: Settings, *, ground: Ground) -> Progress:
    """A dump that has failed, to be resumed from what the log holds of it, behind those that are there. Raises RefusedRequest."""
    if not failed.resumable:
        raise RefusedRequest(
            "the dump failed under an older version, which did not keep its tables in step with the DDLs after that",
            hint="use dumprestart",
        )
    if against := impossible(failed, ground.limits):
        raise against
    state = DumpState.FINISHED if all(table.complete_at is not None for table in failed.tables) else DumpState.QUEUED
    _check_keys(failed)
    with_settings = changed(failed, settings)
    return replace(with_settings, state=state, reason=None, revision=ground.next_revision(), number=ground.next_number())


_RECEIVERS_HINT = "give the sink its name back (name= in its URI) and use dumpresume, or use dumpstart for a sink that is there"


def no_receiver(dump: Progress, sinks: Collection[str]) -> str:
    """Why nobody would receive its rows: none of its sinks is among `sinks` (empty: not known). Empty where somebody does."""
    if not dump.sinks or not sinks or not {*dump.sinks}.isdisjoint(sinks):
        return ""
    return f"dump {dump.dump_id} is for {listed(dump.sinks)}, and no sink has that name now: the sinks are {listed(sinks)}"


def impossible(dump: Progress, limits: DumpLimits) -> RefusedRequest | None:
    """Why it could not come to its end: nobody would receive its rows, or its marks would not come."""
    if why := no_receiver(dump, limits.sinks):
        return RefusedRequest(why, hint=_RECEIVERS_HINT)
    if dump.brackets is Brackets.WATERMARK and limits.no_marks:
        why, hint = parted(limits.no_marks)
        return RefusedRequest(
            f"dump {dump.dump_id} has windows between marks, which do not come by the feed any more: {why}",
            hint=f"use dumprestart, which begins it again with snapshot brackets; or {hint}, and use dumpresume",
        )
    return None


def possible(dump: Progress, limits: DumpLimits) -> Progress:
    """The dump, failed if it is not over and could not end any more: a changefeed's definition and the names of sinks can change while
    no sidecar runs."""
    against = impossible(dump, limits) if dump.state not in OVER else None
    return dump if against is None else replace(dump, state=DumpState.FAILED, reason=str(against))


def listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


def lacking_after_stop(dump: Progress) -> str | None:
    """What is not there if it is stopped now: a sink that has carried its DDL out has values of its own until the dump is complete."""
    if dump.for_ddl is None:
        return None
    lacking = sum(table.complete_at is None for table in dump.tables)
    why = (
        f"{lacking:,} of its {len(dump.tables):,} tables lack the values of the DDL at commit_ts {dump.for_ddl} in each of these sinks that"
    )
    again = f"dumpstart --for-ddl {dump.for_ddl} --sink {','.join(dump.sinks)} with its tables"
    return with_hint(f"{why} has carried it out: {listed(dump.sinks)}", f"use dumprestart --id {dump.dump_id}, or {again}")


def _check_keys(old: Progress) -> None:
    if any(table.past_keys for table in old.tables):
        raise RefusedRequest(f"dump {old.dump_id} has finished, and its keys are not kept", hint="use dumpstart --keys")


def once_more(old: Progress, request: RestartDump, limits: DumpLimits) -> StartDump:
    """The request that starts `old` again, with snapshot brackets where marks do not come any more. Raises RefusedRequest."""
    _check_keys(old)
    if old.exact not in (None, request.exact):
        raise RefusedRequest(f"dump {old.dump_id} is not the one that was shown when this was requested", hint="ask again, with --id")
    where = tuple((t.table, t.where) for t in old.tables if t.where is not None)
    return StartDump(
        request.new_dump_id,
        tuple(t.table for t in old.tables),
        request.brackets or (Brackets.SNAPSHOT if limits.no_marks else old.brackets),
        old.chunk_rows,
        where,
        old.pace,
        old.grows,
        keys=tuple((t.table, t.keys) for t in old.tables if t.keys),
        narrowed=tuple(t.table for t in old.tables if not t.whole),
        sinks=old.sinks,
        read_with=old.read_with,
        for_ddl=old.for_ddl,
        exact=request.exact,
    )
