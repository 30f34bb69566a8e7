"""`ticdc-dump check` of this sidecar's settings, run as a process of its own: one at a time, ended when it takes too long."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

import msgspec

from sidecar.adapters.clock import wall_ms
from sidecar.shared.process.background import Background
from sidecar.shared.process.checks import Result

CHECK_MAX_S = 300.0
ERROR_CHARS_MAX = 2000


class CheckReport(msgspec.Struct, frozen=True):
    """What the page shows of the output of `check --json` (PreflightReport). `counts`: of findings, by status."""

    ok: bool
    counts: dict[str, int]
    checks: tuple[Result, ...]


@dataclass(frozen=True, slots=True)
class CheckedSettings:
    """`report` None where there is none, and `error` says why. Times in milliseconds since 1970."""

    began_ms: int
    ended_ms: int
    report: CheckReport | None
    error: str = ""


class SettingsChecks:
    """`last`: of the process's life. `options`: of the command. From any thread."""

    def __init__(
        self,
        config_path: Path,
        *options: str,
        command: tuple[str, ...] = (sys.executable, "-m", "sidecar"),
        max_s: float = CHECK_MAX_S,
    ) -> None:
        self._command = [*command, "check", "--config", str(config_path), "--json", *options]
        self._max_s = max_s
        self._lock = Lock()
        self._running: Background | None = None
        self.began_ms = 0
        self.last: CheckedSettings | None = None

    @property
    def running(self) -> bool:
        return self._running is not None and self._running.alive

    def begin(self) -> bool:
        """False where one is running."""
        with self._lock:
            if self.running:
                return False
            self.began_ms = wall_ms()
            self._running = Background(lambda _: self._run(), name="check")
            return True

    def _run(self) -> None:
        report, error = None, ""
        try:
            done = subprocess.run(self._command, stdin=subprocess.DEVNULL, capture_output=True, timeout=self._max_s, check=False)
            report = msgspec.json.decode(done.stdout, type=CheckReport)
        except subprocess.TimeoutExpired:
            error = f"it had not ended after {self._max_s:.0f} s, and was stopped: run `ticdc-dump check` in a terminal to see why"
        except OSError as failed:
            error = f"it could not be started: {failed}"
        except msgspec.MsgspecError:
            output = done.stderr.decode(errors="replace")[-ERROR_CHARS_MAX:]
            error = output or f"it ended with exit code {done.returncode}, and its output is no report"
        self.last = CheckedSettings(self.began_ms, wall_ms(), report, error)
