"""How far a key range is while its parts advance one by one: as a TiKV region, or a sender's span, resolves.

- The range is cut where parts differ; each piece has its ts, and neighbours of one ts are one piece. `ts` is the lowest.
- A part goes forward only: a lower ts than before changes nothing.
- A part that goes over the range's edges counts for what lies inside: parts are TiKV's regions, which end anywhere.
- `forward` costs what it cuts and joins; `ts` costs nothing but for pieces that went by, so that ten thousand regions that advance
  once a second are no work. Each ts has a count of the pieces at it; a heap of them gives the lowest, and drops those without a piece
  when they come up.
"""

from __future__ import annotations

from bisect import bisect_right
from heapq import heappop, heappush

from sidecar.shared.model.nouns import CommitTs
from sidecar.shared.rowcodec.key_values import KeyRange


class Frontier:
    """`from_ts`: up to where all of the range is complete at the start."""

    __slots__ = ("_counts", "_heap", "_starts", "_tss", "range")

    def __init__(self, range: KeyRange, from_ts: CommitTs) -> None:
        self.range = range
        self._starts = [range.start]
        self._tss: list[int] = [from_ts]
        self._counts: dict[int, int] = {from_ts: 1}
        self._heap: list[int] = [from_ts]

    def ts(self) -> CommitTs:
        """All of the range is complete up to here."""
        while self._heap[0] not in self._counts:
            heappop(self._heap)
        return CommitTs(self._heap[0])

    def pieces(self) -> int:
        """How many parts of the range differ."""
        return len(self._starts)

    def forward(self, part: KeyRange, ts: CommitTs) -> None:
        """All of `part` is complete up to `ts`."""
        start, end = max(part.start, self.range.start), min(part.end, self.range.end)
        if start >= end:
            return
        first = self._cut(start)
        stop = self._cut(end) if end < self.range.end else len(self._starts)
        for piece in range(first, stop):
            if self._tss[piece] < ts:
                self._count(self._tss[piece], -1)
                self._count(ts, 1)
                self._tss[piece] = ts
        self._join(first, stop)

    def _cut(self, key: bytes) -> int:
        """The number of the piece that begins at `key`."""
        piece = bisect_right(self._starts, key) - 1
        if self._starts[piece] == key:
            return piece
        self._starts.insert(piece + 1, key)
        self._tss.insert(piece + 1, self._tss[piece])
        self._count(self._tss[piece], 1)
        return piece + 1

    def _join(self, first: int, stop: int) -> None:
        """Neighbours of one ts, among these pieces and the ones beside them."""
        low, high = max(first - 1, 0), min(stop + 1, len(self._starts))
        kept = [piece for piece in range(low, high) if piece == low or self._tss[piece] != self._tss[piece - 1]]
        if len(kept) == high - low:
            return
        for piece in range(low + 1, high):
            if self._tss[piece] == self._tss[piece - 1]:
                self._count(self._tss[piece], -1)
        self._starts[low:high], self._tss[low:high] = [self._starts[piece] for piece in kept], [self._tss[piece] for piece in kept]

    def _count(self, ts: int, by: int) -> None:
        count = self._counts.get(ts, 0) + by
        if count:
            if count == by:
                heappush(self._heap, ts)
            self._counts[ts] = count
        else:
            del self._counts[ts]
