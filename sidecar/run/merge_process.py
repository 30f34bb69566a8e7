"""The merge worker as a child process: a Spark that dies takes nothing with it, and is started again.

- It gets the owner's epoch, so that it ends by itself where a later owner writes, and a pipe as standard input, so that it
  ends when this process does, however it dies.
- It is started again after every death, sooner after a long life than after a short one. What it died of is in its report
  beside the log; here only how often and with which exit code.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from threading import Event, Lock
from time import monotonic

from sidecar.process.background import Background

RESTART_FIRST_S, RESTART_MAX_S = 1.0, 60.0
"""Waits double from the first to the last: a worker that cannot start must not cost the machine a JVM a second."""
LONG_LIFE_S = 60.0
"""A worker that lived so long failed for a cause of its own: it is started again at once."""
END_S = 20.0
"""A batch is given so long to be accepted before the worker is killed; killed or not, nothing is lost."""


@dataclass(frozen=True, slots=True)
class Death:
    """Of a worker, which is started again after `again_in_s`. `exit_code` below 0: the signal that killed it."""

    exit_code: int
    lived_s: float
    again_in_s: float


class MergeProcess:
    """Runs `command` until `close`. `noticed` hears of each death, for the log, in a thread of this one's."""

    def __init__(self, command: Sequence[str], noticed: Callable[[Death], object]) -> None:
        self._command = list(command)
        self._noticed = noticed
        self._lock = Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self.deaths = 0
        self._minding: Background | None = None

    def start(self) -> None:
        self._minding = Background(self._mind, name="merge-worker")

    def check(self) -> None:
        """Raises what keeps a worker from being started at all."""
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
            _kill(child)
        self._minding.close()

    def _mind(self, closing: Event) -> None:
        wait_s = RESTART_FIRST_S
        while not closing.is_set():
            began_s = monotonic()
            with self._lock:
                if closing.is_set():
                    return
                self._child = subprocess.Popen(self._command, stdin=subprocess.PIPE, start_new_session=True)
            code = self._child.wait()
            _kill(self._child)
            if closing.is_set():
                return
            self.deaths += 1
            lived_s = monotonic() - began_s
            wait_s = RESTART_FIRST_S if lived_s >= LONG_LIFE_S else min(wait_s * 2, RESTART_MAX_S)
            self._noticed(Death(code, lived_s, wait_s))
            closing.wait(wait_s)


def _kill(child: subprocess.Popen[bytes]) -> None:
    """The worker with its JVM and Python workers: they are in a process group of their own."""
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    if child.stdin is not None:
        with suppress(OSError):
            child.stdin.close()
