"""HTTP/1.1 as uvicorn has it, with the bounds that it lacks, and with the name in the client's certificate.

A connection is ended whose request takes longer than REQUEST_S from its first byte to its last, or that does not read for UNREAD_S what
it was sent: else a few that send or read slowly would take all of them.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import h11
from uvicorn import Config, Server
from uvicorn.protocols.http.h11_impl import H11Protocol

REQUEST_S = 10.0
UNREAD_S = 20.0
HEAD_BYTES_MAX = 64 << 10
KEEP_ALIVE_S = 15
TICK_S = 1.0
"""How often an answer's Date is renewed."""
CERTIFICATE = "ticdc_dump.certificate"
"""Of a request's scope: the name in the client's certificate, empty for none."""


class PatientServer(Server):
    """A server of uvicorn that ends on an event. uvicorn's own checks for its end ten times a second."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended = asyncio.Event()

    async def main_loop(self) -> None:
        self._loop = asyncio.get_running_loop()
        while not await self.on_tick(0):
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), TICK_S)

    def end(self) -> None:
        """From any thread."""
        self.should_exit = True
        if self._loop is not None:
            with suppress(RuntimeError):  # it has ended
                self._loop.call_soon_threadsafe(self._ended.set)


class BoundedHttp(H11Protocol):
    _slow: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=1, low=0)  # so that writing is paused while anything is not read
        extra_info = transport.get_extra_info("peercert")
        name, app = certificate_name(extra_info) if extra_info else "", self.app

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

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread = self.loop.call_later(UNREAD_S, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()

    def send_400_response(self, msg: str) -> None:
        """Of a request whose answer has begun before its end was read, the connection is ended instead."""
        if self.conn.our_state is h11.IDLE or self.conn.our_state is h11.SEND_RESPONSE:
            super().send_400_response(msg)
        else:
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in filter(None, (self._slow, self._unread)):
            timer.cancel()
        super().connection_lost(exc)

    def _bound(self) -> None:
        """A timer runs while a request is not whole, from its first byte or the connection's beginning."""
        has_begun = self.cycle is None or bool(self.conn.trailing_data[0])
        is_waited_for = self.conn.their_state is h11.SEND_BODY or (self.conn.their_state is h11.IDLE and has_begun)
        if not is_waited_for and self._slow is not None:
            self._slow.cancel()
            self._slow = None
        elif is_waited_for and self._slow is None:
            self._slow = self.loop.call_later(REQUEST_S, self.transport.abort)


def certificate_name(certificate: dict[str, Any]) -> str:
    """The common name, else the first alternative name."""
    names = [value for part in certificate.get("subject", ()) for kind, value in part if kind == "commonName"]
    names += [value for _, value in certificate.get("subjectAltName", ())]
    return next(filter(None, names), "")
