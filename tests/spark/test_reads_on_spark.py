"""Tasks of a real Spark cluster read a dump's chunks beside writes, and somebody is killed at each of its durable steps: the whole product.

    low mark ──► chunk file ──► its report ──► high mark ──► segment data ──► manifest ──► progress in etcd ──► acknowledged ──► finished

The write of a step waits, in the log's storage or at a lock of the watermark row, until the process is dead. What the storage has received
by then is written all the same, after that death.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from sidecar.shared.log.storage import Folder, list_names, open_folder
from sidecar.shared.model.chunk import ChunkFile
from sidecar.shared.model.nouns import MARK_TABLE, CommitTs, Seq, TableName
from spark_merge.log.read import new_manifests
from spark_merge.sinks.files.reader import read_output
from tests.lanes import LANE
from tests.support.eventually import eventually
from tests.support.former import SEGMENTS_MAX, output_by_the_rule
from tests.support.services.s3 import KEYS, S3, Held
from tests.support.services.spark import SparkCluster
from tests.tools.rig.rig import Rig
from tests.tools.rig.sidecar_process import SidecarProcess
from tests.tools.rig.tables import SCHEMA, TABLES
from tests.tools.rig.truth import await_delivered

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("rig")]

DEADLINE_S = 600.0
LEASE_S = 5
READERS = 2
LOG = "reads-on-spark/log"
"""In a bucket that other modules of this process may have, too: moto keeps one state in a process."""
CHUNK = r"/log/chunks/.*\.parquet$"
MANIFEST = r"/log/\d{20}\.json$"


@dataclass
class Story:
    """A product whose dumps are read by executors, one dump after another. `chunk`: the file that the step is about."""

    rig: Rig
    storage: S3
    cluster: SparkCluster
    sidecar: SidecarProcess
    complete_at: dict[TableName, CommitTs] = field(default_factory=dict)
    dump_id: str = ""
    chunk: str = ""
    executor: int = 0
    seq: Seq | None = None
    """Up to which segment its dumps are over."""
    numbers: Iterator[int] = field(default_factory=count)

    @property
    def log(self) -> Folder:
        return open_folder(self.storage.uri(LOG, keys=True))

    @property
    def output(self) -> Folder:
        return open_folder(f"{self.rig.folder}/output")

    def dump(self, *, readers: int = READERS) -> None:
        """Begin one of every third table."""
        number = next(self.numbers)
        tables = ",".join(f"{SCHEMA}.{table.name}" for table in TABLES[number % 3 :: 3])
        self.dump_id = self.sidecar.ask("dumpstart", "--tables", tables, "--readers", str(readers), "--chunk-rows", "50")["dump_id"]

    def finished(self) -> list[ChunkFile]:
        """The dump is. Its chunks that count."""

        def is_over(status: dict[str, Any]) -> bool:
            return status["dump_id"] == self.dump_id and status["state"] in ("finished", "failed")

        status = self.sidecar.await_status(is_over, timeout_s=DEADLINE_S)
        assert status["state"] == "finished", status["reason"]
        assert (status["read_on"], status["read_with"]) == ("spark", "sql")
        self.complete_at |= {TableName(t["schema"], t["table"]): CommitTs(int(t["complete_at_tso"])) for t in status["tables"]}
        segments = new_manifests(self.log, after=self.seq, limit=SEGMENTS_MAX)
        self.seq = segments[-1].seq
        windows = [window for segment in segments for window in segment.windows]
        return [chunk for window in windows if window.dump_id == self.dump_id for chunk in window.chunks]

    def files(self) -> set[str]:
        """All chunks of the dump that were written, also those that no manifest names."""
        folder = f"chunks/{self.dump_id}"
        return {f"{folder}/{name}" for name in list_names(open_folder(self.storage.uri(f"{LOG}/{folder}", keys=True)), deep=False)}

    def check(self, *, after: Seq | None) -> None:
        """What is delivered is the source, no row ever went back, and behind segment `after` it is what the slow rule makes of the log."""
        if rest := [one.name for one in TABLES if TableName(SCHEMA, one.name) not in self.complete_at]:  # by no test of this run yet
            tables = ",".join(f"{SCHEMA}.{name}" for name in rest)
            self.dump_id = self.sidecar.ask("dumpstart", "--tables", tables)["dump_id"]
            self.finished()
        verdict = await_delivered(self.output, self.rig.truth(), complete_at=self.complete_at, timeout_s=DEADLINE_S)
        assert verdict.ok, verdict
        delivered = [row for row in read_output(self.output) if after is None or row["seq"] > after]
        rule = output_by_the_rule(self.log, after=after)
        assert [row for row in rule if row["seq"] <= delivered[-1]["seq"]] == delivered
        check_secret(self.rig.source.password, self.cluster.folder)

    # ---- the durable steps -------------------------------------------------------------------------------------------

    @contextmanager
    def low_mark_is_sent(self) -> Iterator[None]:
        with self.locked_marks():
            self.dump()
            self.await_waiting_mark()
            yield

    @contextmanager
    def chunk_is_written(self, *, after: bool = False) -> Iterator[None]:
        with self.held(CHUNK, after=after) as held:
            self.dump()
            self.wait(held)
            yield

    def chunk_is_reported(self) -> AbstractContextManager[None]:
        """It is in the log's storage, and nobody knows."""
        return self.chunk_is_written(after=True)

    @contextmanager
    def high_mark_is_sent(self) -> Iterator[None]:
        """The one reader's chunk is read: its next mark ends the window."""
        with self.held(CHUNK) as held:
            self.dump(readers=1)
            self.wait(held)
            with self.locked_marks():
                held.release()
                self.await_waiting_mark()
                yield

    @contextmanager
    def segment_data_is_written(self) -> Iterator[None]:
        self.dump()
        with self.held(r"/log/\d{20}-\d{10}\.parquet$", after=True) as held:
            self.wait(held)
            yield

    @contextmanager
    def manifest_is_written(self) -> Iterator[None]:
        """Of a segment in which a window closes."""
        with self.held(MANIFEST, after=True, content=rb'"windows":\[{') as held:
            self.dump()
            self.wait(held)
            yield

    @contextmanager
    def progress_is_stored(self) -> Iterator[None]:
        """And nothing is acknowledged: Kafka does not answer."""
        with self.held(MANIFEST, after=True, content=rb'"windows":\[{') as held:
            self.dump()
            self.wait(held)
            before = self.stored()
            self.rig.kafka.freeze()
            held.release()
            try:
                eventually(lambda: self.stored() > before)
                yield
            finally:
                self.rig.kafka.thaw()

    @contextmanager
    def dump_is_finished(self) -> Iterator[None]:
        """The log has it, the store and its operator do not."""
        with self.held(CHUNK) as first:
            self.dump()
            self.wait(first)
            with self.held(MANIFEST, after=True, content=rb'"dump_id":"%b","state":"finished"' % self.dump_id.encode()) as held:
                first.release()
                self.wait(held)
                yield

    # ---- what they wait at -------------------------------------------------------------------------------------------

    def held(self, pattern: str, *, after: bool = False, content: bytes = b"") -> AbstractContextManager[Held]:
        return self.storage.held(pattern, after=after, one=True, content=content)

    def wait(self, held: Held) -> None:
        port = held.writer(while_true=lambda: self.sidecar.ended() is None, timeout_s=DEADLINE_S)
        if "/chunks/" in held.name:
            self.chunk = held.name.partition("/log/")[2]
            self.executor, _ = self.cluster.executor_at(port)

    @contextmanager
    def locked_marks(self) -> Iterator[None]:
        """No mark is committed."""
        with self.rig.source.connect() as connection, connection.cursor() as cursor:
            cursor.execute("BEGIN")
            cursor.execute(f"SELECT * FROM {MARK_TABLE} FOR UPDATE")
            try:
                yield
            finally:
                connection.rollback()

    def await_waiting_mark(self) -> None:
        waiting = f"SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT' AND trx_query LIKE '%{MARK_TABLE}%'"
        eventually(lambda: self.rig.db.execute(waiting)[0][0])

    def stored(self) -> int:
        """The revision of the progress in etcd."""
        entries = json.loads(self.rig.etcd.etcdctl("get", "--prefix", "/changefeed_dump/", "-w", "json"))["kvs"]
        return max(int(entry["mod_revision"]) for entry in entries if decoded(entry["key"]).endswith("/progress"))


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """On a cluster Spark reads without a setting."""
    folder = tmp_path_factory.mktemp("reads")
    with S3() as storage, SparkCluster(folder / "cluster", environment=KEYS) as cluster, pytest.MonkeyPatch.context() as environment:
        for name, value in {**KEYS, "SPARK_CONF_DIR": str(cluster.conf), "PYSPARK_PYTHON": sys.executable}.items():
            environment.setenv(name, value)
        with Rig(folder, initial_rows=200, mark_every_s=0.5) as rig:
            config = rig.sidecar_config(
                sinks=[f"file://{folder}/output?format=jsonl"],
                log=storage.uri(LOG),
                spark={"master": cluster.url, "memory": "512m"},
                etcd={"lease_s": LEASE_S},
            )
            config.write_text(config.read_text().replace("[log]\n", "[log]\nretain = false\n"))
            with SidecarProcess(config, folder / "sidecar.log") as sidecar:
                sidecar.await_status(lambda value: int(value["delivered_tso"]) > 0, timeout_s=DEADLINE_S)
                yield Story(rig, storage, cluster, sidecar)


