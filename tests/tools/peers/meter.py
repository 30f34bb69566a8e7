"""CPU of process trees, sampled all the time, so that what it was at any moment can be asked afterwards.

A process counts for a tree while the tree's root is above it. What it has used is remembered when it is gone; of one that lives for
less than `SAMPLE_S` nothing is seen. Time that a parent has waited for is not counted again: each process brings only its own.
"""

from __future__ import annotations

import os
import threading
import time
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.tools.bench.figures import TICKS_A_SECOND, machine_ticks

SAMPLE_S = 0.25
MACHINE = "machine"
"""The tree of everything that runs, ours or not."""

ProcessKey = tuple[int, int]
"""pid and start time: a pid comes back."""


@dataclass(frozen=True, slots=True)
class Process:
    parent: int
    started: int
    ticks: int


def processes() -> dict[int, Process]:
    """Of the machine, by pid, with their own user and system time (proc_pid_stat(5))."""
    result = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            after_name = (entry / "stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        result[int(entry.name)] = Process(int(after_name[1]), int(after_name[19]), int(after_name[11]) + int(after_name[12]))
    return result


def tree(root: int, value: Mapping[int, Process]) -> set[int]:
    """The pids of `root` and of all below it; empty if it is not there."""
    children: dict[int, list[int]] = {}
    for pid, process in value.items():
        children.setdefault(process.parent, []).append(pid)
    pids: set[int] = set()
    waiting = [root] if root in value else []
    while waiting:
        pid = waiting.pop()
        pids.add(pid)
        waiting += children.get(pid, ())
    return pids


class Spent:
    """What the processes of one tree have used, those that are gone too."""

    def __init__(self) -> None:
        self._ticks: dict[ProcessKey, int] = {}
        self._at_ns: list[int] = []
        self._cpu_s: list[float] = []

    def add(self, at_ns: int, ticks: Mapping[ProcessKey, int]) -> None:
        self._ticks |= ticks
        self._at_ns.append(at_ns)
        self._cpu_s.append(sum(self._ticks.values()) / TICKS_A_SECOND)

    def cpu_s(self, at_ns: int) -> float:
        """At a moment between two samples what lies between them; before the first and after the last those."""
        index = bisect_left(self._at_ns, at_ns)
        if index == 0 or index == len(self._at_ns):
            return self._cpu_s[min(index, len(self._at_ns) - 1)]
        before_ns, after_ns = self._at_ns[index - 1], self._at_ns[index]
        part = (at_ns - before_ns) / (after_ns - before_ns)
        return self._cpu_s[index - 1] + part * (self._cpu_s[index] - self._cpu_s[index - 1])


class Meter:
    """`with Meter() as meter`. Its own tree is watched as "bench"; others are added by `watch`."""

    def __init__(self) -> None:
        self._roots = {"bench": os.getpid()}
        self._spent: dict[str, Spent] = {}
        self._lock = threading.Lock()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="meter", daemon=True)

    def __enter__(self) -> Self:
        self.sample()
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._end.set()
        self._thread.join()

    def watch(self, name: str, pid: int) -> None:
        with self._lock:
            self._roots[name] = pid
        self.sample()

    def knows(self, name: str) -> bool:
        with self._lock:
            return name in self._spent

    def sample(self) -> None:
        with self._lock:
            at_ns, result = time.time_ns(), processes()
            self._spent.setdefault(MACHINE, Spent()).add(at_ns, {(0, 0): machine_ticks()})
            for name, root in self._roots.items():
                ticks = {(pid, result[pid].started): result[pid].ticks for pid in tree(root, result)}
                self._spent.setdefault(name, Spent()).add(at_ns, ticks)

    def cpu_s(self, name: str, from_ns: int, until_ns: int) -> float:
        """CPU seconds of the tree between two moments of the past."""
        with self._lock:
            spent = self._spent[name]
            return spent.cpu_s(until_ns) - spent.cpu_s(from_ns)

    def cores(self, name: str, from_ns: int, until_ns: int) -> float:
        return self.cpu_s(name, from_ns, until_ns) / ((until_ns - from_ns) / 1e9)

    def cores_of_others(self, from_ns: int, until_ns: int) -> float:
        """What processes that are not this command's kept busy."""
        return max(0.0, self.cores(MACHINE, from_ns, until_ns) - self.cores("bench", from_ns, until_ns))

    def _run(self) -> None:
        while not self._end.wait(SAMPLE_S):
            self.sample()
