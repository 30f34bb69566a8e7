"""The console's address, and the thread that serves it for as long as the process lives.

What is unsafe is an error when the process begins. A port that is taken is a warning: the stream goes on without pages, as it does where
the console itself breaks.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from sidecar.config import ConsoleSection
from sidecar.process.background import Background
from sidecar.process.listening import check_listening, read_token

BACKLOG = 32
CONNECTIONS_MAX = 64
CLOSING_MAX_S = 3.0


def check_console(console: ConsoleSection) -> str:
    """The token, empty for none. Raises ConfigError for an address that needs more protection than it has."""
    token = read_token("console", console)
    if console.listen:
        check_listening("console", console.listen, console.tls, has_token=bool(token))
    return token


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
    found = ListeningSocket(family, kind, proto)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
        found.listen(BACKLOG)
    except OSError:
        found.close()
        raise
    return found


class ConsoleServer:
    """Serves from now on. `app`: makes the pages (ConsoleWeb), in the thread that serves. `ended`: told what it broke of. `port`: the one
    it got. Raises OSError for an address that is taken."""

    def __init__(self, console: ConsoleSection, app: Callable[[], Any], ended: Callable[[Exception], object]) -> None:
        self._console, self._app, self._ended = console, app, ended
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
            self._server = self._made()
            if not self._closing:
                asyncio.run(self._server.serve(sockets=[self._socket]))
        except Exception as error:  # noqa: BLE001  # pages are no reason to end a stream
            with suppress(OSError):
                self._socket.close()
            self._ended(error)

    def _made(self) -> Any:
        """Imported here: what serves pages takes a while to load, and the stream does not wait for it."""
        import uvicorn

        from sidecar.console.connections import HEAD_BYTES_MAX, KEEP_ALIVE_S, BoundedHttp, PatientServer
        from sidecar.process.tls import server_context

        logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # a request that is no HTTP is no news
        self._web, tls = self._app(), self._console.tls
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
                ssl_context_factory=(lambda *_: server_context(tls, protocols=["http/1.1"])) if tls.cert_file else None,
            )
        )
