"""What a measurement gives, and how its costs are taken.

Walls are noise on a loaded machine, so CPU time of the whole process tree (the JVM and its Python workers too) stands
beside them, and each figure beside a reference of the same run. A figure is the best of its repetitions, wall and CPU
each for itself, and so is its reference.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

REPEATS = 3
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(slots=True)
class Cost:
    wall_s: float = 0.0
    cpu_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table. `ratio` and `cpu_ratio` compare with `reference`: above 1 is faster than it, by wall and by CPU.

    `cpu_us`: CPU microseconds a row. `limit`: what limits it.
    """

    name: str
    value: float
    unit: str
    aim: str
    limit: str
    cpu_us: float | None = None
    reference: str = ""
    ratio: float | None = None
    cpu_ratio: float | None = None


def rate(name: str, rows: int, cost: Cost, *, aim: str, limit: str) -> Figure:
    return Figure(name, rows / cost.wall_s, "rows/s", aim, limit, cpu_us=cost.cpu_s / rows * 1e6)


def beside(figure: Figure, reference: str, rows: int, cost: Cost) -> Figure:
    """The figure, a rate, with a reference that took `cost` for `rows`."""
    assert figure.cpu_us is not None
    wall, cpu_us = rows / cost.wall_s, cost.cpu_s / rows * 1e6
    return replace(
        figure, reference=f"{reference} {wall:,.0f} rows/s", ratio=figure.value / wall, cpu_ratio=cpu_us / figure.cpu_us if cpu_us else None
    )


def best(run: Callable[[], Cost], repeats: int = REPEATS) -> Cost:
    costs = [run() for _ in range(repeats)]
    return Cost(min(cost.wall_s for cost in costs), min(cost.cpu_s for cost in costs))


def best_in_turn(*runs: Callable[[], Cost], repeats: int = REPEATS) -> list[Cost]:
    """The best of each, run in turn, so that what else the machine does falls on all of them alike."""
    costs = [[run() for run in runs] for _ in range(repeats)]
    return [best(iter(of_one).__next__, repeats) for of_one in zip(*costs, strict=True)]


def percentile(values: list[float], part: float) -> float:
    """The smallest value that `part` of them do not exceed."""
    ranked = sorted(values)
    return ranked[max(0, -(-len(ranked) * round(part * 1000) // 1000) - 1)]


@contextmanager
def timed(cost: Cost) -> Iterator[None]:
    """Add what the body takes in this process, which has one busy thread."""
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    yield
    cost.wall_s += time.perf_counter() - wall_s
    cost.cpu_s += time.process_time() - cpu_s


@contextmanager
def timed_tree(cost: Cost) -> Iterator[None]:
    """Add what the body takes in this process and all its descendants, to a hundredth of a second."""
    wall_s, ticks = time.perf_counter(), tree_ticks()
    yield
    cost.wall_s += time.perf_counter() - wall_s
    cost.cpu_s += sum(end - ticks.get(pid, 0) for pid, end in tree_ticks().items()) / TICKS_A_SECOND


def tree_ticks() -> dict[int, int]:
    """User and system time of this process and each descendant, with that of the children it has waited for.

    By process, because one that ends takes its time along: Spark's daemon does not wait for its workers, and idle ones
    are ended.
    """
    stats = _stats()
    return {pid: sum(map(int, stats[pid][11:15])) for pid in _tree(os.getpid(), stats)}


def tree_of(pid: int) -> list[int]:
    """That process and each descendant."""
    return _tree(pid, _stats())


def _stats() -> dict[int, list[str]]:
    """What /proc/PID/stat has behind the name, of each process."""
    stats = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(FileNotFoundError, ProcessLookupError):
            stats[int(entry.name)] = (entry / "stat").read_text().rpartition(")")[2].split()
    return stats


def machine_ticks() -> int:
    """User and system time of everything on the machine since it started."""
    user, nice, system, _idle, _iowait, irq, softirq = map(int, Path("/proc/stat").read_text().split(None, 8)[1:8])
    return user + nice + system + irq + softirq


def _tree(root: int, stats: Mapping[int, Sequence[str]]) -> list[int]:
    def is_below(pid: int) -> bool:
        while pid in stats and pid != root:
            pid = int(stats[pid][1])
        return pid == root

    return list(filter(is_below, stats))
