"""The merge worker as a child process: a Spark that dies takes nothing with it, and is started again.

- It gets the owner's epoch, so that it ends on its own where a later owner writes, and a pipe as standard input, so that it
  ends when this process does, however it dies. A line of the pipe is the next epoch of the same owner, which it serves from then on.
- It is started again after every death, sooner after a long life than after a short one. What it died of is in its report
  beside the log; here how often and with which exit code, and for one that could not say it (`unexplained`) that it could not.
- Where the machine has no room for its folder, or cannot start it now, it is tried again as after a death: the log is written on.
- Its JVM outlives it for a moment, in which Spark removes its files; then the whole group is killed. All that Spark writes aside is
  in a folder of this life (shared/process/scratch.py), which goes with it: below SPARK_LOCAL_DIRS, else the machine's temporary folder.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Lock
from time import monotonic, time

from sidecar.shared.errors import StorageFull, with_hint
from sidecar.shared.log.delivery_report import DeliveryReport
from sidecar.shared.process.background import Background
from sidecar.shared.process.group import await_end
from sidecar.shared.process.scratch import WANTING, Scratch

RESTART_FIRST_S, RESTART_MAX_S = 1.0, 60.0
"""Waits double from the first to the last: a worker that cannot start must not cost the machine a JVM a second."""
LONG_LIFE_S = 60.0
"""A worker that lived so long failed for a cause of its own: it is started again at once."""
END_S = 20.0
"""A batch is given so long to be accepted before the worker is killed; killed or not, nothing is lost."""
GROUP_END_S = 8.0
"""The JVM is given so long after the worker's end: it stops Spark and removes its files, in one second where nothing is amiss."""
KILLED_S = 2.0
"""Until the system has ended what was killed, after which its files are nobody's."""


@dataclass(frozen=True, slots=True)
class Death:
    """Of a worker, which is started again after `again_in_s`. `exit_code` below 0: the signal that killed it. `at_ms`: wall clock.
    `unborn`: what kept it from being started, with the way out; it has no process and no exit code then."""

    exit_code: int
    lived_s: float
    again_in_s: float
    pid: int = 0
    at_ms: int = 0
    unborn: str = ""

    def __str__(self) -> str:
        known = -self.exit_code in {number.value for number in signal.Signals}
        how = signal.Signals(-self.exit_code).name if known else f"exit code {self.exit_code}"
        return f"the merge worker ended after {self.lived_s:.0f} s with {how} and did not say why"


