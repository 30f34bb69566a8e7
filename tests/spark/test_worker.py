"""The merge worker: delivers a log on its own, tells how far it is, ends when told, when superseded, and on errors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from threading import Thread
from time import monotonic

import pytest
from pyspark.sql import SparkSession

from sidecar.shared.errors import LogBroken, OwnershipLost
from sidecar.shared.log import storage
from sidecar.shared.log.delivery_report import DELIVERED_NAME, DeliveryReport, report_from_json
from sidecar.shared.log.layout import manifest_name
from sidecar.shared.log.manifest import from_json, to_json
from sidecar.shared.log.storage import Folder
from sidecar.shared.model.nouns import CommitTs, Seq
from spark_merge.delivery.batches import JobSettings
from spark_merge.sinks.files.reader import read_output
from spark_merge.testing.histories import SEGMENTS, random_history, write_log
from spark_merge.worker.worker import Worker, WorkerSettings
from tests.support.eventually import PATIENCE_S

pytestmark = pytest.mark.spark


@pytest.fixture
def log(tmp_path: Path) -> Folder:
    folder = Folder("file", str(tmp_path / "log"))
    write_log(folder, random_history(Random(1)))
    return folder


def worker_of(log: Folder, out: Path, *, epoch_max: int | None = None) -> Worker:
    job = JobSettings(log, epoch_max=epoch_max)
    return Worker(WorkerSettings(job, (f"file://{out}?format=jsonl",), "cf", "local[2]", "1g"))


@pytest.fixture
def running(spark: SparkSession) -> Iterator[list[tuple[Worker, Thread]]]:
    """Workers started by a test; they use the tests' session."""
    started: list[tuple[Worker, Thread]] = []
    yield started
    for worker, thread in started:
        worker.ending.set()
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


def report(log: Folder) -> DeliveryReport | None:
    data = storage.read_files(log, [DELIVERED_NAME]).get(DELIVERED_NAME)
    return None if data is None else report_from_json(data)


def test_delivers_what_is_in_the_log_and_reports_how_far_it_is(log: Folder, tmp_path: Path, running: list[tuple[Worker, Thread]]) -> None:
    worker = worker_of(log, tmp_path / "out")
    thread = Thread(target=worker.run)
    running.append((worker, thread))
    thread.start()
    until_s = monotonic() + 5 * PATIENCE_S  # Spark may have to start
    while (result := report(log)) is None or result.seq != SEGMENTS - 1:
        assert monotonic() < until_s, f"the worker stands at {result}"
        thread.join(0.01)
    last = from_json(storage.read_file(log, manifest_name(Seq(SEGMENTS - 1))), name="last")
    assert (result.state, result.upto_ts, result.error) == ("running", last.upto_ts, "")
    assert sum(result.dropped.values()) > 0, "this history has rows that change inside windows"
    assert len(list(read_output(Folder("file", str(tmp_path / "out"))))) > 0


def test_a_later_owner_s_segments_end_it_before_it_delivers_them(log: Folder, tmp_path: Path, spark: SparkSession) -> None:
    name = manifest_name(Seq(2))
    later = replace(from_json(storage.read_file(log, name), name=name), epoch=9)
    storage.write_atomically(log, name, to_json(later))
    worker = worker_of(log, tmp_path / "out", epoch_max=1)
    with pytest.raises(OwnershipLost, match="owner epoch 9, this worker serves epoch 1"):
        worker.run()
    result = report(log)
    assert result is not None
    assert result.state == "stopped"
    assert result.seq is None or result.seq < 2, "what stands before the later owner's segment may be delivered, and no more"
    assert "owner epoch 9" in result.error


def test_what_a_previous_one_died_of_is_reported_until_something_is_delivered(tmp_path: Path, running: list[tuple[Worker, Thread]]) -> None:
    folder = Folder("file", str(tmp_path / "log"))
    died = DeliveryReport(None, CommitTs(0), "stopped", 1, pid=1, error="Spark does not start")
    storage.write_atomically(folder, DELIVERED_NAME, died.to_json())
    worker = worker_of(folder, tmp_path / "out")
    thread = Thread(target=worker.run)
    running.append((worker, thread))
    thread.start()
    until_s = monotonic() + 5 * PATIENCE_S  # Spark may have to start
    while (result := report(folder)) is None or result.state != "running":
        assert monotonic() < until_s
        thread.join(0.01)
    assert result.error == "Spark does not start"
    write_log(folder, random_history(Random(1)))
    while (result := report(folder)) is None or result.error:
        assert monotonic() < until_s, result
        thread.join(0.01)
    assert result.seq is not None


def test_what_it_died_of_is_in_its_report(log: Folder, tmp_path: Path, spark: SparkSession) -> None:
    storage.write_atomically(log, manifest_name(Seq(1)), b"broken")
    with pytest.raises(LogBroken):
        worker_of(log, tmp_path / "out").run()
    result = report(log)
    assert result is not None
    assert result.state == "stopped"
    assert "is not readable" in result.error
