"""The dump that ran on the real cluster while the recording was made, played again: its own marks and chunk rows.

The pipeline asks it what it asks of `core.dump.Dump`. Marks are checked and windows closed by the same `Marks`,
`Windows` and `Plan`; only where windows and chunks come from differs: they are all known beforehand.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pyarrow as pa

from sidecar.core.manifest import ChunkFile, ClosedWindow
from sidecar.core.marks import Marks
from sidecar.core.messages import Brackets, Command, Request, SegmentBuilt, SourceEvent
from sidecar.core.model import CommitTs, Mark, MarkKind, Seq
from sidecar.core.plan import Plan
from sidecar.core.progress import DumpState, Progress, TableProgress
from sidecar.core.window import Windows
from sidecar.errors import RefusedRequest

DUMP_ID = "recordedrecorded"


@dataclass(frozen=True, slots=True)
class PlayedWindow:
    """A window of the recording: the uuids of its marks and its chunks, restricted to what the feed replicates."""

    low: str
    high: str
    low_ts: CommitTs
    high_ts: CommitTs
    chunks: tuple[tuple[ChunkFile, pa.Table], ...]


class RecordedDump:
    """`after_ts`: how far the log is; windows that closed up to there are in it. Chunk files are written at once."""

    def __init__(
        self,
        windows: tuple[PlayedWindow, ...],
        *,
        changefeed_id: str,
        epoch: int,
        after_ts: CommitTs,
        next_seq: Seq,
        progress: Progress | None,
        write_chunk: Callable[[str, pa.Table], int],
    ) -> None:
        ahead = [window for window in windows if window.high_ts > after_ts]
        last_of = {chunk.table: chunk.path for window in windows for chunk, _ in window.chunks}
        self.progress: Progress | None = progress or Progress(
            dump_id=DUMP_ID,
            state=DumpState.RUNNING,
            brackets=Brackets.WATERMARK,
            chunk_rows=0,
            epoch=epoch,
            revision=0,
            seq=Seq(next_seq - 1),
            tables=tuple(TableProgress(table) for table in last_of),
        )
        self._windows = Windows(DUMP_ID)
        self._plan = Plan(self.progress.tables)
        numbers: dict[str, int] = {}
        self._marks = Marks(changefeed_id, numbers.get)
        self._window_of_mark: dict[int, int] = {}
        for number, window in enumerate(ahead):
            # a window whose low mark is in the log already may begin in any segment of it: 0 is safe
            self._windows.open(number, next_seq=next_seq if window.low_ts > after_ts else Seq(0))
            for uuid, kind, ts in ((window.low, MarkKind.LOW, window.low_ts), (window.high, MarkKind.HIGH, window.high_ts)):
                if ts > after_ts:
                    numbers[uuid] = self._marks.send(kind)
                    self._window_of_mark[numbers[uuid]] = number
                else:
                    self._windows.mark(number, kind, ts)
            for chunk, rows in window.chunks:
                self._windows.add(number, replace(chunk, bytes=write_chunk(chunk.path, rows)))
                self._plan.read(chunk, exhausted=last_of[chunk.table] == chunk.path)

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

    def closes_by(self, upto_ts: CommitTs) -> bool:  # noqa: ARG002  # recorded windows wait for their marks only
        return False

    def open_windows(self) -> int:
        return len(self._windows)
