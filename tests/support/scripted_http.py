"""An HTTP server in this process that answers as a test sets it, for what a client makes of answers. Else it takes all, as receivers do."""

from __future__ import annotations

import gzip
import ssl
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from sidecar.shared.process.background import Background


@dataclass(frozen=True)
class Answer:
    """`status` 0: the connection is closed without one. `taken`: what was sent has taken effect all the same."""

    status: int
    text: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    taken: bool = False


@dataclass
class Scripted:
    """`answers` to the next requests, in turn. `seen`: method, headers and unpacked body of each request."""

    port: int
    answers: deque[Answer] = field(default_factory=deque)
    seen: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    state: str = ""
    bodies: list[bytes] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/orders"

    def asked(self, method: str, headers: dict[str, str], body: bytes) -> Answer:
        self.seen.append((method, headers, body))
        answer = self.answers.popleft() if self.answers else None
        if answer is not None and not answer.taken:
            return answer
        done = self._done(method, headers, body)
        return answer or done

    def _done(self, method: str, headers: dict[str, str], body: bytes) -> Answer:
        if method == "GET":
            return Answer(200, self.state)
        if self.state == headers.get("ticdc-dump-after", ""):
            self.state = headers["ticdc-dump-state"]
            self.bodies.append(body)
        return Answer(204) if self.state == headers["ticdc-dump-state"] else Answer(409, '{"reason": "it is elsewhere"}')


@contextmanager
def scripted(tls: ssl.SSLContext | None = None) -> Iterator[Scripted]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            self._answer("GET")

        def do_POST(self) -> None:
            self._answer("POST")

        def _answer(self, method: str) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            body = gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body
            answer = result.asked(method, {name.lower(): value for name, value in self.headers.items()}, body)
            if not answer.status:
                self.close_connection = True
                return
            data = answer.text.encode()
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            if answer.status != 204:
                self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    server.handle_error = lambda *_: None  # type: ignore[method-assign]  # a client that went away
    result = Scripted(server.server_address[1])
    running = Background(lambda _: server.serve_forever(poll_interval=0.01), name="scripted")
    try:
        yield result
    finally:
        server.shutdown()
        server.server_close()
        running.close(60)
        running.check()
