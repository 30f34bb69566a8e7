"""A real Spark cluster (standalone, authenticated, encrypted) merges what `ticdc-dump merge` delivers: the log and the sinks on S3, and
whatever dies in the middle, the output is the slow rule's. The cluster runs every batch (`spark.worker_rows` is 0).

In the middle is where the test holds it: S3 lets the writes of tasks wait until somebody has died.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from time import monotonic, sleep

import pytest

from sidecar.cli.main import EXIT_ERROR
from sidecar.shared.log.identity import known_id, name_of
from sidecar.shared.log.manifest import Manifest
from sidecar.shared.log.storage import list_names, open_folder
from sidecar.shared.model.nouns import TableName
from spark_merge.delivery.batches import Delivery, JobSettings, TaskWork
from spark_merge.port.contract import Outcome
from spark_merge.sinks.files.reader import read_segments
from spark_merge.sinks.folder.layout import COMMITS
from spark_merge.sinks.registry import open_sink
from spark_merge.testing.histories import SEGMENTS, TABLES, RandomHistory, expected, random_history, written
from spark_merge.testing.places import Here, Shown, accepted
from spark_merge.testing.story import newest
from spark_merge.worker.session import SECRET
from tests.lanes import LANE
from tests.support.delta_place import history_place
from tests.support.lake import lake_place, uri_of
from tests.support.merge_command import MergeCommand, MergeSettings
from tests.support.services.s3 import BUCKET, KEYS, S3, Held
from tests.support.services.spark import SparkCluster
from tests.support.sinks import place_of

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("cluster")]
DEADLINE_S = 500.0
KINDS = ("parquet", "jsonl")


@pytest.fixture(scope="module")
def storage() -> Iterator[S3]:
    with S3() as s3:
        yield s3


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    """Executors have S3's keys from their worker's environment."""
    with SparkCluster(tmp_path_factory.mktemp("cluster"), environment=KEYS) as spark_cluster:
        yield spark_cluster


@dataclass
class Story:
    """A log that grows on S3, what the slow rule makes of it, and its two outputs."""

    storage: S3
    name: str
    folder: Path
    history: RandomHistory = field(default_factory=lambda: random_history(Random(15)))
    manifests: list[Manifest] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._log = written(open_folder(self.storage.uri(f"{self.name}/log", keys=True)), self.history)
        assert all(self.history.windows), "each segment is to end windows of a dump"

    def grow(self, segments: int) -> None:
        self.manifests += [next(self._log) for _ in range(segments)]

    def command(self, cluster: SparkCluster, name: str, *, conf: Path | None = None, epoch: int = 1, submit: bool = False) -> MergeCommand:
        """With `submit` by spark-submit, whose master holds then."""
        sinks = tuple(self.uris(keys=False).values())
        settings = MergeSettings(self.storage.uri(f"{self.name}/log"), sinks, "local[1]" if submit else cluster.url, worker_rows=0)
        options = ("--master", cluster.url, "--deploy-mode", "client", "--driver-memory", "512m") if submit else None
        return MergeCommand(self.folder / name, settings, conf=conf or cluster.conf, environment=KEYS, epoch=epoch, submit=options)

    def accepted(self) -> int:
        """Segments that readers of all outputs see. A worker that is killed between a commit and that leaves it to the next one."""
        return min(len(read_segments(open_folder(uri))) for uri in self.uris(keys=True).values())

    def held(self) -> AbstractContextManager[Held]:
        """A file of the dump's rows in Parquet, which a task writes, waits: it is of a chunk's unit."""
        return self.storage.held(rf"/{self.name}/parquet/.*/\d{{20}}-\d+\.")

    def wait_opened(self, worker: MergeCommand, *, times: int) -> None:
        """Until so many workers have opened the Parquet output, of which nothing is accepted yet."""
        commits = open_folder(self.storage.uri(f"{self.name}/parquet/{COMMITS}", keys=True))
        deadline = monotonic() + DEADLINE_S
        while len(list_names(commits, deep=False)) < times:
            assert worker.runs(), f"the worker has ended: {worker.reported()[-3000:]}"
            assert monotonic() < deadline, f"the output is not opened: {worker.reported()[-3000:]}"
            sleep(0.3)

    def wait(self, worker: MergeCommand, segments: int) -> None:
        deadline = monotonic() + DEADLINE_S
        while (number := self.accepted()) < segments:
            assert worker.runs(), f"the worker has ended at {number} of {segments} segments: {worker.reported()[-3000:]}"
            assert monotonic() < deadline, f"the worker stands at {number} of {segments} segments: {worker.reported()[-3000:]}"
            sleep(0.3)

    def check(self) -> None:
        """Every row of the rule, once, and no other; lines in its order."""
        assert len(self.manifests) == SEGMENTS
        tables = {row.table for row in self.history.rows}
        parquet, lines = (place_of(uri).rows() for uri in self.uris(keys=True).values())
        assert parquet.keys() | lines.keys() <= tables
        for table in tables:
            rows = self.expected(table)
            assert lines.get(table, []) == rows, table
            assert sorted(map(repr, parquet.get(table, []))) == sorted(map(repr, rows)), table

    def uris(self, *, keys: bool) -> dict[str, str]:
        """Of the outputs. `keys`: with S3's; else the reader needs them in its environment."""
        return {kind: self.storage.uri(f"{self.name}/{kind}", keys=keys) + f"&format={kind}" for kind in KINDS}

    def expected(self, table: TableName) -> list[Shown]:
        rows = expected(self.history, self.manifests, table)
        return [(seq, ts, op, key, after) for seq, ts, op, key, _, after, _ in rows]  # type: ignore[misc]  # the columns of a Shown


