"""The dump that ran on the real cluster while the recording was made, played again: its own marks and chunk rows.

The pipeline asks it what it asks of `core.dump.Dump`. Marks are checked and windows closed by the same `Marks`,
`Windows` and `Plan`; only where windows and chunks come from differs: they are all known beforehand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import pyarrow as pa

from sidecar.core.manifest import ChunkFile, ClosedWindow
from sidecar.core.marks import Marks
from sidecar.core.messages import Brackets, ChunkRead, Command, Request, SegmentBuilt, SourceEvent
from sidecar.core.model import CommitTs, Mark, MarkKind, Seq, TableName
from sidecar.core.plan import Plan
from sidecar.core.progress import DumpState, Progress, TableProgress
from sidecar.core.schema_step import TableStep
from sidecar.core.window import Windows
from sidecar.errors import RefusedRequest
from sidecar.replay.source import RecordedWindow

DUMP_ID = "recordedrecorded"
CHUNKS_MAX = 1000
"""More chunks than a recorded window has: it numbers their files."""


class RecordedDump:
    """`after_ts`: how far the log is; windows that closed up to there are in it. Chunk files are written at once."""

    def __init__(
        self,
        windows: tuple[RecordedWindow, ...],
        *,
        tables: tuple[TableName, ...],
        changefeed_id: str,
        epoch: int,
        after_ts: CommitTs,
        next_seq: Seq,
        progress: Progress | None,
        write_chunk: Callable[[str, pa.Table], int],
    ) -> None:
        last_of = {chunk.table: (number, at) for number, window in enumerate(windows) for at, chunk in enumerate(window.chunks)}
        self.progress: Progress | None = progress or Progress(
            dump_id=DUMP_ID,
            state=DumpState.RUNNING,
            brackets=Brackets.WATERMARK,
            chunk_rows=0,
            epoch=epoch,
            revision=0,
            seq=Seq(next_seq - 1),
            tables=tuple(TableProgress(table) for table in last_of if table in tables),
        )
        self._windows = Windows(DUMP_ID)
        self._plan = Plan(self.progress.tables)
        works = {work.table: work for work in iter(self._plan.claim, None)}
        self._numbers: dict[str, int] = {}
        self._marks = Marks(changefeed_id, self._numbers.get)
        self._window_of_mark: dict[int, int] = {}
        for number, window in enumerate(windows):
            if window.high_ts > after_ts:
                self._open(number, window, after_ts=after_ts, next_seq=next_seq)
                for at, chunk in enumerate(window.chunks):
                    if chunk.table in tables:
                        path = f"chunks/{DUMP_ID}/{epoch:010d}-{number * CHUNKS_MAX + at:08d}.parquet"
                        size = write_chunk(path, chunk.rows)
                        file = ChunkFile(chunk.table, path, chunk.rows.num_rows, size, chunk.after, chunk.last)
                        self._windows.add(number, file)
                        self._plan.read(works[chunk.table], ChunkRead(at, file, exhausted=last_of[chunk.table] == (number, at)))

    def _open(self, number: int, window: RecordedWindow, *, after_ts: CommitTs, next_seq: Seq) -> None:
        """Expect the window's marks, or, where the log has one already, take it as seen. A window that was open when the
        sidecar died began in a segment of the log: 0 is before any."""
        self._windows.open(number, next_seq=next_seq if window.low_ts > after_ts else Seq(0))
        for uuid, kind, ts in ((window.low_uuid, MarkKind.LOW, window.low_ts), (window.high_uuid, MarkKind.HIGH, window.high_ts)):
            if ts > after_ts:
                self._numbers[uuid] = self._marks.send(kind)
                self._window_of_mark[self._numbers[uuid]] = number
            else:
                self._windows.mark(number, kind, ts)

    def request(self, request: Request) -> None:
        raise RefusedRequest(
            f"a recorded dump cannot be commanded, not to {type(request).__name__} either",
            hint="replay with --brackets watermark or snapshot",
        )

    def handle(self, event: SourceEvent) -> list[Command]:
        raise AssertionError(f"a recorded dump asks the source for nothing, and heard {event}")

    def next(self) -> list[Command]:
        return []

    def segment(self, built: SegmentBuilt, marks: list[Mark]) -> tuple[ClosedWindow, ...]:
        closed: list[ClosedWindow] = []
        for mark in marks:
            number = self._marks.see(mark)
            if number is not None:
                window = self._windows.mark(self._window_of_mark.pop(number), mark.kind, mark.commit_ts)
                closed += [window] if window else []
        for window in closed:
            self._plan.closed(window)
        if closed and self.progress is not None:
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

    def oldest_open_seq(self) -> Seq | None:
        return self._windows.oldest_first_seq()
