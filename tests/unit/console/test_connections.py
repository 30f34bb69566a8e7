"""What a client can hold, and for how long; and the name in its certificate."""

from __future__ import annotations

import socket
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import TypeVar

import h11
import pytest

from sidecar.console import connections, live
from sidecar.console.access import Visitor
from sidecar.console.connections import HEAD_BYTES_MAX, BoundedHttp, certificate_name
from sidecar.console.listening import CONNECTIONS_MAX
from sidecar.shared.config import ConsoleSection, Tls
from tests.support.console import HERE, Browser, ServedConsole, console_of, is_ended, raw
from tests.support.eventually import PATIENCE_S, eventually
from tests.support.services.tls import Authority
from tests.unit.control.serving import Owner

NOBODY = Visitor("", "")
HEAD = b"GET /settings HTTP/1.1\r\nHost: localhost\r\n"


STRANGE = [
    HEAD,
    b"\r\n",
    b"POST /login HTTP/1.1\r\nHost: localhost\r\n",
    b"Transfer-Encoding: chunked\r\n\r\n",
    b"zz\r\n",
    b"\0\xff",
    b"5\r\nabc",
    b"GET /nothing HTTP/1.0\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"Content-Length: -1\r\n\r\n",
    b"Upgrade: websocket\r\nConnection: upgrade\r\n",
]


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "REQUEST_S", 0.05)
    monkeypatch.setattr(connections, "UNREAD_S", 0.05)


def all_data(connection: socket.socket) -> bytes:
    """What is answered first; empty where the connection is ended instead."""
    try:
        return connection.recv(1 << 16)
    except ConnectionError:
        return b""


def works(console: ServedConsole) -> bool:
    return Browser(console.port).get("/settings").status == 200


T = TypeVar("T")


def look(console: ServedConsole, at: Callable[[BoundedHttp], T]) -> list[T]:
    """Of each connection, between two steps of the server."""
    loop, result = eventually(lambda: console.server._server and console.server._server._loop), Future[list[T]]()
    server = console.server._server
    loop.call_soon_threadsafe(lambda: result.set_result([at(one) for one in server.server_state.connections]))
    return result.result(PATIENCE_S)


@pytest.mark.parametrize(
    ("data", "runs"),
    [
        pytest.param(HEAD, True, id="a head"),
        pytest.param(b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\ntok", True, id="a form"),
        pytest.param(HEAD + b"\r\n" + HEAD, True, id="a second one"),
        pytest.param(HEAD + b"\r\n", False, id="a whole one"),
    ],
)
def test_a_timer_runs_while_a_request_is_not_whole(console: ServedConsole, data: bytes, runs: bool) -> None:
    with raw(console.port, data) as connection:
        if data.startswith(HEAD + b"\r\n"):
            connection.recv(1 << 16)  # it is answered
        eventually(lambda: look(console, lambda one: one.conn.their_state is h11.SEND_BODY or bool(one.conn.trailing_data[0])) == [runs])
        assert look(console, lambda one: one._slow is not None) == [runs]


def test_a_timer_runs_while_an_answer_is_not_read(console: ServedConsole, monkeypatch: pytest.MonkeyPatch) -> None:
    page = console.views.page("settings", [], NOBODY)
    monkeypatch.setattr(console.views, "page", lambda *_: replace(page, sections={"a": "x" * (64 << 20)}))
    with raw(console.port, HEAD + b"\r\n") as connection:
        eventually(lambda: look(console, lambda one: one.flow.write_paused) == [True])
        assert look(console, lambda one: one._unread is not None and not one._unread.cancelled()) == [True]
        while len(connection.recv(1 << 20)) and look(console, lambda one: one.flow.write_paused) == [True]:
            pass
        assert look(console, lambda one: one._unread is None or one._unread.cancelled()) == [True]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"G",
        HEAD,
        HEAD + b"X: " + b"y" * 1000,
        b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\ntoken=",
        b"POST /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\nx",
        HEAD + b"Content-Length: 1000\r\n\r\n",
        b"POST /login HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\ntok",
        HEAD + b"\r\n" + HEAD,  # a second one that is not whole
    ],
)
def test_a_request_that_is_not_whole_ends_its_connection(console: ServedConsole, short: None, data: bytes) -> None:
    with raw(console.port, data) as slow:
        assert is_ended(slow)
    assert works(console)


def test_what_trickles_is_as_slow(console: ServedConsole, short: None) -> None:
    with raw(console.port, HEAD + b"Content-Length: 1000000\r\n\r\n") as slow:

        def refused() -> bool:
            try:
                slow.sendall(b"x")
            except OSError:
                return True
            return False

        eventually(refused, "it was still read")