class Lakes(Story):
    """With tables of Delta and Iceberg on S3, whose catalog only the driver opens."""

    def uris(self, *, keys: bool) -> dict[str, str]:
        secrets = {"access_key": KEYS["AWS_ACCESS_KEY_ID"], "secret_access_key": KEYS["AWS_SECRET_ACCESS_KEY"]} if keys else {}
        place = {"endpoint": f"http://127.0.0.1:{self.storage.port}", "region": "us-east-1", **secrets}
        tables = {mode: f"delta+{self.storage.uri(f'{self.name}/{mode}', keys=keys)}&mode={mode}" for mode in ("append", "merge")}
        result = {mode: f"{uri}&commit-interval=0s" for mode, uri in tables.items()}
        warehouse = f"s3://{BUCKET}/{self.name}/iceberg"
        return {**result, "iceberg": uri_of(self.folder / "catalog", warehouse=warehouse, commit_interval="0s", **place)}

    def accepted(self) -> int:
        name = name_of("log-1", known_id(open_folder(self.storage.uri(f"{self.name}/log", keys=True))))
        seqs = [accepted(open_sink(uri, log_id=name)) for uri in self.uris(keys=True).values()]
        return min(-1 if seq is None else seq for seq in seqs) + 1

    def held(self) -> AbstractContextManager[Held]:
        """Any data file of a task's waits."""
        return self.storage.held(rf"/{self.name}/(append|merge|iceberg)/.*\.parquet$")

    def check(self) -> None:
        assert len(self.manifests) == SEGMENTS
        tables = {row.table for row in self.history.rows}
        uris = self.uris(keys=True)
        logs = [history_place(uris["append"], tables=TABLES).rows(), lake_place(uris["iceberg"]).rows()]
        merged = history_place(uris["merge"], tables=TABLES).rows()
        for table in tables:
            rows = self.expected(table)
            for name, result in zip(("append", "iceberg"), logs, strict=True):
                assert sorted(map(repr, result.get(table, []))) == sorted(map(repr, rows)), (name, table)
            assert newest(merged.get(table, [])) == newest(rows), table


@pytest.fixture(scope="module")
def refused(cluster: SparkCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MergeCommand]:
    """An application with another secret: Spark gives up after a minute, in which other tests run."""
    folder = tmp_path_factory.mktemp("refused")
    conf = cluster.write_conf(folder / "conf", {SECRET: "a guess"})
    settings = MergeSettings(f"{folder}/log", (f"file://{folder}/out",), cluster.url)
    with MergeCommand(folder, settings, conf=conf, environment=KEYS) as worker:
        yield worker


@pytest.fixture
def story(storage: S3, cluster: SparkCluster, refused: MergeCommand, tmp_path: Path) -> Story:
    return Story(storage, tmp_path.name, tmp_path)


@pytest.mark.turns(2, "whole product")
def test_an_executor_and_a_worker_of_the_cluster_die_in_the_middle_of_a_dump(story: Story, cluster: SparkCluster) -> None:
    with story.command(cluster, "merge") as worker:
        story.grow(2)
        story.wait(worker, 2)
        with story.held() as held:
            story.grow(2)
            pid, _ = cluster.executor_at(held.writer(while_true=worker.runs, timeout_s=DEADLINE_S))
            os.kill(pid, signal.SIGKILL)
        story.wait(worker, 4)
        with story.held() as held:
            story.grow(2)
            _, number = cluster.executor_at(held.writer(while_true=worker.runs, timeout_s=DEADLINE_S))
            cluster.kill_worker(number)
        story.wait(worker, SEGMENTS)
    cluster.start_worker(number)
    story.check()


