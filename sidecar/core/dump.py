"""One dump's state machine: commands out, events in (design 6, 7). Nothing here waits, and no change waits for it (P3).

    running <-> paused -> finished | failed | stopped          restart = stop + start under a new dump id

A reader works on one window at a time:

    IDLE --low mark--> OPENING --MarkSent--> READING (chunk after chunk) --high mark--> CLOSING --MarkSent--> IDLE

In snapshot brackets there are no marks: IDLE -> READING (one chunk) -> IDLE. The window itself stays open until the feed
shows its high mark (or the segment that reaches its TSO), so windows overlap and readers do not wait for the feed.

A DDL (`changed`) takes from a table's windows and readers whatever is not in the log yet: it is read again with the columns after
it. A SELECT that did not fit the table waits, without holding up others, until every DDL before its failure has passed.

Invariants: a SELECT begins after its low mark is committed and its chunk is durable before the high mark is sent; marks
are sent in the order of the commands; events of an earlier dump change nothing; an illegal request raises and changes
nothing; pausing takes effect at a chunk boundary.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import assert_never

from sidecar.core.dump_reader import Doubt, Phase, Reader
from sidecar.core.dump_start import once_more, started
from sidecar.core.manifest import ClosedWindow
from sidecar.core.marks import Marks, mark_number, mark_uuid
from sidecar.core.messages import (
    Brackets,
    ChunkRead,
    Command,
    MarkSent,
    PauseDump,
    ReadChunk,
    Request,
    RestartDump,
    ResumeDump,
    SegmentBuilt,
    SendMark,
    SourceEvent,
    SourceFailed,
    StartDump,
    StopDump,
)
from sidecar.core.model import CommitTs, Mark, MarkKind, Seq, TableName
from sidecar.core.plan import Plan, Work
from sidecar.core.progress import OVER, DumpState, Progress
from sidecar.core.schema_step import TableStep
from sidecar.core.window import Windows
from sidecar.errors import MarkRowTaken, RefusedRequest, SourceError


@dataclass(frozen=True, slots=True)
class DumpLimits:
    """`readers`: windows being read at one time. `window_chunks_max`: chunks in a window, so that few marks serve many
    small chunks. `open_windows_max` and `chunk_bytes_max`: what may be read but not closed in the log: the back-pressure."""

    readers: int = 2
    window_chunks_max: int = 8
    open_windows_max: int = 16
    chunk_bytes_max: int = 256 << 20


MISFITS_MAX = 100
"""SELECTs in a row that did not fit a table, each after all DDLs before the last one had passed. A column that is being dropped is
gone from SQL some time before its DDL is in the feed, long if transactions hold the DDL up; each try takes a second or two."""


_LEGAL: dict[type[Request], frozenset[DumpState]] = {
    PauseDump: frozenset({DumpState.RUNNING}),
    ResumeDump: frozenset({DumpState.PAUSED}),
    StopDump: frozenset({DumpState.RUNNING, DumpState.PAUSED}),
}


class Dump:
    """The changefeed's dump: at most one that is not over.

    `progress`: as recovered, None if there never was one; afterwards always the present one. `after_ts`, `next_seq`:
    where the log stands.
    """

    def __init__(
        self,
        *,
        changefeed_id: str,
        epoch: int,
        limits: DumpLimits,
        progress: Progress | None,
        after_ts: CommitTs,
        next_seq: Seq,
    ) -> None:
        self.changefeed_id = changefeed_id
        self.epoch = epoch
        self.limits = limits
        self.progress = progress
        self._after_ts = after_ts
        self._next_seq = next_seq
        self._chunk_number = 0
        self._window_number = 0
        self._doubts: list[Doubt] = []
        self._misfits: dict[TableName, int] = {}
        self._begin(replace(progress, epoch=epoch, revision=progress.revision + 1) if progress else None)

    # ---- what the pipeline asks ------------------------------------------------------------------------------------

    def request(self, request: Request) -> None:
        """Carry out an operator's request. Raises RefusedRequest, naming the state, and changes nothing."""
        state = self.progress.state if self.progress else None
        match request:
            case StartDump():
                if state is not None and state not in OVER:
                    raise RefusedRequest(f"a dump is {state} already", hint="stop it, or use dumprestart")
                self._begin(started(request, after=self.progress, epoch=self.epoch, next_seq=self._next_seq))
            case RestartDump():
                if self.progress is None:
                    raise RefusedRequest("there is no dump to restart", hint="use dumpstart")
                again = once_more(self.progress, request.dump_id)
                self._begin(started(again, after=self.progress, epoch=self.epoch, next_seq=self._next_seq))
            case PauseDump() | ResumeDump() | StopDump():
                if state not in _LEGAL[type(request)]:
                    raise RefusedRequest(f"the dump is {state or 'not started'}", hint="see dumpquery for what it is doing")
                target = {PauseDump: DumpState.PAUSED, ResumeDump: DumpState.RUNNING, StopDump: DumpState.STOPPED}[type(request)]
                self._move(target)
            case _:
                assert_never(request)

    def handle(self, event: SourceEvent) -> list[Command]:
        """Take what the source finished. Raises MarkRowTaken when another writer has the watermark row."""
        match event:
            case MarkSent(uuid):
                return self._on_mark_sent(uuid)
            case ChunkRead():
                return self._on_chunk_read(event)
            case SourceFailed():
                return self._on_failure(event)
            case _:
                assert_never(event)

    def next(self) -> list[Command]:
        """What can begin now: idle readers open windows while the bounds allow."""
        commands: list[Command] = []
        if self.progress is None or self.progress.state is not DumpState.RUNNING:
            return commands
        for reader in self._readers:
            if reader.phase is not Phase.IDLE or self.full():
                continue
            work = self._plan.claim()
            if work is None:
                break
            commands.append(self._open_window(reader, work))
        return commands

    def segment(self, built: SegmentBuilt, marks: list[Mark]) -> tuple[ClosedWindow, ...]:
        """The windows that close in this segment, oldest first; `marks` are the watermark rows in it, in order.

        Raises MarkError for a mark of ours that is doubled, out of order or of the wrong kind.
        """
        closed: list[ClosedWindow] = []
        for mark in marks:
            number = self._marks.see(mark)
            if number is not None:
                window = self._windows.mark(self._window_of_mark.pop(number), mark.kind, mark.commit_ts)
                closed += [window] if window else []
        closed += self._windows.close_snapshots(built.upto_ts)
        self._after_ts, self._next_seq = built.upto_ts, Seq(built.seq + 1)
        for window in closed:
            self._plan.closed(window)
        if self.progress is not None and closed:
            self._move(self._state_now(), seq=built.seq)
        for doubt in [doubt for doubt in self._doubts if doubt.until_ts <= built.upto_ts]:
            self._doubts.remove(doubt)
            self._plan.release(doubt.work)
        return tuple(closed)

    def changed(self, steps: Iterable[TableStep]) -> None:
        """A DDL is the last thing in the segment just built; `steps` are the tables that it changed."""
        if self.progress is None or self.progress.state in OVER:
            return
        dumped = self._plan.progress.keys()
        mine = [step for step in steps if (step.before in dumped if step.before else self.progress.grows and step.after not in dumped)]
        if not mine:
            return
        before = {step.before for step in mine if step.before is not None}
        self._windows.drop(before)
        self._doubts = [doubt for doubt in self._doubts if doubt.work.table not in before]
        self._misfits = {table: count for table, count in self._misfits.items() if table not in before}
        for reader in self._readers:
            if reader.work is not None and reader.work.table in before:
                reader.work = None
        self._plan.change(mine)
        self._move(self._state_now())

    def _state_now(self) -> DumpState:
        assert self.progress is not None
        return DumpState.FINISHED if self._plan.complete() and self.progress.state not in OVER else self.progress.state

    def closes_by(self, upto_ts: CommitTs) -> bool:
        """Whether a window waits for a segment up to `upto_ts`, even an empty one."""
        return self._windows.closes_by(upto_ts)

    def oldest_open_seq(self) -> Seq | None:
        return self._windows.oldest_first_seq()

    def open_windows(self) -> int:
        return len(self._windows)

    # ---- the reader's transitions ----------------------------------------------------------------------------------

    def _open_window(self, reader: Reader, work: Work) -> Command:
        assert self.progress is not None
        self._window_number += 1
        reader.window, reader.work = self._window_number, work
        self._windows.open(reader.window, next_seq=self._next_seq)
        if self._brackets is Brackets.SNAPSHOT:
            reader.chunks_left = 1
            return self._read_chunk(reader, work)
        reader.chunks_left = self._chunks_a_window(work)
        return self._send_mark(reader, MarkKind.LOW, Phase.OPENING)

    def _chunks_a_window(self, work: Work) -> int:
        """At a pace in rows a window holds about a second's worth; at a pace in bytes one chunk, whose size nobody knows yet."""
        assert self.progress is not None
        pace = self.progress.pace
        if not pace.bounded:
            return self.limits.window_chunks_max
        if not pace.rows_per_s or pace.bytes_per_s:
            return 1
        return max(1, min(self.limits.window_chunks_max, pace.rows_per_s // self._rows_wanted(work)))

    def _rows_wanted(self, work: Work) -> int:
        assert self.progress is not None
        bound = self.progress.pace.rows_per_s or self.progress.chunk_rows
        return self._plan.rows_wanted(work.table, at_most=min(self.progress.chunk_rows, bound))

    def _on_mark_sent(self, uuid: str) -> list[Command]:
        number = self._marks.number_of(uuid)
        reader = next((r for r in self._readers if r.mark == number and r.phase in (Phase.OPENING, Phase.CLOSING)), None)
        if number is None or reader is None:
            return []
        if reader.phase is Phase.CLOSING:
            reader.phase = Phase.IDLE
            return []
        return [self._read_or_close(reader, exhausted=reader.work is None)]

    def _on_chunk_read(self, event: ChunkRead) -> list[Command]:
        reader = self._reader_of(event.number)
        if reader is None:
            return []
        if reader.work is None:
            return self._without_chunk(reader)
        self._misfits.pop(reader.work.table, None)
        if self._brackets is Brackets.SNAPSHOT:
            try:
                self._windows.add_snapshot(reader.window, event.file, after_ts=reader.asked_ts)
            except SourceError as error:
                self._move(DumpState.FAILED, reason=str(error))
                return []
            self._plan.read(reader.work, event)
            self._plan.release(reader.work)
            reader.phase = Phase.IDLE
            return []
        self._plan.read(reader.work, event)
        self._windows.add(reader.window, event.file)
        return [self._read_or_close(reader, exhausted=event.exhausted)]

    def _read_or_close(self, reader: Reader, *, exhausted: bool) -> Command:
        """The window's next chunk, of the reader's range or, that being exhausted, of the next one; or its high mark.

        The range is released before the high mark is sent: whoever claims it sends its own high mark later, so a range's
        windows close in the order of its chunks.
        """
        may_read = (
            reader.chunks_left > 0
            and self.progress is not None
            and self.progress.state is DumpState.RUNNING
            and self._windows.bytes_held() < self.limits.chunk_bytes_max
        )
        work = reader.work
        if work is not None and (exhausted or not may_read):
            self._plan.release(work)
        if exhausted:
            work = self._plan.claim() if may_read else None
        if not may_read or work is None:
            return self._send_mark(reader, MarkKind.HIGH, Phase.CLOSING)
        reader.work = work
        return self._read_chunk(reader, work)

    def _read_chunk(self, reader: Reader, work: Work) -> Command:
        assert self.progress is not None
        self._chunk_number += 1
        reader.phase, reader.chunk, reader.asked_ts = Phase.READING, self._chunk_number, self._after_ts
        reader.chunks_left -= 1
        return ReadChunk(
            dump_id=self.progress.dump_id,
            epoch=self.epoch,
            number=self._chunk_number,
            table=work.table,
            after=self._plan.after(work),
            upper=self._plan.upper(work),
            rows_max=self._rows_wanted(work),
            brackets=self._brackets,
            where=self._plan.progress[work.table].where,
            bounds_max=self._plan.bounds_wanted(work),
        )

    def _send_mark(self, reader: Reader, kind: MarkKind, phase: Phase) -> Command:
        assert self.progress is not None
        reader.phase, reader.mark = phase, self._marks.send(kind)
        self._window_of_mark[reader.mark] = reader.window
        return SendMark(mark_uuid(self.progress.dump_id, self.epoch, reader.mark), kind)

    def _on_failure(self, event: SourceFailed) -> list[Command]:
        if not self._is_ours(event.command):
            return []
        if isinstance(event.command, SendMark) and self._marks.was_seen(event.command.uuid):
            return self._on_mark_sent(event.command.uuid)  # the answer was lost, the feed knows better
        if isinstance(event.command, ReadChunk) and (commands := self._on_misfit(event.command, event.schema_ts)) is not None:
            return commands
        if event.fenced:
            raise MarkRowTaken(f"the watermark row was changed by another writer: {event.reason}", hint=event.hint)
        self._move(DumpState.FAILED, reason=f"{event.reason} ({event.hint})")
        return []

    def _on_misfit(self, command: ReadChunk, schema_ts: CommitTs | None) -> list[Command] | None:
        """What follows a SELECT that failed only because a DDL has passed or will; None if that is not why."""
        reader = self._reader_of(command.number)
        assert reader is not None, "only what is ours is heard"
        if reader.work is not None:
            misfits = self._misfits[command.table] = self._misfits.get(command.table, 0) + 1
            if schema_ts is None or misfits > MISFITS_MAX:
                return None
            self._doubts.append(Doubt(schema_ts, reader.work))
            reader.work = None
        return self._without_chunk(reader)

    def _without_chunk(self, reader: Reader) -> list[Command]:
        """The SELECT is over and its rows are not wanted."""
        if self._brackets is Brackets.SNAPSHOT:
            self._windows.discard(reader.window)
            reader.phase = Phase.IDLE
            return []
        return [self._read_or_close(reader, exhausted=True)]

    def _reader_of(self, chunk: int) -> Reader | None:
        return next((r for r in self._readers if r.chunk == chunk and r.phase is Phase.READING), None)

    def _is_ours(self, command: Command) -> bool:
        match command:
            case SendMark(uuid):
                return self._marks.number_of(uuid) is not None
            case ReadChunk():
                return self._reader_of(command.number) is not None
            case _:
                assert_never(command)

    # ---- state -----------------------------------------------------------------------------------------------------

    def _begin(self, progress: Progress | None) -> None:
        """Work from `progress` with nothing open and nothing under way. The marks of what was are no longer ours."""
        active = progress is not None and progress.state not in OVER
        self.progress = progress
        self._brackets = progress.brackets if progress else Brackets.WATERMARK
        self._plan = Plan(progress.tables if progress else ())
        self._windows = Windows(progress.dump_id if progress else "")
        self._readers = [Reader() for _ in range((progress.pace.readers if progress else 0) or self.limits.readers)]
        self._window_of_mark: dict[int, int] = {}
        self._doubts, self._misfits = [], {}
        self._marks = Marks(
            self.changefeed_id, partial(mark_number, progress.dump_id, self.epoch) if progress and active else _none_is_ours
        )

    def _move(self, state: DumpState, *, seq: Seq | None = None, reason: str | None = None) -> None:
        assert self.progress is not None
        self.progress = replace(
            self.progress,
            state=state,
            revision=self.progress.revision + 1,
            seq=self.progress.seq if seq is None else seq,
            reason=reason,
            tables=tuple(self._plan.progress.values()),
        )
        if state in (DumpState.STOPPED, DumpState.FAILED):
            self._begin(self.progress)

    def full(self) -> bool:
        """Whether what is read and not closed in the log has reached its bounds."""
        return len(self._windows) >= self.limits.open_windows_max or self._windows.bytes_held() >= self.limits.chunk_bytes_max


def _none_is_ours(uuid: str) -> int | None:  # noqa: ARG001  # the shape of Marks.number_of
    return None
