"""What keeps segments in the log that every sink has accepted: for how long, and the line that says so.

    what holds                               until                            and at the latest
    a window of a dump that is open          it closes                        its chunks are read again (core/window.py)
    certificates                             what they need is in a part      certifying.HOLD_MAX_S of errors, SAVE_IDLE_S without one
    a verification                           it has read the segment          KEPT_MAX_S at one segment: it fails. Counted in a file, so
                                                                              that no term and no process begins again with it

Whatever is added here has a bound of its own, and a row. What the sinks have not accepted is no hold: it is their lag. On a full volume the
next term removes what every sink has accepted, whatever holds it (Term.make_room).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sidecar.control.status import RetentionHold
from sidecar.run.log_event import LogEvent
from sidecar.shared.errors import RefusedRequest
from sidecar.shared.log.owned import OwnedLog
from sidecar.shared.log.verification import kept_stem
from sidecar.shared.log.verification_files import read_kept
from sidecar.shared.log.verification_state import KeptLog
from sidecar.shared.model.nouns import OperationId, Seq

WINDOWS, CERTIFICATES, VERIFICATIONS = "a window of a dump", "certificates", "a verification"
LINE_S = 120.0
"""A hold that stays at one segment for longer has a line. A part of a certificate is written each 20 s."""


KEPT_MAX_S = 6 * 3_600.0
"""A large sink's rows may take hours to read. A worker that is gone reports nothing, and its verification would keep the log for ever."""
LOOK_MAX_S = 60.0
"""What the time between two looks counts for at most, and how often it is written."""


class NeededSegments:
    """The first segment that each verification still has to read, by its id, and for how long it is that one. Any thread.

    Time counts by this owner's looks, and LOOK_MAX_S at most from one to the next, also from the last one of the owner before. So no clock
    that is ahead, was set, or ran while the machines slept makes a verification fail, and a dead worker's is not kept for ever.
    """

    def __init__(self, log: OwnedLog, wall_ms: Callable[[], int]) -> None:
        self._owned, self._wall_ms = log, wall_ms
        self._kept: dict[OperationId, KeptLog] = {}
        self._written_s: dict[OperationId, float] = {}

    def put(self, operation_id: OperationId, first: Seq) -> None:
        """By its last state. Raises RefusedRequest for one that has kept it for too long, and as the log's storage."""
        before, now_ms = self._kept.get(operation_id), self._wall_ms()
        if before is None and (before := read_kept(self._owned.folder, operation_id)) is not None:
            self._written_s[operation_id] = before.seconds
        if before is None or before.first != first:
            before = KeptLog(first, 0.0, now_ms)
            self._written_s[operation_id] = 0.0
        seconds = before.seconds + min(max(now_ms - before.at_ms, 0) / 1000, LOOK_MAX_S)
        self._kept[operation_id] = kept = KeptLog(first, seconds, now_ms)
        if seconds - self._written_s[operation_id] >= LOOK_MAX_S:
            self._owned.write(kept_stem(operation_id), kept.to_json())
            self._written_s[operation_id] = seconds
        if seconds >= KEPT_MAX_S:
            raise RefusedRequest(
                f"it has kept the log from segment {first} on for {KEPT_MAX_S / 3600:g} h without a step",
                hint="see the merge worker's lines for why, then verify again",
            )

    def drop(self, operation_id: OperationId) -> None:
        self._kept.pop(operation_id, None)
        self._written_s.pop(operation_id, None)

    def first(self) -> Seq | None:
        return min((Seq(one.first) for one in tuple(self._kept.values())), default=None)


class RetentionHolds:
    """For the pipeline's thread; `states` for any. `log_line` receives a line for each that holds long, and one when it no longer does."""

    def __init__(self, log_line: Callable[[LogEvent], object]) -> None:
        self._log_line = log_line
        self._since: dict[str, tuple[Seq, float]] = {}
        self._reported: set[str] = set()
        self.states: tuple[RetentionHold, ...] = ()

    def see(self, needed: Mapping[str, Seq | None], delivered: Seq | None, now_s: float) -> None:
        """`needed`: by what holds, the first segment that it needs; None: none. `delivered`: what every sink has accepted."""
        holds = {by: first for by, first in needed.items() if first is not None and delivered is not None and first <= delivered}
        self._since = {
            by: known if (known := self._since.get(by)) is not None and known[0] == first else (first, now_s) for by, first in holds.items()
        }
        self.states = tuple(RetentionHold(by, first, now_s - since_s) for by, (first, since_s) in self._since.items())
        long = {one.by: one for one in self.states if one.seconds >= LINE_S}
        for by in sorted(long.keys() - self._reported):
            values = {"by": by, "from_segment": long[by].first, "delivered": delivered, "for_s": round(long[by].seconds)}
            self._log_line(LogEvent("retention waits", values, "warning"))
        for by in sorted(self._reported - long.keys()):
            self._log_line(LogEvent("retention continues", {"by": by}))
        self._reported = set(long)
