"""HTTP/1.1 as uvicorn has it, with bounds that it has not: connections, the time for a request's head, and the client's certificate.

A connection costs little before it has asked something, and it is ended where its head takes longer than HEAD_S, or where there are
CONNECTIONS_MAX already.
"""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

CONNECTIONS_MAX = 64
HEAD_S = 10.0
HEAD_BYTES_MAX = 64 << 10
KEEP_ALIVE_S = 15
CERTIFICATE = "ticdc_dump.certificate"
"""Of a request's scope: the name in the client's certificate, empty for none."""


class BoundedHttp(H11Protocol):
    _slow: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        if len(self.connections) > CONNECTIONS_MAX:
            transport.abort()
            return
        found = transport.get_extra_info("peercert")
        name, app = certificate_name(found) if found else "", self.app

        async def named(scope: Any, receive: Any, send: Any) -> None:
            await app(scope | {CERTIFICATE: name}, receive, send)

        self.app = named
        self._bound()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._bound()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._bound()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._slow is not None:
            self._slow.cancel()
        super().connection_lost(exc)

    def _bound(self) -> None:
        """A timer runs while a head is not whole, from its first byte or the connection's beginning."""
        is_waited_for = self.conn.their_state is h11.IDLE and (self.cycle is None or bool(self.conn.trailing_data[0]))
        if not is_waited_for and self._slow is not None:
            self._slow.cancel()
            self._slow = None
        elif is_waited_for and self._slow is None:
            self._slow = self.loop.call_later(HEAD_S, self.transport.abort)


def certificate_name(found: dict[str, Any]) -> str:
    """The common name, else the first alternative name."""
    names = [value for part in found.get("subject", ()) for kind, value in part if kind == "commonName"]
    names += [value for _, value in found.get("subjectAltName", ())]
    return next(filter(None, names), "")
