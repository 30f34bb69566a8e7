"""The installed programs with a Kafka sink, and what kills and freezes them and its brokers in the middle of a dump: nothing is lost,
nothing comes twice, no row goes back, and `dumpquery` names the sink while it cannot go on.

The sink has a broker of its own, so that what happens to it is not the feed's.
"""

from __future__ import annotations

import os
import resource
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.lanes import LANE
from tests.support.kafka_output import decoded, newest, read_all
from tests.support.services.freezing import freeze, thaw
from tests.support.services.kafka import KafkaBroker
from tests.tools.rig.rig import Rig
from tests.tools.rig.sidecar_process import SidecarProcess
from tests.tools.rig.truth import differences

pytestmark = pytest.mark.xdist_group("kafka-faults")

DEADLINE_S = 500.0
TOPIC = "merged"
FROZEN_S = 12.0
"""Longer than one request to a broker waits."""

PYTHON_WORKERS = "-m spark_merge.worker.daemon"
MERGE_WORKER = "-m sidecar merge"


@dataclass(frozen=True)
class Scene:
    rig: Rig
    sidecar: SidecarProcess
    broker: KafkaBroker

    def processes(self, words: str) -> list[int]:
        """Those that the sidecar has started, with these words in their commands, when there are any; the last started first."""
        until_s = time.monotonic() + DEADLINE_S
        while not (results := [pid for pid in descendants(self.sidecar.pid) if words in command(pid)]):
            assert time.monotonic() < until_s, [command(pid) for pid in descendants(self.sidecar.pid)]
            time.sleep(0.05)  # nobody tells
        return sorted(results, reverse=True)

    def await_error(self, text: str) -> None:
        """The sink's own, in what operators are told."""
        reported = self.sidecar.await_status(lambda value: any(one["error"] for one in value["sinks"]), timeout_s=DEADLINE_S)
        (sink,) = reported["sinks"]
        assert sink["sink"].startswith(f"kafka://{self.broker.bootstrap}/{TOPIC}")
        assert text in sink["error"]

    def await_rows(self, more: int) -> None:
        """That the dump has read since."""
        before = rows(self.sidecar.await_status(lambda _: True, timeout_s=DEADLINE_S))
        self.sidecar.await_status(lambda value: rows(value) >= before + more or value["state"] == "finished", timeout_s=DEADLINE_S)


def rows(status: dict[str, Any]) -> int:
    return sum(int(table["rows"]) for table in status["tables"])


def descendants(pid: int) -> list[int]:
    results = []
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in map(int, (task / "children").read_text().split()):
                results += [child, *descendants(child)]
    return results


def command(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""


# ---- what happens ---------------------------------------------------------------------------------------------------


def python_workers_die(scene: Scene) -> None:
    for pid in scene.processes(PYTHON_WORKERS):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def a_python_worker_freezes(scene: Scene) -> None:
    pid = scene.processes(PYTHON_WORKERS)[0]
    with suppress(RuntimeError, ProcessLookupError):
        freeze(pid)
        time.sleep(FROZEN_S)  # what a frozen process does can not be waited for
        thaw(pid)


def the_worker_dies(scene: Scene) -> None:
    os.kill(scene.processes(MERGE_WORKER)[-1], signal.SIGKILL)


def the_worker_freezes(scene: Scene) -> None:
    pid = scene.processes(MERGE_WORKER)[-1]
    freeze(pid)
    time.sleep(FROZEN_S)  # as above
    thaw(pid)


def the_broker_dies(scene: Scene) -> None:
    """The worker waits for it."""
    worker = scene.processes(MERGE_WORKER)
    scene.broker.kill()
    scene.await_error("Kafka")
    scene.broker.start()
    scene.await_rows(1)
    assert scene.processes(MERGE_WORKER) == worker


def the_broker_freezes(scene: Scene) -> None:
    with scene.broker.frozen():
        scene.await_error("Kafka")


def the_brokers_disk_is_full(scene: Scene) -> None:
    """A broker whose log cannot grow ends itself."""
    process = scene.broker._process
    assert process is not None
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
    process.wait(DEADLINE_S)
    scene.await_error("Kafka")
    scene.broker.start()


FAULTS = [
    [the_broker_dies, python_workers_die], [a_python_worker_freezes, the_worker_dies], [the_worker_freezes, the_broker_freezes],
    [the_brokers_disk_is_full],
]  # fmt: skip

if LANE.whole:

    @pytest.mark.spark
    @pytest.mark.parametrize("faults", FAULTS, ids=lambda faults: faults[0].__name__)
    def test_whatever_dies_a_consumer_has_every_row_once(tmp_path: Path, faults: list[Callable[[Scene], None]]) -> None:
        with ExitStack() as stack:
            rig = stack.enter_context(Rig(tmp_path, initial_rows=100))
            broker = stack.enter_context(KafkaBroker(tmp_path / "sink-kafka"))
            uri = f"kafka://{broker.bootstrap}/{TOPIC}?protocol=open-protocol&partition-num=3"
            config = rig.sidecar_config(sinks=[uri], log=f"file://{tmp_path}/log")
            sidecar = stack.enter_context(SidecarProcess(config, tmp_path / "sidecar.log"))
            workload = stack.enter_context(rig.workload(writes_per_s=50))
            scene = Scene(rig, sidecar, broker)
            try:
                sidecar.await_status(lambda value: value["merge_worker"] == "running", timeout_s=DEADLINE_S)
                sidecar.ask("dumpstart", "--chunk-rows", "20", "--rows-per-second", "100")
                for fault in faults:
                    scene.await_rows(100)
                    fault(scene)
                workload.stop()
                done = sidecar.await_status(lambda value: value["state"] in ("finished", "failed"), timeout_s=DEADLINE_S)
                assert done["state"] == "finished", done["reason"]
                truth = rig.truth()
                sidecar.await_status(lambda value: int(value["delivered_tso"]) >= truth.ts, timeout_s=DEADLINE_S)
            except Exception as error:
                error.add_note((tmp_path / "sidecar.log").read_text()[-6000:])
                raise
            output = decoded(read_all(broker.bootstrap, [TOPIC]), "open-protocol", truth.schemas)
            assert not differences(truth, newest(output))
            assert sum(record.origin[0] == "dump" for record, _ in output.changes) > 300
            assert not any(one["error"] for one in sidecar.ask("dumpquery")["sinks"])
