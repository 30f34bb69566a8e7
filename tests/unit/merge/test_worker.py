"""A worker that does not come so far as to deliver: what keeps it from that is told beside the log, whatever it is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from threading import Event
from typing import cast

import pytest

from sidecar.core.model import CommitTs, Seq
from sidecar.errors import ConfigError, LogUnreachable, TicdcDumpError
from sidecar.log import storage
from sidecar.log.delivered import DELIVERED_NAME, DeliveryReport, report_from_json
from sidecar.log.storage import Folder, Unreachable, open_folder
from spark_merge import worker as workers
from spark_merge.delivery import JobSettings
from spark_merge.job import Job
from spark_merge.worker import Worker, WorkerSettings


def worker_of(log: Folder, *sinks: str) -> Worker:
    return Worker(WorkerSettings(JobSettings(log), sinks, "cf", "local[1]", "1g"))


def report(log: Folder) -> DeliveryReport:
    return report_from_json(storage.read_file(log, DELIVERED_NAME))


@pytest.fixture
def log(tmp_path: Path) -> Folder:
    return open_folder(str(tmp_path / "log"))


def test_an_output_that_is_not_known_is_told_with_the_way_out(log: Folder) -> None:
    with pytest.raises(TicdcDumpError):
        worker_of(log, "nowhere://x").run()
    assert report(log).state == "stopped"
    assert "nowhere" in report(log).error
    assert "what to do" in report(log).error


def test_an_output_that_is_named_twice_is_told(log: Folder) -> None:
    with pytest.raises(ConfigError):
        worker_of(log, "console:", "console:").run()
    assert "sinks names one output twice" in report(log).error


def test_any_other_error_is_told_by_its_first_line(log: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(uris: Sequence[str], *, log_id: str) -> object:
        raise RuntimeError("Java gateway process exited\nand many lines more")

    monkeypatch.setattr(workers, "open_sinks", broken)
    with pytest.raises(RuntimeError):
        worker_of(log, "console:").run()
    assert report(log).error == "RuntimeError: Java gateway process exited"


def test_how_far_the_sinks_were_stands(log: Folder) -> None:
    before = DeliveryReport(Seq(5), CommitTs(9), "running", 1, pid=1, skipped=2)
    storage.write_atomically(log, DELIVERED_NAME, before.to_json())
    with pytest.raises(TicdcDumpError):
        worker_of(log, "nowhere://x").run()
    assert (report(log).seq, report(log).upto_ts, report(log).skipped) == (5, 9, 2)
    assert report(log).pid != 1


def test_what_was_told_of_another_log_is_not_told_of_this_one(log: Folder) -> None:
    before = DeliveryReport(Seq(5), CommitTs(9), "stopped", 1, pid=1, error="of another log", log="0" * 32)
    storage.write_atomically(log, DELIVERED_NAME, before.to_json())
    with pytest.raises(TicdcDumpError):
        worker_of(log, "nowhere://x").run()
    assert (report(log).seq, report(log).log) == (None, "")
    assert "nowhere" in report(log).error


def test_a_report_that_cannot_be_written_hides_no_error(log: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: object) -> None:
        raise Unreachable("the storage is away")

    monkeypatch.setattr(storage, "write_atomically", away)
    with pytest.raises(ConfigError, match="names one output twice"):
        worker_of(log, "console:", "console:").run()
    with pytest.raises(LogUnreachable):
        worker_of(log)._report(None, "stopped")


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
    """What `Worker` asks of a job that has something to tell at any time."""

    def __init__(self) -> None:
        self.changed = Event()
        self.changed.set()

    def check(self) -> None:
        self.changed.set()

    def sinks(self) -> tuple[()]:
        return ()

    def opened(self) -> bool:
        return True


@pytest.mark.parametrize(("place", "pause_s"), [("/var/log/x", 0.05), ("s3://bucket/log", 1.0)])
def test_an_object_is_replaced_once_a_second_and_a_local_file_more_often(
    monkeypatch: pytest.MonkeyPatch, place: str, pause_s: float
) -> None:
    worker, reports = worker_of(open_folder(place)), []
    monkeypatch.setattr(worker, "ending", Busy(3))
    monkeypatch.setattr(worker, "_report", lambda job, state: reports.append(state))
    worker._mind(cast(Job, Delivering()))
    assert reports == ["running"] * 3
    assert cast(Busy, worker.ending).paused_s == [pause_s] * 3
