"""The merge worker as a process that dies: killed, and hung in what runs in its own process. Whoever minds it starts it again, and the
output is the slow rule's, each row once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from time import monotonic, sleep

import pytest

from sidecar.run.merge_process import Death, MergeProcess
from sidecar.shared.log.deliveries import LogDeliveries
from sidecar.shared.log.delivery_report import DeliveryReport
from sidecar.shared.log.storage import Folder, open_folder
from sidecar.shared.model.nouns import Seq
from spark_merge.sinks.files.sink import FileSink
from spark_merge.testing.histories import SEGMENTS, check, random_history, write_log, written
from spark_merge.testing.places import accepted
from tests.lanes import LANE

DEADLINE_S = 600.0
"""Two Spark sessions on a loaded machine."""

DIES_ONCE = """
import sys, threading, time
from pathlib import Path
from sidecar.shared.log.storage import open_folder
from spark_merge.delivery.batches import JobSettings
from spark_merge.delivery.watchdog import Watchdog
from spark_merge.sinks.files.writer import FileWriter
from spark_merge.worker.worker import Worker, WorkerSettings, end_with_stdin

how, log, out, died = sys.argv[1:]
write = FileWriter.__call__

def until_dead(self, task, portions):
    if not Path(died).exists():
        Path(died).write_text(str(task.units[0].seq))
        forever = threading.Lock()
        forever.acquire()
        forever.acquire()
    return write(self, task, portions)

FileWriter.__call__ = until_dead
settings = WorkerSettings(JobSettings(open_folder(log)), (f"file://{out}?format=jsonl",), "cf", "local[1]", "1g")
worker = Worker(settings, watched=Watchdog(hang_s=10.0 if how == "hang" else 1000.0).watched)
end_with_stdin(worker)
worker.run()
"""
"""The first writer that runs in its process waits for ever; the next worker's do not."""


def wait_for(what: Callable[[], bool], why: Callable[[], object]) -> None:
    until_s = monotonic() + DEADLINE_S
    while not what():
        assert monotonic() < until_s, why()
        sleep(0.02)


@pytest.mark.spark
@pytest.mark.parametrize("how", ["hang", *(["kill"] if LANE.whole else [])])
def test_a_worker_that_dies_is_started_again_and_the_output_is_the_rules(tmp_path: Path, how: str) -> None:
    history = random_history(Random(3))
    log, out = open_folder(str(tmp_path / "log")), Folder("file", str(tmp_path / "out"))
    manifests = write_log(log, history)
    died, noticed = tmp_path / "died", list[Death]()
    command = [sys.executable, "-c", DIES_ONCE, how, log.root, out.root, str(died)]
    process = MergeProcess(command, noticed.append)
    process.start()
    try:
        if how == "kill":
            wait_for(died.exists, lambda: "it never came to a writer")
            os.kill(process.pid() or 0, signal.SIGKILL)
        sink = FileSink(out, log_id="cf", file_format="jsonl")
        wait_for(lambda: accepted(sink) == Seq(SEGMENTS - 1), lambda: (sink.look(), noticed))
    finally:
        process.close(at_once=False)
    assert process.deaths == 1
    assert noticed[0].exit_code == (1 if how == "hang" else -signal.SIGKILL)
    check(history, manifests, out)


RUNS = """
import sys
from sidecar.shared.log.storage import open_folder
from spark_merge.delivery.batches import JobSettings
from spark_merge.worker.worker import Worker, WorkerSettings

log, out = sys.argv[1:]
WorkerSettings.spark_when_needed = False  # as of a cluster, whose Spark is there from the start
Worker(WorkerSettings(JobSettings(open_folder(log)), (f"file://{out}?format=jsonl",), "cf", "local[1]", "1g")).run()
"""


@pytest.mark.spark
def test_a_worker_whose_jvm_is_killed_says_so_and_the_next_one_delivers_the_rest(tmp_path: Path) -> None:
    """Small windows need no Spark: the worker notices without a job."""
    history = random_history(Random(3))
    log, out = open_folder(str(tmp_path / "log")), Folder("file", str(tmp_path / "out"))
    segments = written(log, history)
    manifests = [next(segments)]
    deliveries = LogDeliveries(log)

    def report() -> DeliveryReport | None:
        deliveries._read()
        return deliveries.report

    def run() -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, "-c", RUNS, log.root, out.root], start_new_session=True)

    worker = run()
    try:
        wait_for(lambda: (result := report()) is not None and result.spark == "ready", report)
        for java in java_of(worker.pid):
            os.kill(java, signal.SIGKILL)
        manifests += segments
        assert worker.wait(DEADLINE_S) == 1
        result = report()
        assert result is not None
        assert result.state == "stopped"
        assert "Spark" in result.error
        assert "what to do" in result.error
        worker = run()
        wait_for(lambda: (result := report()) is not None and result.seq == SEGMENTS - 1, report)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()
    check(history, manifests, out)


def java_of(group: int) -> list[int]:
    """The JVMs in the process group."""
    java = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            name, _, rest = (process / "stat").read_text().partition("(")[2].rpartition(")")
            if name == "java" and int(rest.split()[2]) == group:
                java.append(int(process.name))
    assert java
    return java
