"""Whether live delivery is late beside a verification: by what each sink's batches took before it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import median

LATE = "live delivery, which is late"
"""What a verification waits for then."""

LATE_S = 0.5
"""A batch that takes no longer delays nobody."""

BESIDE_MAX = 1.5
"""Of what a sink's batches took without a verification: a lake whose batches always take seconds is not late for that."""


USUAL_BATCHES = 3
"""The fewest of which one may be an outlier."""


class Lateness:
    """`batches_s`: how long the last batch of each sink took, or the one that is under way has taken, beyond what the sink gathers; without
    sinks that fail. `last_s`: the durations of each sink's last batches."""

    def __init__(
        self, batches_s: Callable[[], Mapping[str, float]], last_s: Callable[[], Mapping[str, list[float]]], late_s: float = LATE_S
    ) -> None:
        self._batches_s, self._last_s, self._late_s = batches_s, last_s, late_s
        self._usual_s: dict[str, float] = {}

    def begin(self) -> None:
        """No verification has run for a while: what batches take now is usual."""
        self._usual_s = self._usual()

    def late(self) -> bool:
        """A sink that had had too few batches when the verification began (a worker that has just started) is taken as it is since then."""
        batches_s = self._batches_s()
        if batches_s.keys() - self._usual_s.keys():
            self._usual_s = self._usual() | self._usual_s
        return any(took_s > max(self._late_s, BESIDE_MAX * self._usual_s.get(sink, 0.0)) for sink, took_s in batches_s.items())

    def _usual(self) -> dict[str, float]:
        return {sink: median(seconds) for sink, seconds in self._last_s().items() if len(seconds) >= USUAL_BATCHES}
