"""The clock's twin in memory: it goes when its owner says so, and by `every_s` at each look."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class MemoryClock:
    time_s: float = 0.0
    every_s: float = 0.0

    def now_s(self) -> float:
        self.time_s += self.every_s
        return self.time_s

    def wait(self, seconds: float) -> None:
        """As `time.sleep`, but nobody waits."""
        self.time_s += seconds