if LANE.whole:

    def test_an_executor_dies_while_tables_of_lakes_are_written(storage: S3, cluster: SparkCluster, tmp_path: Path) -> None:
        """In the middle of the first segments, which nothing is accepted of yet, and of later ones."""
        story = Lakes(storage, tmp_path.name, tmp_path)
        with story.command(cluster, "merge") as worker:
            for segments in (2, 4, SEGMENTS):
                with story.held() as held:
                    story.grow(2)
                    pid, _ = cluster.executor_at(held.writer(while_true=worker.runs, timeout_s=DEADLINE_S))
                    os.kill(pid, signal.SIGKILL)
                story.wait(worker, segments)
        story.check()


@pytest.mark.turns(2, "whole product")
def test_the_driver_dies_and_another_one_that_spark_submit_starts_goes_on(story: Story, cluster: SparkCluster) -> None:
    story.grow(3)
    with story.held() as held:
        with story.command(cluster, "first") as first:
            cluster.executor_at(held.writer(while_true=first.runs, timeout_s=DEADLINE_S))
            first.kill()
        story.grow(3)
        held.release()
        with story.command(cluster, "second", submit=True) as second:
            story.wait(second, SEGMENTS)
    story.check()


if LANE.whole:

    @pytest.mark.parametrize("epoch", [1, 2])
    def test_a_second_application_fences_off_the_first_and_nothing_is_doubled(story: Story, cluster: SparkCluster, epoch: int) -> None:
        """By its incarnation, or as a later owner. Each has one core: an application keeps what it has until it ends."""
        one_core = cluster.write_conf(story.folder / "one-core", {"spark.cores.max": "1"})
        story.grow(SEGMENTS)
        with story.held() as held, story.command(cluster, "first", conf=one_core) as first:
            held.writer(while_true=first.runs, timeout_s=DEADLINE_S)
            with story.command(cluster, "second", conf=one_core, epoch=epoch) as second:
                story.wait_opened(second, times=2)
                held.release()
                assert first.ended() == EXIT_ERROR
                assert "another merge worker has opened" in first.reported() or "is written by owner epoch" in first.reported()
                story.wait(second, SEGMENTS)
        story.check()


def test_who_has_another_secret_is_refused(refused: MergeCommand, cluster: SparkCluster, tmp_path: Path) -> None:
    """An application, with an error that says what to compare; and a worker."""
    wrong = cluster.write_conf(tmp_path / "wrong", {SECRET: "a guess"})
    cluster.start_worker(7, conf=wrong)
    assert refused.ended() == EXIT_ERROR
    reported = refused.reported()
    assert f"the Spark cluster at {cluster.url} does not take this application" in reported
    assert f"compare the address and {SECRET} with the cluster's" in reported
    assert "a guess" not in reported
    cluster.worker_reports(7, "Failed to connect to master")
    cluster.kill_worker(7)
    assert len(cluster.alive()) == 2


def test_a_cluster_without_a_secret_is_refused_with_the_way_out(story: Story, cluster: SparkCluster) -> None:
    bare = story.folder / "bare"
    bare.mkdir()
    (bare / "spark-defaults.conf").write_text("spark.driver.host 127.0.0.1\nspark.authenticate false\n")
    with story.command(cluster, "bare", conf=bare) as worker:
        assert worker.ended() == EXIT_ERROR
        assert f"{cluster.url} is refused: a standalone cluster needs a secret" in worker.reported()
        assert "SPARK_CONF_DIR" in worker.reported()


def test_what_is_sent_to_a_task_holds_no_secret(story: Story) -> None:
    story.grow(SEGMENTS)
    sent: list[bytes] = []

    class Sending(Here):
        def run(self, work: Sequence[TaskWork]) -> list[Outcome]:
            sent.extend(pickle.dumps(one) for one in work)
            return super().run(work)

    log = open_folder(story.storage.uri(f"{story.name}/log", keys=True))
    for uri in story.uris(keys=True).values():
        delivery = Delivery(open_sink(uri, log_id="log-1"), JobSettings(log), Sending())
        while delivery.deliver():
            pass
    assert sent
    assert not [one for one in sent if KEYS["AWS_SECRET_ACCESS_KEY"].encode() in one]
    story.check()


def test_a_cluster_dies_with_the_process_that_started_it(tmp_path: Path) -> None:
    """However that dies."""
    code = f"""
import time
from pathlib import Path
from tests.support.services.spark import SparkCluster
SparkCluster(Path({str(tmp_path)!r}), workers=1).start()
print("started", flush=True)
time.sleep(600)
"""
    left = SparkCluster(tmp_path).left
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as starter:
        assert starter.stdout is not None
        assert starter.stdout.readline() == b"started\n"
        assert len(left()) >= 2
        starter.kill()
    deadline = monotonic() + DEADLINE_S
    while results := left():
        assert monotonic() < deadline, f"left: {results}"
        sleep(0.1)
