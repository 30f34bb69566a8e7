"""Windows: a chunk's rows are true somewhere in `(low_ts, high_ts]`, and this is where the interval comes from.

watermark   low mark, SELECTs, high mark: low_ts and high_ts are the marks' commit_ts as seen in the feed. The high mark is
            sent after the last chunk is durable, so a window whose high mark is seen is whole: it is ready in that segment.
snapshot    each SELECT has a TSO of its own, and the least of them is low_ts; the window is ready in the first segment with
            `upto_ts >=` the greatest of them that is built after its last chunk is durable, and that `upto_ts` is high_ts.

A window that is ready closes in that segment, or in a later one if the sinks leave no room for it before (P3): live changes do not wait
for rows that the log does not have. Its high_ts is then the first ts of the segment in which it closes. A window may be longer than its
marks, for the rows are true somewhere in the shorter one; and what is closed has a place behind all that is in the log. Windows close in
the order in which they were ready.

`first_seq` is a segment in or before which the window's changes begin: no segment from it on may be retained away while
the window is open. What is open lives in memory only: after a crash it is dropped and its chunks are read again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

from sidecar.core.marks import Marks
from sidecar.shared.errors import SourceError
from sidecar.shared.model.chunk import ChunkFile, ClosedWindow
from sidecar.shared.model.nouns import CommitTs, Mark, MarkKind, Seq, TableName


@dataclass(slots=True)
class _Open:
    """`low_ts`: the low mark as seen in the feed, None in a snapshot window. `whole`: of a snapshot window whose last chunk is
    durable, how many became so before it, and it; 0: it is still being read. `ready_ts`: where its high mark is, or the end of the segment
    that reached its TSOs; None until then."""

    first_seq: Seq
    low_ts: CommitTs | None = None
    chunks: list[ChunkFile] = field(default_factory=list)
    whole: int = 0
    ready_ts: CommitTs | None = None

    @property
    def rows(self) -> int:
        return sum(chunk.rows for chunk in self.chunks)

    @property
    def bytes(self) -> int:
        return sum(chunk.bytes for chunk in self.chunks)

    @property
    def read_tso(self) -> CommitTs:
        """The greatest of a snapshot window: from there on it may close, once it is whole."""
        return max(self.read_tsos())

    def read_tsos(self) -> list[CommitTs]:
        return [chunk.read_tso for chunk in self.chunks if chunk.read_tso is not None]


@dataclass(slots=True)
class Windows:
    """The windows of one dump that are not in the log, by number. `sinks`: as of ClosedWindow. `rows_held`, `bytes_held`: of the chunks
    read in them."""

    dump_id: str
    sinks: tuple[str, ...] = ()
    rows_held: int = 0
    bytes_held: int = 0
    _open: dict[int, _Open] = field(default_factory=dict)
    _whole: int = 0
    _ready: deque[int] = field(default_factory=deque)

    def __len__(self) -> int:
        return len(self._open)

    def open(self, number: int, *, next_seq: Seq) -> None:
        """Open window `number`; the segment that comes next is `next_seq`."""
        self._open[number] = _Open(next_seq)

    def add(self, number: int, chunk: ChunkFile) -> None:
        """A chunk read inside window `number` is durable."""
        self._open[number].chunks.append(chunk)
        self.rows_held += chunk.rows
        self.bytes_held += chunk.bytes

    def add_snapshot(self, number: int, chunk: ChunkFile, *, after_ts: CommitTs) -> None:
        """A chunk with its own TSO is durable. `after_ts`: everything up to it had left the feed before the SELECT was
        requested; a read TSO below it would make a window whose first changes are not covered."""
        if chunk.read_tso is None or chunk.read_tso < after_ts:
            raise SourceError(
                f"chunk {chunk.path} was read at TSO {chunk.read_tso}, before position {after_ts} which TiCDC had already passed",
                hint="check that the source database is the changefeed's upstream and that tidb_snapshot and tidb_read_staleness are off",
            )
        self.add(number, chunk)

    def drop(self, tables: Collection[TableName]) -> None:
        """Chunks of these tables are no longer of their windows: the windows close without them. A snapshot window of nothing else is
        no window any more."""
        for number, window in list(self._open.items()):
            window.chunks = [chunk for chunk in window.chunks if chunk.table not in tables]
            if window.whole and not window.chunks:
                del self._open[number]
        self._ready = deque(number for number in self._ready if number in self._open)
        self.rows_held = sum(window.rows for window in self._open.values())
        self.bytes_held = sum(window.bytes for window in self._open.values())

    def whole(self, number: int) -> None:
        """Nothing more will be read in snapshot window `number`: from now on it may close. One without a chunk is none."""
        self._whole += 1
        self._open[number].whole = self._whole
        if not self._open[number].chunks:
            del self._open[number]

    def mark(self, number: int, kind: MarkKind, commit_ts: CommitTs) -> None:
        """A mark of window `number` was seen in the feed; with the high one it is ready."""
        if kind is MarkKind.LOW:
            self._open[number].low_ts = commit_ts
        else:
            self._is_ready(number, commit_ts)

    def reach(self, upto_ts: CommitTs) -> None:
        """A segment reaches this ts: each snapshot window whose TSOs are at or below it is ready, oldest first."""
        for number in self._reached_by(upto_ts):
            self._is_ready(number, upto_ts)

    def close(self, *, after_ts: CommitTs, fits: Callable[[int, int], bool] = lambda _rows, _bytes: True) -> list[ClosedWindow]:
        """Those that are ready close in the segment that begins above `after_ts`, up to the first that `fits` not."""
        closed: list[ClosedWindow] = []
        while self._ready and fits(*self._size(self._ready[0])):
            closed.append(self._close(self._ready.popleft(), after_ts))
        return closed

    def closes_by(self, upto_ts: CommitTs, fits: Callable[[int, int], bool] = lambda _rows, _bytes: True) -> bool | None:
        """Whether a segment up to `upto_ts`, even an empty one, would close a window without a further mark. None: it would have none that
        is ready."""
        first = self._ready[0] if self._ready else next(iter(self._reached_by(upto_ts)), None)
        return None if first is None else fits(*self._size(first))

    def waiting(self) -> int:
        """How many are open and not ready."""
        return len(self._open) - len(self._ready)

    def ready(self) -> int:
        """How many are ready and not in the log."""
        return len(self._ready)

    def ready_since(self) -> CommitTs | None:
        """Since when the oldest of them is ready."""
        return self._open[self._ready[0]].ready_ts if self._ready else None

    def ready_rows(self) -> int:
        return sum(self._open[number].rows for number in self._ready)

    def oldest_first_seq(self) -> Seq | None:
        """No segment from this one on may go; None when nothing is open."""
        return min((w.first_seq for w in self._open.values()), default=None)

    def has(self, number: int, table: TableName) -> bool:
        """Whether a chunk of `table` was read in window `number`."""
        return any(chunk.table == table for chunk in self._open[number].chunks)

    def _size(self, number: int) -> tuple[int, int]:
        """Rows, each chunk as one more, and bytes."""
        window = self._open[number]
        return window.rows + len(window.chunks), window.bytes

    def _reached_by(self, upto_ts: CommitTs) -> list[int]:
        results = [(w.read_tso, w.whole, number) for number, w in self._open.items() if w.whole and w.ready_ts is None]
        return [number for tso, _, number in sorted(results) if tso <= upto_ts]

    def _is_ready(self, number: int, ts: CommitTs) -> None:
        self._open[number].ready_ts = ts
        self._ready.append(number)

    def _close(self, number: int, after_ts: CommitTs) -> ClosedWindow:
        window = self._open.pop(number)
        self.rows_held -= window.rows
        self.bytes_held -= window.bytes
        low_ts = min(window.read_tsos()) if window.whole else window.low_ts
        assert low_ts is not None, "marks are in order, so the low one was seen"
        assert window.ready_ts is not None, "only what is ready closes"
        high_ts = max(window.ready_ts, CommitTs(after_ts + 1))
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

    def seen(self, marks: Iterable[Mark]) -> None:
        """The windows that these marks end are ready, in their order. Raises MarkError: what is open is of no more use then."""
        ours = [(mark, number) for mark in marks if (number := self.marks.see(mark)) is not None]
        for mark, number in ours:
            self.windows.mark(self._window_of.pop(number), mark.kind, mark.commit_ts)
