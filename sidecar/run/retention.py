"""What keeps segments in the log that every sink has accepted: for how long, and the line that says so.

    what holds                               until                            and at the latest
    a window of a dump that is open          it closes                        its chunks are read again (core/window.py)
    certificates                             what they need is in a part      certifying.HOLD_MAX_S of errors, SAVE_IDLE_S without one
    a verification                           it has read the segment          KEPT_MAX_S at one segment: it fails. Counted by its state's
                                                                              file, so that no term and no process begins again with it

Whatever is added here has a bound of its own, and a row. What the sinks have not accepted is no hold: it is their lag. On a full volume the
next term removes what every sink has accepted, whatever holds it (Term.make_room).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sidecar.control.status import RetentionHold
from sidecar.report.figures import clock_time
from sidecar.run.log_event import LogEvent
from sidecar.shared.errors import RefusedRequest
from sidecar.shared.model.nouns import Seq

WINDOWS, CERTIFICATES, VERIFICATIONS = "a window of a dump", "certificates", "a verification"
LINE_S = 120.0
"""A hold that stays at one segment for longer has a line. A part of a certificate is written each 20 s."""


KEPT_MAX_S = 6 * 3_600.0
"""A large sink's rows may take hours to read. A worker that is gone reports nothing, and its verification would keep the log for ever."""


class NeededSegments:
    """The first segment that each verification still has to read, by its id, and since when it is that one. Any thread."""

    def __init__(self, wall_ms: Callable[[], int]) -> None:
        self._wall_ms = wall_ms
        self._kept: dict[str, tuple[Seq, int]] = {}

    def put(self, operation_id: str, first: Seq, since_ms: int) -> None:
        """By its last state; 0: an older worker does not say since when. Raises RefusedRequest for one that has kept it for too long."""
        before, now_ms = self._kept.get(operation_id), self._wall_ms()
        since_ms = since_ms or (now_ms if before is None or before[0] != first else before[1])
        self._kept[operation_id] = first, since_ms
        if now_ms - since_ms >= KEPT_MAX_S * 1000:
            raise RefusedRequest(
                f"it has kept the log from segment {first} on since {clock_time(since_ms)}, for {KEPT_MAX_S / 3600:g} h without a step",
                hint="see the merge worker's lines for why, then verify again",
            )

    def drop(self, operation_id: str) -> None:
        self._kept.pop(operation_id, None)

    def first(self) -> Seq | None:
        return min((first for first, _ in tuple(self._kept.values())), default=None)


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
