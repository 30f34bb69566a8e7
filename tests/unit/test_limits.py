"""What a process may use, in whatever control groups it is."""

from __future__ import annotations

import os
from math import ceil
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.shared.process.limits import NO_LIMIT_BYTES, limits, local_master, local_threads

GIB = 1 << 30
MACHINE = "MemTotal:       67108864 kB\nMemFree:        1 kB\nMemAvailable:   33554432 kB\n"


class Group:
    """`period` in µs; None: no limit. `inside`: whether the container has a namespace of its own, and sees itself as the root."""

    def __init__(self, root: Path, version: int) -> None:
        self.root, self.version = root, version
        (root / "proc/self").mkdir(parents=True)
        (root / "proc/meminfo").write_text(MACHINE)

    def of(self, path: str) -> None:
        lines = "0::{}\n" if self.version == 2 else "12:pids:{}\n4:cpu,cpuacct:{}\n3:memory:{}\n"
        (self.root / "proc/self/cgroup").write_text(lines.replace("{}", path))

    def put(self, path: str, cpus: float | None, most: int | None, used: int, cached: int) -> None:
        if self.version == 2:
            self._write(f"{path}/cpu.max", "max 100000" if cpus is None else f"{int(cpus * 100_000)} 100000")
            self._write(f"{path}/memory.max", "max" if most is None else str(most))
            self._write(f"{path}/memory.current", str(used))
            self._write(f"{path}/memory.stat", f"anon 5\ninactive_file {cached}\n")
            return
        self._write(f"cpu/{path}/cpu.cfs_quota_us", "-1" if cpus is None else str(int(cpus * 100_000)))
        self._write(f"cpu/{path}/cpu.cfs_period_us", "100000")
        self._write(f"memory/{path}/memory.limit_in_bytes", str(NO_LIMIT_BYTES * 4 if most is None else most))
        self._write(f"memory/{path}/memory.usage_in_bytes", str(used))
        self._write(f"memory/{path}/memory.stat", f"inactive_file 1\ntotal_inactive_file {cached}\n")

    def _write(self, name: str, text: str) -> None:
        path = self.root / "sys/fs/cgroup" / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")


CPUS = st.none() | st.floats(0.01, 64)
MEMORY = st.none() | st.integers(1, 64 * GIB)


@given(st.sampled_from([1, 2]), st.booleans(), CPUS, CPUS, MEMORY, MEMORY, st.integers(0, 64 * GIB), st.integers(0, 64 * GIB))
def test_the_least_of_the_machine_and_of_each_group_counts(
    version: int, seen: bool, cpus: float | None, above: float | None, most: int | None, most_above: int | None, used: int, cached: int
) -> None:
    """`seen`: the path of the process's group is there; else the mount's root is the group."""
    with TemporaryDirectory() as folder:
        group = Group(Path(folder), version)
        group.of("/kubepods/pod1")
        if seen:
            group.put("kubepods/pod1", cpus, most, used, cached)
            group.put("kubepods", above, most_above, used, cached)
        else:
            group.put("", cpus, most, used, cached)
            above = most_above = None
        result = limits(Path(folder))
    affinity = len(os.sched_getaffinity(0))
    assert result.cpus == min(affinity, *(max(1, ceil(int(one * 100_000) / 100_000)) for one in (cpus or affinity, above or affinity)))
    bounds = [one for one in (most, most_above) if one is not None]
    assert result.memory_bytes == min([64 * GIB, *bounds])
    assert result.free_bytes == max(0, min([32 * GIB, *(one - max(used - cached, 0) for one in bounds)]))


@pytest.mark.parametrize("text", ["", "0::/../other\n", "1:name=systemd:/user\n"])
def test_without_groups_the_machine_counts(tmp_path: Path, text: str) -> None:
    Group(tmp_path, 2)
    (tmp_path / "proc/self/cgroup").write_text(text)
    assert limits(tmp_path) == (len(os.sched_getaffinity(0)), 64 * GIB, 32 * GIB)


def test_here_there_is_something_to_use() -> None:
    result = limits()
    assert 1 <= result.cpus <= len(os.sched_getaffinity(0))
    assert 0 < result.free_bytes <= result.memory_bytes < NO_LIMIT_BYTES


@pytest.mark.parametrize(
    ("master", "threads", "started"),
    [
        ("local", 1, "local"),
        ("local[*]", 3, "local[3]"),
        ("local[4]", 4, "local[4]"),
        ("local[*,2]", 3, "local[3,2]"),
        ("local[4, 2]", 4, "local[4, 2]"),
        ("local-cluster[2,1,1024]", None, "local-cluster[2,1,1024]"),
        ("spark://host:7077", None, "spark://host:7077"),
        ("k8s://https://host", None, "k8s://https://host"),
    ],
)
def test_the_threads_of_a_local_spark_are_those_that_it_may_have(master: str, threads: int | None, started: str) -> None:
    assert (local_threads(master, 3), local_master(master, 3)) == (threads, started)
