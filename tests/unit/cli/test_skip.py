"""`ticdc-dump skip` as an operator meets it."""

from __future__ import annotations

import base64
import getpass
import json
import os
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from sidecar.cli.skip import skip
from sidecar.shared.log.skips import skipped_rows
from sidecar.shared.log.storage import open_folder
from spark_merge.testing.histories import poison, random_history, write_log
from tests.support.merge_command import MergeSettings
from tests.unit.cli.test_cli import run

Said = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _rights() -> Iterator[None]:
    """The command sets its process's, as what stays does."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture
def config(tmp_path: Path) -> str:
    history = random_history(Random(5))
    poison(history, 2, 3)
    poison(history, 2, 5)
    write_log(open_folder(str(tmp_path / "log")), history)
    path = tmp_path / "sidecar.toml"
    path.write_text(MergeSettings(f"{tmp_path}/log", ("console:",), "local[1]").toml())
    return str(path)


def test_a_segment_alone_shows_what_cannot_be_decoded_and_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: Said, config: str, tmp_path: Path
) -> None:
    assert run(monkeypatch, "skip", "--config", config, "--seq", "2") == 0
    first, second = capsys.readouterr().out.splitlines()
    assert "segment 2, ordinal 3: message k/0@0: table s." in first
    assert "type 'blob' does not fit kind text" in first
    assert "segment 2, ordinal 5" in second
    assert run(monkeypatch, "skip", "--config", config, "--seq", "1") == 0
    assert capsys.readouterr().out == "all rows of the segment can be decoded\n"
    assert run(monkeypatch, "skip", "--config", config, "--list") == 0
    assert capsys.readouterr().out == "no row has been skipped\n"
    assert skipped_rows(open_folder(str(tmp_path / "log"))) == {}


def test_what_it_keeps_is_the_sidecars_users_alone(monkeypatch: pytest.MonkeyPatch, capsys: Said, config: str, tmp_path: Path) -> None:
    assert run(monkeypatch, "skip", "--config", config, "--seq", "2", "--ordinal", "3") == 0
    folder = tmp_path / "log" / "skips"
    assert [path.stat().st_mode & 0o777 for path in (folder, *folder.iterdir())] == [0o700, 0o600]
    monkeypatch.setattr(os, "geteuid", lambda: folder.stat().st_uid + 1)
    assert run(monkeypatch, "skip", "--config", config, "--seq", "2", "--all") == 3
    assert "do it as the sidecar's user" in capsys.readouterr().err
    assert skipped_rows(open_folder(str(tmp_path / "log"))) == {2: {3}}


def test_rows_are_left_out_and_listed_with_their_bytes(monkeypatch: pytest.MonkeyPatch, capsys: Said, config: str, tmp_path: Path) -> None:
    assert run(monkeypatch, "skip", "--config", config, "--seq", "2", "--ordinal", "3") == 0
    assert "1 skipped now, 0 before" in capsys.readouterr().out
    assert run(monkeypatch, "skip", "--config", config, "--seq", "2", "--all") == 0
    assert "1 skipped now, 1 before" in capsys.readouterr().out
    assert skipped_rows(open_folder(str(tmp_path / "log"))) == {2: {3, 5}}
    assert run(monkeypatch, "skip", "--config", config, "--list", "--json") == 0
    result = json.loads(capsys.readouterr().out)["skipped"]
    assert [(one["seq"], one["ordinal"], one["lane"], one["position"]) for one in result] == [(2, 3, "k/0", "0"), (2, 5, "k/0", "0")]
    assert b'"mysqlType": {"id": "blob"' in base64.b64decode(result[0]["value"])
    assert all(one["by"] and one["skipped_ms"] and "does not fit" in one["reason"] for one in result)


def test_what_can_be_decoded_is_refused_with_the_way_out(monkeypatch: pytest.MonkeyPatch, capsys: Said, config: str) -> None:
    assert run(monkeypatch, "skip", "--config", config, "--seq", "2", "--ordinal", "4") == 3
    assert (
        "can be decoded here, and so it is not skipped\n  what to do: see `ticdc-dump skip --config FILE --seq 2`"
        in capsys.readouterr().err
    )
    assert run(monkeypatch, "skip", "--config", config, "--seq", "2", "--ordinal", "4", "--json") == 3
    assert json.loads(capsys.readouterr().out)["ok"] is False


def test_a_user_without_a_name_may_too(monkeypatch: pytest.MonkeyPatch, capsys: Said, config: str) -> None:
    def nobody() -> str:
        raise KeyError("getpwuid(): uid not found: 10001")

    monkeypatch.setattr(getpass, "getuser", nobody)
    assert run(monkeypatch, "skip", "--config", config, "--seq", "2", "--ordinal", "3") == 0
    assert "[uid " in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments", [(), ("--ordinal", "1"), ("--all",), ("--list", "--seq", "1"), ("--seq", "1", "--all", "--ordinal", "1"), ("--seq", "-1")]
)
def test_anything_else_is_wrong_usage(monkeypatch: pytest.MonkeyPatch, capsys: Said, config: str, arguments: tuple[str, ...]) -> None:
    assert run(monkeypatch, "skip", "--config", config, *arguments) == 2


def test_help_says_what_it_means(monkeypatch: pytest.MonkeyPatch, capsys: Said) -> None:
    assert run(monkeypatch, "skip", "--help") == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "".join((skip.__doc__ or "").split()) in "".join(text.split())
    assert "A row that can be decoded is never skipped." in text
    assert "removes one that was deleted" in text
