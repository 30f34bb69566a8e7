"""A worker that does not come so far as to deliver: what keeps it from that is told beside the log, whatever it is."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import ClassVar, cast

import pytest

from sidecar.shared.config import SourceSection
from sidecar.shared.errors import ConfigError, LogUnreachable, TicdcDumpError
from sidecar.shared.log import storage
from sidecar.shared.log.delivery_report import DELIVERED_NAME, SPARK_READY, SPARK_STARTING, DeliveryReport, report_from_json
from sidecar.shared.log.storage import Folder, Unreachable, open_folder
from sidecar.shared.model.nouns import CommitTs, Seq, TableName
from sidecar.shared.model.sink_delivery import SinkDelivery
from spark_merge.delivery.batches import JobSettings
from spark_merge.port.contract import Rows
from spark_merge.worker import worker as workers
from spark_merge.worker.job import SparkJob
from spark_merge.worker.spark_tasks import SUBMITTED
from spark_merge.worker.worker import Worker, WorkerSettings
from tests.support.eventually import PATIENCE_S
from tests.support.read_tasks import reading_settings


def worker_of(log: Folder, *sinks: str) -> Worker:
    return Worker(WorkerSettings(JobSettings(log), sinks, "cf", "local[1]", "1g"))


def report(log: Folder) -> DeliveryReport:
    return report_from_json(storage.read_file(log, DELIVERED_NAME))


@pytest.fixture
def log(tmp_path: Path) -> Folder:
    return open_folder(str(tmp_path / "log"))


@pytest.mark.parametrize(
    ("master", "worker_rows", "when_needed"),
    [("local[*]", 1, True), ("local", 1, True), ("local[*]", 0, False), ("spark://host:7077", 1, False), ("k8s://https://host", 1, False)],
)
def test_spark_is_there_only_while_it_is_needed_where_it_takes_the_cores_of_this_machine(
    log: Folder, monkeypatch: pytest.MonkeyPatch, master: str, worker_rows: int, *, when_needed: bool
) -> None:
    monkeypatch.delenv(SUBMITTED, raising=False)
    settings = WorkerSettings(JobSettings(log), (), "cf", master, "1g", worker_rows)
    assert settings.spark_when_needed is when_needed
    assert not replace(settings, reading=reading_settings(SourceSection(host="h", user="u"), log)).spark_when_needed
    monkeypatch.setenv(SUBMITTED, "25333")
    assert not settings.spark_when_needed


def test_an_output_that_is_not_known_is_reported_with_the_way_out(log: Folder) -> None:
    with pytest.raises(TicdcDumpError):
        worker_of(log, "nowhere://x").run()
    assert report(log).state == "stopped"
    assert "nowhere" in report(log).error
    assert "what to do" in report(log).error


def test_an_output_that_is_named_twice_is_reported(log: Folder) -> None:
    with pytest.raises(ConfigError):
        worker_of(log, "console:", "console:").run()
    assert "sinks names one output twice" in report(log).error


def test_any_other_error_is_reported_by_its_first_line(log: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(uris: Sequence[str], *, log_id: str) -> object:
        raise RuntimeError("Java gateway process exited\nand many lines more")

    monkeypatch.setattr(workers, "open_sinks", broken)
    with pytest.raises(RuntimeError):
        worker_of(log, "console:").run()
    assert report(log).error == "RuntimeError: Java gateway process exited"


def test_how_far_the_sinks_were_is_reported(log: Folder) -> None:
    before = DeliveryReport(Seq(5), CommitTs(9), "running", 1, pid=1, skipped=2)
    storage.write_atomically(log, DELIVERED_NAME, before.to_json())
    with pytest.raises(TicdcDumpError):
        worker_of(log, "nowhere://x").run()
    assert (report(log).seq, report(log).upto_ts, report(log).skipped) == (5, 9, 2)
    assert report(log).pid != 1


def test_what_was_reported_of_another_log_is_not_reported_of_this_one(log: Folder) -> None:
    before = DeliveryReport(Seq(5), CommitTs(9), "stopped", 1, pid=1, error="of another log", log="0" * 32)
    storage.write_atomically(log, DELIVERED_NAME, before.to_json())
    with pytest.raises(TicdcDumpError):
        worker_of(log, "nowhere://x").run()
    assert (report(log).seq, report(log).log) == (None, "")
    assert "nowhere" in report(log).error


def test_a_report_that_cannot_be_written_hides_no_error(log: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: object) -> None:
        raise storage.log_error("log", "", Unreachable("the storage is away"))

    monkeypatch.setattr(storage, "write_atomically", away)
    with pytest.raises(ConfigError, match="names one output twice"):
        worker_of(log, "console:", "console:").run()
    with pytest.raises(LogUnreachable):
        worker_of(log)._report(None, "stopped")


def test_lines_of_standard_input_are_epochs_and_its_end_is_the_workers(log: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    monkeypatch.setattr(workers, "STDIN", reading)
    worker, reports = worker_of(log, "console:"), list[int | None]()
    worker._job_runs = cast("SparkJob", SimpleNamespace(serve=lambda settings: reports.append(settings.epoch_max)))
    workers.end_with_stdin(worker)
    os.write(writing, b"4\n1")
    os.write(writing, b"2\n")
    os.close(writing)
    assert worker.ending.wait(PATIENCE_S)
    assert reports == [4, 12]
    assert worker.settings.job.epoch_max == 12
    os.close(reading)


class Busy(Event):
    """Never ending until `waits` pauses were asked for; a pause takes no time."""

    def __init__(self, waits: int) -> None:
        super().__init__()
        self.waits = waits
        self.paused_s: list[float | None] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.paused_s.append(timeout)
        if len(self.paused_s) == self.waits:
            self.set()
        return self.is_set()


class Delivering:
    """A job whose sinks have accepted more at each look; the worker is told to end after the last one."""

    delivered = 1
    counts: ClassVar[dict[TableName, Rows]] = {}

    def __init__(self, ending: Event, looks: int) -> None:
        self.changed = Event()
        self.changed.set()
        self._ending, self._looks = ending, looks
        self.seq = self.looks_for_an_end = 0
        self.spark = SimpleNamespace(ready=False, begun=False, error=None, end_if_idle=self._look_for_an_end)

    def check(self) -> None:
        self.seq += 1
        self.changed.set()
        if self.seq == self._looks:
            self._ending.set()

    def _look_for_an_end(self) -> None:
        self.looks_for_an_end += 1

    def forget_old(self) -> None:
        """It keeps nothing."""

    def opened(self) -> bool:
        return True

    def position(self) -> tuple[Seq, CommitTs]:
        return Seq(self.seq), CommitTs(self.seq)

    def sinks(self) -> tuple[SinkDelivery, ...]:
        return ()

    def rows(self) -> dict[str, int]:
        return {}

    def skipped(self) -> int:
        return 0

    guessed = skipped


@pytest.mark.parametrize("error", [storage.Full("no room"), Unreachable("away")])
def test_a_report_that_cannot_be_written_ends_no_worker_and_is_written_when_it_can_be(
    log: Folder, monkeypatch: pytest.MonkeyPatch, error: storage.StorageError
) -> None:
    noticed: list[str] = []
    write, left = storage.write_atomically, [error, error]

    def short_of_room(folder: Folder, name: str, data: bytes) -> None:
        if left:
            raise storage.log_error("log", "", left.pop())
        write(folder, name, data)

    monkeypatch.setattr(storage, "write_atomically", short_of_room)
    worker = Worker(WorkerSettings(JobSettings(log, epoch_max=7), (), "cf", "local[1]", "1g"), notice=noticed.append)
    worker._mind(cast("SparkJob", Delivering(worker.ending, 4)))
    assert (report(log).seq, report(log).epoch, report(log).state) == (4, 7, "running")
    assert len(noticed) == 1
    assert "is tried again" in noticed[0]


@pytest.mark.parametrize(
    ("begun", "ready", "shown"), [(False, False, ""), (True, False, SPARK_STARTING), (True, True, SPARK_READY)], ids=str
)
def test_what_is_reported_of_spark_is_what_there_is_of_it(log: Folder, *, begun: bool, ready: bool, shown: str) -> None:
    worker = worker_of(log)
    job = Delivering(worker.ending, 2)
    job.spark.begun, job.spark.ready = begun, ready
    worker._mind(cast("SparkJob", job))
    assert report(log).spark == shown
    assert job.looks_for_an_end == 2


@pytest.mark.parametrize(("place", "pause_s"), [("/var/log/x", 0.05), ("s3://bucket/log", 1.0)])
def test_an_object_is_replaced_once_a_second_and_a_local_file_more_often(
    monkeypatch: pytest.MonkeyPatch, place: str, pause_s: float
) -> None:
    worker, reports = worker_of(open_folder(place)), []
    monkeypatch.setattr(worker, "ending", Busy(3))
    monkeypatch.setattr(worker, "_report", lambda job, state: reports.append(state))
    worker._mind(cast(SparkJob, Delivering(Event(), 0)))
    assert reports == ["running"] * 3
    assert cast(Busy, worker.ending).paused_s == [pause_s] * 3


def test_a_sink_that_cannot_be_opened_is_where_a_previous_worker_saw_it(log: Folder) -> None:
    """How far it is behind did begin anew with each worker."""
    worker = worker_of(log)
    unopened, opened = SinkDelivery("lake", None, error="it is away"), SinkDelivery("lake", Seq(9), upto_ts=CommitTs(90))
    assert worker._where_it_was(unopened) == unopened
    previous = (SinkDelivery("other", Seq(1), upto_ts=CommitTs(10)), SinkDelivery("lake", Seq(7), upto_ts=CommitTs(70)))
    worker._previous = DeliveryReport(Seq(1), CommitTs(10), "running", 1, sinks=previous)
    assert worker._where_it_was(unopened) == replace(unopened, upto_ts=CommitTs(70))
    assert worker._where_it_was(opened) == opened


def test_a_spark_that_does_not_start_though_it_is_only_wanted_is_noticed_once_and_when_it_starts_again(log: Folder) -> None:
    said: list[str] = []
    worker = Worker(WorkerSettings(JobSettings(log), (), "cf", "local[1]", "1g"), notice=said.append)
    error: TicdcDumpError | None = None
    for error in (None, ConfigError("no java", hint="x"), ConfigError("no java", hint="x"), None, None):
        worker._notice_errors(cast("SparkJob", SimpleNamespace(sinks=tuple, spark=SimpleNamespace(error=error))))
    assert [line.partition(":")[0] for line in said] == [
        "Spark does not start, all runs without it, and it is tried again",
        "Spark starts again",
    ]
    assert "no java" in said[0]
