"""Operators' requests on their way to the one thread that may carry them out: the `Requests` port, with callers who wait.

    gRPC thread   submit(request) ── waits ──────────────────────────► returns, or raises why not
    pipeline      take() ─► carry out, make durable ─► answer(refused | None)

- One request is out at a time, oldest first; `take` gives the same one again until it is answered.
- A request equal to the newest one that waits joins it: a caller who asks again after a lost answer. It does not join an
  older one, for what came in between would be overtaken (pause, resume, pause). Who asks is not compared: the first counts.
- A caller who gives up takes a request back that was not taken yet; one that was taken may still be carried out, which is
  why every request is idempotent and the answer says to call again.
- `abandon` sends all who wait away to ask again, for the process is no longer the owner; `close` does so for good.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from threading import Condition
from time import monotonic

from sidecar.shared.errors import CoordinationLost, RefusedRequest
from sidecar.shared.model.messages import Request

WAITING_MAX = 64
"""Requests that wait for the pipeline. Operators make a few; more is a program gone wild."""


@dataclass(eq=False, slots=True)
class _Ticket:
    request: Request
    callers: int = 0
    taken: bool = False
    answered: bool = False
    refused: RefusedRequest | None = None
    abandoned: str | None = None


@dataclass(eq=False, slots=True)
class QueuedRequests:
    """`ports.Requests` for the pipeline's thread; `submit` and `close` for all others."""

    _changed: Condition = field(default_factory=Condition)
    _waiting: deque[_Ticket] = field(default_factory=deque)
    _closed: str | None = None

    def submit(self, request: Request, *, timeout_s: float) -> None:
        """Return when the request is carried out and durable.

        Raises RefusedRequest as the pipeline refused it, and CoordinationLost (ask again) after the timeout, after `abandon`
        or `close`, and when too many wait.
        """
        until_s = monotonic() + timeout_s
        with self._changed:
            ticket = self._join(request)
            try:
                while not ticket.answered and ticket.abandoned is None:
                    left_s = until_s - monotonic()
                    if left_s <= 0 or not self._changed.wait(left_s):
                        break
            finally:
                ticket.callers -= 1
                self._withdraw(ticket)
            if not ticket.answered:
                raise _not_answered(ticket.abandoned or f"it has not been carried out within {timeout_s:g} s")
            if ticket.refused is not None:
                raise ticket.refused

    def _join(self, request: Request) -> _Ticket:
        if self._closed is not None:
            raise _not_answered(self._closed)
        ticket = self._waiting[-1] if self._waiting else None
        if ticket is None or ticket.request != request:
            if len(self._waiting) >= WAITING_MAX:
                raise _not_answered(f"{WAITING_MAX} requests are waiting already")
            ticket = _Ticket(request)
            self._waiting.append(ticket)
        ticket.callers += 1
        return ticket

    def _withdraw(self, ticket: _Ticket) -> None:
        if not ticket.callers and not ticket.taken and ticket in self._waiting:
            self._waiting.remove(ticket)

    def take(self) -> Request | None:
        """The oldest request not yet answered, or None. Never waits."""
        with self._changed:
            if not self._waiting:
                return None
            self._waiting[0].taken = True
            return self._waiting[0].request

    def answer(self, refused: RefusedRequest | None) -> None:
        """What became of the request taken last."""
        with self._changed:
            ticket = self._waiting.popleft()
            ticket.answered, ticket.refused = True, refused
            self._changed.notify_all()

    def abandon(self, reason: str) -> None:
        """Answer all who wait with `reason`, and forget their requests. A later request waits for the next owner's `take`."""
        with self._changed:
            for ticket in self._waiting:
                ticket.abandoned = reason
            self._waiting.clear()
            self._changed.notify_all()

    def close(self, reason: str) -> None:
        """As `abandon`, for those who come later too. May be called again; the first reason stays."""
        with self._changed:
            self._closed = self._closed or reason
            self.abandon(self._closed)


def _not_answered(reason: str) -> CoordinationLost:
    return CoordinationLost(f"the request was not answered: {reason}", hint="ask again: asking twice does what asking once does")
