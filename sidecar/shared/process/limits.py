"""What this process may use: processors, and bytes of memory. The least of the machine, its affinity, and each control group it is in.

    /proc/self/cgroup ─► the group and those above it, v2 (cpu.max, memory.max) or v1 (cpu.cfs_quota_us, memory.limit_in_bytes)

Whatever is started as often as there are processors, or as memory allows, asks here: a container on a large machine has few of its cores,
and the kernel ends all of it where its memory is over. A container without a namespace of its own sees paths that are not mounted for it:
then the groups are those at the root of the mount, which is its own.

Sources: docs.kernel.org/admin-guide/cgroup-v2.html; .../cgroup-v1/memory.html; .../scheduler/sched-bwc.html.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from math import ceil
from pathlib import Path, PurePosixPath
from typing import NamedTuple

GROUPS = "sys/fs/cgroup"
_LOCAL = re.compile(r"local(?:\[(?P<threads>\d+|\*)(?P<failures>\s*,\s*\d+)?\])?")
NO_LIMIT_BYTES = 1 << 60
"""v1 has no word for none, but a number about as large as there is."""


class Limits(NamedTuple):
    """`free_bytes`: of memory, that may still be used: what is cached of files counts as free."""

    cpus: int
    memory_bytes: int
    free_bytes: int


class _Memory(NamedTuple):
    most: int
    free: int


def limits(root: Path = Path("/")) -> Limits:
    """As of now. `root`: where /proc and /sys are."""
    memory = [_of_machine(root), *_memory_of_groups(root)]
    cpus = min([len(os.sched_getaffinity(0)), *(max(1, ceil(each)) for each in _cpus_of_groups(root))])
    return Limits(cpus, min(each.most for each in memory), max(0, min(each.free for each in memory)))


def local_threads(master: str, cpus: int) -> int | None:
    """How many threads of its own a Spark of this master has; None: it has executors elsewhere."""
    if (match := _LOCAL.fullmatch(master.strip())) is None:
        return None
    threads = match["threads"]
    return 1 if threads is None else cpus if threads == "*" else max(1, int(threads))


def local_master(master: str, cpus: int) -> str:
    """With a number of threads for `*`, which Spark takes for the machine's."""
    match = _LOCAL.fullmatch(master.strip())
    return f"local[{cpus}{match['failures'] or ''}]" if match and match["threads"] == "*" else master


def _cpus_of_groups(root: Path) -> Iterator[float]:
    for folder in _groups(root, "cpu"):
        quota = _words(folder / "cpu.max") or [*_words(folder / "cpu.cfs_quota_us"), *_words(folder / "cpu.cfs_period_us")]
        if len(quota) == 2 and all(map(str.isdecimal, quota)) and int(quota[1]):  # else `max`, or -1
            yield int(quota[0]) / int(quota[1])


def _memory_of_groups(root: Path) -> Iterator[_Memory]:
    for folder in _groups(root, "memory"):
        most = _number(folder / "memory.max", folder / "memory.limit_in_bytes")
        if most is not None and most < NO_LIMIT_BYTES:
            used = _number(folder / "memory.current", folder / "memory.usage_in_bytes") or 0
            stat = dict(line.split(maxsplit=1) for line in _text(folder / "memory.stat").splitlines() if " " in line)
            cached = int(stat.get("total_inactive_file", stat.get("inactive_file", 0)))
            yield _Memory(most, most - max(used - cached, 0))


def _of_machine(root: Path) -> _Memory:
    known = dict(re.findall(r"^(\w+):\s+(\d+) kB$", _text(root / "proc/meminfo"), re.MULTILINE))
    total = int(known.get("MemTotal", NO_LIMIT_BYTES >> 10)) << 10
    return _Memory(total, int(known.get("MemAvailable", total >> 10)) << 10)


def _groups(root: Path, controller: str) -> Iterator[Path]:
    """The folders of the process's group and of those above it, that are there."""
    for line in _text(root / "proc/self/cgroup").splitlines():
        number, names, path = line.split(":", 2)
        if number == "0":
            top = root / GROUPS
        elif controller in names.split(","):
            top = root / GROUPS / controller
        else:
            continue
        group = PurePosixPath(path).relative_to("/")
        yield from (folder for one in (group, *group.parents) if (folder := top / one).is_dir() and ".." not in one.parts)


def _number(*paths: Path) -> int | None:
    """Of the first file that has one; `max` is none."""
    return next((int(word) for path in paths for word in _words(path) if word.isdecimal()), None)


def _words(path: Path) -> list[str]:
    return _text(path).split()


def _text(path: Path) -> str:
    """Empty where there is no such file: another version of control groups, or none."""
    with suppress(OSError, UnicodeDecodeError):
        return path.read_text()
    return ""
