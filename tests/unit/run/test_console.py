"""The console of a process: begun with what the process has, and no reason for it to end."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from sidecar.console.listening import ConsoleServer
from sidecar.console.views import ConsoleViews
from sidecar.control.service import ControlService
from sidecar.report.chunks import Chunks
from sidecar.run import console as run_console
from sidecar.run.console import begin_console
from sidecar.run.ddls import SeenDdls
from sidecar.run.log_event import LogEvent
from sidecar.run.samples import MeasuredTerms, Samples
from sidecar.shared.config import Config, ConsoleSection, LogSection, Tls
from sidecar.shared.errors import ConfigError
from tests.support.console import CONFIG, HERE, Browser, opened
from tests.support.eventually import eventually
from tests.support.services.tls import Authority
from tests.unit.control.serving import Owner


@pytest.fixture
def owner() -> Iterator[Owner]:
    with Owner() as made:
        yield made


@pytest.fixture
def logged(monkeypatch: pytest.MonkeyPatch) -> list[LogEvent]:
    events_lines: list[LogEvent] = []
    monkeypatch.setattr(run_console, "say", events_lines.append)
    return events_lines


def config(folder: Path, **section: Any) -> Config:
    return structs.replace(CONFIG, console=ConsoleSection(**{"listen": HERE} | section), log=LogSection(uri=f"file://{folder}/log"))


def begun(owner: Owner, value: Config) -> ConsoleServer | None:
    return begin_console(
        value,
        Path("/etc/x.toml"),
        ControlService(owner.served()),
        MeasuredTerms(Samples(), Chunks(10), SeenDdls()),
        lambda: "http://other:8320",
    )


def test_it_serves_what_the_process_has(owner: Owner, tmp_path: Path, logged: list[LogEvent]) -> None:
    server = begun(owner, config(tmp_path))
    assert server is not None
    assert [(line.event, line.level, line.values) for line in logged] == [
        ("console", "info", {"address": f"http://127.0.0.1:{server.port}"})
    ]
    browser = Browser(server.port)
    assert "default/cf" in browser.get("/").words
    assert "/etc/x.toml" in browser.get("/settings").words
    browser.post("/command/stop")
    assert [(line.event, line.level) for line in logged[1:]] == [("console: command rejected", "warning")]
    server.close()


def test_none_is_none(owner: Owner, tmp_path: Path, logged: list[LogEvent]) -> None:
    assert begun(owner, config(tmp_path, listen="")) is None
    assert logged == []


def test_a_port_that_is_taken_is_a_warning(owner: Owner, tmp_path: Path, logged: list[LogEvent]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        assert begun(owner, config(tmp_path, listen=listen)) is None
    (line,) = logged
    assert (line.event, line.level, line.values["listen"]) == ("no console", "warning", listen)
    assert "console.listen" in str(line.values["hint"])


@pytest.mark.parametrize("host", ["10.255.255.1", "no-such-host.invalid", "a" * 64, "a..b"])
def test_an_address_that_is_not_this_machines_is_a_warning(owner: Owner, tmp_path: Path, logged: list[LogEvent], host: str) -> None:
    authority = Authority(tmp_path)
    signed = authority.sign("console")
    tls = Tls(cert_file=str(signed.cert_file), key_file=str(signed.key_file), ca_file=str(authority.ca_file))
    assert begun(owner, config(tmp_path, listen=f"{host}:8320", tls=tls)) is None
    assert [line.event for line in logged] == ["no console"]


UNUSABLE = [
    {"listen": "0.0.0.0:8320"},
    {"token_file": "/nowhere/token"},
    {"tls": Tls(ca_file="a")},
    {"tls": Tls(cert_file="/nowhere/c", key_file="/nowhere/k")},
]


@pytest.mark.parametrize("section", UNUSABLE)
def test_what_is_unsafe_or_unusable_is_an_error(owner: Owner, tmp_path: Path, section: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"console|/nowhere/"):
        begun(owner, config(tmp_path, **section))


def test_a_console_that_breaks_is_logged_and_nothing_else_ends(
    owner: Owner, tmp_path: Path, logged: list[LogEvent], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("no pages")

    monkeypatch.setattr(ConsoleViews, "__init__", broken)
    server = begun(owner, config(tmp_path))
    assert server is not None
    opened(server.port)
    (line,) = eventually(lambda: [line for line in logged if line.event == "console ended"])
    assert line.level == "warning"
    assert "no pages" in str(line.values["reason"])
    server.close()