@contextmanager
def live(story: Story) -> Iterator[None]:
    """Beside writes; the output is judged when they have ended."""
    before = story.seq
    try:
        with story.rig.workload(writes_per_s=50, seed=next(story.numbers)) as workload:
            yield
            assert workload.stop().rows > 0
        story.check(after=before)
    except Exception as error:
        error.add_note((story.rig.folder / "sidecar.log").read_text()[-6000:])
        raise


Step = Callable[[Story], AbstractContextManager[None]]
OF_TASKS: tuple[Step, ...] = (Story.chunk_is_written, Story.chunk_is_reported, Story.high_mark_is_sent)
"""A mark alone, or a segment, is nothing of a task's."""
OF_DRIVER: tuple[Step, ...] = OF_TASKS if LANE.whole else (Story.chunk_is_reported,)
_MORE: tuple[Step, ...] = (Story.chunk_is_written, Story.segment_data_is_written, Story.progress_is_stored) if LANE.whole else ()
OF_SIDECAR: tuple[Step, ...] = (Story.low_mark_is_sent, Story.chunk_is_reported, Story.high_mark_is_sent, Story.manifest_is_written, *_MORE)


@pytest.mark.turns(2, "whole product")
def test_an_executor_that_is_killed_costs_the_chunks_that_its_task_had_begun_and_no_other(story: Story) -> None:
    with live(story):
        for step in OF_TASKS:
            with step(story):
                story.cluster.kill_executor(story.executor)
            counted = story.finished()
            check_ranges(counted)
            is_lost = step is not Story.high_mark_is_sent
            assert (story.chunk in paths(counted)) != is_lost, "what was being read is read again, what was read is not"
            numbers = sorted(number_of(path) for path in paths(counted))
            requested = numbers[-1] - min(numbers[0], number_of(story.chunk)) + 1
            assert requested - len(numbers) <= is_lost * READERS, (story.chunk, numbers)


