"""Whether a standby could take over: when it is checked, and what it says of that."""

from __future__ import annotations

from pathlib import Path

import pytest

from sidecar.console.checking import CheckedSettings, CheckReport, SettingsChecks
from sidecar.run.log_event import LogEvent
from sidecar.run.takeover import CHECK_EVERY_S, Takeover, another_owns
from sidecar.shared.errors import CoordinationError
from sidecar.shared.process.checks import CheckStatus, Result, failed, ok, warning

LEASE_S = 10.0
FINDINGS = {
    "well": (ok("TiDB answers"), warning("slow", setting="x", hint="y")),
    "denied": (failed("Access denied", setting="source.password_file", hint="correct it"),),
}


class Checks(SettingsChecks):
    """In place of a process."""

    def __init__(self) -> None:
        super().__init__(Path("sidecar.toml"), "--standby")
        self.began = 0

    @property
    def running(self) -> bool:
        return False

    def begin(self) -> bool:
        self.began += 1
        return True

    def ends(self, *names: str) -> None:
        results = tuple(Result(name, CheckStatus.OK, FINDINGS[name]) for name in names)
        self.last = CheckedSettings(0, 1, CheckReport("denied" not in names, {}, results))


class Standby:
    def __init__(self) -> None:
        self.now_s, self.checks, self.asked = 100.0, Checks(), 0
        self.takeover = Takeover(Path("sidecar.toml"), lambda: self.now_s, lease_s=LEASE_S, checks=self.checks)

    def step(self, seconds: float = 1.0) -> list[LogEvent]:
        self.now_s += seconds
        return self.takeover.stand_by(self._owner)

    def _owner(self) -> str:
        self.asked += 1
        return "a:8310"


def events(lines: list[LogEvent]) -> list[str]:
    return [line.event for line in lines]


def test_the_check_is_the_commands_and_reads_only() -> None:
    assert SettingsChecks(Path("x.toml"), "--standby")._command[-2:] == ["--json", "--standby"]


def test_it_is_checked_when_it_waits_for_another_owner_and_again_every_few_minutes() -> None:
    """A sidecar that was started again waits for the lease of the process before it, and is not checked."""
    standby = Standby()
    assert events(standby.step()) == ["standby"]
    assert standby.step(2 * LEASE_S - 1) == []
    assert standby.checks.began == 0
    standby.step()
    assert standby.checks.began == 1
    standby.step(CHECK_EVERY_S - 1)
    assert standby.checks.began == 1
    standby.step()
    assert (standby.checks.began, standby.asked) == (2, 1)


def test_what_fails_is_reported_once_and_shown_until_it_passes() -> None:
    standby = Standby()
    standby.step()
    assert standby.takeover.against is None
    standby.checks.ends("well", "denied")
    (line,) = standby.step()
    assert (line.event, line.level) == ("standby could not take over", "warning")
    assert line.values == {"text": "denied: Access denied", "hint": "source.password_file: correct it"}
    assert standby.takeover.against == ("denied: Access denied",)
    standby.checks.ends("denied")
    assert standby.step() == standby.step() == []
    standby.checks.last = CheckedSettings(0, 1, None, "it had not ended after 300 s")
    assert events(standby.step()) == ["standby could not take over"]
    assert standby.takeover.against == ("its check did not end: it had not ended after 300 s",)
    standby.checks.ends("well")
    assert events(standby.step()) == ["standby can take over"]
    assert standby.takeover.against == ()
    standby.checks.ends("well")
    assert standby.step() == []


@pytest.mark.parametrize("name", FINDINGS)
def test_an_owner_is_no_standby_and_one_that_is_again_is_checked_again(name: str) -> None:
    standby = Standby()
    standby.step()
    standby.checks.ends(name)
    standby.step()
    assert standby.takeover.end() == 1.0
    assert standby.takeover.against is None
    assert standby.takeover.end() == 0.0
    assert events(standby.step()) == ["standby"]
    assert (standby.step(), standby.takeover.against) == ([], None), "a check of another wait says nothing of this one"


def test_who_stops_is_alone_unless_etcd_names_another_owner() -> None:
    def away() -> str:
        raise CoordinationError("etcd is away", hint="")

    assert [another_owns(owner, "me:1") for owner in (lambda: None, lambda: "me:1", lambda: "you:1", away)] == [False, False, True, False]
