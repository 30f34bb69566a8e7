"""The process's own clocks, as the pipeline asks for them."""

from __future__ import annotations

import time

from sidecar.shared.model.nouns import CommitTs, ts_at

AHEAD_MAX_S = 3600.0
"""TSOs are PD's clock, and this machine's may be off: by less than that."""


def newest_ts() -> CommitTs:
    """Above it no TSO can be yet."""
    return ts_at(int((time.time() + AHEAD_MAX_S) * 1000))


def wall_ms() -> int:
    """Milliseconds since 1970."""
    return int(time.time() * 1000)


def running_clock() -> float:
    """Seconds that also pass while the machine sleeps, where the system has such a clock (Linux). All processes of the machine
    have the same."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class MonotonicClock:
    def now_s(self) -> float:
        return time.monotonic()
