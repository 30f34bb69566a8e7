"""What one sink's batches cost: without a dump, and what each of a dump's rows and bytes adds.

Without: the median seconds of the last batches that had no dump rows. A live segment that stands before a window is accepted first,
so there are such batches while a dump runs, and no pause is made for their sake; with the costs of a row fitted from all batches
at once, a sink whose batches are all alike would leave it open what of them is the dump's.
A dump's row: what a batch with dump rows took beyond that, by its rows; of the last batches the median by weight of rows, so that one
that stalled counts for nothing and two in a row are how it is. It has in it what the dump's batch costs by itself (Spark's job), so
few rows look dear and more rows cheaper, which is so.

Where all batches have dump rows the two can not be told apart, and what is too much is put on the dump's rows: the dump narrows,
until batches without its rows tell what the sink itself costs. A batch that took less than one without dump rows makes both cheaper.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from sidecar.pace.sinks import BatchDone

BATCHES = 3
"""How many of each kind count: the fewest of which one can be an outlier."""
ROW_S_LEAST = 1e-7
"""No sink takes ten million rows a second: a batch that seems to have cost nothing says no more than that."""
BYTE_S_LEAST = 1e-10


class Cost:
    """Of one sink, from its batches in their order. Seconds."""

    def __init__(self) -> None:
        self._quiet: deque[float] = deque(maxlen=BATCHES)
        self._least_s: float | None = None
        self._rows: deque[tuple[float, int]] = deque(maxlen=BATCHES)
        self._bytes: deque[tuple[float, int]] = deque(maxlen=BATCHES)

    def batch(self, batch: BatchDone, *, dump_bytes: int) -> None:
        """`dump_bytes`: of the chunks of its dump rows, 0 if nobody knows."""
        if not batch.dump_rows:
            self._quiet.append(batch.seconds)
            return
        self._least_s = batch.seconds if self._least_s is None else min(self._least_s, batch.seconds)
        if self._quiet and batch.seconds < self.quiet_s:
            self._cheaper(batch.seconds / (self.quiet_s + (self.row_s or 0.0) * batch.dump_rows))
        more_s = max(batch.seconds - self.quiet_s, 0.0)
        self._rows.append((max(more_s / batch.dump_rows, ROW_S_LEAST), batch.dump_rows))
        if dump_bytes:
            self._bytes.append((max(more_s / dump_bytes, BYTE_S_LEAST), dump_bytes))

    @property
    def quiet_s(self) -> float:
        """Of a batch without dump rows; until there was one, of the shortest with some; 0 before the first."""
        return sorted(self._quiet)[len(self._quiet) // 2] if self._quiet else self._least_s or 0.0

    @property
    def row_s(self) -> float | None:
        """What a dump's row adds; None before the first."""
        return _median(self._rows)

    @property
    def byte_s(self) -> float | None:
        """What a byte of a dump's chunks adds: rows of another table may be wider than those measured."""
        return _median(self._bytes)

    def _cheaper(self, share: float) -> None:
        self._quiet = deque((quiet_s * share for quiet_s in self._quiet), maxlen=BATCHES)
        self._rows = deque(((row_s * share, rows) for row_s, rows in self._rows), maxlen=BATCHES)
        self._bytes = deque(((byte_s * share, size) for byte_s, size in self._bytes), maxlen=BATCHES)


def _median(found: Iterable[tuple[float, int]]) -> float | None:
    """The least value that at least half of the weight does not exceed; None of nothing."""
    ordered = sorted(found)
    left = sum(weight for _, weight in ordered) / 2
    for value, weight in ordered:
        left -= weight
        if left < 0:
            return value
    return ordered[-1][0] if ordered else None
