"""What one sink's batches cost: without a dump, and what each of a dump's rows and bytes adds.

A fit over the last batches, seconds = fixed + rows x row_s, by medians: row_s is the weighted median of the slopes between all pairs of
batches (Theil and Sen), weighted by how far apart their rows are and by how recent they are; so one batch that stalled counts for
nothing, and two in a row are how it is. No pause is made for its sake: a live segment that stands before a window is accepted first,
so there are batches without dump rows (quiet ones) while a dump runs, and where a sink takes everything at once its batches differ
in their rows. The last quiet ones are kept however old they are.

Where batches differ too little, what is too much is put on the dump's rows: the dump narrows, and its batches differ, until quiet ones
tell. What a dump's batch costs by itself, however few its rows (Spark's job), is `job_s`, known where batches with dump rows differ by
themselves; else it is in row_s too. Live rows are in `fixed`, which follows their load as the last batches do.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import NamedTuple

from sidecar.pace.sinks import BatchDone

BATCHES = 10
QUIET_BATCHES = 3
"""The fewest of which one may be an outlier."""
KEEP = 0.7
"""What a batch weighs beside the one after it: the last two weigh more than all before them."""
SPREAD = 2.0
SPREAD_BATCHES = 3
"""So many batches with dump rows, whose rows differ by that, tell what rows add without the quiet ones."""
QUIET_LEAST = 0.05
"""What a quiet batch weighs at the least."""
ROW_S_LEAST = 1e-7
"""No sink takes ten million rows a second: rows that seem to have cost nothing say no more than that."""
STEADY = 2.0
STEP = 0.15
"""A slope that is less than STEADY times another is no news: it is followed in steps, so that the width does not swing."""
NOISE = 0.1
"""Of a batch without dump rows: what batches differ in for no reason of ours."""
BYTES_A_ROW = 100
"""At the least that costs, in bytes."""


class _Point(NamedTuple):
    number: int
    seconds: float
    rows: int
    bytes: int


class Cost:
    """Of one sink, from its batches in their order. Seconds."""

    def __init__(self) -> None:
        self._points: deque[_Point] = deque(maxlen=BATCHES)
        self._quiet: deque[_Point] = deque(maxlen=QUIET_BATCHES)
        self._number = 0
        self.quiet_s = 0.0
        """Of a batch without dump rows; 0 before the first batch."""
        self.row_s: float | None = None
        """What a dump's row adds; None before the first."""
        self.job_s = 0.0
        """What a batch with any dump rows adds besides."""
        self.byte_s: float | None = None
        """What a byte of a dump's chunks adds: rows of another table may be wider than those measured."""

    def batch(self, batch: BatchDone, *, dump_bytes: int) -> None:
        """`dump_bytes`: of the chunks of its dump rows, 0 if nobody knows."""
        self._number += 1
        point = _Point(self._number, batch.seconds, batch.dump_rows, dump_bytes)
        (self._points if batch.dump_rows else self._quiet).append(point)
        points = [*self._quiet, *self._points]
        if self._points:
            spread = len(self._points) >= SPREAD_BATCHES and max(p.rows for p in self._points) >= SPREAD * min(p.rows for p in self._points)
            fitted = list(self._points) if spread else points
            self.row_s = _steady(self.row_s, max(self._slope([(point, point.rows) for point in fitted]), ROW_S_LEAST))
            told = [(point, point.bytes) for point in fitted if point.bytes or not point.rows]
            if any(size for _, size in told):
                self.byte_s = _steady(self.byte_s, max(self._slope(told), ROW_S_LEAST / BYTES_A_ROW))
        recent = [point for point in self._quiet if point.number > self._number - BATCHES] or points
        self.quiet_s = self._besides(recent)
        self.job_s = max(self._besides(self._points) - self.quiet_s, 0.0)

    def _besides(self, points: Iterable[_Point]) -> float:
        """What batches cost besides their dump rows."""
        return _median((max(p.seconds - (self.row_s or 0.0) * p.rows, 0.0), self._weight(p)) for p in points)

    def _slope(self, found: Sequence[tuple[_Point, int]]) -> float:
        """At the least what the largest batch can have cost without standing out from what batches differ in anyway."""
        slope = _median(
            ((one.seconds - other.seconds) / (x - y), abs(x - y) * self._weight(one) * self._weight(other))
            for (one, x), (other, y) in combinations(found, 2)
            if x != y
        )
        return max(slope, NOISE * self.quiet_s / max(x for _, x in found))

    def _weight(self, point: _Point) -> float:
        return max(KEEP ** (self._number - point.number), 0.0 if point.rows else QUIET_LEAST)


def _steady(before: float | None, found: float) -> float:
    return found if before is None or not before / STEADY < found < before * STEADY else before + STEP * (found - before)


def _median(found: Iterable[tuple[float, float]]) -> float:
    """The least value that more than half of the weight does not exceed; 0 of nothing."""
    ordered = sorted(found)
    left = sum(weight for _, weight in ordered) / 2
    for value, weight in ordered:
        left -= weight
        if left < 0:
            return value
    return ordered[-1][0] if ordered else 0.0
