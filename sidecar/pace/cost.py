"""What one sink's batches cost: without a dump, the fixed cost of a dump's batch, and the cost of each of its rows.

Seconds of a batch with dump rows = begun + rows x row, followed by a Kalman filter: both drift a little with each batch, a batch differs
from them by a noise that is learned too, and what is not known is a variance. So a width takes the possible error into account
(`rows_in`): before batches of different sizes were seen it is narrow, and grows with what they show. One batch that is far off counts for
next to nothing; the second in a row that is off to the same side is how it is, and what was known is forgotten.

No pause is made for its sake: a live segment that stands before a window is accepted first, so there are batches without dump rows
(quiet ones) while a dump runs. Where a sink takes everything at once there are none, and what its batches take besides rows is what
they take without a dump.
"""

from __future__ import annotations

from collections import deque
from math import sqrt
from statistics import median

from sidecar.shared.model.sink_delivery import BatchDone

QUIET_BATCHES = 3
"""The fewest of which one may be an outlier."""
QUIET_OVER_S = 10.0
"""All within so long count, of a sink with so many: three differ from the next three."""
QUIET_AGE = 10
"""In batches: of a slower sink, quiet ones that are older tell of another time."""
DRIFT = 0.05
"""By how much begun and row may change from one batch to the next, of themselves."""
NOISE_FIRST, NOISE_MIN, NOISE_MAX = 0.2, 0.05, 0.5
"""What batches differ in for no reason of ours, of their seconds: others work on the machine too."""
NOISE_STEP = 0.1
FAR = 3.0
"""Of the deviation that was to be expected: a batch farther off is an outlier, or a lasting change."""
TAKEN_BATCHES = 8
"""With dump rows. What the quickest of them leaves is the fixed cost of a batch; a slower one was disturbed."""
PROVEN_BATCHES = 2
"""One may have been lucky."""
PROBE = 0.9
"""Of the available time: a batch may always take that long, even where its fixed cost is most of that. Otherwise a sink with a large fixed
cost would get so few rows that the cost of a row is never seen."""
ROW_S_LEAST = 1e-7
"""No sink takes ten million rows a second: rows that seem to have cost nothing say no more than that."""


