"""The merge worker's wall clock in the seconds of the sidecar's own clock.

A report is read some time after it was written: never before, and at most a read's pause later. So of the differences between
the time of reading and the report's own stamp the least one is the clocks' difference and next to no delay (a clock filter as in
RFC 5905, one way). A stamp that falls, or a delay that cannot be, means that a clock was set or the worker is another: begin again.
"""

from __future__ import annotations

from collections import deque

from sidecar.shared.model.sink_delivery import ReportTimes

READINGS = 64
"""Of which the least counts: with a quarter of a second between reads a few milliseconds, and drift in so many is less."""
DELAY_MAX_S = 5.0
"""Longer than it takes to read a report, once one was read faster: the worker's clock was set back, or runs on another machine."""


class Clocks:
    """Receives when reports were written and read, and converts moments of the worker's clock."""

    def __init__(self) -> None:
        self._last: ReportTimes | None = None
        self._differences: deque[float] = deque(maxlen=READINGS)

    def receive(self, reported: ReportTimes) -> None:
        """A report was read. The same one may be passed again."""
        if self._last is not None and reported.written_ms == self._last.written_ms:
            return
        difference_s = reported.read_s - reported.written_ms / 1000
        set_back = self._last is not None and reported.written_ms < self._last.written_ms
        if self._differences and (set_back or difference_s - min(self._differences) > DELAY_MAX_S):
            self._differences.clear()
        self._last = reported
        self._differences.append(difference_s)

    def at_s(self, worker_ms: int, *, at_most_s: float) -> float:
        """When the worker's clock showed `worker_ms`; at the latest `at_most_s`, when its report was read. That, while nothing is known."""
        return min(worker_ms / 1000 + min(self._differences), at_most_s) if self._differences else at_most_s