def test_a_connection_that_has_sent_a_request_may_send_another(console: ServedConsole) -> None:
    with raw(console.port, HEAD + b"\r\n") as kept:
        first = kept.recv(1 << 16)
        assert first.startswith(b"HTTP/1.1 200 OK")
        kept.sendall(HEAD + b"Connection: close\r\n\r\n")
        assert is_ended(kept)


def test_a_page_that_nobody_reads_ends_its_connection(console: ServedConsole, short: None, monkeypatch: pytest.MonkeyPatch) -> None:
    page = console.views.page
    console.views.page = lambda *given: type(page(*given))("x", {"a": "x" * (64 << 20)})  # type: ignore[method-assign]
    with socket.socket() as small:
        small.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        small.connect(("127.0.0.1", console.port))
        small.sendall(HEAD + b"Connection: close\r\n\r\n")
        eventually(lambda: b"200 OK" in small.recv(1 << 10))
        server = console.server._server
        eventually(lambda: not server.server_state.connections, "it is still there")


def test_there_are_so_many_connections_and_one_more_is_closed(console: ServedConsole) -> None:
    kept = [raw(console.port) for _ in range(CONNECTIONS_MAX)]
    server = console.server._server
    eventually(lambda: len(server.server_state.connections) == CONNECTIONS_MAX)
    for _ in range(5):
        with raw(console.port, HEAD + b"\r\n") as one_more:
            assert not all_data(one_more)
    kept.pop().close()
    eventually(lambda: len(server.server_state.connections) == CONNECTIONS_MAX - 1)
    assert works(console)
    for one in kept:
        one.close()


def test_connections_without_a_handshake_count_too(owner: Owner, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    signed = authority.sign("console")
    tls = Tls(cert_file=str(signed.cert_file), key_file=str(signed.key_file))
    with console_of(owner, tmp_path, console=ConsoleSection(listen=HERE, tls=tls)) as console:
        kept = [raw(console.port) for _ in range(CONNECTIONS_MAX)]
        with raw(console.port) as one_more:
            assert is_ended(one_more)
        for one in kept:
            one.close()


@pytest.mark.parametrize("size", [HEAD_BYTES_MAX + (64 << 10), 4 << 20])
def test_a_head_that_is_too_large_is_rejected(console: ServedConsole, size: int) -> None:
    with raw(console.port) as large:
        large.settimeout(None)
        try:
            large.sendall(HEAD + b"X: " + b"y" * size)
            assert large.recv(1 << 10).startswith(b"HTTP/1.1 400 ")
        except ConnectionError:
            pass  # it was closed before all of it was sent
        assert is_ended(large)
    assert works(console)


def test_a_head_of_usual_size_is_not(console: ServedConsole) -> None:
    assert Browser(console.port).get("/start?rules=" + "x" * (32 << 10)).status == 200


@pytest.mark.parametrize("seed", range(20))
def test_what_is_no_http_is_answered_or_closed_and_nothing_is_logged(
    console: ServedConsole, short: None, seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    random = Random(seed)
    with raw(console.port, b"".join(random.choices(STRANGE, k=8))) as strange:
        assert is_ended(strange)
    assert works(console)
    assert not caplog.records


def test_what_is_no_http_after_an_answer_has_begun_is_no_defect(console: ServedConsole, caplog: pytest.LogCaptureFixture) -> None:
    with raw(console.port, b"POST /nothing HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n") as strange:
        eventually(lambda: b"404" in strange.recv(1 << 16))
        strange.sendall(b"no chunk\r\n")
        assert is_ended(strange)
    assert works(console)
    assert not caplog.records


def test_a_client_that_goes_amid_a_form_is_no_defect(console: ServedConsole, caplog: pytest.LogCaptureFixture) -> None:
    state = console.server._server.server_state
    with raw(console.port, b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\ntoken="):
        eventually(lambda: state.tasks)
    eventually(lambda: not state.tasks and not state.connections)
    assert works(console)
    assert not caplog.records


def test_streams_of_a_browser_leave_room_for_pages() -> None:
    assert live.STREAMS_MAX * 2 <= CONNECTIONS_MAX


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ({"subject": ((("countryName", "DE"),), (("commonName", "alice"),)), "subjectAltName": (("DNS", "a.example"),)}, "alice"),
        ({"subject": ((("commonName", ""),),), "subjectAltName": (("DNS", "a.example"), ("DNS", "b.example"))}, "a.example"),
        ({"subject": ((("organizationName", "x"),),)}, ""),
        ({}, ""),
    ],
)
def test_the_name_in_a_certificate(value: dict[str, object], name: str) -> None:
    assert certificate_name(value) == name
