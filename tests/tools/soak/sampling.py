"""What processes and folders hold, out of /proc: samples of numbers by name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

PROC = Path("/proc")
_KIB_A_MIB = 1024


class Sample(NamedTuple):
    """`of`: the process id it was taken of, 0 of what is no process. A series is fitted within one `of` only."""

    at_s: float
    of: int
    value: float


Series = dict[str, list[Sample]]
"""By name: `sidecar rss MiB`."""


def take(series: Series, at_s: float, processes: Mapping[str, int | None], folders: Mapping[str, Path]) -> None:
    """One sample of each. A process that is dead, or dies meanwhile, gives none."""
    for name, pid in processes.items():
        for what, value in held(pid).items() if pid is not None else ():
            series.setdefault(f"{name} {what}", []).append(Sample(at_s, pid or 0, value))
    for name, folder in folders.items():
        series.setdefault(f"{name} MiB", []).append(Sample(at_s, 0, folder_mib(folder)))


def held(pid: int) -> dict[str, float]:
    """Memory, descriptors and threads of a process; empty if it is not there."""
    try:
        status = dict(line.split(":", 1) for line in (PROC / str(pid) / "status").read_text().splitlines())
        descriptors = len(list((PROC / str(pid) / "fd").iterdir()))
        rss_kib = int(status["VmRSS"].split()[0])
    except (OSError, KeyError):
        return {}
    return {"rss MiB": rss_kib / _KIB_A_MIB, "descriptors": descriptors, "threads": int(status["Threads"])}


def folder_mib(folder: Path) -> float:
    """Of all files in it. One that goes while it is looked at counts for nothing."""
    size = 0
    for path in folder.rglob("*") if folder.is_dir() else ():
        try:
            size += path.lstat().st_size
        except OSError:
            continue
    return size / (_KIB_A_MIB * 1024)


def descendant(pid: int | None, name: str) -> int | None:
    """The oldest process called `name` (its `comm`) among those that `pid` started, and they."""
    if pid is None:
        return None
    waiting = [pid]
    while waiting:
        one = waiting.pop(0)
        if one != pid and _comm(one) == name:
            return one
        waiting += sorted(_children(one))
    return None


def _comm(pid: int) -> str:
    try:
        return (PROC / str(pid) / "comm").read_text().strip()
    except OSError:
        return ""


def _children(pid: int) -> list[int]:
    children: list[int] = []
    for task in _listed(PROC / str(pid) / "task"):
        try:
            children += map(int, (task / "children").read_text().split())
        except OSError:
            continue  # a thread that has ended meanwhile
    return children


def _listed(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []
