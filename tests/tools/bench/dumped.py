"""A log that holds a dump: segments with changes, and windows that close in them with chunks whose rows they touch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from sidecar.shared.log.layout import chunk_name
from sidecar.shared.log.rows_file import write_chunk
from sidecar.shared.log.storage import Folder
from sidecar.shared.model.chunk import ChunkFile, ClosedWindow
from sidecar.shared.model.nouns import Change, CommitTs, Lane, Rank
from spark_merge.delivery.batches import JobSettings
from spark_merge.sinks.registry import open_sink
from spark_merge.worker.job import SparkJob
from spark_merge.worker.session import OpenSession
from spark_merge.worker.spark_tasks import SparkTasks
from tests.tools.bench.account import ACCOUNT, SCHEMA, canal_updates, message, rows
from tests.tools.bench.feed import FIRST_TS, TS_STEP
from tests.tools.bench.figures import Cost, timed_tree
from tests.tools.bench.log import LogWriter, segment

DUMP_ID = "benchbenchbench1"
TOUCHED_EVERY = 10
"""Every tenth row of a chunk is changed inside its window."""


@dataclass(frozen=True, slots=True)
class Dumped:
    """A log of `windows` segments, each with its changes and one window of `window_chunks` chunks."""

    log: Folder
    windows: int
    window_chunks: int
    chunk_rows: int

    @property
    def rows(self) -> int:
        """In the chunks: as many as the output has, a touched row being output as its change instead."""
        return self.windows * self.window_chunks * self.chunk_rows


def log_writer(folder: Path) -> LogWriter:
    return LogWriter(folder, codec="canal-json", schemas={ACCOUNT: SCHEMA})


def dumped(folder: Path, *, windows: int, window_chunks: int, chunk_rows: int) -> Dumped:
    return write_dump(log_writer(folder), windows=windows, window_chunks=window_chunks, chunk_rows=chunk_rows)


def write_dump(writer: LogWriter, *, windows: int, window_chunks: int, chunk_rows: int) -> Dumped:
    ts, chunk_number = FIRST_TS, 0
    for _ in range(windows):
        chunks, updates = [], []
        for _ in range(window_chunks):
            first_id = chunk_number * chunk_rows + 1
            result = rows(first_id, chunk_rows)
            updates += canal_updates(result.take(list(range(0, chunk_rows, TOUCHED_EVERY))))
            path = chunk_name(DUMP_ID, epoch=1, number=chunk_number)
            size = write_chunk(writer.folder, path, result).bytes
            chunks.append(ChunkFile(ACCOUNT, path, chunk_rows, size, (str(first_id - 1),), (str(first_id + chunk_rows - 1),)))
            chunk_number += 1
        low_ts, high_ts = ts, ts + (len(updates) + 2) * TS_STEP
        window = ClosedWindow(DUMP_ID, CommitTs(low_ts), CommitTs(high_ts), writer.seq, tuple(chunks))
        writer.write(segment(ts, high_ts, _changes(updates, low_ts)), (window,))
        ts = high_ts
    return Dumped(writer.folder, windows, window_chunks, chunk_rows)


def deliver(spark: SparkSession, source: Dumped, out: Path, file_format: str) -> Cost:
    """All of the log through the job to files in `out`."""
    cost = Cost()
    sink = open_sink(f"file://{out}?format={file_format}", log_id="bench")
    job = SparkJob(SparkTasks(lambda: OpenSession(spark)), {file_format: sink}, JobSettings(source.log))
    with timed_tree(cost):
        job.start()
        job.finish()
    results = [sum(counts) for counts in zip(*job.counts.values(), strict=True)]
    touched = source.windows * source.window_chunks * -(-source.chunk_rows // TOUCHED_EVERY)
    assert results == [touched, source.rows - touched, touched], f"from log, from dump, dropped: {results}"
    return cost


def write_updates(writer: LogWriter, images: pa.Table) -> None:
    """A segment with an update of each row."""
    after_ts, updates = writer.upto_ts, canal_updates(images)
    writer.write(segment(after_ts, after_ts + (len(updates) + 2) * TS_STEP, _changes(updates, after_ts)))


def _changes(updates: list[bytes], low_ts: int) -> Iterator[Change]:
    for number, update in enumerate(updates):
        ts = CommitTs(low_ts + (number + 1) * TS_STEP)
        yield Change(ts, Rank.PUT, *ACCOUNT, b"", message(update, ts), Lane("kafka/bench/0"), number)
