"""How long live delivery takes: which segments are samples of it, and their percentiles.

A segment is a sample where the worker was there for as long as it waited, with nothing left of a time in which it was not. What waited for
a worker's start, for a sink that had failed, or behind what had come up meanwhile, says nothing of how long delivery takes now. So neither
the pace nor a percentile that is shown counts it; that it waits is seen while it does (`SinkPace.lag_s`).

The worker was away before a sink's first batch, and wherever a segment waited for more than AWAY_S while no batch was under way. It has
caught up at the end of the first batch after that which leaves nothing that was in the log when it began. What is written from then on is
a sample. A slow batch is no absence: what a slow sink makes wait is counted. So is what it makes wait that has not caught up within
CATCH_UP_MAX_S: it is slow, and not only late.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from math import ceil, inf

LIVE_OVER_S = 10.0
LIVE_BATCHES_MIN = 8
"""Live delivery is the p99 over so long, or of so many batches of a sink whose batches take longer."""
AWAY_S = 1.0
"""A worker that is there begins a batch 0.2 s after a segment at the latest, and a report's moments are known to a quarter of a second."""

CATCH_UP_MAX_S = 60.0
"""Most starts of a worker are caught up with in a few batches."""


class Live:
    """The last samples of one sink, by batch."""

    def __init__(self) -> None:
        self._batches: deque[tuple[float, list[float]]] = deque()
        self._ended_s = -inf
        self._caught_up_s = self._back_s = inf

    def accepted(self, written_s: Sequence[float], *, began_s: float, at_s: float, left_s: float) -> list[float]:
        """A batch of what was written then, oldest first: how long each sample among it took. `left_s`: when the oldest that it left was
        written; inf where it left nothing."""
        if written_s and began_s - max(written_s[0], self._ended_s) > AWAY_S:
            self._caught_up_s = self._back_s = inf
        self._back_s = min(self._back_s, began_s)
        took_s = [max(at_s - one_s, 0.0) for one_s in written_s if one_s >= self._caught_up_s]
        if written_s and self._caught_up_s == inf and (left_s >= began_s or at_s - self._back_s > CATCH_UP_MAX_S):
            self._caught_up_s = at_s
        self._ended_s = max(self._ended_s, at_s)
        if took_s:
            self._batches.append((at_s, took_s))
            while len(self._batches) > LIVE_BATCHES_MIN and self._batches[0][0] < at_s - LIVE_OVER_S:
                self._batches.popleft()
        return took_s

    def since_s(self) -> float | None:
        """When the oldest of them was accepted; None of so few that they tell nothing of how long a segment waits for another batch."""
        return self._batches[0][0] if len(self._batches) >= LIVE_BATCHES_MIN else None

    def quantile_s(self, share: float) -> float:
        """0 of nothing."""
        took = sorted(took_s for _, batch in self._batches for took_s in batch)
        return took[ceil(len(took) * share) - 1] if took else 0.0
