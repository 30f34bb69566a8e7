"""A console beside a fake owner, and who asks it as browsers do: over HTTP, with cookies, forms and the headers that they send."""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from functools import partial
from html import unescape
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path
from threading import Event
from types import TracebackType
from typing import Any
from urllib.parse import urlencode

from msgspec import structs

from sidecar.console.access import ConsoleAccess
from sidecar.console.listening import ConsoleServer
from sidecar.console.views import ConsoleParts, ConsoleViews
from sidecar.console.web import ConsoleWeb
from sidecar.control.asker import asker_of
from sidecar.control.served import Served
from sidecar.control.service import ControlService
from sidecar.report.chunks import DumpedChunk
from sidecar.shared.config import ChangefeedSection, Config, ConsoleSection, EtcdSection, LogSection, SourceSection
from sidecar.shared.log.certificate_parts import SampleLine
from sidecar.shared.log.storage import open_folder
from tests.support.eventually import PATIENCE_S
from tests.unit.control.serving import Owner

TOKEN = "a-token-of-sixteen-letters"
HERE = "127.0.0.1:0"
FORM_KEY = re.compile(r'name="form_key" value="([^"]+)"')

CONFIG = Config(
    changefeed=ChangefeedSection(id="cf"),
    etcd=EtcdSection(endpoints=("127.0.0.1:2379",)),
    source=SourceSection(host="db", user="root", password_file="/run/secrets/source"),
    log=LogSection(uri="s3://bucket/log"),
    sinks=("mysql://writer@db:3306/", "file:///output?format=jsonl"),
)


@dataclass(slots=True)
class Shown:
    """What the process would give the console beside the status. May be changed while it serves."""

    samples: Sequence[SampleLine] = ()
    chunks: Sequence[DumpedChunk] = ()
    owner_console: str = ""
    against_takeover: Sequence[str] = ()


class ServedConsole(AbstractContextManager["ServedConsole"]):
    """It listens as long as the context lasts. `notes`: its log lines of rejected commands; `ended`: what broke it. `serve`: again, at the
    same port, after `close`."""

    def __init__(
        self,
        served: Served,
        folder: Path,
        *,
        console: ConsoleSection | None = None,
        token: str = TOKEN,
        config: Config = CONFIG,
        shown: Shown | None = None,
    ) -> None:
        self.shown = shown or Shown()
        self.folder, self.token = folder, token
        self.config = structs.replace(config, console=console or ConsoleSection(listen=HERE))
        self.notes: list[tuple[str, Mapping[str, object]]] = []
        self.ended: list[Exception] = []
        self.views: ConsoleViews
        self.web: ConsoleWeb
        self._served = served
        self.serve()

    def serve(self) -> None:
        self._made = Event()
        self.server = ConsoleServer(self.config.console, self._app, self.ended.append)
        host, _, _ = self.config.console.listen.rpartition(":")
        self.config = structs.replace(self.config, console=structs.replace(self.config.console, listen=f"{host}:{self.server.port}"))
        with socket.create_connection(("127.0.0.1", self.server.port)):
            assert self._made.wait(PATIENCE_S)

    def _app(self) -> ConsoleWeb:
        shown = self.shown
        parts = ConsoleParts(
            service=ControlService(self._served),
            config=self.config,
            config_path=Path("/etc/ticdc-dump/sidecar.toml"),
            log=open_folder(str(self.folder)),
            product="1.2.3",
            samples=lambda: shown.samples,
            chunks=lambda: shown.chunks,
            owner_console=lambda: shown.owner_console,
            ddls=lambda: (),
            against_takeover=lambda: shown.against_takeover,
        )
        self.views = ConsoleViews(parts, ConsoleAccess(self.config.console, self.token))
        self.web = ConsoleWeb(self.views, lambda event, values: self.notes.append((event, values)))
        self._made.set()
        return self.web

    @property
    def port(self) -> int:
        return self.server.port

    @property
    def address(self) -> str:
        scheme = "https" if self.config.console.tls.cert_file else "http"
        return f"{scheme}://127.0.0.1:{self.port}"

    def close(self) -> None:
        self.server.close()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def console_of(owner: Owner, folder: Path, *, served: Mapping[str, object] | None = None, **given: Any) -> ServedConsole:
    """`served`: fields of Served that are not as Owner has them. Who asks is as in the product, by what the console has proved."""
    return ServedConsole(owner.served(**({"asker": partial(asker_of, token="")} | dict(served or {}))), folder, **given)


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def location(self) -> str:
        return self.headers["location"]

    @property
    def words(self) -> str:
        """What a person reads: without tags, one space for many."""
        return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]*>", " ", self.text)))


@dataclass(slots=True)
class Browser:
    """`headers` are sent with each request; `cookies` as answers set them. Redirects are not followed. `context`: of TLS."""

    port: int
    headers: dict[str, str] = field(default_factory=dict)
    context: ssl.SSLContext | None = None
    cookies: dict[str, str] = field(default_factory=dict)

    def connection(self) -> HTTPConnection:
        if self.context is not None:
            return HTTPSConnection("127.0.0.1", self.port, timeout=PATIENCE_S, context=self.context)
        return HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)

    def ask(self, method: str, path: str, body: bytes | Iterator[bytes] | None = None, **headers: str) -> Answer:
        """`headers` with _ for -; those that are empty are not sent."""
        connection = self.connection()
        try:
            given = {name.replace("_", "-").lower(): value for name, value in headers.items()}
            cookie = {"cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items())}
            sent = {name: value for name, value in (self.headers | cookie | given).items() if value}
            connection.request(method, path, body, sent)
            answer = connection.getresponse()
            for name, value in answer.getheaders():
                if name.lower() == "set-cookie":
                    key, _, rest = value.partition("=")
                    self.cookies[key] = rest.partition(";")[0].strip('"')
            return Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read().decode())
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Answer:
        return self.ask("GET", path, None, **headers)

    def post(self, path: str, form: Sequence[tuple[str, str]] = (), **headers: str) -> Answer:
        return self.ask("POST", path, urlencode(form).encode(), **({"content_type": "application/x-www-form-urlencoded"} | headers))

    def login(self, token: str = TOKEN) -> Answer:
        return self.post("/login", [("token", token), ("after", "/")])

    def form_key(self) -> str:
        """Of a page of this session."""
        match = FORM_KEY.search(self.get("/checks").text)
        assert match, "no form: log in first"
        return match[1]

    def command(self, path: str, *form: tuple[str, str]) -> Answer:
        return self.post(path, [("form_key", self.form_key()), *form])

    def start(self, *form: tuple[str, str]) -> str:
        """The dump's id."""
        answer = self.command("/start", *form)
        assert answer.status == 303, answer.words
        return answer.location.rpartition("=")[2]


def browser_of(console: ServedConsole, *, logged_in: bool = False) -> Browser:
    browser = Browser(console.port)
    if logged_in:
        assert browser.login().status == 303
    return browser


def raw(port: int, data: bytes = b"") -> socket.socket:
    """A connection that has sent this."""
    create_connection = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
    create_connection.sendall(data)
    return create_connection


def opened(port: int) -> None:
    """As by a browser that has gone: one that breaks meanwhile resets the connection."""
    with suppress(ConnectionError):
        raw(port).close()


def is_ended(connection: socket.socket) -> bool:
    """Reads until the other side ends it."""
    try:
        while connection.recv(1 << 16):
            pass
    except ConnectionError:
        pass
    return True
