"""What is measured, as `measure.py` sees it, and how its processes end.

A system is started by entering it and takes changes when that returns; leaving it kills every process of it, at once.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Protocol, Self

from tests.tools.peers.arrivals import Arrivals, Writes
from tests.tools.peers.meter import processes, tree

POLL_S = 1.0
"""Between two looks at a system: a look costs CPU, and no figure is made of when it was."""
GONE_S_MAX = 10.0


class System(Protocol):
    """Calls raise RuntimeError with what the system said when it has failed."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    @property
    def pid(self) -> int:
        """The root of its processes: what counts as its CPU."""
        ...

    def has_live(self) -> bool:
        """Whether any live row has come to the reader."""
        ...

    def has_all(self, writes: Writes) -> bool:
        """Whether all of what was written, and is committed, has come to the reader."""
        ...

    def ask_dump(self) -> None:
        """Of the whole table; again, when the one before is over."""
        ...

    def is_dumped(self, *, requested_ns: int) -> bool:
        """Whether all rows of the dump that was asked for then have come to the reader."""
        ...

    def arrivals(self) -> Arrivals:
        """All that came, whenever; asked once, after the system is gone."""
        ...


def await_true(what: str, is_true: Callable[[], bool], *, timeout_s: float) -> None:
    """Raises TimeoutError that says what was waited for."""
    give_up_s = time.monotonic() + timeout_s
    while not is_true():
        if time.monotonic() > give_up_s:
            raise TimeoutError(f"{what}: not within {timeout_s:.0f} s")
        time.sleep(POLL_S)  # neither files nor topics tell that something came


def kill_tree(root: int) -> None:
    """SIGKILL for the process and all below it. Whoever started it reaps it. Raises TimeoutError if one of them stays."""
    result = processes()
    pids = tree(root, result)
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    give_up_s = time.monotonic() + GONE_S_MAX
    while left := {pid for pid in pids - {root} if _is_alive(pid, started=result[pid].started)}:
        if time.monotonic() > give_up_s:
            raise TimeoutError(f"these do not end though killed: {sorted(left)}")
        time.sleep(0.05)  # they are no children of this process: nothing tells


def _is_alive(pid: int, *, started: int) -> bool:
    """A zombie is not: it waits for a parent, or for init."""
    try:
        after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return int(after_name[19]) == started and after_name[0] != "Z"
