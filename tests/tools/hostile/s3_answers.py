"""What an S3 may answer, of area 4: a server on loopback that says the same to every request, and s3fs with its own tries before it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import TracebackType
from typing import Self

from sidecar.shared.log import storage
from sidecar.shared.log.segment_log import FolderLog
from sidecar.shared.log.storage import Folder, open_folder
from spark_merge.log.read import new_manifests
from tests.tools.hostile.attempts import Attempt, Outcome, outcome_of

SECRET = "hush-of-the-hostile-lake"
WITHIN_S = 120.0
"""botocore and s3fs try again for as long as that, one after another."""


@dataclass(frozen=True, slots=True)
class Answer:
    """`closes`: the connection, before anything is said. `slow`: the client tries again, for many seconds."""

    status: int = 200
    body: bytes = b""
    closes: bool = False
    slow: bool = False


def _error(status: int, code: str, *, slow: bool = False) -> Answer:
    return Answer(status, f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{code}</Message></Error>".encode(), slow=slow)


ANSWERS: dict[str, Answer] = {
    "403 AccessDenied": _error(403, "AccessDenied"),
    "403 InvalidAccessKeyId": _error(403, "InvalidAccessKeyId"),
    "403 SignatureDoesNotMatch": _error(403, "SignatureDoesNotMatch"),
    "403 RequestTimeTooSkewed": _error(403, "RequestTimeTooSkewed"),
    "400 ExpiredToken": _error(400, "ExpiredToken"),
    "400 of a code that nobody knows": _error(400, "Nonsense"),
    "404 NoSuchBucket": _error(404, "NoSuchBucket"),
    "405": _error(405, "MethodNotAllowed"),
    "501 NotImplemented": _error(501, "NotImplemented"),
    "418 without a body": Answer(418),
    "200 of no XML": Answer(200, b"hello", slow=True),
    "200 of half an XML": Answer(200, b"<?xml version='1.0'?><ListBucketResult><Contents><Key>a", slow=True),
    "200 of an entity bomb": Answer(200, b"<!DOCTYPE x [<!ENTITY a 'aaaa'><!ENTITY b '&a;&a;'>]><x>&b;</x>"),
    "200 of a web page": Answer(200, b"<html><body>Log in to the hotel's network</body></html>"),
    "507": _error(507, "XMinioStorageFull", slow=True),
    "500": _error(500, "InternalError", slow=True),
    "503 SlowDown": _error(503, "SlowDown", slow=True),
    "a closed connection": Answer(closes=True, slow=True),
}


class Answering:
    """`with Answering() as s3: s3.answer = …`."""

    def __init__(self) -> None:
        self.answer = Answer()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"  # which answers a client that asks whether to send its body

            def handle_one_request(self) -> None:
                if outer.answer.closes:
                    self.close_connection = True
                    return
                super().handle_one_request()

            def say(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                self.send_response(outer.answer.status)
                self.send_header("Content-Length", str(len(outer.answer.body)))
                self.send_header("Connection", "close")
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(outer.answer.body)

            do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = say  # noqa: N815  # the server's names

            def log_message(self, format: str, *args: object) -> None:
                """Requests are of no interest."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()

    def folder(self, name: str) -> Folder:
        place = f"endpoint=http://127.0.0.1:{self._server.server_port}&region=us-east-1"
        return open_folder(f"s3://lake/{name}?{place}&access-key=AKIA-hostile&secret-access-key={SECRET}")


def attempts(s3: Answering) -> Iterator[Attempt]:
    requested: dict[str, Callable[[Folder], object]] = {
        "a new owner": lambda folder: FolderLog(folder).recover(epoch=1),
        "a worker": _read,
        "who lists a folder": _listed,
    }
    for name, answer in ANSWERS.items():
        for who, ask in requested.items():
            if answer.status == 200 and ask is _listed:
                continue  # to botocore any XML is a listing, and one of no names is an empty folder
            tried = partial(_requested, s3, answer, ask, f"{name}-{who}".replace(" ", "-"))
            yield Attempt(f"S3: {name} to {who}", tried, within_s=WITHIN_S, whole=answer.slow)


def _read(folder: Folder) -> object:
    return new_manifests(folder, after=None, limit=10)


def _listed(folder: Folder) -> object:
    return storage.list_names(folder, deep=False)


def _requested(s3: Answering, answer: Answer, ask: Callable[[Folder], object], name: str) -> Outcome:
    """An error of ours, without the secret."""
    s3.answer = answer
    try:
        ask(s3.folder(name))
    except Exception as error:
        if outcome_of(error, secrets=[SECRET]) is not Outcome.REFUSED:
            raise
        return Outcome.REFUSED
    return Outcome.ACCEPTED
