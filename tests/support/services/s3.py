"""A real S3 server on loopback (moto), in this process. It can let writers wait: so a test is in the middle of a write for as long as it
likes, whatever the machine's speed. It can answer with an error of the test's choice."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from itertools import chain, repeat
from threading import Condition, Event, Thread
from types import TracebackType
from typing import Any, Self

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import BaseWSGIServer, make_server

from sidecar.shared.log.storage import open_folder, s3
from tests.support.services.ports import free_port

BUCKET = "lake"
KEYS = {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "hush-of-the-lake"}
"""The environment of a process that may read and write it."""
HELD_S_MAX = 300.0
"""A write that is let wait for longer than this continues: no server outlives its test for want of a release."""


class Held:
    """Writes of names that match `pattern` wait until `release`: before they are carried out, or `after` that, before their answer.
    `one`: only those of the first such name. `content`: what their bytes match."""

    def __init__(self, pattern: str, *, after: bool = False, one: bool = False, content: bytes = b"") -> None:
        self.pattern = re.compile(pattern)
        self.after = after
        self.name = ""
        """Of the first that waits."""
        self._one, self._content = one, re.compile(content)
        self.writers: list[int] = []
        """The ports, on this machine, of those who wait."""
        self._waiting = Condition()
        self._released = False

    def writer(self, *, while_true: Callable[[], bool], timeout_s: float) -> int:
        """The port of the first that waits. Raises AssertionError when none comes in time, or `while_true` is not any more."""
        deadline = time.monotonic() + timeout_s
        with self._waiting:
            while not self.writers:
                assert while_true(), "the writer has ended"
                assert time.monotonic() < deadline, f"nobody writes {self.pattern.pattern} within {timeout_s:.0f} s"
                self._waiting.wait(0.2)
            return self.writers[0]

    def release(self) -> None:
        with self._waiting:
            self._released = True
            self._waiting.notify_all()

    def pass_by(self, name: str, port: int, data: bytes) -> None:
        """Called by the server for each write."""
        with self._waiting:
            if self.pattern.search(name) and self._content.search(data) and not (self._one and self.name not in ("", name)):
                self.name = self.name or name
                self.writers.append(port)
                self._waiting.notify_all()
                self._waiting.wait_for(lambda: self._released, HELD_S_MAX)


@dataclass(frozen=True, slots=True)
class ErrorAnswer:
    """`done`: the server carries the request out before it answers so. `cut`: the body ends too early. `signed_by`: an access key; other
    requests are carried out."""

    status: int = 200
    code: str = ""
    done: bool = False
    cut: bool = False
    signed_by: str = ""
    methods: frozenset[str] = frozenset({"GET", "HEAD", "PUT", "POST", "DELETE"})

    def is_for(self, environ: dict[str, Any]) -> bool:
        return environ["REQUEST_METHOD"] in self.methods and f"Credential={self.signed_by}" in environ.get("HTTP_AUTHORIZATION", "")

    def say(self, method: str, start_response: Any) -> list[bytes]:
        body = b"<?xml version='1.0'?><Error><Code>%s</Code><Message>no text</Message></Error>" % self.code.encode()
        start_response(f"{self.status} {self.code}", [("Content-Type", "application/xml"), ("Content-Length", str(len(body) + self.cut))])
        return [] if method == "HEAD" else [body]


class S3:
    """`with S3() as storage`: the bucket BUCKET, empty (moto's buckets are the process's: use a prefix of your own)."""

    def __init__(self) -> None:
        self._application = DomainDispatcherApplication(create_backend_app)
        self.port = free_port()
        self._server: BaseWSGIServer | None = None
        self._thread: Thread | None = None
        self._held: list[Held] = []
        self._errors: Iterator[ErrorAnswer] = iter(())
        self._goes = Event()
        self._goes.set()

    def __enter__(self) -> Self:
        self.start()
        folder = open_folder(self.uri("", keys=True))
        if not s3.fs(folder).exists(BUCKET):
            s3.fs(folder).call_s3("create_bucket", Bucket=BUCKET)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for held in self._held:
            held.release()
        self.thaw()
        self.kill()

    def start(self) -> None:
        self._server = make_server("127.0.0.1", self.port, self._answer, threaded=True, request_handler=MotoRequestHandler)
        self._thread = Thread(target=self._server.serve_forever, daemon=True)  # a test's server may not keep its process
        self._thread.start()

    def kill(self) -> None:
        """What it has stays, and a request that is being answered is."""
        server, self._server = self._server, None
        if server is not None and self._thread is not None:
            server.shutdown()
            server.server_close()
            self._thread.join()

    def freeze(self) -> None:
        """Requests wait, of those who are connected too."""
        self._goes.clear()

    def thaw(self) -> None:
        self._goes.set()

    def uri(self, path: str, *, keys: bool = False) -> str:
        """Of a folder in the bucket. `keys`: with KEYS in it; else the reader needs them in its environment."""
        text = f"s3://{BUCKET}/{path}?endpoint=http://127.0.0.1:{self.port}&region=us-east-1"
        return f"{text}&access-key={KEYS['AWS_ACCESS_KEY_ID']}&secret-access-key={KEYS['AWS_SECRET_ACCESS_KEY']}" if keys else text

    @contextmanager
    def held(self, pattern: str, *, after: bool = False, one: bool = False, content: bytes = b"") -> Iterator[Held]:
        """While the body runs, or until `Held.release`. The options are Held's."""
        held = Held(pattern, after=after, one=one, content=content)
        self._held.append(held)
        try:
            yield held
        finally:
            held.release()
            self._held.remove(held)

    @contextmanager
    def answering(self, *errors: ErrorAnswer, for_ever: bool = False) -> Iterator[None]:
        """While the body runs: the first requests get `errors`, one each, or all requests the last one `for_ever`."""
        self._errors = chain(errors, repeat(errors[-1])) if for_ever else iter(errors)
        try:
            yield
        finally:
            self._errors = iter(())

    def _answer(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        self._goes.wait(HELD_S_MAX)
        if self._server is None:
            environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
            raise ConnectionResetError("killed")
        held = list(self._held) if environ["REQUEST_METHOD"] == "PUT" else []
        write = environ["PATH_INFO"], int(environ["REMOTE_PORT"]), _body(environ) if held else b""
        for one in held:
            if not one.after:
                one.pass_by(*write)
        error = next(self._errors, None)
        if error is not None and error.is_for(environ):
            if error.done:
                b"".join(self._application(environ, lambda *_: None))
            else:
                environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            return error.say(environ["REQUEST_METHOD"], start_response)
        answer: Iterable[bytes] = self._application(environ, start_response)
        for one in held:
            if one.after:
                one.pass_by(*write)
        return answer


def _body(environ: dict[str, Any]) -> bytes:
    """All of it, whatever becomes of the writer; it can be read again."""
    data: bytes = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    environ["wsgi.input"] = BytesIO(data)
    return data
