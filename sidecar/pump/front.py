"""One port for gRPC and HTTP/1: binlogctl asks `http://<host>/…` of the very address at which TiDB and drainers speak gRPC.

A connection that begins as HTTP/2 does is gRPC: its bytes go to gRPC's server and back, over a Unix socket that only this process's
user reaches; who is slower than the other side holds it. Any other is an HTTP/1 request without a body, answered and closed. TLS ends
here, since what comes first is known behind it alone.

Who says nothing, or a byte at a time, is sent away after SILENT_MAX_S; there are some hundred connections at once, and who comes above
that is closed (shared/process/descriptors.py).
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Coroutine
from http import HTTPStatus
from typing import Any, NamedTuple

from sidecar.shared.errors import ConfigError
from sidecar.shared.process.descriptors import connections_max

PREFACE = b"PRI * HTTP/2.0\r\n"
HEAD_BYTES_MAX = 16 << 10
SILENT_MAX_S = 10.0
BACKLOG = 512
FORWARDED_BYTES = 1 << 20
"""Waiting to be written to one side before the other is held."""
PROTOCOLS = ("h2", "http/1.1")


class PumpAnswer(NamedTuple):
    status: HTTPStatus
    content_type: str
    body: bytes


Answering = Callable[[str, str], Awaitable[PumpAnswer]]
"""Of a method and a path."""


def listening(listen: str) -> socket.socket:
    """Connections wait in its queue until somebody serves them. Raises ConfigError."""
    host, _, port = listen.rpartition(":")
    try:
        family, kind, _, _, address = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        made = socket.socket(family, kind)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
        made.listen(BACKLOG)
    except OSError as error:
        raise ConfigError(
            f"pump.listen {listen} cannot be listened on: {error.strerror}",
            hint="see whether another process has the port, and whether the address is this machine's",
        ) from error
    return made


class Front:
    """In one event loop. `grpc_path`: gRPC's Unix socket."""

    def __init__(self, place: socket.socket, context: ssl.SSLContext | None, grpc_path: str, answering: Answering) -> None:
        self._place, self._context = place, context
        self.grpc_path, self.answering = grpc_path, answering
        self.connections: set[_Client] = set()
        self.tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def serve(self) -> None:
        """From now on."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Client(self), sock=self._place, ssl=self._context, backlog=BACKLOG)

    async def close(self) -> None:
        """Nobody new is let in; who is here is sent away."""
        if self._server is not None:
            self._server.close()
        else:
            self._place.close()
        for one in tuple(self.connections):
            one.close()
        for task in tuple(self.tasks):
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


class _End(asyncio.Protocol):
    """One side of a connection that is passed on. `other`: where its bytes go."""

    transport: asyncio.Transport
    other: _End | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.set_write_buffer_limits(FORWARDED_BYTES)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        if self.other is not None:
            self.other.transport.write(data)

    def pause_writing(self) -> None:
        if self.other is not None:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None:
            self.other.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  # a protocol's shape
        if self.other is not None:
            self.other.transport.close()


class _Client(_End):
    def __init__(self, front: Front) -> None:
        self._front = front
        self._head = b""
        self._is_begun = False
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if len(self._front.connections) >= connections_max():
            transport.abort()  # type: ignore[attr-defined]  # of a Transport
            return
        self._front.connections.add(self)
        self._timer = asyncio.get_running_loop().call_later(SILENT_MAX_S, self.close)

    def data_received(self, data: bytes) -> None:
        if self.other is not None:
            self.other.transport.write(data)
            return
        self._head += data
        if self._is_begun:
            return
        if PREFACE.startswith(self._head[: len(PREFACE)]):
            if len(self._head) >= len(PREFACE):
                self._begin(self._pass_on())
        elif b"\r\n\r\n" in self._head:
            self._begin(self._answer())
        elif len(self._head) > HEAD_BYTES_MAX:
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._front.connections.discard(self)
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def close(self) -> None:
        self.transport.abort()

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        assert self._timer is not None
        self._timer.cancel()
        self._is_begun = True
        self.transport.pause_reading()
        task = asyncio.get_running_loop().create_task(work)
        self._front.tasks.add(task)
        task.add_done_callback(self._front.tasks.discard)

    async def _pass_on(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            _, other = await loop.create_unix_connection(_End, self._front.grpc_path)
        except OSError:  # gRPC's server is ending
            self.close()
            return
        other.other, self.other = self, other
        other.transport.write(self._head)
        self._head = b""
        if self.transport.is_closing():
            other.transport.close()
        else:
            self.transport.resume_reading()

    async def _answer(self) -> None:
        method, _, rest = self._head.partition(b"\r\n")[0].decode("latin-1").partition(" ")
        path = rest.partition(" ")[0]
        status, content_type, body = await self._front.answering(method, path)
        head = f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
        self.transport.write(f"{head}Connection: close\r\n\r\n".encode() + body)
        self.transport.close()
