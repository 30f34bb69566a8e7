"""A dump that is there: its plan, readers, windows and marks, from the first command to the last window.

A Run decides which chunk is read and which mark is sent, and when. It reports a Failure, and whether all is `complete`. `dump.Dump` decides
what follows for the dump's state. A Run reads that state only to know whether it may continue.

A DDL (`changed`) takes from a table's windows and readers whatever is not in the log yet: it is read again with the columns after
it. A SELECT that did not fit the table waits, without holding up others, until every DDL before its failure has passed.

Invariants: a SELECT begins after its window's low mark is committed, one that the source begins ahead of its command too, and its chunk
is durable before the high mark is sent; marks are sent in the order of the commands; what an earlier dump requested changes nothing; a
pause takes effect at a chunk boundary.
More is read only while what is not in the log fits into `DumpRoom.open_rows`. Where nothing is open, one chunk may always be read, so a
dump never stops.
A window closes in the log when it is ready and the sinks leave room for it. Readers come and go at the ends of their windows, when an
operator asks for more or fewer.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import partial
from typing import assert_never

from sidecar.core.dump_reader import Closing, Doubts, Idle, Overtaken, Reader, Snapshot, TableOpening, TableReading, overtaken
from sidecar.core.dump_start import Demand, Ground
from sidecar.core.marks import Marks, mark_number, mark_uuid
from sidecar.core.plan import Plan, Work
from sidecar.core.window import MarkedWindows, Windows
from sidecar.shared.errors import MarkRowTaken, SourceError
from sidecar.shared.model.chunk import ClosedWindow
from sidecar.shared.model.messages import (
    CHUNK_TEXT_BYTES_MAX,
    Brackets,
    ChunkLost,
    ChunkMisfit,
    ChunkRead,
    Command,
    MarkFenced,
    MarkSent,
    ReadChunk,
    ReadWith,
    SegmentBuilt,
    SendMark,
    SourceEvent,
    SourceFailed,
)
from sidecar.shared.model.nouns import CommitTs, Mark, MarkKind, Seq, physical_ms
from sidecar.shared.model.progress import DumpState, Progress
from sidecar.shared.model.schema_step import TableStep

CHUNK_ROWS_LEAST = 50
"""Of a chunk that the sinks leave little room for: fewer rows make more SELECTs and marks than changes of the pace are worth."""
READY_MS_MAX = 600_000
"""Of TSO's time. Windows that have waited longer for sinks reach over so many live changes that they are read again, all but the first."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The dump cannot continue."""

    reason: str


@dataclass(frozen=True, slots=True)
class MarkLost:
    """The source did not answer for a mark: nobody knows whether its UPDATE is yet to come. All that is open is given up, as after a
    death: the windows would be as long as the source is away, and hold up who merges them."""


