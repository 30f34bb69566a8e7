"""Tasks of a real Spark cluster read a dump's chunks beside writes: the whole product, with what may end amid it."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest

from tests.rig.disasters import DEADLINE_S
from tests.rig.rig import Rig
from tests.rig.sidecar_process import SidecarProcess
from tests.rig.tables import SCHEMA
from tests.support.services.spark import SparkCluster

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("cluster"), pytest.mark.turns(2, "whole product")]

TABLES = tuple(f"{SCHEMA}.{table}" for table in ("account", "orders", "item"))
STEP_ROWS = 100  # of the 1,800 of a dump


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SparkCluster]:
    with SparkCluster(tmp_path / "cluster") as spark_cluster:
        monkeypatch.setenv("SPARK_CONF_DIR", str(spark_cluster.conf))
        monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
        yield spark_cluster


def test_a_dump_that_executors_read_is_equal_though_one_and_the_worker_are_killed(tmp_path: Path, cluster: SparkCluster) -> None:
    """On a cluster Spark reads without a setting.

    Small chunks at a pace at which the dump would last 90 s: however slow this machine is, something is being read at each step.
    """
    with Rig(tmp_path, initial_rows=3_000) as rig:
        config = rig.sidecar_config(
            sinks=[f"sqlite://{tmp_path}/out.db?name=small"], log=f"file://{tmp_path}/log", spark={"master": cluster.url, "memory": "512m"}
        )
        with SidecarProcess(config, tmp_path / "sidecar.log") as sidecar, rig.workload(writes_per_s=50) as workload:
            try:
                sidecar.await_status(lambda value: int(value["delivered_tso"]) > 0, timeout_s=DEADLINE_S)
                pace = ("--chunk-rows", "20", "--rows-per-second", "20")
                sidecar.ask("dumpstart", "--tables", ",".join(TABLES), *pace)
                sidecar.await_status(lambda value: read_rows(value) > STEP_ROWS, timeout_s=DEADLINE_S)
                executor = reading(cluster, rig.source.port)
                assert executor, "an executor has a connection to the source"
                os.kill(executor, signal.SIGKILL)
                status = read_on(sidecar, STEP_ROWS)
                assert str(status["dumps"][0]["state"]) == "running", "who reads is gone, and the source is not away"
                os.kill(worker_of(sidecar.pid), signal.SIGKILL)
                read_on(sidecar, STEP_ROWS)
                sidecar.ask("dumpset", "--rows-per-second", "0", "--chunk-rows", "1000")
                status = sidecar.await_status(lambda value: [one["state"] for one in value["dumps"]] == ["finished"], timeout_s=DEADLINE_S)
                workload.stop()
                complete_ts = max(int(table["complete_at_tso"]) for table in status["tables"])
                sidecar.await_status(lambda value: int(value["delivered_tso"]) >= complete_ts, timeout_s=DEADLINE_S)
                verified = sidecar.ask("dumpverify", "--tables", ",".join(TABLES), timeout_s=DEADLINE_S)
                assert (verified["state"], len(verified["tables"])) == ("equal", 3)
                check_secret(rig.source.password, cluster.folder)
            except Exception as error:
                error.add_note((tmp_path / "sidecar.log").read_text()[-6000:])
                raise


def read_rows(status: dict[str, Any]) -> int:
    return sum(int(table["rows"]) for table in status["tables"])


def read_on(sidecar: SidecarProcess, rows: int) -> dict[str, Any]:
    """Until so many more rows of the dump are in the log."""
    before = read_rows(sidecar.await_status(lambda value: bool(value["dumps"]), timeout_s=DEADLINE_S))
    return sidecar.await_status(lambda value: read_rows(value) > before + rows, timeout_s=DEADLINE_S)


def reading(cluster: SparkCluster, port: int) -> int:
    """The executor whose task is connected to `port`; 0 if none is within the deadline."""
    until_s = monotonic() + DEADLINE_S
    while monotonic() < until_s:
        for own, remote in established():
            if remote == port:
                with suppress(AssertionError):  # of another process, or gone meanwhile
                    return cluster.executor_at(own)[0]
        sleep(0.05)
    return 0


def established() -> list[tuple[int, int]]:
    """This machine's connections over TCP: own port and the other end's."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return [(int(own.rpartition(":")[2], 16), int(other.rpartition(":")[2], 16)) for _, own, other, state, *_ in rows if state == "01"]


def worker_of(pid: int) -> int:
    """The merge worker of a sidecar."""
    children = [int(child) for path in Path(f"/proc/{pid}/task").glob("*/children") for child in path.read_text().split()]
    return next(child for child in children if b"merge" in Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0"))


def check_secret(secret: str, folder: Path) -> None:
    """The source's password is in nothing that Spark keeps of an application."""
    assert secret
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if secret.encode() in path.read_bytes()]
