"""Windows: a chunk's rows are true somewhere in `(low_ts, high_ts]`, and this is where the interval comes from.

watermark   low mark, SELECTs, high mark: low_ts and high_ts are the marks' commit_ts as seen in the feed. The high mark is
            sent after the last chunk is durable, so a window whose high mark is seen is whole: it closes in that segment.
snapshot    each SELECT has a TSO of its own, and the least of them is low_ts; the window closes in the first segment with
            `upto_ts >=` the greatest of them that is built after its last chunk is durable, and that `upto_ts` is high_ts.

`first_seq` is a segment in or before which the window's changes begin: no segment from it on may be retained away while
the window is open. What is open lives in memory only: after a crash it is dropped and its chunks are read again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from sidecar.core.chunk import ChunkFile, ClosedWindow
from sidecar.core.marks import Marks
from sidecar.core.model import CommitTs, Mark, MarkKind, Seq, TableName
from sidecar.errors import SourceError


@dataclass(slots=True)
class _Open:
    """`low_ts`: the low mark as seen in the feed, None in a snapshot window. `whole`: of a snapshot window whose last chunk is
    durable, how many became so before it, and it; 0: it is still being read."""

    first_seq: Seq
    low_ts: CommitTs | None = None
    chunks: list[ChunkFile] = field(default_factory=list)
    whole: int = 0

    @property
    def read_tso(self) -> CommitTs | None:
        """The greatest of a snapshot window that is whole: from there on it may close."""
        return max(self.read_tsos()) if self.whole else None

    def read_tsos(self) -> list[CommitTs]:
        return [chunk.read_tso for chunk in self.chunks if chunk.read_tso is not None]


@dataclass(slots=True)
class Windows:
    """The open windows of one dump, by number. `sinks`: as of ClosedWindow."""

    dump_id: str
    sinks: tuple[str, ...] = ()
    _open: dict[int, _Open] = field(default_factory=dict)
    _whole: int = 0

    def __len__(self) -> int:
        return len(self._open)

    def open(self, number: int, *, next_seq: Seq) -> None:
        """Open window `number`; the segment that comes next is `next_seq`."""
        self._open[number] = _Open(next_seq)

    def add(self, number: int, chunk: ChunkFile) -> None:
        """A chunk read inside window `number` is durable."""
        self._open[number].chunks.append(chunk)

    def add_snapshot(self, number: int, chunk: ChunkFile, *, after_ts: CommitTs) -> None:
        """A chunk with its own TSO is durable. `after_ts`: everything up to it had left the feed before the SELECT was
        asked for; a read TSO below it would make a window whose first changes are not covered."""
        if chunk.read_tso is None or chunk.read_tso < after_ts:
            raise SourceError(
                f"chunk {chunk.path} was read at TSO {chunk.read_tso}, before position {after_ts} which TiCDC had already passed",
                hint="check that the source database is the changefeed's upstream and that tidb_snapshot and tidb_read_staleness are off",
            )
        self._open[number].chunks.append(chunk)

    def drop(self, tables: Collection[TableName]) -> None:
        """Chunks of these tables are no longer of their windows: the windows close without them. A snapshot window of nothing else is
        no window any more."""
        for number, window in list(self._open.items()):
            window.chunks = [chunk for chunk in window.chunks if chunk.table not in tables]
            if window.whole and not window.chunks:
                del self._open[number]

    def whole(self, number: int) -> None:
        """Nothing more will be read in snapshot window `number`: from now on it may close. One without a chunk is none."""
        self._whole += 1
        self._open[number].whole = self._whole
        if not self._open[number].chunks:
            del self._open[number]

    def closes_by(self, upto_ts: CommitTs) -> bool:
        """Whether a snapshot window waits for a segment up to `upto_ts`, even an empty one."""
        return any(w.read_tso is not None and w.read_tso <= upto_ts for w in self._open.values())

    def mark(self, number: int, kind: MarkKind, commit_ts: CommitTs) -> ClosedWindow | None:
        """A mark of window `number` was seen in the feed; the high one closes it."""
        if kind is MarkKind.LOW:
            self._open[number].low_ts = commit_ts
            return None
        return self._close(number, commit_ts)

    def close_snapshots(self, upto_ts: CommitTs) -> list[ClosedWindow]:
        """Close every snapshot window whose TSOs the segment up to `upto_ts` has reached, oldest first."""
        found = self._open.items()
        ready = sorted((w.read_tso, w.whole, number) for number, w in found if w.read_tso is not None and w.read_tso <= upto_ts)
        return [self._close(number, upto_ts) for *_, number in ready]

    def oldest_first_seq(self) -> Seq | None:
        """No segment from this one on may go; None when nothing is open."""
        return min((w.first_seq for w in self._open.values()), default=None)

    def has(self, number: int, table: TableName) -> bool:
        """Whether a chunk of `table` was read in window `number`."""
        return any(chunk.table == table for chunk in self._open[number].chunks)

    def rows_held(self) -> int:
        """Rows of chunks read in windows that are not closed."""
        return sum(chunk.rows for w in self._open.values() for chunk in w.chunks)

    def bytes_held(self) -> int:
        """Bytes of chunks read in windows that are not closed."""
        return sum(chunk.bytes for w in self._open.values() for chunk in w.chunks)

    def _close(self, number: int, high_ts: CommitTs) -> ClosedWindow:
        window = self._open.pop(number)
        low_ts = min(window.read_tsos()) if window.whole else window.low_ts
        assert low_ts is not None, "marks are in order, so the low one was seen"
        return ClosedWindow(self.dump_id, low_ts, high_ts, window.first_seq, tuple(window.chunks), self.sinks)


@dataclass(slots=True)
class MarkedWindows:
    """Windows and the marks that open and close them."""

    windows: Windows
    marks: Marks
    _window_of: dict[int, int] = field(default_factory=dict)

    def send(self, window: int, kind: MarkKind) -> int:
        """Expect a mark of this window and return its number."""
        number = self.marks.send(kind)
        self._window_of[number] = window
        return number

    def seen(self, marks: Iterable[Mark]) -> list[ClosedWindow]:
        """The windows that these marks close, in their order. Raises MarkError: what is open is of no more use then."""
        ours = ((mark, number) for mark in marks if (number := self.marks.see(mark)) is not None)
        found = [self.windows.mark(self._window_of.pop(number), mark.kind, mark.commit_ts) for mark, number in ours]
        return [window for window in found if window is not None]
