"""Where the console listens, and how it ends."""

from __future__ import annotations

import socket
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from msgspec import structs

from sidecar.console.listening import FIRST_LOOK_S, ConsoleServer, bound, check_console, console_address
from sidecar.shared.config import ConsoleSection, Tls
from sidecar.shared.errors import ConfigError
from tests.support.console import HERE, Browser, ServedConsole, is_ended, opened, raw
from tests.support.eventually import eventually
from tests.support.services.tls import Authority
from tests.unit.control.serving import Owner

TLS = Tls(cert_file="c", key_file="k")


def token_file(folder: Path, text: str = "0123456789abcdef") -> str:
    path = folder / "token"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize("listen", ["0.0.0.0:8320", "10.0.0.5:8320", "[::]:8320", "db.example:8320"])
def test_beyond_loopback_it_needs_tls_and_a_proof(listen: str, tmp_path: Path) -> None:
    token = token_file(tmp_path)
    for section in (
        ConsoleSection(listen=listen),
        ConsoleSection(listen=listen, token_file=token),
        ConsoleSection(listen=listen, tls=TLS),
    ):
        with pytest.raises(ConfigError, match=r"console.listen is .*, beyond this machine") as unsafe:
            check_console(section)
        assert "console.tls" in unsafe.value.hint
    authority = Authority(tmp_path)
    signed = authority.sign("console")
    tls = Tls(cert_file=str(signed.cert_file), key_file=str(signed.key_file))
    assert check_console(ConsoleSection(listen=listen, tls=tls, token_file=token)) == "0123456789abcdef"
    assert check_console(ConsoleSection(listen=listen, tls=structs.replace(tls, ca_file=str(authority.ca_file)))) == ""


@pytest.mark.parametrize("listen", ["127.0.0.1:8320", "[::1]:8320", "localhost:8320", ""])
def test_on_loopback_it_needs_nothing(listen: str) -> None:
    assert check_console(ConsoleSection(listen=listen)) == ""


@pytest.mark.parametrize("text", ["", "short", "two\nlines of a token", "ä" * 20])
def test_a_token_that_is_none_is_an_error(text: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"console.token_file"):
        check_console(ConsoleSection(token_file=token_file(tmp_path, text)))


@pytest.mark.parametrize(
    ("section", "address"),
    [
        (ConsoleSection(listen=""), ""),
        (ConsoleSection(listen="127.0.0.1:8320"), "http://127.0.0.1:8320"),
        (ConsoleSection(listen="[::1]:8320", tls=TLS), "https://[::1]:8320"),
        (ConsoleSection(listen="0.0.0.0:8320", advertise="console.example:443", tls=TLS), "https://console.example:443"),
    ],
)
def test_the_address_is_as_a_browser_takes_it(section: ConsoleSection, address: str) -> None:
    assert console_address(section) == address


def test_the_address_has_the_port_that_it_got() -> None:
    assert console_address(ConsoleSection(listen="[::1]:0"), 1234) == "http://[::1]:1234"


def test_an_address_of_either_kind_is_bound() -> None:
    for listen in ("127.0.0.1:0", "localhost:0", "0.0.0.0:0"):
        result = bound(listen)
        assert result.getsockname()[1]
        result.close()


def test_an_address_that_is_taken_is_an_os_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="in use"):
        ConsoleServer(ConsoleSection(listen=f"127.0.0.1:{taken.getsockname()[1]}"), lambda: None, print)


def test_what_breaks_is_reported_and_the_port_is_free() -> None:
    errors, ended = list[Exception](), Event()

    def broken() -> Any:
        raise ZeroDivisionError("no pages")

    def note(error: Exception) -> None:
        errors.append(error)
        ended.set()

    server = ConsoleServer(ConsoleSection(listen=HERE), broken, note)
    opened(server.port)
    assert ended.wait(300)
    assert [str(error) for error in errors] == ["no pages"]
    bound(f"127.0.0.1:{server.port}").close()
    server.close()


def test_nothing_is_made_before_the_first_connection() -> None:
    made = Event()

    def web() -> Any:
        made.set()
        raise ZeroDivisionError

    server = ConsoleServer(ConsoleSection(listen=HERE), web, lambda _: None)
    assert not made.wait(3 * FIRST_LOOK_S)
    opened(server.port)
    assert made.wait(300)
    server.close()


def test_one_that_nobody_opens_ends_soon() -> None:
    server = ConsoleServer(ConsoleSection(listen=HERE), lambda: None, print)
    server.close()
    assert not server._serving.alive


def test_it_ends_soon_with_pages_open_and_logs_nothing(console: ServedConsole, caplog: pytest.LogCaptureFixture) -> None:
    kept = [raw(console.port), raw(console.port, b"GET /live/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")]
    eventually(lambda: console.web.streams.open == 1)
    eventually(lambda: b"sections" in kept[1].recv(1 << 20))
    console.close()
    assert not console.server._serving.alive
    assert all(map(is_ended, kept))
    with pytest.raises(OSError, match="refused"):
        raw(console.port)
    assert not caplog.records


def test_it_may_be_closed_before_it_serves_and_again(owner: Owner, tmp_path: Path) -> None:
    for _ in range(5):
        gate = Event()

        def app(gate: Event = gate) -> Any:
            gate.wait(300)
            raise ZeroDivisionError

        ended = list[Exception]()
        server = ConsoleServer(ConsoleSection(listen=HERE), app, ended.append)
        opened(server.port)
        gate.set()
        server.close()
        server.close()
        assert not server._serving.alive


def test_it_serves_at_the_same_port_again(console: ServedConsole) -> None:
    port = console.port
    assert Browser(port).get("/").status == 200
    console.close()
    console.serve()
    assert console.port == port
    assert Browser(port).get("/").status == 200
