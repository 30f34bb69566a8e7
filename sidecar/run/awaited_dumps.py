"""Verifications that begin after a dump: whether its sinks have it, or it will not come, as where it was restarted under another id.

A dump is finished when the log has its last segment. While a sink does not have that, its rows are no result: so the verification waits
until each of its sinks has accepted what the log had when the dump was seen to be finished.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import monotonic
from types import MappingProxyType
from typing import NamedTuple

from sidecar.history.entry import HistoryEntry
from sidecar.pipeline import Pipeline
from sidecar.ports import Deliveries, OperationHistory
from sidecar.shared.log.verification import VerifyRequest
from sidecar.shared.model.nouns import OperationId, Seq, operation_id
from sidecar.shared.model.progress import OVER, DumpState

STARTS_S = 60.0
"""After the verification that is to follow it was requested."""
LOOK_EVERY_S = 10.0
"""For a restart of a dump that has failed: each look reads the history."""


class LogPosition(NamedTuple):
    """`end`: the log's last segment; None: not known. `accepted`: of each sink that reports, by name."""

    end: Seq | None = None
    accepted: Mapping[str, Seq | None] = MappingProxyType({})


def position(pipeline: Pipeline, deliveries: Deliveries) -> LogPosition:
    return LogPosition(Seq(pipeline.next_seq - 1), {one.sink: one.accepted for one in deliveries.sinks()})


class AwaitedDumps:
    """For one thread. `position`: as of now."""

    def __init__(self, history: OperationHistory, position: Callable[[], LogPosition] = LogPosition) -> None:
        self.history, self._position = history, position
        self._ends: dict[OperationId, Seq | None] = {}
        self.looked_s: dict[OperationId, float] = {}

    def begins(self, request: VerifyRequest, *, now_ms: int) -> bool | str:
        """Whether it begins, or waits; a text: why it will not begin. A dump that has failed may be resumed. Raises as the history."""
        dump = self.history.find(operation_id(request.after_dump))
        if dump is None:
            late = now_ms - request.asked_ms > STARTS_S * 1000
            return f"its dump {request.after_dump} was not started" if late else False
        if dump.state is DumpState.FINISHED:
            return self._is_delivered(request)
        return dump.state in OVER and self._ended(request, dump)

    def _is_delivered(self, request: VerifyRequest) -> bool:
        """A sink that nobody reports any more is waited for by nobody: it is named as one that is not there."""
        now = self._position()
        if now.end is not None and not now.accepted:
            return False  # no report was read yet, as just after a takeover
        end = self._ends.setdefault(request.id, now.end)
        sinks = [now.accepted[sink] for sink in request.sinks if sink in now.accepted]
        return end is None or all(seq is not None and seq >= end for seq in sinks)

    def _ended(self, request: VerifyRequest, dump: HistoryEntry) -> str | bool:
        """A restart is in the history together with the end of the dump that it replaces. After a failure it may come at any time."""
        now_s = monotonic()
        if dump.state is DumpState.FAILED and now_s - self.looked_s.get(request.id, -LOOK_EVERY_S) < LOOK_EVERY_S:
            return False
        self.looked_s[request.id] = now_s
        if restart := next((one for one in self.history.entries() if one.restart_of == dump.id), None):
            return f"its dump {dump.id} was restarted as {restart.id}, which is followed by its own"
        return dump.state is DumpState.STOPPED and f"its dump {dump.id} was stopped"
