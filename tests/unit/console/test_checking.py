"""`ticdc-dump check` run from its page."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from sidecar.console.checking import ERROR_CHARS_MAX, SettingsChecks
from sidecar.preflight.preflight import PreflightReport
from sidecar.shared.process.checks import CheckStatus, Result, failed, ok, warning
from tests.support.console import Browser, ServedConsole
from tests.support.eventually import eventually

MARKUP = "<b>bold</b>"


def report() -> dict[str, Any]:
    """As the command makes it."""
    slow = warning(f"{MARKUP} is slow", setting="dump.readers", hint="do less")
    results = [
        Result("source", CheckStatus.WARNING, (ok("TiDB answers"), slow), 0.25),
        Result("sink", CheckStatus.FAILED, (failed("no such table", setting="sinks", hint="create it"),)),
    ]
    return PreflightReport(Path("x.toml"), tuple(results)).to_json()


def printing(text: str, *, code: int = 0) -> tuple[str, ...]:
    return (sys.executable, "-c", f"import sys; sys.stdout.write({text!r}); sys.exit({code})")


def ended(checks: SettingsChecks) -> SettingsChecks:
    assert checks.begin()
    eventually(lambda: not checks.running)
    return checks


def test_the_command_is_that_of_these_settings() -> None:
    command = (sys.executable, "-c", "import sys, json; print(json.dumps(sys.argv[1:])); sys.exit(7)")
    last = ended(SettingsChecks(Path("/etc/x y.toml"), command=command)).last
    assert last is not None
    assert last.report is None
    checks = SettingsChecks(Path("/etc/x y.toml"))
    assert checks._command == [sys.executable, "-m", "sidecar", "check", "--config", "/etc/x y.toml", "--json"]


def test_a_report_is_that_of_the_command() -> None:
    last = ended(SettingsChecks(Path("x"), command=printing(json.dumps(report()), code=1))).last
    assert last is not None
    assert last.report is not None
    assert (last.error, last.report.ok, last.report.counts["failed"]) == ("", False, 1)
    assert [finding.what for check in last.report.checks for finding in check.findings][-1] == "no such table"
    assert 0 < last.began_ms <= last.ended_ms


@pytest.mark.parametrize("text", ["", "{}", "[]", "not json", '{"ok": true, "counts": {}, "checks": [{"name": 1}]}'])
def test_what_is_no_report_is_an_error(text: str) -> None:
    last = ended(SettingsChecks(Path("x"), command=printing(text, code=3))).last
    assert last is not None
    assert last.report is None
    assert last.error == "it ended with exit code 3, and its output is no report"


def test_of_a_long_error_the_end_is_kept() -> None:
    command = (sys.executable, "-c", "import sys; sys.stderr.write('x' * 100_000 + 'the cause'); sys.exit(1)")
    last = ended(SettingsChecks(Path("x"), command=command)).last
    assert last is not None
    assert len(last.error) == ERROR_CHARS_MAX
    assert last.error.endswith("the cause")


def test_a_command_that_is_not_there_is_an_error() -> None:
    last = ended(SettingsChecks(Path("x"), command=("/nowhere/ticdc-dump",))).last
    assert last is not None
    assert last.error.startswith("it could not be started: ")


def test_one_that_takes_too_long_is_stopped_and_another_can_be_run() -> None:
    command = (sys.executable, "-c", "import time; time.sleep(1000)")
    checks = ended(SettingsChecks(Path("x"), command=command, max_s=0.05))
    assert checks.last is not None
    assert "was stopped" in checks.last.error
    assert checks.begin()


def test_one_runs_at_a_time(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    command = (sys.executable, "-c", f"import os, time\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.01)")
    checks = SettingsChecks(Path("x"), command=command)
    assert checks.begin()
    assert checks.running
    assert not checks.begin()
    gate.touch()
    eventually(lambda: not checks.running)
    assert checks.begin()
    eventually(lambda: not checks.running)  # the gate goes with the test's folder


# ---- the page --------------------------------------------------------------------------------------------------------


def test_the_page_shows_what_was_found(console: ServedConsole, browser: Browser) -> None:
    console.views.checks = SettingsChecks(Path("x"), command=printing(json.dumps(report())))
    assert "have not been run" in browser.get("/checks").words
    assert browser.command("/check").location == "/checks"
    eventually(lambda: not console.views.checks.running)
    page = browser.get("/checks")
    assert "Something failed." in page.words
    assert "1 failed" in page.words
    assert "dump.readers" in page.words
    assert f"{MARKUP} is slow" in page.words
    assert MARKUP not in page.text
    assert "Run the checks again" in page.words


def test_the_page_shows_why_there_is_no_result(console: ServedConsole, browser: Browser) -> None:
    console.views.checks = SettingsChecks(Path("x"), command=("/nowhere/<i>",))
    browser.command("/check")
    eventually(lambda: not console.views.checks.running)
    page = browser.get("/checks")
    assert "There is no result: it could not be started" in page.words
    assert "<i>" not in page.text


def test_who_is_not_logged_in_runs_none(console: ServedConsole) -> None:
    stranger = Browser(console.port)
    assert "To run the checks, log in" in stranger.get("/checks").words
    assert stranger.post("/check").status == 403
    assert not console.views.checks.running
