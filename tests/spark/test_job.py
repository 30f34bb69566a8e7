"""The Spark application's own promises: S3, errors that keep their class, batches redone, several sinks, DDL cuts."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from random import Random
from time import monotonic, sleep

import pytest
from pyspark.sql import SparkSession

from sidecar.shared.errors import LogBroken, SinkError, SparkLost
from sidecar.shared.log.manifest import DdlRecord, Manifest
from sidecar.shared.log.storage import Folder, open_folder
from sidecar.shared.model.nouns import CommitTs, Seq
from sidecar.shared.process.background import Background
from spark_merge.delivery.batches import Delivery, JobSettings
from spark_merge.merge.cut import BatchLimits, cut
from spark_merge.port.contract import Batch, Head, Outcome, Portion, Sink, Task, Writer
from spark_merge.sinks.files.reader import read_output
from spark_merge.sinks.files.sink import FileSink
from spark_merge.sinks.registry import open_sink
from spark_merge.testing.histories import SEGMENTS, random_history, write_log
from spark_merge.testing.places import accepted
from spark_merge.worker.job import SparkJob
from spark_merge.worker.session import SECURITY, OpenSession
from spark_merge.worker.spark_tasks import SparkTasks
from tests.spark.conftest import S3_KEYS
from tests.support.eventually import eventually
from tests.support.watched import for_ever

pytestmark = pytest.mark.spark


def local(path: Path) -> Folder:
    return Folder("file", str(path))


def rows(folder: Folder) -> list[dict[str, object]]:
    return list(read_output(folder))


@pytest.fixture
def log(tmp_path: Path) -> Folder:
    folder = local(tmp_path / "log")
    write_log(folder, random_history(Random(1)))
    return folder


def deliver_all(spark: SparkSession, log: Folder, *sinks: Sink, limits: BatchLimits | None = None) -> SparkJob:
    """Everything by Spark's tasks. Raises what ended it."""
    named = {str(number): sink for number, sink in enumerate(sinks)}
    job = SparkJob(SparkTasks(lambda: OpenSession(spark)), named, JobSettings(log, limits=limits or BatchLimits()), worker_rows=0)
    job.start()
    job.finish()
    return job


def test_a_session_on_one_machine_is_authenticated_and_encrypted_too(spark: SparkSession) -> None:
    reported = spark.sparkContext.getConf()
    assert {name: reported.get(name) for name in SECURITY} == SECURITY


