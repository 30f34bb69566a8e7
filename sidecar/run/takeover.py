"""Whether this standby could take over: `ticdc-dump check --standby`, run as a process of its own while it waits, and its results.

- The check reads only. It begins some time after the standby does (a sidecar that was started again waits for its own old lease), and again
  every CHECK_EVERY_S.
- What fails is logged once. /healthz, `ticdc_dump_standby_ready`, the console and each answer of the standby have it until it passes.
- A standby that fails the check takes over all the same when the owner is gone: what failed may be well by then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from sidecar.console.checking import CheckedSettings, SettingsChecks
from sidecar.run.log_event import LogEvent
from sidecar.run.log_events import standby
from sidecar.shared.errors import TicdcDumpError
from sidecar.shared.process.checks import CheckFinding, CheckStatus

CHECK_EVERY_S = 300.0
LEASES = 2
"""So many leases a process has been a standby before it is checked: then it is none that waits for its own."""


class Takeover:
    """`against`: what keeps this standby from taking over, by its last check; None: it is none, or not checked yet. One thread
    calls `stand_by` and `end`; `against` may be read by any."""

    def __init__(self, config_path: Path, now_s: Callable[[], float], *, lease_s: float, checks: SettingsChecks | None = None) -> None:
        self._checks = checks or SettingsChecks(config_path, "--standby")
        self._now_s, self._first_after_s = now_s, LEASES * lease_s
        self._since_s: float | None = None
        self._due_s = 0.0
        self._seen: CheckedSettings | None = None
        self.against: tuple[str, ...] | None = None

    def reasons(self) -> tuple[str, ...]:
        """What keeps it from taking over, as far as is known."""
        return self.against or ()

    def stand_by(self, owner: Callable[[], str | None]) -> list[LogEvent]:
        """Again and again, while another process owns the changefeed, `owner`. What is new since the check before."""
        now_s = self._now_s()
        if self._since_s is None:
            self._since_s, self._due_s, self._seen = now_s, now_s + self._first_after_s, self._checks.last
            return [standby(owner())]
        if now_s >= self._due_s and self._checks.begin():
            self._due_s = now_s + CHECK_EVERY_S
        done = self._checks.last
        if done is None or done is self._seen:
            return []
        self._seen = done
        return list(self._judged(done))

    def end(self) -> float:
        """It is no standby any more. For how many seconds it was one."""
        since_s, self._since_s, self.against = self._since_s, None, None
        return 0.0 if since_s is None else self._now_s() - since_s

    def _judged(self, done: CheckedSettings) -> Iterator[LogEvent]:
        before, failed = self.against, dict(_failed(done))
        self.against = tuple(failed)
        for what, hint in failed.items():
            if what not in (before or ()):
                yield LogEvent("standby could not take over", {"text": what, "hint": hint}, "warning")
        if not failed and before != ():
            yield LogEvent("standby can take over", {})


def another_owns(owner: Callable[[], str | None], own: str) -> bool:
    """`owner`: asks etcd for the owner's address; where it does not answer, nobody is known to own the changefeed."""
    try:
        return owner() not in (None, own)
    except TicdcDumpError:
        return False


def _failed(done: CheckedSettings) -> Iterator[tuple[str, str]]:
    """What failed, and what to do."""
    if done.report is None:
        yield f"its check did not end: {done.error}", "run `ticdc-dump check --standby` here"
        return
    for check in done.report.checks:
        for finding in check.findings:
            if finding.status is CheckStatus.FAILED:
                yield f"{check.name}: {finding.what}", _way_out(finding)


def _way_out(finding: CheckFinding) -> str:
    return f"{finding.setting}: {finding.hint}"
