"""SIGSTOP that has taken effect: a signal is delivered when the kernel comes to it, and on a busy machine a server answers until then."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

STOP_S_MAX = 300.0


def freeze(pid: int) -> None:
    """Returns when each thread of the process stands still."""
    os.kill(pid, signal.SIGSTOP)
    until_s = time.monotonic() + STOP_S_MAX
    while not all(state == "T" for state in _states(pid)):
        if time.monotonic() > until_s:
            raise RuntimeError(f"process {pid} does not stop: {_states(pid)}")
        time.sleep(0.001)


def thaw(pid: int) -> None:
    os.kill(pid, signal.SIGCONT)


def _states(pid: int) -> list[str]:
    """Of its threads, as in proc(5): R, S, D, T, …"""
    states = []
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # it has ended
            states.append((thread / "stat").read_text().rpartition(")")[2].split()[0])
    return states
