"""Area 5: an unlucky operator. Settings that nobody can mean, the environment in which a process is started, the folders and masters that
a merge worker is given, keys of etcd, what comes to the metrics port, signals. Programs are started for real, with an etcd that nobody
serves: they have to come up, to say what they wait for, and to end on a signal.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import monotonic, sleep
from unittest.mock import patch

from sidecar.run.metrics import MetricsServer, MetricsTally, _Quiet
from tests.tools.hostile import keys, probe, settings, workers
from tests.tools.hostile.attempts import Area, Attempt, Fault, Outcome
from tests.tools.hostile.settings import PROGRAM, SETTINGS, START_S

END_S = 120.0
WAITS = "etcd does not answer"
POLL_S = 0.05


@contextmanager
def opened() -> Iterator[Sequence[Attempt]]:
    with tempfile.TemporaryDirectory() as name, patch.object(_Quiet, "timeout", probe.SILENT_MAX_S):
        folder = Path(name)
        server = MetricsServer("127.0.0.1:0", lambda: None, MetricsTally)
        try:
            yield [
                *settings.attempts(folder),
                *keys.attempts(),
                *probe.attempts(server),
                *environments(folder),
                *signals(folder),
                *workers.attempts(folder),
            ]
        finally:
            server.close()


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Of a program. `first`: commands of a shell before it. `reported`: whether it can say anything."""

    variables: dict[str, str] = field(default_factory=dict)
    without: tuple[str, ...] = ()
    first: str = ":"
    reported: bool = True


