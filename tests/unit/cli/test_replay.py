"""The demo, small, and the exit code of a replay whose output differs. How a recording is played: tests/unit/replay."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sidecar.cli.main import app
from sidecar.cli.replay import EXIT_DIFFERENT
from sidecar.replay import busy, replay


def test_the_demo_dumps_through_a_crash_equals_its_source_and_writes_the_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(busy, "make_busy_recording", partial(busy.make_busy_recording, seconds=2, scale=0.05))
    done = CliRunner().invoke(app, ["demo", "--out", str(tmp_path), "--json"])
    outcome = json.loads(done.stdout)
    assert (done.exit_code, outcome["ok"], len(outcome["crashes"])) == (0, True, 1), done.output
    assert "<html" in (tmp_path / "demo-report.html").read_text()


def test_an_output_that_differs_from_the_recorded_tables_has_an_exit_code_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy.make_busy_recording(tmp_path / "busy", seconds=0.5, scale=0.01)
    monkeypatch.setattr(replay, "run", lambda settings, show, run=replay.run: replace(run(settings, show), ok=False))
    arguments = ["--brackets", "snapshot", "--out", str(tmp_path / "out"), "--json"]
    done = CliRunner().invoke(app, ["replay", str(tmp_path / "busy"), *arguments])
    assert (done.exit_code, json.loads(done.stdout)["ok"]) == (EXIT_DIFFERENT, False), done.output