@pytest.mark.turns(2, "whole product")
def test_a_driver_that_is_killed_costs_the_chunks_that_were_being_read(story: Story) -> None:
    with live(story):
        for step in OF_DRIVER:
            with step(story):
                os.kill(worker_of(story.sidecar.pid), signal.SIGKILL)
            counted = story.finished()
            check_ranges(counted)
            assert step is not Story.high_mark_is_sent or story.chunk in paths(counted)
            assert len(story.files() - paths(counted)) <= READERS


@pytest.mark.turns(2, "whole product")
@pytest.mark.parametrize("step", OF_SIDECAR, ids=lambda step: step.__name__)
def test_a_sidecar_that_is_killed_at_a_durable_step_goes_on_where_the_log_ends(story: Story, step: Step) -> None:
    with live(story):
        with step(story):
            story.sidecar.kill()
        story.sidecar.start()
        check_ranges(story.finished())


@pytest.mark.turns(2, "whole product")
def test_a_sidecar_that_is_killed_when_its_dump_is_finished_reads_nothing_again(story: Story) -> None:
    with live(story):
        with story.dump_is_finished():
            story.sidecar.kill()
        story.sidecar.start()
        counted = story.finished()
        check_ranges(counted)
        assert len({chunk.path.split("/")[-1].partition("-")[0] for chunk in counted}) == 1, "what is finished is not read again"


def paths(chunks: list[ChunkFile]) -> set[str]:
    return {chunk.path for chunk in chunks}


def number_of(path: str) -> int:
    return int(path.removesuffix(".parquet")[-8:])


def check_ranges(chunks: list[ChunkFile]) -> None:
    """Each begins where no other one of its table does."""
    begun = [(chunk.table, chunk.after) for chunk in chunks]
    assert len({table for table, _ in begun}) == len(TABLES) // 3
    assert len(set(begun)) == len(begun)


def decoded(text: str) -> str:
    return b64decode(text).decode()


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