ENVIRONMENTS: dict[str, Surroundings] = {
    "nothing at all": Surroundings(without=tuple(os.environ)),
    "LC_ALL=C": Surroundings({"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}),
    "a locale that is none": Surroundings({"LC_ALL": "xx_YY.nonsense", "LANG": "?"}),
    "no HOME": Surroundings(without=("HOME", "USER", "LOGNAME")),
    "a HOME that is a file": Surroundings({"HOME": "/etc/hostname"}),
    "a TMPDIR that is not there": Surroundings({"TMPDIR": "/nowhere"}),
    "proxies": Surroundings(dict.fromkeys(("http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "grpc_proxy"), "http://127.0.0.1:1")),
    "a zone that is none": Surroundings({"TZ": "Nowhere/Nothing"}),
    "a PYTHONPATH of nothing": Surroundings({"PYTHONPATH": "/nowhere:/etc/hostname"}),
    "COLUMNS=0 and TERM=?": Surroundings({"COLUMNS": "0", "LINES": "-1", "TERM": "?", "FORCE_COLOR": "1"}),
    "no standard input": Surroundings(first="exec 0<&-"),
    "no standard output": Surroundings(first="exec 1>&-"),
    "no standard error": Surroundings(first="exec 2>&-", reported=False),
    "nothing open at all": Surroundings(first="exec 0<&- 1>&- 2>&-", reported=False),
    "a full standard output": Surroundings(first="exec 1>/dev/full"),
    "128 descriptors": Surroundings(first="ulimit -n 128"),
    "umask 777": Surroundings(first="umask 777"),
}


def environments(folder: Path) -> Iterator[Attempt]:
    for name, surroundings in ENVIRONMENTS.items():
        yield Attempt(f"environment: {name}", partial(_in, folder, surroundings), within_s=START_S + END_S, whole=True)


def signals(folder: Path) -> Iterator[Attempt]:
    reported = {
        **{each.name: (each,) for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)},
        "SIGTERM and at once SIGINT": (signal.SIGTERM, signal.SIGINT),
        "SIGTERM 50 times": (signal.SIGTERM,) * 50,
        "SIGSTOP, SIGTERM, SIGCONT": (signal.SIGSTOP, signal.SIGTERM, signal.SIGCONT),
        "SIGPIPE, SIGWINCH, SIGCHLD, and SIGTERM": (signal.SIGPIPE, signal.SIGWINCH, signal.SIGCHLD, signal.SIGTERM),
    }
    for name, numbers in reported.items():
        yield Attempt(f"signals: {name}", partial(_signalled, folder, numbers), within_s=START_S + END_S, whole=True)
    yield Attempt("signals: SIGHUP that is ignored", partial(_ignored, folder), within_s=START_S + END_S, whole=True)
    for after_s in (0.0, 0.1, 0.3, 1.0):
        yield Attempt(
            f"signals: SIGTERM {after_s} s after its start", partial(_early, folder, after_s), within_s=START_S + END_S, whole=True
        )


# ---- a program that waits for etcd -----------------------------------------------------------------------------------------


class Program:
    """`ticdc-dump run`, in surroundings of its own. Leaving it kills what is left."""

    def __init__(self, folder: Path, surroundings: Surroundings) -> None:
        here = Path(tempfile.mkdtemp(dir=folder))
        path = here / "sidecar.toml"
        path.write_text(SETTINGS.format(folder=here) + "[logging]\nformat = 'json'\n")
        command = ["/bin/sh", "-c", f'{surroundings.first}; exec "$@"', "sh", *PROGRAM, "run", "--config", str(path)]
        environment = {name: value for name, value in os.environ.items() if name not in surroundings.without}
        self._said = here / "said"
        with self._said.open("wb") as out:
            self.process = subprocess.Popen(
                command, cwd=here, env=environment | surroundings.variables, stdin=subprocess.DEVNULL, stdout=out, stderr=out
            )

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()

    def said(self) -> str:
        return self._said.read_text(errors="replace")

    def waits(self, *, reported: bool = True) -> None:
        """It has come up. One that can say nothing is given time to."""
        until_s = monotonic() + START_S
        while (WAITS not in self.said()) if reported else self._loads():
            if self.process.poll() is not None:
                raise Fault(Outcome.FOREIGN, f"it ended with {self.process.returncode}: {self.said()[-600:]}")
            if monotonic() > until_s:
                raise Fault(Outcome.HANG, f"it does not come up: {self.said()[-600:]}")
            sleep(POLL_S)

    def _loads(self) -> bool:
        """Whether its handlers of signals are not there yet, as the system shows it."""
        caught = next(line for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines() if line.startswith("SigCgt:"))
        return not int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1

    def ends(self, *codes: int) -> None:
        try:
            code = self.process.wait(END_S)
        except subprocess.TimeoutExpired:
            raise Fault(Outcome.HANG, f"it does not end: {self.said()[-600:]}") from None
        if code not in codes or "Traceback" in self.said():
            raise Fault(Outcome.FOREIGN, f"exit code {code}: {self.said()[-600:]}")


def _in(folder: Path, surroundings: Surroundings) -> Outcome:
    with Program(folder, surroundings) as program:
        program.waits(reported=surroundings.reported)
        _send(signal.SIGTERM, program)
        program.ends(0)
    return Outcome.HARMLESS


def _send(number: signal.Signals, program: Program) -> None:
    with suppress(ProcessLookupError):
        os.kill(program.process.pid, number)


def _signalled(folder: Path, numbers: Sequence[signal.Signals]) -> Outcome:
    with Program(folder, Surroundings()) as program:
        program.waits()
        for number in numbers:
            _send(number, program)
        program.ends(0)
    return Outcome.HARMLESS


def _ignored(folder: Path) -> Outcome:
    with Program(folder, Surroundings(first="trap '' HUP")) as program:
        program.waits()
        _send(signal.SIGHUP, program)
        before = program.said().count(WAITS)
        until_s = monotonic() + END_S
        while program.said().count(WAITS) == before:
            if program.process.poll() is not None or monotonic() > until_s:
                raise Fault(Outcome.FOREIGN, f"it does not continue: {program.said()[-600:]}")
            sleep(POLL_S)
        _send(signal.SIGTERM, program)
        program.ends(0)
    return Outcome.HARMLESS


def _early(folder: Path, after_s: float) -> Outcome:
    """While it loads, the system's own end is fine."""
    with Program(folder, Surroundings()) as program:
        sleep(after_s)  # what is tried is a moment
        _send(signal.SIGTERM, program)
        program.ends(0, -signal.SIGTERM)
    return Outcome.HARMLESS


AREA = Area("unlucky", 182, opened)
