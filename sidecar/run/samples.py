"""What the stream and its dumps did over time: a sample of the published status every few seconds, for charts and for a dump's report."""

from __future__ import annotations

from collections import deque
from threading import Lock

from sidecar.control.status import SidecarStatus
from sidecar.core.progress import DumpState
from sidecar.log.certificate_parts import SampleLine, SinkSample

EVERY_S = 2.0
KEPT_S = 3600.0
WAITING_CHARS_MAX = 200


class Samples:
    """Those of the last hour. One thread adds, any thread reads."""

    def __init__(self, *, every_s: float = EVERY_S, kept_s: float = KEPT_S) -> None:
        self._every_ms, self._kept = int(every_s * 1000), int(kept_s / every_s)
        self._lock = Lock()
        self._samples: deque[SampleLine] = deque()
        self._epoch = self._changes = 0

    def see(self, status: SidecarStatus, at_ms: int) -> None:
        """Adds a sample if one is due."""
        last = self._samples[-1] if self._samples else None
        passed_ms = self._every_ms if last is None else at_ms - last.at_ms
        if 0 <= passed_ms < self._every_ms:  # a clock that was set back begins anew
            return
        known = last is not None and self._epoch == status.epoch and passed_ms > 0
        found = SampleLine(
            at_ms=at_ms,
            epoch=status.epoch,
            running=tuple(dump.dump_id for dump in status.dumps if dump.state is DumpState.RUNNING),
            rows_per_s=round(status.rows_per_s, 1),
            changes_per_s=round((status.changes - self._changes) / passed_ms * 1000, 1) if known else 0.0,
            resolved_lag_s=round(status.resolved_lag_s, 3),
            delivery_lag_s=round(status.delivery_lag_s, 3),
            open_windows=status.open_windows,
            waiting_for=status.waiting_for[:WAITING_CHARS_MAX],
            sinks=tuple(
                SinkSample(one.sink, round(one.median_s, 3), round(one.live_s, 3), round(one.bound_s, 3), round(one.limit_s, 3))
                for one in status.sinks
            ),
        )
        self._epoch, self._changes = status.epoch, status.changes
        with self._lock:
            if passed_ms < 0:
                self._samples.clear()
            self._samples.append(found)
            while len(self._samples) > self._kept:
                self._samples.popleft()

    def after(self, at_ms: int) -> list[SampleLine]:
        """Those later than that, oldest first."""
        with self._lock:
            if self._samples and self._samples[-1].at_ms <= at_ms:
                return []
            return [one for one in self._samples if one.at_ms > at_ms]
