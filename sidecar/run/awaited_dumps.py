"""Verifications that begin after a dump: whether it has finished, is started again under another id, or will not come."""

from __future__ import annotations

from time import monotonic

from msgspec import structs

from sidecar.core.model import OperationId, operation_id
from sidecar.core.progress import OVER, DumpState
from sidecar.history.entry import HistoryEntry
from sidecar.log.verification import VerifyRequest
from sidecar.ports import OperationHistory

STARTS_S = 60.0
"""After the verification that is to follow it was requested."""
LOOK_EVERY_S = 10.0
"""For a restart of a dump that has failed: each look reads the history."""


class AwaitedDumps:
    """For one thread."""

    def __init__(self, history: OperationHistory) -> None:
        self._history = history
        self.looked_s: dict[OperationId, float] = {}

    def next_of(self, request: VerifyRequest, *, now_ms: int) -> VerifyRequest | str | None:
        """The request itself: it begins. The same after another dump: it waits for that one. A text: why it will not begin. None: it waits.
        A dump that has failed may be resumed. Raises as the history."""
        dump = self._history.find(operation_id(request.after_dump))
        if dump is None:
            late = now_ms - request.asked_ms > STARTS_S * 1000
            return f"its dump {request.after_dump} was not started" if late else None
        if dump.state is DumpState.FINISHED:
            return request
        return self._restarted(request, dump) if dump.state in OVER else None

    def _restarted(self, request: VerifyRequest, dump: HistoryEntry) -> VerifyRequest | str | None:
        """A restart is in the history together with the end of the dump that it replaces. After a failure it may come at any time."""
        now_s = monotonic()
        if dump.state is DumpState.FAILED and now_s - self.looked_s.get(request.id, -LOOK_EVERY_S) < LOOK_EVERY_S:
            return None
        self.looked_s[request.id] = now_s
        if restart := next((one for one in self._history.entries() if one.restart_of == dump.id), None):
            return structs.replace(request, after_dump=restart.id)
        return f"its dump {dump.id} was stopped" if dump.state is DumpState.STOPPED else None