class MergeProcess:
    """Runs `command` until `close`. `noticed` receives each death, for the log, in a thread of this one's."""

    def __init__(self, command: Sequence[str], noticed: Callable[[Death], object]) -> None:
        self._command = list(command)
        self._noticed = noticed
        self._lock = Lock()
        self._last_line = self._unsent = b""
        self._child: subprocess.Popen[bytes] | None = None
        self.deaths = 0
        self.last: Death | None = None
        self._minding: Background | None = None

    def start(self) -> None:
        self._minding = Background(self._mind, name="merge-worker")

    def serve(self, command: Sequence[str], line: bytes) -> None:
        """Say `line` to the worker that runs, and run those after it by `command`. Where it dies meanwhile, one of those follows."""
        with self._lock:
            self._command = list(command)
            self._write(line)

    def tell(self, line: bytes) -> None:
        """Say `line` to the worker that runs, and to those after it, in the place of the line before."""
        with self._lock:
            self._last_line = line
            self._write(line)

    def _write(self, line: bytes) -> None:
        """Under the lock. A worker that does not read holds up nobody: what its pipe does not take waits here, and goes first."""
        if self._child is None or self._child.stdin is None:
            return
        self._unsent += line
        with suppress(OSError, ValueError):  # full, or its end
            while self._unsent:
                self._unsent = self._unsent[os.write(self._child.stdin.fileno(), self._unsent) :]

    def check(self) -> None:
        """Called often. Raises what keeps a worker from being started at all."""
        if self._unsent:
            with self._lock:
                self._write(b"")
        if self._minding is not None:
            self._minding.check()

    def pid(self) -> int | None:
        """Of the worker, None while none runs."""
        child = self._child
        return child.pid if child is not None and child.poll() is None else None

    def close(self, *, at_once: bool) -> None:
        """End the worker: after its batch, or `at_once` where this process may not deliver any more."""
        if self._minding is None:
            return
        self._minding.close(0)
        with self._lock:
            child = self._child
        if child is not None:
            if not at_once and child.stdin is not None:
                with suppress(OSError):
                    child.stdin.close()
                with suppress(subprocess.TimeoutExpired):
                    child.wait(END_S)
                    await_end(child.pid, GROUP_END_S)
            _kill(child)
        self._minding.close()

    def _mind(self, closing: Event) -> None:
        wait_s = RESTART_FIRST_S
        while not closing.is_set():
            began_s, unborn = monotonic(), ""
            try:
                ended = self._live(closing)
            except StorageFull as error:
                ended, unborn = (0, 0), str(error)
            except OSError as error:
                if error.errno not in WANTING:
                    raise
                ended = (0, 0)
                unborn = with_hint(
                    f"the merge worker cannot be started: {error}", "see what holds so much of this machine: it is tried again"
                )
            if ended is None or closing.is_set():
                return
            self.deaths += 1
            lived_s = monotonic() - began_s
            wait_s = RESTART_FIRST_S if lived_s >= LONG_LIFE_S else min(wait_s * 2, RESTART_MAX_S)
            pid, code = ended
            self.last = Death(code, lived_s, wait_s, pid, int(time() * 1000), unborn)
            self._noticed(self.last)
            closing.wait(wait_s)

    def _live(self, closing: Event) -> tuple[int, int] | None:
        """One life: its process id and exit code, None if it is not to begin any more."""
        scratch = Scratch(spark_places(os.environ))
        try:
            return self._live_in(scratch, closing)
        finally:
            scratch.remove()

    def _live_in(self, scratch: Scratch, closing: Event) -> tuple[int, int] | None:
        with self._lock:
            if closing.is_set():
                return None
            self._child = child = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                start_new_session=True,
                env=environment(os.environ, scratch.folders),
                pass_fds=scratch.locks,
            )
            assert child.stdin is not None
            os.set_blocking(child.stdin.fileno(), False)
            self._unsent = b""
            self._write(self._last_line)
            try:
                scratch.used_by(child.pid)
            except OSError:
                _kill(child)  # else another one would be started beside it
                raise
        code = child.wait()
        await_end(child.pid, GROUP_END_S)
        _kill(child)
        return child.pid, code


def spark_places(given: Mapping[str, str]) -> list[str]:
    """Where Spark would write temporary files without a setting: its own variable may name several disks."""
    named = [place.strip() for place in given.get("SPARK_LOCAL_DIRS", "").split(",")]
    return [place for place in named if place] or [tempfile.gettempdir()]


def environment(given: Mapping[str, str], folders: Sequence[Path]) -> dict[str, str]:
    """Of a worker whose Spark, JVM and Python write aside in `folders` only."""
    options = f'{given.get("SPARK_SUBMIT_OPTS", "")} "-Djava.io.tmpdir={folders[0]}"'
    aside = {"SPARK_LOCAL_DIRS": ",".join(map(str, folders)), "TMPDIR": str(folders[0]), "SPARK_SUBMIT_OPTS": options.strip()}
    return {**given, **aside}


def unexplained(death: Death | None, report: DeliveryReport | None) -> str:
    """The error of a worker that died without a report (killed, out of memory, ended before it wrote one), until a later worker has
    delivered something. Empty where there is none."""
    if death is None:
        return ""
    if report is not None and report.pid == death.pid and report.state == "stopped" and report.error:
        return ""  # while it runs, the error in its report is a previous one's
    if report is not None and report.pid != death.pid and report.written_ms >= death.at_ms and any(sink.batches for sink in report.sinks):
        return ""
    return death.unborn or with_hint(str(death), "see its own last lines in this process's log; SIGKILL is most often want of memory")


def _kill(child: subprocess.Popen[bytes]) -> None:
    """The worker with its JVM and Python workers: they are in a process group of their own."""
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    await_end(child.pid, KILLED_S)
    if child.stdin is not None:
        with suppress(OSError):
            child.stdin.close()


def worker_state(pid: int | None, report: DeliveryReport | None) -> str:
    """Of the worker with process id `pid`: a report that another one left says nothing of it."""
    if pid is None:
        return "stopped"
    return report.state if report is not None and report.pid == pid else "starting"
