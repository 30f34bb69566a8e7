"""The dump that ran on the real cluster while the recording was made, played again: its own marks and chunk rows.

The pipeline asks it what it asks of `core.dumps.Dumps`. Marks are checked and windows closed by the same `Marks`,
`Windows` and `Plan`; only where windows and chunks come from differs: they are all known beforehand.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from sidecar.core.dump_start import Demand, DumpRoom, Ground
from sidecar.core.marks import Marks
from sidecar.core.plan import Plan
from sidecar.core.window import MarkedWindows, Windows
from sidecar.replay.source import RecordedWindow, WriteChunk
from sidecar.shared.errors import RefusedRequest
from sidecar.shared.model.chunk import ChunkFile, ClosedWindow
from sidecar.shared.model.messages import Brackets, ChunkRead, Command, Request, SegmentBuilt, SourceEvent, StartDump
from sidecar.shared.model.nouns import CommitTs, Mark, MarkKind, OperationId, Seq, TableName
from sidecar.shared.model.progress import DumpState, Progress, TableProgress
from sidecar.shared.model.schema_step import TableStep

DUMP_ID = OperationId("recordedrecorded")
CHUNKS_MAX = 1000
"""More chunks than a recorded window has: it numbers their files."""


class RecordedDump:
    """Windows that closed up to `ground.after_ts` are in the log. Chunk files are written at once."""

    def __init__(
        self,
        windows: tuple[RecordedWindow, ...],
        *,
        tables: tuple[TableName, ...],
        ground: Ground,
        progress: Progress | None,
        write_chunk: WriteChunk,
    ) -> None:
        last_of = {chunk.table: (number, at) for number, window in enumerate(windows) for at, chunk in enumerate(window.chunks)}
        self.progress = progress or Progress(
            dump_id=DUMP_ID,
            state=DumpState.RUNNING,
            brackets=Brackets.WATERMARK,
            chunk_rows=0,
            epoch=ground.epoch,
            revision=0,
            seq=Seq(ground.next_seq - 1),
            tables=tuple(TableProgress(table) for table in last_of if table in tables),
        )
        self._windows = Windows(DUMP_ID)
        self._plan = Plan(self.progress.tables)
        works = {work.table: work for work in iter(self._plan.claim, None)}
        self._numbers: dict[str, int] = {}
        self._marked = MarkedWindows(self._windows, Marks(ground.changefeed_id, self._numbers.get))
        for number, window in enumerate(windows):
            if window.high_ts > ground.after_ts:
                self._open(number, window, after_ts=ground.after_ts, next_seq=ground.next_seq)
                for at, chunk in enumerate(window.chunks):
                    if chunk.table in tables:
                        path = f"chunks/{DUMP_ID}/{ground.epoch:010d}-{number * CHUNKS_MAX + at:08d}.parquet"
                        size, sha256, rows_sum = write_chunk(path, chunk.rows)
                        file = ChunkFile(chunk.table, path, chunk.rows.num_rows, size, chunk.after, chunk.last)
                        file = replace(file, sha256=sha256, rows_sum=rows_sum)
                        self._windows.add(number, file)
                        self._plan.read(works[chunk.table], ChunkRead(at, file, exhausted=last_of[chunk.table] == (number, at)))

    def _open(self, number: int, window: RecordedWindow, *, after_ts: CommitTs, next_seq: Seq) -> None:
        """Expect the window's marks, or, where the log has one already, take it as seen. A window that was open when the
        sidecar died began in a segment of the log: 0 is before any."""
        self._windows.open(number, next_seq=next_seq if window.low_ts > after_ts else Seq(0))
        for uuid, kind, ts in ((window.low_uuid, MarkKind.LOW, window.low_ts), (window.high_uuid, MarkKind.HIGH, window.high_ts)):
            if ts > after_ts:
                self._numbers[uuid] = self._marked.send(number, kind)
            else:
                self._windows.mark(number, kind, ts)

    @property
    def records(self) -> tuple[Progress, ...]:
        return (self.progress,)

    def bracketed(self, request: StartDump) -> StartDump:
        return request

    def intended(self, request: Request) -> Progress | None:  # noqa: ARG002  # there is one
        return self.progress

    def request(self, request: Request) -> None:
        raise RefusedRequest(
            f"a recorded dump cannot be commanded, not to {type(request).__name__} either",
            hint="replay with --brackets watermark or snapshot",
        )

    def handle(self, event: SourceEvent) -> list[Command]:
        raise AssertionError(f"a recorded dump asks the source for nothing, and received {event}")

    def next(self, *, throttled: Collection[str] = ()) -> list[Command]:  # noqa: ARG002  # it asks for nothing
        return []

    def segment(self, built: SegmentBuilt, marks: list[Mark]) -> tuple[ClosedWindow, ...]:
        self._marked.seen(marks)
        closed = self._windows.close(after_ts=built.after_ts)
        for window in closed:
            self._plan.closed(window)
        if closed:
            self.progress = replace(
                self.progress,
                state=DumpState.FINISHED if self._plan.complete() else DumpState.RUNNING,
                revision=self.progress.revision + 1,
                seq=built.seq,
                tables=tuple(self._plan.progress.values()),
            )
        return tuple(closed)

    def changed(self, steps: Iterable[TableStep]) -> None:
        if changed := list(steps):
            raise AssertionError(f"a recording with a recorded dump has no schema changes, and came to {changed}")

    def closes_by(self, upto_ts: CommitTs) -> bool:  # noqa: ARG002  # recorded windows wait for their marks only
        return False

    def open_windows(self) -> int:
        return len(self._windows)

    def full(self) -> bool:
        return False

    def demand(self) -> Demand:
        return Demand()

    def allow(self, room: DumpRoom, accepted: Mapping[str, Seq | None]) -> None:
        """Its windows are all known beforehand."""

    def oldest_open_seq(self) -> Seq | None:
        return self._windows.oldest_first_seq()
