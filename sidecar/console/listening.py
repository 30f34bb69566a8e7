"""The console's address, and the thread that serves it for as long as the process lives.

An unsafe address is an error at the start. A port that is taken is a warning, and so is a defect of the console: the stream continues
without pages.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from contextlib import suppress
from select import POLLIN, poll
from ssl import SSLContext
from typing import Any

from sidecar.shared.config import ConsoleSection
from sidecar.shared.process.background import Background
from sidecar.shared.process.listening import check_listening, read_token
from sidecar.shared.process.tls import server_context

BACKLOG = 32
FIRST_LOOK_S = 0.25
"""How often a console that nobody has opened checks whether it must end."""
CONNECTIONS_MAX = 64
CLOSING_MAX_S = 3.0


def check_console(console: ConsoleSection) -> str:
    """The token, empty for none. Raises ConfigError for an address that needs more protection than it has, and for certificates
    that cannot be used."""
    token = read_token("console", console)
    if console.listen:
        check_listening("console", console.listen, console.tls, has_token=bool(token))
        _tls_context(console)
    return token


def _tls_context(console: ConsoleSection) -> SSLContext | None:
    return server_context(console.tls, protocols=["http/1.1"]) if console.tls.cert_file else None


def console_address(console: ConsoleSection, port: int = 0) -> str:
    """As a browser takes it; empty without a console. `port`: the one that it got, where the setting's is 0."""
    if not console.listen:
        return ""
    scheme = "https" if console.tls.cert_file else "http"
    listen = console.listen if not port else f"{console.listen.rpartition(':')[0]}:{port}"
    return f"{scheme}://{console.advertise or listen}"


class ListeningSocket(socket.socket):
    """Has CONNECTIONS_MAX connections: one more is closed at once, before a handshake of TLS."""

    _accepted: tuple[socket.socket, ...] = ()

    def accept(self) -> tuple[socket.socket, Any]:
        connection, address = super().accept()
        self._accepted = tuple(one for one in self._accepted if one.fileno() >= 0)
        if len(self._accepted) >= CONNECTIONS_MAX:
            connection.close()
            raise ConnectionAbortedError(f"there are {CONNECTIONS_MAX} connections")  # asyncio tries again when the next one comes
        self._accepted += (connection,)
        return connection, address


def bound(listen: str) -> ListeningSocket:
    """Raises OSError."""
    host, _, port = listen.rpartition(":")
    family, kind, proto, _, address = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    listening_socket = ListeningSocket(family, kind, proto)
    try:
        listening_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening_socket.bind(address)
        listening_socket.listen(BACKLOG)
    except OSError:
        listening_socket.close()
        raise
    return listening_socket


class ConsoleServer:
    """Serves from the first connection on: the web libraries are loaded then, and never in a process whose pages nobody opens.

    `web` makes the pages, in the thread that serves. `ended` receives what broke it. `port`: the one that was assigned. Raises OSError
    for an address that is taken, ConfigError for certificates that cannot be used."""

    def __init__(self, console: ConsoleSection, web: Callable[[], Any], ended: Callable[[Exception], object]) -> None:
        self._make_web, self._ended = web, ended
        self._tls = _tls_context(console)
        self._socket = bound(console.listen)
        self.port: int = self._socket.getsockname()[1]
        self._server: Any = None
        self._web: Any = None
        self._closing = False
        self._serving = Background(lambda _: self._serve(), name="console")

    def close(self) -> None:
        self._closing = True
        if self._server is not None:
            self._web.streams.ending = True
            self._server.end()
        self._serving.close(CLOSING_MAX_S)
        self._socket.close()

    def _serve(self) -> None:
        try:
            first = poll()
            first.register(self._socket, POLLIN)
            while not first.poll(1000 * FIRST_LOOK_S):
                if self._closing:
                    return
            self._server = self._made()
            if not self._closing:
                asyncio.run(self._server.serve(sockets=[self._socket]))
        except Exception as error:  # noqa: BLE001  # pages are no reason to end a stream
            with suppress(OSError):
                self._socket.close()
            self._ended(error)

    def _made(self) -> Any:
        import uvicorn

        from sidecar.console.connections import HEAD_BYTES_MAX, KEEP_ALIVE_S, BoundedHttp, PatientServer

        logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # a request that is no HTTP needs no line
        self._web, tls = self._make_web(), self._tls
        return PatientServer(
            uvicorn.Config(
                self._web.app(),
                http=BoundedHttp,
                ws="none",
                loop="asyncio",
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                backlog=BACKLOG,
                timeout_keep_alive=KEEP_ALIVE_S,
                timeout_graceful_shutdown=1,
                h11_max_incomplete_event_size=HEAD_BYTES_MAX,
                ssl_context_factory=None if tls is None else lambda *_: tls,
            )
        )
