"""A dump from SELECT to Parquet through the whole line, beside what its two halves come to one after the other on the same cores.

The same table for all three: reading alone (chunk files of it, nothing else), merging alone (a log that holds these chunks, to Parquet),
and the whole: marks, SELECTs, log and Spark at once, with a bound so wide that live delivery holds nothing. The line's live changes
are 500 a second. 1 / (1 / reading + 1 / merging) is what both give where they want the same cores.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from sidecar.adapters.clock import MonotonicClock
from sidecar.adapters.memory.schemas import StillSchemas
from sidecar.adapters.tidb.source import TidbSource
from sidecar.pipeline import Outside, Pipeline, PipelineLimits, attach
from sidecar.replay.progress_file import FileProgress
from sidecar.shared.codecs.canal_json import CanalJson
from sidecar.shared.log.rows_file import write_chunk
from sidecar.shared.log.segment_log import FolderLog
from sidecar.shared.log.spill import FileSpill
from sidecar.shared.log.storage import Folder, open_folder
from sidecar.shared.model.messages import Brackets, Command, Pace, SendMark, SourceEvent, StartDump
from sidecar.shared.model.nouns import TableName, TableSchema
from sidecar.shared.model.progress import DumpState, Progress
from spark_merge.delivery.batches import JobSettings
from spark_merge.sinks.registry import open_sink
from spark_merge.worker.job import SparkJob
from spark_merge.worker.session import OpenSession
from spark_merge.worker.spark_tasks import SparkTasks
from tests.support.services.mariadb import MariaDb
from tests.tools.bench.account import ACCOUNT, SCHEMA
from tests.tools.bench.bench import Bench
from tests.tools.bench.cluster import CHANGEFEED, MemorySource, PacedFeed
from tests.tools.bench.dumped import DUMP_ID, deliver, dumped
from tests.tools.bench.figures import Cost, Figure, best, rate, timed_tree
from tests.tools.bench.latency import Requested
from tests.tools.bench.source import CHUNK_ROWS, fill, read_all

ROWS = 1_000_000
READERS = 2
BOUND_S = 30.0
TIMES = 2
"""The first of a new session is not the measured one."""


class MarksFromMemory:
    """sidecar.ports.Source: chunks by the real source, marks by the cluster that makes the feed."""

    def __init__(self, chunks: TidbSource, marks: MemorySource) -> None:
        self._chunks, self._marks = chunks, marks

    def request(self, command: Command) -> None:
        (self._marks if isinstance(command, SendMark) else self._chunks).request(command)

    def follow(self, schemas: Mapping[TableName, TableSchema]) -> None:
        self._chunks.follow(schemas)

    def results(self) -> Sequence[SourceEvent]:
        return [*self._marks.results(), *self._chunks.results()]

    def close(self) -> None:
        self._chunks.close()
        self._marks.close()


def measure(bench: Bench) -> Iterator[Figure]:
    rows = bench.sized(ROWS)
    with MariaDb(bench.new_folder("mariadb"), settings={"innodb-buffer-pool-size": "512M", "skip-log-bin": "ON"}) as db:
        fill(db, rows)
        reading = best(partial(_reading, bench, db, rows), TIMES)
        merging = best(partial(_merging, bench, rows), TIMES)
        whole = best(partial(_whole, bench, db, rows), TIMES)
    expected = rows / (reading.wall_s + merging.wall_s)
    figure = rate(
        f"dump of {rows:,} rows, SELECT to Parquet", rows, whole, aim="≥ 0.8 × 1/(1/reading + 1/merging)", limit="the machine's cores"
    )
    reference = f"reading {rows / reading.wall_s:,.0f}, merging {rows / merging.wall_s:,.0f}: {expected:,.0f} rows/s"
    yield Figure(
        figure.name, figure.value, figure.unit, figure.aim, figure.limit, figure.cpu_us, reference=reference,
        ratio=figure.value / expected, cpu_ratio=(reading.cpu_s + merging.cpu_s) / whole.cpu_s,
    )  # fmt: skip


def _reading(bench: Bench, db: MariaDb, rows: int) -> Cost:
    cost = Cost()
    with timed_tree(cost):
        read_all(db.settings(), bench.new_folder("chunks"), rows=rows, readers=READERS)
    return cost


def _merging(bench: Bench, rows: int) -> Cost:
    source = dumped(
        bench.new_folder("log"), windows=10, window_chunks=max(rows // 10 // CHUNK_ROWS, 1), chunk_rows=min(CHUNK_ROWS, rows // 10)
    )
    cost = deliver(bench.spark, source, bench.new_folder("parquet"), "parquet")
    return Cost(cost.wall_s * rows / source.rows, cost.cpu_s * rows / source.rows)


def _whole(bench: Bench, db: MariaDb, rows: int) -> Cost:
    folder, spark, cost = bench.new_folder("whole"), bench.spark, Cost()
    log = open_folder(str(folder / "log"))
    feed = PacedFeed()
    chunks = TidbSource(
        db.settings(), schemas={ACCOUNT: SCHEMA}, write_chunk=partial(write_chunk, log), changefeed_id=CHANGEFEED, readers_max=READERS
    )
    source = MarksFromMemory(chunks, MemorySource(feed, log, select_s=0.0))
    job = SparkJob(
        SparkTasks(lambda: OpenSession(spark)),
        {"parquet": open_sink(f"file://{folder}/out?format=parquet", log_id="bench")},
        JobSettings(log),
    )
    pipeline = attach(_outside(folder, log, feed, source, job), changefeed_id=CHANGEFEED, epoch=1, limits=PipelineLimits())
    job.start()
    try:
        with timed_tree(cost):
            progress = _until_delivered(pipeline, job)
    finally:
        source.close()
        job.finish()
    assert (read := sum(table.rows for table in progress.tables)) == rows, f"{read} of {rows} rows were read"
    return cost


def _outside(folder: Path, log: Folder, feed: PacedFeed, source: MarksFromMemory, job: SparkJob) -> Outside:
    return Outside(
        feed=feed,
        codec=CanalJson(),
        log=FolderLog(log),
        source=source,
        schemas=StillSchemas({ACCOUNT: SCHEMA}),
        progress=FileProgress(open_folder(str(folder))),
        requests=Requested(StartDump(DUMP_ID, (ACCOUNT,), Brackets.WATERMARK, CHUNK_ROWS, pace=Pace(delivery_bound_s=BOUND_S))),
        clock=MonotonicClock(),
        spill=FileSpill(str(folder)),
        deliveries=job,
    )


def _until_delivered(pipeline: Pipeline, job: SparkJob) -> Progress:
    """Until the sink has accepted the segment in which the dump was complete."""
    while True:
        pipeline.step(poll_s=0.02)
        job.check()
        progress = pipeline.dump.progress
        if progress is not None and progress.state is DumpState.FINISHED and (seq := job.accepted()) is not None and seq >= progress.seq:
            return progress
        assert progress is None or progress.state in (DumpState.RUNNING, DumpState.FINISHED), progress
