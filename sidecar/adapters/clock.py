"""The process's own clocks, as the pipeline asks for them."""

from __future__ import annotations

from time import monotonic, time

from sidecar.core.model import CommitTs, ts_at

AHEAD_MAX_S = 3600.0
"""TSOs are PD's clock, and this machine's may be off: by less than that."""


def newest_ts() -> CommitTs:
    """Above it no TSO can be yet."""
    return ts_at(int((time() + AHEAD_MAX_S) * 1000))


def wall_ms() -> int:
    """Milliseconds since 1970."""
    return int(time() * 1000)


class MonotonicClock:
    def now_s(self) -> float:
        return monotonic()
