"""What a process keeps from one term to the next, while nobody else owns the changefeed: its merge worker with Spark, and the pace.

    term ends ─► kept ─► term: the worker serves the next epoch, the pace knows what it has learned; one that is not there starts early
                  ├─► standby: another process owns it. The worker ends at once, the pace is forgotten
                  └─► WORKER_KEPT_MAX_S passed: the worker ends

- A worker that is kept is one of an earlier epoch until it receives the next one. It accepts only where no later owner has opened a sink:
  each sink's own fence sees to that. So it cannot harm another owner, whatever this process does or does not know.
- An error that no retry can help, or a log that another process has, ends the worker with the term.
- A worker knows the log that was there when it started. Is there another one in its place, whose segments have the same numbers, the next
  term has another worker.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from sidecar.pace.controller import Controller
from sidecar.run.own_worker import OwnWorker
from sidecar.shared.errors import LogTaken, OwnershipLost, TicdcDumpError

WORKER_KEPT_MAX_S = 60.0
"""After a term, without the next one: another owner may have a worker by now, and this one would only meet its fences."""

LOSSES_SHOWN, LOSSES_WITHIN_S = 2, 600.0
"""So many lost leases within this time are the machine's doing."""


class BetweenTerms:
    def __init__(self, worker: OwnWorker, now_s: Callable[[], float]) -> None:
        self._worker, self._now_s = worker, now_s
        self._left_s: float | None = None
        self._pace: Controller | None = None
        self._log = ""
        self._lost_s: deque[float] = deque()

    def begin(self, epoch: int, log_id: str, *, own_id: str) -> None:
        """A term has its log, and opens all else: a worker that is not there starts beside that. `own_id`: the log's own, as `claim_log`
        gave it."""
        if self._log not in ("", own_id):
            self._end()
            self._pace = None
        self._left_s, self._log = None, own_id
        self._worker.start(epoch, log_id)

    def enter(self, pace: Controller, epoch: int, *, full: bool) -> None:
        """The term begins to write. `full`: the log has no room, and the sinks make some first, with the worker as it is."""
        if not full:
            self._worker.serve(epoch)
        if self._pace is not None:
            pace.resume(self._pace)
        self._pace = pace

    def leave(self, error: BaseException | None) -> None:
        """A term ends."""
        passes = isinstance(error, OwnershipLost) or (isinstance(error, TicdcDumpError) and error.retryable)
        if passes and not isinstance(error, LogTaken):
            self._left_s = self._now_s()
        else:
            self._worker.end(at_once=error is not None)

    def wait(self) -> None:
        """There is no term, and no other owner is known."""
        if self._left_s is not None and self._now_s() - self._left_s > WORKER_KEPT_MAX_S:
            self._end()

    def stand_by(self) -> None:
        """Another process owns the changefeed."""
        self._end()
        self._pace = None

    def _end(self) -> None:
        self._left_s = None
        self._worker.end(at_once=True)

    def causes(self, error: TicdcDumpError) -> tuple[str, ...]:
        """What an operator should know of a term that ended with this error, and of those before it."""
        if not isinstance(error, OwnershipLost):
            return ()
        now_s = self._now_s()
        self._lost_s.append(now_s)
        while self._lost_s[0] < now_s - LOSSES_WITHIN_S:
            self._lost_s.popleft()
        times, minutes = len(self._lost_s), max(1, round((now_s - self._lost_s[0]) / 60))
        busy = f"the lease was lost {times} times in {minutes} min: this machine is too busy, or its etcd"
        return (f"{busy}: give it more CPU, or raise etcd.lease_s",) if times >= LOSSES_SHOWN else ()