def test_a_python_worker_that_dies_while_it_loads_ends_nothing(
    spark: SparkSession, tmp_path: Path, log: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    died = tmp_path / "died"
    monkeypatch.setattr("spark_merge.worker.spark_tasks._nothing", partial(dies_once, str(died)))
    tasks = SparkTasks(lambda: OpenSession(spark))
    starting = tasks._starting
    assert starting is not None
    eventually(lambda: not starting.alive, "it does not load", within_s=600)
    assert died.exists()
    tasks.check()
    out = open_sink(str(tmp_path / "out"), log_id="x")
    deliver_all(spark, log, out)
    assert accepted(out) == SEGMENTS - 1


def test_what_no_python_worker_can_load_ends_the_start(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_merge.worker.spark_tasks._nothing", partial(os._exit, 1))
    tasks = SparkTasks(lambda: OpenSession(spark))
    starting = tasks._starting
    assert starting is not None
    eventually(lambda: not starting.alive, "it does not load", within_s=600)
    with pytest.raises(SparkLost, match="Spark ended while it started"):
        tasks.check()


def dies_once(reported: str, _: int) -> None:
    """In a task, as it begins."""
    try:
        os.close(os.open(reported, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    os._exit(1)


@dataclass(frozen=True)
class Slowly:
    """A writer to which each portion takes `each_s`; in one task, the first to find that no other has, it waits for ever."""

    writer: Writer
    hung: str
    each_s: float

    def __call__(self, task: Task, portions: Iterator[Portion]) -> Outcome:
        with suppress(FileExistsError):
            os.close(os.open(self.hung, os.O_CREAT | os.O_EXCL))
            for_ever()
        return self.writer(task, self._slowly(portions))

    def _slowly(self, portions: Iterator[Portion]) -> Iterator[Portion]:
        for portion in portions:
            sleep(self.each_s)
            yield portion


class SlowSink(FileSink):
    hung, each_s = "", 0.0

    def plan(self, heads: Sequence[Head], *, cores: int) -> Batch:
        batch = super().plan(heads, cores=1)
        return replace(batch, writer=Slowly(batch.writer, self.hung, self.each_s))


def test_a_task_that_hangs_ends_and_is_done_again_and_one_that_is_slow_is_not_ended(
    spark: SparkSession, tmp_path: Path, log: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_merge.delivery.batches.ACCEPT_QUICK_S", -1.0)  # all that there is in one task
    hang_s, sink = 5.0, SlowSink(local(tmp_path / "out"), log_id="x", file_format="jsonl")
    sink.hung, sink.each_s = str(tmp_path / "hung"), 0.12
    job = SparkJob(SparkTasks(lambda: OpenSession(spark), hang_s=hang_s), {"slow": sink}, JobSettings(log), worker_rows=0)
    job.start()
    try:
        error = eventually(lambda: job.sinks()[0].error, "the task still hangs", within_s=600)
        assert "a Spark task failed" in error
        assert Path(sink.hung).exists()
        began_s = monotonic()
        eventually(lambda: accepted(sink) == SEGMENTS - 1, "it is not done again", within_s=600)
        assert monotonic() - began_s > hang_s
    finally:
        job.close()


@dataclass(frozen=True)
class Long:
    """A task that says that it has begun, and ends after ten minutes."""

    begun: str

    def __call__(self) -> int:
        Path(self.begun).touch()
        sleep(600)
        return 0


def test_work_beside_deliveries_ends_when_it_is_cancelled(spark: SparkSession, tmp_path: Path) -> None:
    tasks = SparkTasks(lambda: OpenSession(spark))
    tasks.cancel()
    begun = tmp_path / "begun"
    work = Background(lambda _: tasks.each([Long(str(begun))]), name="work")
    eventually(begun.exists, within_s=600)
    tasks.cancel()
    eventually(lambda: not work.alive, within_s=120)
    with pytest.raises(SinkError, match="a Spark task failed"):
        work.check()
    assert tasks.each([partial(int, "7")]) == [7], "and the next work is done"


def test_who_waits_for_the_end_gets_a_report_of_a_sink_that_did_not_come_to_it(spark: SparkSession, tmp_path: Path, log: Folder) -> None:
    good, other = open_sink(str(tmp_path / "out"), log_id="x"), open_sink(str(tmp_path / "other"), log_id="y")
    other.open(epoch=1)
    with pytest.raises(SinkError, match="other"):
        deliver_all(spark, log, good, open_sink(str(tmp_path / "other"), log_id="x"))
    assert accepted(good) == SEGMENTS - 1


def test_an_unreadable_chunk_stops_the_job_by_its_name_and_loses_nothing(spark: SparkSession, tmp_path: Path, log: Folder) -> None:
    chunk = next(path for path in sorted(Path(log.root, "chunks").rglob("*.parquet")))
    whole = chunk.read_bytes()
    chunk.write_bytes(whole[: len(whole) // 2])
    sink = open_sink(str(tmp_path / "out"), log_id="x")
    with pytest.raises(LogBroken, match=chunk.name) as stopped:
        deliver_all(spark, log, sink)
    assert "restore" in stopped.value.hint
    chunk.write_bytes(whole)
    deliver_all(spark, log, sink)
    assert accepted(sink) == SEGMENTS - 1


def test_an_unreadable_value_stops_the_job_by_lane_and_position(spark: SparkSession, tmp_path: Path) -> None:
    history = random_history(Random(2))
    broken = history.changes[0][0]
    history.changes[0][0] = broken._replace(value=broken.value.replace(b'"data"', b'"daty"'), position=77)
    log = local(tmp_path / "log")
    write_log(log, history)
    with pytest.raises(Exception, match="k/0@77") as stopped:
        deliver_all(spark, log, open_sink(str(tmp_path / "out"), log_id="x"))
    assert type(stopped.value).__name__ in ("MessageUnreadable", "FeedUnsuitable")


class DiesBeforeAccepting(FileSink):
    """A sink whose driver dies when its files are written and its segments are not accepted."""

    def accept(self, batch: object, outcomes: object) -> None:
        raise SinkError("died", hint="start again")


def test_a_batch_redone_after_a_crash_writes_the_same_rows_once(spark: SparkSession, tmp_path: Path, log: Folder) -> None:
    once, twice = local(tmp_path / "once"), local(tmp_path / "twice")
    deliver_all(spark, log, FileSink(once, log_id="x", file_format="jsonl"))
    with pytest.raises(SinkError):
        deliver_all(spark, log, DiesBeforeAccepting(twice, log_id="x", file_format="jsonl"))
    assert rows(twice) == []
    deliver_all(spark, log, FileSink(twice, log_id="x", file_format="jsonl"), limits=BatchLimits(segments_max=2))
    assert rows(twice) == rows(once) != []


def test_a_sink_that_is_ahead_is_not_given_its_segments_again(spark: SparkSession, tmp_path: Path, log: Folder) -> None:
    ahead, behind = open_sink(str(tmp_path / "a"), log_id="x"), open_sink(str(tmp_path / "b"), log_id="x")
    Delivery(ahead, JobSettings(log, limits=BatchLimits(segments_max=3)), SparkTasks(lambda: OpenSession(spark))).deliver()
    deliver_all(spark, log, ahead, behind, limits=BatchLimits(segments_max=4))
    assert accepted(ahead) == accepted(behind) == SEGMENTS - 1
    assert rows(local(tmp_path / "a")) == rows(local(tmp_path / "b"))


def test_parquet_and_jsonl_hold_the_same_rows(spark: SparkSession, tmp_path: Path, log: Folder) -> None:
    sinks = [open_sink(f"{tmp_path}/j?format=jsonl", log_id="x"), open_sink(f"{tmp_path}/p?format=parquet", log_id="x")]
    job = deliver_all(spark, log, *sinks)
    assert job.delivered == SEGMENTS
    assert sum(sum(rows[:2]) for rows in job.counts.values()) == len(rows(local(tmp_path / "j")))
    assert job.rows() == {"spark": 2 * sum(sum(rows) for rows in job.counts.values())}


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    import boto3  # type: ignore[import-untyped]  # it ships no types
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id="k", aws_secret_access_key="s")
    client.create_bucket(Bucket="lake")
    yield f"endpoint={endpoint}&region=us-east-1&{S3_KEYS}"
    server.stop()


def test_log_and_output_on_s3(spark: SparkSession, s3: str) -> None:
    log = open_folder(f"s3://lake/log?{s3}")
    write_log(log, random_history(Random(1)))
    deliver_all(spark, log, open_sink(f"s3://lake/out?format=jsonl&{s3}", log_id="x"))
    assert len(rows(open_folder(f"s3://lake/out?{s3}"))) > 20


def manifest(seq: int, *, rows: int = 10, ddl: bool = False, schemas: str = "a") -> Manifest:
    ddls = (DdlRecord(CommitTs(seq), "s", "t", "alter"),) if ddl else ()
    return Manifest(Seq(seq), 1, CommitTs(seq), CommitTs(seq + 1), "d", rows, 100, {}, schemas, "canal-json", ddls)


@pytest.mark.parametrize(
    ("manifests", "limits", "size"),
    [
        ([manifest(0), manifest(1), manifest(2)], BatchLimits(), 3),
        ([manifest(0), manifest(1, ddl=True), manifest(2)], BatchLimits(), 2),
        ([manifest(0), manifest(1), manifest(2)], BatchLimits(rows_max=20), 2),
        ([manifest(0, rows=1000), manifest(1)], BatchLimits(rows_max=20), 1),
        ([manifest(0), manifest(1)], BatchLimits(bytes_max=150), 1),
        ([manifest(0), manifest(1, schemas="b")], BatchLimits(), 1),
        ([], BatchLimits(), 0),
    ],
)
def test_a_batch_is_cut_at_its_bounds_at_ddls_and_where_schemas_change(manifests: list[Manifest], limits: BatchLimits, size: int) -> None:
    assert len(cut(manifests, limits)) == size


def test_ddls_of_a_segment_reach_the_sink(spark: SparkSession, tmp_path: Path) -> None:
    seen: list[Head] = []

    class Noting(FileSink):
        def accept(self, batch, outcomes):  # type: ignore[no-untyped-def]  # the port's own signature
            seen.extend(batch.heads)
            super().accept(batch, outcomes)

    from sidecar.shared.log.segment_log import FolderLog

    log = FolderLog(local(tmp_path / "log"))
    log.recover(epoch=1)
    name = log.write_schemas({})
    record = DdlRecord(CommitTs(5), "s", "", "create database s")
    log.commit(Manifest(Seq(0), 1, CommitTs(0), CommitTs(5), None, 0, 0, {}, name, "canal-json", (record,)))
    deliver_all(spark, local(tmp_path / "log"), Noting(local(tmp_path / "out"), log_id="x", file_format="jsonl"))
    assert seen[0].ddls == (record,)
    assert (tmp_path / "out" / "_ddl").is_dir()