class Run:
    """`progress`: the present one, changed by `record` and by an operator's settings. `windows`: those that are open. `first_mark`: the
    number of its first mark; those below are of a Run of this dump before it."""

    def __init__(self, progress: Progress, ground: Ground, *, first_mark: int = 0) -> None:
        self.progress = progress
        self._ground = ground
        self._plan = Plan(progress.tables)
        self.windows = Windows(progress.dump_id, progress.sinks)
        self._window_number = 0
        self._marks = Marks(ground.changefeed_id, partial(mark_number, progress.dump_id, ground.epoch), first=first_mark)
        self._marked = MarkedWindows(self.windows, self._marks)
        self._readers: list[Reader] = []
        self._starved = False
        self._doubts = Doubts()

    # ---- what the dump asks ----------------------------------------------------------------------------------------

    def record(self, state: DumpState, *, seq: Seq | None = None, reason: str | None = None) -> None:
        """A newer progress: this state, and what the log holds of the tables. `seq`: the segment in which windows closed."""
        self.progress = replace(
            self.progress,
            state=state,
            revision=self._ground.next_revision(),
            seq=self.progress.seq if seq is None else seq,
            reason=reason,
            tables=tuple(self._plan.progress.values()),
        )

    def complete(self) -> bool:
        """Whether the log holds all of every table."""
        return self._plan.complete()

    @property
    def marks_sent(self) -> int:
        """The number of the next mark."""
        return self._marks.sent

    def next(self) -> list[Command]:
        """What can begin now: idle readers open windows while the bounds allow."""
        self._starved = False
        for unanswered in self._doubts.requested_again():
            self._plan.release(unanswered)
        commands: list[Command] = []
        self._readers = [reader for place, reader in enumerate(self._readers) if place < self.readers() or not isinstance(reader, Idle)]
        self._readers += [Idle() for _ in range(self.readers() - len(self._readers))]
        for place, reader in enumerate(self._readers):
            if not isinstance(reader, Idle) or self._ground.full():
                continue
            work = self._plan.claim()
            if work is None:
                break
            self._starved = not self._fits(self._rows_wanted(work))
            if self._starved:
                self._plan.release(work)
                break
            commands.append(self._open_window(place, work))
        return commands

    def demand(self) -> Demand:
        """What is open, and what keeps more from being."""
        pace, limits, windows = self.progress.pace, self._ground.limits, self.windows
        return Demand(
            self.open_rows(),
            held=windows.ready() > 0,
            delivery_bound_s=pace.delivery_bound_s or limits.delivery_bound_s,
            readers=limits.readers,
            strict_bound=pace.strict_bound or limits.strict_bound,
            sinks=self.progress.sinks,
            ready_rows=windows.ready_rows(),
            opened=self._ground.windows,
            waiting=windows.waiting(),
            starved=self._starved and self.progress.state is DumpState.RUNNING,
        )

    def handle(self, event: SourceEvent) -> list[Command] | Failure | MarkLost:
        """Take what the source finished. Raises MarkRowTaken when another writer has the watermark row."""
        match event:
            case MarkSent(uuid):
                return self._on_mark_sent(uuid)
            case ChunkRead():
                return self._on_chunk_read(event)
            case ChunkMisfit():
                return self._on_misfit(event)
            case ChunkLost():
                return self._on_lost(event)
            case MarkFenced():
                return self._on_mark_not_sent(event.command.uuid, event)
            case SourceFailed():
                return self._on_failed(event)
            case _:
                assert_never(event)

    def segment(self, built: SegmentBuilt, marks: list[Mark]) -> tuple[ClosedWindow, ...]:
        """The windows that close in this segment, oldest first. Raises MarkError: this Run is over then."""
        self._marked.seen(marks)
        self.windows.reach(built.upto_ts)
        closed = self.windows.close(after_ts=built.after_ts, fits=self._ground.take)
        for window in closed:
            self._plan.closed(window)
        for work in self._doubts.settled(built.upto_ts):
            self._plan.release(work)
        return tuple(closed)

    def too_old(self, upto_ts: CommitTs) -> bool:
        """Whether what is ready has waited so long that it is better read again."""
        ready_ts = self.windows.ready_since()
        return ready_ts is not None and physical_ms(upto_ts) - physical_ms(ready_ts) > READY_MS_MAX

    def changed(self, steps: Collection[TableStep]) -> bool:
        """A DDL is the last thing in the segment just built; `steps` are the tables that it changed. Whether any is the dump's."""
        dumped = self._plan.progress.keys()
        mine = [step for step in steps if (step.before in dumped if step.before else self.progress.grows and step.after not in dumped)]
        if not mine:
            return False
        before = {step.before for step in mine if step.before is not None}
        self.windows.drop(before)
        self._doubts.forget(before)
        self._readers = [overtaken(reader, before) for reader in self._readers]
        self._plan.change(mine, next_seq=self._ground.next_seq)
        return True

    # ---- a window begins, continues, ends --------------------------------------------------------------------------

    def _open_window(self, place: int, work: Work) -> Command:
        self._window_number += 1
        self._ground.windows += 1
        window = self._window_number
        self.windows.open(window, next_seq=self._ground.next_seq)
        match self.progress.brackets:
            case Brackets.SNAPSHOT:
                return self._read_on(place, window, work, chunks_left=self._chunks_a_window(work) - 1)
            case Brackets.WATERMARK:
                number, mark = self._send_mark(window, MarkKind.LOW)
                self._readers[place] = TableOpening(window, number, self._chunks_a_window(work), work, self._rows_wanted(work))
                return mark
            case _:
                assert_never(self.progress.brackets)

    def _go_on(self, place: int, window: int, *, chunks_left: int, work: Work | None, follows: int | None = None) -> list[Command]:
        """The window's next chunk, of range `work` or, where nothing is left of that (None), of the next one; or its end. `follows`: the
        chunk of `work` that was read in this window just before.

        The range is released before the window ends. The reader that claims it next reads on later and sends its own high mark later. So
        the windows of a range close in the order of its chunks.
        """
        opening = isinstance(self._readers[place], TableOpening)
        self._readers[place] = Idle()  # what it was reading is read
        if self._may_read(place, chunks_left):
            work = work or self._plan.claim()
            if work is not None and (opening or self._fits(self._rows_wanted(work))):
                return [self._read_on(place, window, work, chunks_left=chunks_left - 1, follows=follows)]
        if work is not None:
            self._plan.release(work)
        return self._end_window(place, window)

    def _read_on(self, place: int, window: int, work: Work, *, chunks_left: int, follows: int | None = None) -> ReadChunk:
        if self.progress.brackets is Brackets.SNAPSHOT:
            read = self._read_chunk(work, ahead=False, follows=None)
            self._readers[place] = Snapshot(window, read.number, chunks_left, work, read.rows_max, self._ground.after_ts)
        else:
            ahead = self._may_read(place, chunks_left) and self._fits(2 * self._rows_wanted(work))
            read = self._read_chunk(work, ahead=ahead, follows=follows)
            self._readers[place] = TableReading(window, read.number, chunks_left, work, read.rows_max)
        return read

    def _may_read(self, place: int, chunks_left: int) -> bool:
        running = self.progress.state is DumpState.RUNNING and place < self.readers()
        return running and chunks_left > 0 and self._ground.bytes_held() < self._ground.limits.chunk_bytes_max

    def _fits(self, rows: int) -> bool:
        """Whether a chunk of so many rows may be read."""
        taken = self._ground.open_rows()
        return not taken or taken + rows <= self._ground.room.open_rows

    def open_rows(self) -> int:
        """Read or requested, in windows that are not in the log."""
        return self.windows.rows_held + sum(r.rows for r in self._readers if isinstance(r, TableOpening | TableReading | Snapshot))

    def _end_window(self, place: int, window: int) -> list[Command]:
        if self.progress.brackets is Brackets.SNAPSHOT:
            self.windows.whole(window)
            self._readers[place] = Idle()
            return []
        number, mark = self._send_mark(window, MarkKind.HIGH)
        self._readers[place] = Closing(number)
        return [mark]

    def _send_mark(self, window: int, kind: MarkKind) -> tuple[int, SendMark]:
        number = self._marked.send(window, kind)
        return number, SendMark(mark_uuid(self.progress.dump_id, self._ground.epoch, number), kind)

    def _read_chunk(self, work: Work, *, ahead: bool, follows: int | None) -> ReadChunk:
        self._ground.chunks += 1
        where, keys = self._plan.progress[work.table].where, self._plan.keys(work)
        return ReadChunk(
            dump_id=self.progress.dump_id,
            epoch=self._ground.epoch,
            number=self._ground.chunks,
            table=work.table,
            after=self._plan.after(work),
            upper=self._plan.upper(work),
            rows_max=self._rows_wanted(work),
            brackets=self.progress.brackets,
            where=where,
            bounds_max=self._plan.bounds_wanted(work),
            ahead=ahead,
            follows=follows,
            keys=keys,
            bytes_max=min(CHUNK_TEXT_BYTES_MAX, self._ground.limits.chunk_bytes_max),
            read_with=ReadWith.SQL if where or keys else self.progress.read_with,
        )

    def _chunks_a_window(self, work: Work) -> int:
        rows, most = self._rows_wanted(work), self._ground.limits.window_chunks_max
        return self.progress.pace.chunks_a_window(rows, at_most=max(1, min(most, self._ground.room.window_rows // rows)))

    def _rows_wanted(self, work: Work) -> int:
        if keys := self._plan.keys(work):
            return len(keys)
        bound = self.progress.pace.rows_per_s or self.progress.chunk_rows
        window = max(CHUNK_ROWS_LEAST, self._ground.room.window_rows)
        return self._plan.rows_wanted(work.table, at_most=min(self.progress.chunk_rows, bound, window))

    def readers(self) -> int:
        """How many there are to be."""
        return self.progress.pace.readers or self._ground.limits.readers

    # ---- what the source reports -----------------------------------------------------------------------------------

    def _on_mark_sent(self, uuid: str) -> list[Command]:
        number = self._marks.number_of(uuid)
        for place, reader in enumerate(self._readers):
            match reader:
                case TableOpening(window, mark, chunks_left, work) if mark == number:
                    return self._go_on(place, window, chunks_left=chunks_left, work=work if isinstance(work, Work) else None)
                case Closing(mark) if mark == number:
                    self._readers[place] = Idle()
                    return []
                case Idle() | TableOpening() | TableReading() | Snapshot() | Closing():
                    pass
                case _:
                    assert_never(reader)
        return []

    def _on_mark_not_sent(self, uuid: str, event: MarkFenced | SourceFailed) -> list[Command] | Failure | MarkLost:
        if self._marks.number_of(uuid) is None:
            return []
        if self._marks.was_seen(uuid):
            return self._on_mark_sent(uuid)  # the answer was lost, the feed knows better
        if isinstance(event, MarkFenced):
            raise MarkRowTaken(f"the watermark row was changed by another writer: {event.reason}", hint=event.hint)
        return MarkLost() if event.away else _failure(event)

    def _on_chunk_read(self, event: ChunkRead) -> list[Command] | Failure:
        if (result := self._reader_of(event.number)) is None:
            return []
        place, reader = result
        work = reader.work
        if isinstance(work, Overtaken):
            return self._without_chunk(place, reader)
        self._doubts.fitted(work.table)
        chunk = self._plan.chunk(work, event)
        if isinstance(reader, Snapshot):
            try:
                self.windows.add_snapshot(reader.window, chunk, after_ts=reader.requested_ts)
            except SourceError as error:
                return Failure(str(error))
        else:
            self.windows.add(reader.window, chunk)
        self._plan.read(work, event)
        if event.exhausted:
            return self._go_on(place, reader.window, chunks_left=reader.chunks_left, work=None)
        return self._go_on(place, reader.window, chunks_left=reader.chunks_left, work=work, follows=reader.chunk)

    def _on_failed(self, event: SourceFailed) -> list[Command] | Failure | MarkLost:
        match event.command:
            case SendMark(uuid):
                return self._on_mark_not_sent(uuid, event)
            case ReadChunk(number=number):
                if (result := self._reader_of(number)) is None:
                    return []
                place, reader = result
                if isinstance(reader.work, Overtaken):
                    return self._without_chunk(place, reader)
                if not event.away:
                    return _failure(event)
                self._doubts.unanswered(reader.work)
                return self._go_on(place, reader.window, chunks_left=0, work=None)
            case _:
                assert_never(event.command)

    def _on_misfit(self, event: ChunkMisfit) -> list[Command] | Failure:
        if (result := self._reader_of(event.command.number)) is None:
            return []
        place, reader = result
        if isinstance(reader.work, Work):
            if self._doubts.too_many(reader.work.table):
                return _failure(event)
            self._doubts.add(reader.work, until_ts=event.schema_ts)
            if self.windows.has(reader.window, reader.work.table):  # its chunks are in the log before others of their range
                return self._go_on(place, reader.window, chunks_left=0, work=None)
        return self._without_chunk(place, reader)

    def _on_lost(self, event: ChunkLost) -> list[Command] | Failure:
        if (result := self._reader_of(event.command.number)) is None:
            return []
        place, reader = result
        if isinstance(reader.work, Overtaken):
            return self._without_chunk(place, reader)
        if self._doubts.lost_too_often(reader.work.table, event.command.number, newest=self._ground.chunks):
            return _failure(event)
        self._doubts.unanswered(reader.work)
        return self._go_on(place, reader.window, chunks_left=0, work=None)

    def _without_chunk(self, place: int, reader: TableReading | Snapshot) -> list[Command]:
        """The SELECT is over and its rows are not wanted."""
        return self._go_on(place, reader.window, chunks_left=reader.chunks_left, work=None)

    def _reader_of(self, chunk: int) -> tuple[int, TableReading | Snapshot] | None:
        """The reader of this chunk, after its place; None: no reader of this dump has it."""
        for place, reader in enumerate(self._readers):
            if isinstance(reader, TableReading | Snapshot) and reader.chunk == chunk:
                return place, reader
        return None


def _failure(event: SourceFailed | ChunkMisfit | ChunkLost) -> Failure:
    return Failure(f"{event.reason} ({event.hint})")