class Cost:
    """Of one sink, from its batches in their order. Seconds."""

    def __init__(self) -> None:
        self._number = 0
        self._quiet: deque[tuple[int, float, float]] = deque()
        self._begun = 0.0
        self._row: float | None = None
        self._var_begun = self._var_row = self._cov = 0.0
        self._noise = NOISE_FIRST
        self._off = 0.0
        self._proven: deque[float] = deque(maxlen=PROVEN_BATCHES)
        self._taken: deque[tuple[float, int]] = deque(maxlen=TAKEN_BATCHES)
        self._row_bytes = 0.0
        self.job_s = 0.0
        """What a batch with any dump rows adds besides: as it was when a quiet one was seen."""

    @property
    def quiet_s(self) -> float:
        """Of a batch without dump rows; 0 before the first batch."""
        return median(seconds for _, _, seconds in self._quiet) if self._quiet else max(self._begun - self.job_s, 0.0)

    @property
    def row_s(self) -> float | None:
        """What a dump's row adds; None before the first."""
        return self._row

    @property
    def byte_s(self) -> float | None:
        """What a byte of a dump's chunks adds, if rows cost what their bytes do; None: nobody knows."""
        return self._row / self._row_bytes if self._row is not None and self._row_bytes else None

    def batch(self, batch: BatchDone, *, at_s: float, dump_bytes: int) -> None:
        """`at_s`: when it was accepted. `dump_bytes`: of the chunks of its dump rows, 0 if nobody knows."""
        self._number += 1
        seconds, rows = batch.seconds, batch.dump_rows
        if not rows:
            self._quiet.append((self._number, at_s, seconds))
        elif self._row is None:
            self._begun, self._row = self.quiet_s, max((seconds - self.quiet_s) / rows, ROW_S_LEAST)
            self._var_begun, self._var_row = seconds**2, (seconds / rows) ** 2
        if rows and self._row is not None:
            self._follow(seconds, rows, self._row)
            self._taken.append((seconds, rows))
            self._proven.append(max((max(seconds - self.quiet_s, 0.0) + self._noise * seconds) / rows, ROW_S_LEAST))
            self._row_bytes = dump_bytes / rows if dump_bytes else self._row_bytes
        self._forget(at_s)
        if self._quiet and self._row is not None:
            self.job_s = max(self._begun - self.quiet_s, 0.0)

    @property
    def fixed_s(self) -> float:
        """What a batch with any dump rows may cost besides its rows: what is not known to be theirs. 0 before the first."""
        row_least_s = max((self._row or 0.0) - sqrt(self._var_row), 0.0)
        return min((max(seconds - rows * row_least_s, 0.0) for seconds, rows in self._taken), default=0.0)

    def mostly_rows(self, rows: int) -> bool:
        """Whether so many take longer than the rest of their batch."""
        return rows * (self._row or 0.0) > self._begun

    def rows_in(self, seconds: float) -> float:
        """How many rows a batch may have that takes so many seconds more than one without, as far as that is sure: by what is followed, or
        at the rate of the dearer of the last two batches, as if its rows were all that it took. So it grows where all batches are alike."""
        assert self._row is not None, "nothing is known before the first batch with rows"
        left_s = seconds - self.job_s
        return max(left_s / (self._row + sqrt(self._var_row)), max(left_s, seconds * PROBE) / max(self._proven))

    def _forget(self, now_s: float) -> None:
        """The quiet batches of another time."""
        while self._quiet and self._quiet[0][1] < now_s - QUIET_OVER_S:
            if len(self._quiet) <= QUIET_BATCHES and self._quiet[0][0] > self._number - QUIET_AGE:
                return
            self._quiet.popleft()

    def _var(self, rows: float) -> float:
        """Of what a batch with so many rows takes, without its noise."""
        return max(self._var_begun + 2 * rows * self._cov + rows**2 * self._var_row, 0.0)

    def _follow(self, seconds: float, rows: int, row: float) -> None:
        self._var_begun += (DRIFT * self._begun) ** 2
        self._var_row += (DRIFT * row) ** 2
        expected = self._begun + rows * row
        longest_s = max(seconds, expected)
        off, noise = seconds - expected, (self._noise * longest_s) ** 2
        deviation = sqrt(self._var(rows) + noise)
        if abs(off) > FAR * deviation:
            events, self._off = off * self._off > 0, off
            if events:
                self._var_begun, self._var_row, self._cov = longest_s**2, (longest_s / rows) ** 2, 0.0
            else:
                noise *= (off / deviation) ** 2
        else:
            self._off = 0.0
            self._noise += NOISE_STEP * (abs(off) / longest_s - self._noise)
            self._noise = min(max(self._noise, NOISE_MIN), NOISE_MAX)
        all_var = self._var(rows) + noise
        by_begun, by_row = self._var_begun + rows * self._cov, self._cov + rows * self._var_row
        self._split(self._begun + by_begun / all_var * off, row + by_row / all_var * off, rows)
        self._var_begun -= by_begun**2 / all_var
        self._var_row -= by_row**2 / all_var
        self._cov -= by_begun * by_row / all_var

    def _split(self, begun: float, row: float, rows: int) -> None:
        """What a batch with so many rows takes, between the two: where one of them would be below its least, the other one has the rest."""
        total_s = begun + rows * row
        if begun < 0.0:
            begun, row = 0.0, total_s / rows
        elif row < ROW_S_LEAST:
            begun = total_s - rows * ROW_S_LEAST
        self._begun, self._row = max(begun, 0.0), max(row, ROW_S_LEAST)
