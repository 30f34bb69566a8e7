"""Answers that pages use again: for a moment, as all open pages ask for the same; and in an outage, until there is a new one."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from time import monotonic
from typing import Any, NamedTuple

from sidecar.adapters.clock import wall_ms
from sidecar.control.local_call import CallRejected

KEPT_S = 10.0
LAST_MAX = 8
"""Answers that are kept for an outage."""


class StaleAnswer(NamedTuple):
    """`why` there is no answer, and of when the one is that is shown, in milliseconds since 1970."""

    why: str
    at_ms: int


class KeptAnswers:
    """Any thread. `outage`: None while the service answers."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._values: dict[Any, tuple[float, Any]] = {}
        self._last: dict[Any, tuple[int, Any]] = {}
        self._forgotten = 0
        self.outage: StaleAnswer | None = None

    def fresh(self, key: Any, fresh_s: float, made: Callable[[], Any]) -> Any:
        """One that is no older than `fresh_s`."""
        with self._lock:
            at_s, value = self._values.get(key, (-fresh_s, None))
            if monotonic() - at_s < fresh_s:
                return value
            forgotten = self._forgotten
        value = made()
        with self._lock:
            if self._forgotten != forgotten:
                return value
            self._values = {name: kept for name, kept in self._values.items() if monotonic() - kept[0] < KEPT_S}
            self._values[key] = monotonic(), value
        return value

    def asked(self, key: Any, fresh_s: float, made: Callable[[], Any]) -> Any:
        """As `fresh`; while the service has no answer for anybody, its last one, if there is one. Raises CallRejected."""
        try:
            fresh = self.fresh(key, fresh_s, made)
        except CallRejected as rejected:
            last = self._last.get(key)
            if not rejected.may_come_back or rejected.owner is not None or last is None:
                raise
            self.outage = StaleAnswer(rejected.details, last[0])
            return last[1]
        self.outage = None
        with self._lock:
            self._last = dict([item for item in self._last.items() if item[0] != key][1 - LAST_MAX :]) | {key: (wall_ms(), fresh)}
        return fresh

    def forget(self) -> None:
        """Also what is being fetched; not what is kept for an outage."""
        with self._lock:
            self._values, self._forgotten = {}, self._forgotten + 1
