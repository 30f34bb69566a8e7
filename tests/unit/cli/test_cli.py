"""The command line as a user meets it: exit codes, errors with the way out, --json; the replay itself is in tests/spark."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import sidecar
from sidecar.cli.main import main
from tests.support.recordings import recording


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["ticdc-dump", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_the_package_is_the_program_for_processes_that_start_another_one() -> None:
    done = subprocess.run([sys.executable, "-m", "sidecar", "merge", "--help"], capture_output=True, text=True, check=True)
    assert "Run the Spark merge worker alone" in done.stdout


def test_help_shows_the_commands(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "--help") == 0
    assert "replay" in capsys.readouterr().out


def test_wrong_usage_is_exit_code_2(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "replay", "--chunk-rows", "0", "somewhere") == 2
    assert "chunk-rows" in capsys.readouterr().err


def test_unknown_brackets_are_wrong_usage(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "replay", "--brackets", "none", str(recording("demo"))) == 2
    assert "recorded" in capsys.readouterr().err


def test_a_folder_that_is_no_recording_is_reported_with_the_way_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert run(monkeypatch, "replay", str(tmp_path)) == 3
    assert "what to do: give the folder of a recording" in capsys.readouterr().err


def test_an_unknown_feed_names_the_known_ones(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "replay", str(recording("demo")), "--feed", "nope") == 3
    assert "choose one of canal-json, open-protocol" in capsys.readouterr().err


def test_rules_that_match_nothing_name_the_tables(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "replay", str(recording("demo")), "--tables", "other.*") == 3
    assert "shop.customer" in capsys.readouterr().err


def test_an_unknown_sink_names_the_known_ones(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(monkeypatch, "replay", str(recording("demo")), "--sink", "ftp://x", "--out", str(tmp_path / "out")) == 3
    assert "file:" in capsys.readouterr().err


def test_a_sink_that_is_no_uri_is_refused_before_anything_is_made(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(monkeypatch, "replay", str(recording("demo").absolute()), "--sink", "not a uri") == 3
    assert "neither a URI nor the whole path" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_verify_without_a_jsonl_sink_is_refused_before_anything_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert run(monkeypatch, "replay", str(recording("demo")), "--sink", "console:", "--out", str(tmp_path / "out")) == 3
    assert "--no-verify" in capsys.readouterr().err


def test_an_error_is_json_when_json_is_requested(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "replay", str(recording("demo")), "--feed", "nope", "--json") == 3
    result = json.loads(capsys.readouterr().out)
    assert result["ok"] is False
    assert result["exit_reason"] == "error"
    assert "what to do" in result["error"]


def test_the_version_is_the_packages(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "--version") == 0
    assert capsys.readouterr().out == f"ticdc-dump {sidecar.__version__}\n"


def test_a_defect_of_a_sidecar_ends_it_with_a_line_that_says_so_and_exit_code_1(tmp_path: Path) -> None:
    config = tmp_path / "sidecar.toml"
    config.write_text(CONFIG)
    program = "from sidecar.run.app import Sidecar\nSidecar.run = lambda self: 1 // 0\nfrom sidecar.cli.main import main\nmain()"
    done = subprocess.run([sys.executable, "-c", program, "run", "--config", str(config)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    result = json.loads(line)
    assert result["event"] == "a defect ended the process"
    assert result["error"].startswith("ZeroDivisionError")
    assert result["exception"].startswith("Traceback")


PROGRAM = """
import os, sys
from sidecar.run.app import Sidecar
def made(self):
    open(sys.argv[-1] + ".made", "w").close()
    os.mkdir(sys.argv[-1] + ".folder")
Sidecar.run = made
from sidecar.cli.main import main
main()
"""


@pytest.mark.parametrize(("setting", "file", "folder"), [("", 0o600, 0o700), ("files = { umask = '027' }", 0o640, 0o750)])
def test_what_a_sidecar_writes_is_its_owners_unless_a_setting_says_otherwise(tmp_path: Path, setting: str, file: int, folder: int) -> None:
    config = tmp_path / "sidecar.toml"
    config.write_text(CONFIG + setting)
    subprocess.run([sys.executable, "-c", PROGRAM, "run", "--config", str(config)], check=True, umask=0o022)
    assert (tmp_path / "sidecar.toml.made").stat().st_mode & 0o777 == file
    assert (tmp_path / "sidecar.toml.folder").stat().st_mode & 0o777 == folder


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (('"console:"', '"ftp://x"'), "no sink is known for ftp:"),
        (('"console:"', '"/out?format=csv"'), "format='csv' is none of jsonl, parquet"),
        (('"console:"', '"/out", "/out"'), "names one output twice"),
        (('"console:"', '"not a uri"'), "sinks (number 1) is neither a URI nor the whole path"),
        (('"/nowhere"', '"memory://log"'), "log.uri"),
        (('"/nowhere"', '"/nowhere", spill_folder = "/nonexist"'), "log.spill_folder /nonexist cannot be written"),
    ],
)
def test_a_setting_that_would_fail_later_ends_the_start(tmp_path: Path, changed: tuple[str, str], message: str) -> None:
    config = tmp_path / "sidecar.toml"
    config.write_text(CONFIG.replace(*changed))
    command = [sys.executable, "-c", PROGRAM, "run", "--config", str(config)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert message in done.stderr
    assert "what to do" in done.stderr
    assert not (tmp_path / "sidecar.toml.made").exists()


CONFIG = """
sinks = ["console:"]
changefeed = { id = "orders" }
etcd = { endpoints = ["127.0.0.1:1"] }
source = { host = "h", user = "u" }
log = { uri = "/nowhere" }
metrics = { listen = "" }
logging = { format = "json" }
"""


@pytest.mark.recordings
def test_an_out_folder_that_is_not_a_replays_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    precious = tmp_path / "thesis.txt"
    precious.write_text("all of it")
    assert run(monkeypatch, "replay", str(recording("demo")), "--out", str(tmp_path)) == 3
    assert precious.read_text() == "all of it"
    assert "empty folder" in capsys.readouterr().err
