"""`ticdc-dump park` as an operator meets it."""

from __future__ import annotations

import getpass
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from sidecar.cli.park import SHOWN_BYTES
from sidecar.shared.log.parked import StoppedAt, read_parked, write_stopped
from sidecar.shared.log.storage import open_folder
from sidecar.shared.model.nouns import Lane, TableName
from spark_merge.testing.histories import random_history, write_log
from tests.support.merge_command import MergeSettings
from tests.unit.cli.test_cli import run

Said = pytest.CaptureFixture[str]
STOPPED = StoppedAt(Lane("kafka/t/0"), 7, None, b"\x1b[2J\xff", "message kafka/t/0@7: expected JSON\n  what to do: look", 1)
T = TableName("s", "t9")
"""That is left at the end of the history."""


@pytest.fixture(autouse=True)
def _rights() -> Iterator[None]:
    """The command sets its process's, as what stays does."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture
def config(tmp_path: Path) -> str:
    write_log(open_folder(str(tmp_path / "log")), random_history(Random(5)))
    path = tmp_path / "sidecar.toml"
    path.write_text(MergeSettings(f"{tmp_path}/log", ("console:",), "local[1]").toml())
    return str(path)


@pytest.fixture
def stopped(config: str, tmp_path: Path) -> str:
    write_stopped(open_folder(str(tmp_path / "log")), STOPPED)
    return config


def test_alone_it_shows_where_the_stream_stopped_and_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: Said, stopped: str, tmp_path: Path
) -> None:
    assert run(monkeypatch, "park", "--config", stopped) == 0
    out = capsys.readouterr().out
    assert out.startswith(STOPPED.error)
    assert "key: null" in out
    assert r"value: 5 bytes: '\x1b[2J\\xff'" in out, "nothing that a terminal carries out"
    assert run(monkeypatch, "park", "--config", stopped, "--json") == 0
    assert json.loads(capsys.readouterr().out)["stopped_at"]["position"] == "7"
    assert run(monkeypatch, "park", "--config", stopped, "--list") == 0
    assert capsys.readouterr().out == "no message has been parked\n"
    assert read_parked(open_folder(str(tmp_path / "log"))) == []


def test_of_a_large_message_it_shows_the_beginning(monkeypatch: pytest.MonkeyPatch, capsys: Said, config: str, tmp_path: Path) -> None:
    write_stopped(open_folder(str(tmp_path / "log")), replace(STOPPED, key=b"k" * 9999))
    assert run(monkeypatch, "park", "--config", config) == 0
    assert f"key: 9999 bytes: '{'k' * SHOWN_BYTES}'\n" in capsys.readouterr().out


def test_a_message_is_parked_for_the_tables_that_are_named(
    monkeypatch: pytest.MonkeyPatch, capsys: Said, stopped: str, tmp_path: Path
) -> None:
    assert run(monkeypatch, "park", "--config", stopped, "--table", "s.t9", "--table", "s.t9") == 0
    assert "Start the sidecar again" in capsys.readouterr().out
    (parked,) = read_parked(open_folder(str(tmp_path / "log")))
    assert (parked.stopped, parked.tables) == (STOPPED, (T,))
    assert parked.by.startswith(f"{getpass.getuser()}@")
    assert run(monkeypatch, "park", "--config", stopped, "--every-table") == 0
    assert "It was parked before" in capsys.readouterr().out
    assert run(monkeypatch, "park", "--config", stopped, "--list") == 0
    assert "parked message kafka/t/0@7 for s.t9 [" in capsys.readouterr().out


def test_of_every_table_none_is_named(monkeypatch: pytest.MonkeyPatch, capsys: Said, stopped: str, tmp_path: Path) -> None:
    assert run(monkeypatch, "park", "--config", stopped, "--every-table", "--json") == 0
    assert json.loads(capsys.readouterr().out)["parked"][0]["tables"] is None
    assert read_parked(open_folder(str(tmp_path / "log")))[0].tables is None


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("--table", "s.u"), 3, "the log has no table s.u"),
        (("--table", ""), 2, "it is empty"),
        (("--table", "s.t9", "--every-table"), 2, "give --table, or --every-table"),
        (("--list", "--every-table"), 2, "give --table, or --every-table"),
    ],
)
def test_what_would_park_for_no_table_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: Said, stopped: str, tmp_path: Path, arguments: tuple[str, ...], code: int, text: str
) -> None:
    assert run(monkeypatch, "park", "--config", stopped, *arguments) == code
    assert text in " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert read_parked(open_folder(str(tmp_path / "log"))) == []


def test_where_the_stream_has_not_stopped_there_is_nothing_to_park(monkeypatch: pytest.MonkeyPatch, capsys: Said, config: str) -> None:
    assert run(monkeypatch, "park", "--config", config) == 0
    assert capsys.readouterr().out == "the stream has not stopped at a message\n"
    assert run(monkeypatch, "park", "--config", config, "--every-table") == 3
    assert "has not stopped at a message" in capsys.readouterr().err
