"""Whether live delivery is late beside a verification: by what each sink's batches took before it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import median

LATE_S = 0.5
"""A batch that takes no longer delays nobody."""

BESIDE_MAX = 1.5
"""Of what a sink's batches took without a verification: a lake whose batches always take seconds is not late for that."""


class Lateness:
    """`batches_s`: how long the last batch of each sink took, or the one that is under way has taken, beyond what the sink gathers; without
    sinks that fail. `before_s`: the durations of each sink's last batches."""

    def __init__(
        self, batches_s: Callable[[], Mapping[str, float]], before_s: Callable[[], Mapping[str, list[float]]], late_s: float = LATE_S
    ) -> None:
        self._batches_s, self._before_s, self._late_s = batches_s, before_s, late_s
        self._usual_s: Mapping[str, float] = {}

    def begin(self) -> None:
        """No verification has run for a while."""
        self._usual_s = {sink: median(found) for sink, found in self._before_s().items() if found}

    def late(self) -> bool:
        return any(took_s > max(self._late_s, BESIDE_MAX * self._usual_s.get(sink, 0.0)) for sink, took_s in self._batches_s().items())
