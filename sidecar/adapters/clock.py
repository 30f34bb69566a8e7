"""The process's own clock, as the pipeline's port."""

from __future__ import annotations

from time import monotonic


class MonotonicClock:
    def now_s(self) -> float:
        return monotonic()
