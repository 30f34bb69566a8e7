"""A proxy before an HTTP server, on loopback, that loses answers: the server has done the request, and the client gets no answer."""

from __future__ import annotations

import http.client
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import TracebackType
from typing import Self

ANSWER_S_MAX = 300.0
_OF_THE_HOP = ("transfer-encoding", "connection", "content-length")


class LossyHttp:
    """`with LossyHttp(port, loses) as proxy`. `loses`: of a method and path, whether this answer is lost."""

    def __init__(self, port: int, loses: Callable[[str, str], bool]) -> None:
        self.lost: list[str] = []

        class Forwarding(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def forward(handler) -> None:  # noqa: N805 - of the server; `self` is the proxy
                body = handler.rfile.read(int(handler.headers.get("content-length", 0)))
                to = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_S_MAX)
                to.request(handler.command, handler.path, body, dict(handler.headers.items()))
                answer = to.getresponse()
                data = answer.read()
                to.close()
                if loses(handler.command, handler.path):
                    self.lost.append(f"{handler.command} {handler.path}")
                    handler.close_connection = True
                    return
                handler.send_response(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() not in _OF_THE_HOP:
                        handler.send_header(name, value)
                handler.send_header("content-length", str(len(data)))
                handler.end_headers()
                if handler.command != "HEAD":
                    handler.wfile.write(data)

            do_GET = do_POST = do_DELETE = do_HEAD = forward  # noqa: N815 - its base's names

            def log_message(self, *_: object) -> None:
                """Nothing to nobody."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Forwarding)
        self._server.daemon_threads = True
        self._thread = Thread(target=self._server.serve_forever, daemon=True)

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
