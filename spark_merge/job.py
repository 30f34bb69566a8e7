"""The Spark application: a loop over the log, a batch of segments at a time (design 8). Only this file knows a session.

    manifests -> pieces -> [decode, touched keys] -> deliveries -> sort -> [sink's writer] -> accept

- The sinks' last accepted seq is the only position. A batch that died half-way is done again and writes the same thing.
- A batch is one Spark job a sink: one shuffle, no join (merge.py).
- One plan for all tables: what differs by table is looked up in the tasks, in the schemas file that the manifest names.
- A batch is as many segments as are there, within the bounds; it ends at a DDL and where the schemas change.
- Segments and chunks are opened by the tasks themselves, by path, with the log's own storage.
"""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import monotonic

import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JJavaError
from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # what everyone who knows Spark calls it

from sidecar.core.manifest import Manifest, from_json, to_json
from sidecar.core.model import Seq, TableName
from sidecar.errors import OwnershipLost, SinkError
from sidecar.storage import Folder
from spark_merge.contract import DELIVERED_SCHEMA, DELIVERIES, DELIVERY_SCHEMA, Delivered, DeliveredFile, SegmentHead, Sink
from spark_merge.decode.rows import decode
from spark_merge.merge import DueChunk, chunk_rows, key_rows
from spark_merge.read import LoggedSchemas, iter_rows, new_manifests
from spark_merge.task_errors import telling, told

LOG4J = Path(__file__).with_name("log4j2.properties").as_uri()
"""Errors only, on standard error: what an operator must see of Spark's own log."""

SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""Set where spark-submit started this process."""

PIECE_SCHEMA = "manifest binary"
"""A segment as a task's input: its manifest without progress."""


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """What one batch may hold; a single segment larger than that is a batch of its own."""

    segments_max: int = 200
    rows_max: int = 2_000_000
    bytes_max: int = 1 << 30


@dataclass(frozen=True, slots=True)
class JobSettings:
    """`server_tz`: the TiCDC server's zone, in which the feed's timestamps are written. `epoch_max`: the owner this job works
    for; segments of a later one are not its to deliver. None: any owner's."""

    log: Folder
    server_tz: str = "UTC"
    limits: BatchLimits = BatchLimits()
    epoch_max: int | None = None


def session(*, master: str, memory: str = "2g") -> SparkSession:
    """The application's session. Under `spark-submit` its own settings of master and memory hold, not these."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # or Spark looks for a name of this machine, and complains
    builder = SparkSession.builder.appName("ticdc-dump")
    if SUBMITTED not in os.environ:
        builder = builder.master(master).config("spark.driver.memory", memory)
    found: SparkSession = (
        builder.config("spark.python.daemon.module", "spark_merge.daemon")
        .config("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile={LOG4J}")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", "20000")
        .config("spark.sql.adaptive.enabled", "false")  # the partitions of a batch are chosen here, re-planning costs latency
        .config("spark.sql.shuffle.partitions", str(2 * (os.cpu_count() or 2)))
        .getOrCreate()
    )
    return found


class Job:
    """Delivers the log to the sinks. `run_once` is called for ever by one thread."""

    def __init__(self, spark: SparkSession, sinks: list[Sink], settings: JobSettings) -> None:
        self.spark = spark
        self.sinks = sinks
        self.settings = settings
        self.accept_s = 0.0
        """Of the last batch: how long the sinks took to accept what the tasks had written."""

    def warm_up(self) -> None:
        """Go once through a batch's plan with nothing to deliver: the JVM compiles it, and the Python workers start and load
        what they need. Seconds that the first segments need not wait for."""
        pieces = self.spark.createDataFrame([(b"",)] * self.spark.sparkContext.defaultParallelism, PIECE_SCHEMA)
        plan = pieces.mapInArrow(telling(_nothing), DELIVERY_SCHEMA)
        self._in_output_order(plan, parts=1).mapInArrow(telling(_nothing), DELIVERED_SCHEMA).collect()

    def run_once(self) -> list[Delivered]:
        """Deliver the next batch to every sink that has not accepted it; empty when nothing new is in the log.

        Raises OwnershipLost before it delivers a segment of a later owner.
        """
        accepted = [sink.accepted() for sink in self.sinks]
        after = None if None in accepted else min(seq for seq in accepted if seq is not None)
        batch = cut(new_manifests(self.settings.log, after=after, limit=self.settings.limits.segments_max), self.settings.limits)
        if not batch:
            return []
        self._check_owner(batch)
        self.accept_s = 0.0
        if not any(manifest.data or manifest.windows for manifest in batch):  # a DDL, or an idle feed: nothing for a task to do
            return [d for sink, seq in zip(self.sinks, accepted, strict=True) for d in self._accept(sink, _newer(batch, seq), {})]
        plan = self._deliveries(batch)
        if len(self.sinks) > 1:
            plan = plan.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            return [d for sink, seq in zip(self.sinks, accepted, strict=True) for d in self._deliver(plan, sink, _newer(batch, seq))]
        except (PySparkException, Py4JJavaError) as error:
            raise told(error) or SinkError(
                f"a Spark task failed while segments {batch[0].seq} to {batch[-1].seq} were delivered: {error}",
                hint="see the task's error above; nothing accepted is lost, the batch is done again when the job starts again",
            ) from error
        finally:
            if len(self.sinks) > 1:
                plan.unpersist()

    def _check_owner(self, batch: list[Manifest]) -> None:
        epoch = max(manifest.epoch for manifest in batch)
        if self.settings.epoch_max is not None and epoch > self.settings.epoch_max:
            raise OwnershipLost(
                f"the log's segments up to {batch[-1].seq} are of owner epoch {epoch}, this worker serves epoch {self.settings.epoch_max}",
                hint="nothing: the later owner has a merge worker of its own, and two must not deliver to one sink",
            )

    def _deliveries(self, batch: list[Manifest]) -> DataFrame:
        """DELIVERY_SCHEMA rows of the batch. Its windows reach back to earlier segments: of these only the keys of tables that
        were dumped are there."""
        first = batch[0].seq
        oldest = min((window.first_seq for manifest in batch for window in manifest.windows), default=first)
        earlier = new_manifests(self.settings.log, after=Seq(oldest - 1), limit=first - oldest) if oldest < first else []
        due = [chunk for manifest in batch for chunk in due_chunks(manifest)]
        task = partial(deliveries_of, settings=self.settings, first=first, due=due)
        pieces = [(to_json(replace(m, progress=None)),) for m in [*earlier, *batch] if m.data is not None or m.windows]
        return self.spark.createDataFrame(pieces, PIECE_SCHEMA).mapInArrow(telling(task), DELIVERY_SCHEMA)

    def _deliver(self, plan: DataFrame, sink: Sink, batch: list[Manifest]) -> list[Delivered]:
        if not batch:
            return []
        schemas = LoggedSchemas(self.settings.log, batch[0].schemas)
        wanted = self._in_output_order(plan.where(F.col("seq") >= batch[0].seq), parts=sink.parts)
        files: defaultdict[Seq, list[DeliveredFile]] = defaultdict(list)
        for row in wanted.mapInArrow(telling(sink.writer(schemas, self.settings.log)), DELIVERED_SCHEMA).collect():
            table = TableName(row.schema, row.table)
            files[row.seq].append(DeliveredFile(row.path, table, row.from_log, row.from_dump, row.dropped))
        return self._accept(sink, batch, files)

    def _accept(self, sink: Sink, batch: list[Manifest], files: Mapping[Seq, list[DeliveredFile]]) -> list[Delivered]:
        if not batch:
            return []
        delivered = [Delivered(m.seq, tuple(files.get(m.seq, ()))) for m in batch]
        heads = [SegmentHead(m.seq, m.upto_ts, tuple((d.commit_ts, d.schema, d.table, d.query) for d in m.ddls)) for m in batch]
        began_s = monotonic()
        sink.accept(heads, delivered)
        self.accept_s += monotonic() - began_s
        return delivered

    def _in_output_order(self, plan: DataFrame, *, parts: int) -> DataFrame:
        """DELIVERY_SCHEMA rows as `Writer` takes them: what goes into one file together, in its order."""
        part = F.when(F.col("chunk").isNull(), 0).otherwise((F.col("ordinal") % parts).cast("int"))
        return (
            plan.withColumn("part", part)
            .repartition(self.spark.sparkContext.defaultParallelism * 2, "seq", "schema", "table", "part")
            .sortWithinPartitions("seq", "schema", "table", "part", "commit_ts", "rank", "ordinal")
        )


def cut(manifests: list[Manifest], limits: BatchLimits) -> list[Manifest]:
    """The first batch: within the bounds (but at least one segment), up to and with the first DDL, of one schemas file."""
    batch: list[Manifest] = []
    rows = size = 0
    for manifest in manifests:
        chunks = [chunk for window in manifest.windows for chunk in window.chunks]
        rows += manifest.rows + sum(chunk.rows for chunk in chunks)
        size += manifest.bytes + sum(chunk.bytes for chunk in chunks)
        if batch and (rows > limits.rows_max or size > limits.bytes_max or manifest.schemas != batch[0].schemas):
            break
        batch.append(manifest)
        if manifest.ddls:
            break
    return batch


def due_chunks(manifest: Manifest) -> list[DueChunk]:
    """The chunks of the windows that closed in it, but empty ones."""
    chunks = [(window, chunk) for window in manifest.windows for chunk in window.chunks]
    return [
        DueChunk(chunk.table, window.low_ts, window.high_ts, manifest.seq, number, window.dump_id, chunk.path)
        for number, (window, chunk) in enumerate(chunks)
        if chunk.rows
    ]


def _newer(batch: list[Manifest], accepted: Seq | None) -> list[Manifest]:
    return [manifest for manifest in batch if accepted is None or manifest.seq > accepted]


def _nothing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Read all, yield nothing. Importing this module has loaded what the other tasks need."""
    for _ in batches:
        yield from ()


def deliveries_of(batches: Iterator[pa.RecordBatch], *, settings: JobSettings, first: Seq, due: list[DueChunk]) -> Iterator[pa.RecordBatch]:
    """In a task: segments to DELIVERY_SCHEMA rows, a row group at a time. Those before `first` are there for their keys."""
    for piece in (piece for batch in batches for piece in batch.column(0).to_pylist()):
        manifest = from_json(piece, name="in a task")
        schemas = LoggedSchemas(settings.log, manifest.schemas)
        windows = [chunk for chunk in due if chunk.low_ts < manifest.upto_ts and chunk.high_ts > manifest.after_ts]
        for rows in iter_rows(settings.log, manifest):
            wanted = rows if manifest.seq >= first else _of_tables(rows, {chunk.table for chunk in windows})
            with_seq = wanted.append_column("seq", pa.repeat(pa.scalar(manifest.seq, pa.int64()), wanted.num_rows))
            changes = decode(with_seq, codec=manifest.codec, schemas=schemas, server_tz=settings.server_tz)
            yield from pa.concat_tables([DELIVERIES.empty_table(), *key_rows(changes, windows)]).combine_chunks().to_batches()
            if manifest.seq >= first:
                no_chunk = pa.nulls(changes.num_rows, DELIVERIES.field("chunk").type)
                yield from changes.append_column(DELIVERIES.field("chunk"), no_chunk).to_batches()
        yield from chunk_rows([chunk for chunk in due if chunk.seq == manifest.seq]).to_batches()


def _of_tables(rows: pa.Table, tables: set[TableName]) -> pa.Table:
    keep = pa.scalar(False)
    for schema, table in tables:
        keep = pc.or_(keep, pc.and_(pc.equal(rows["schema"], schema), pc.equal(rows["table"], table)))
    return rows.filter(keep) if tables else rows.slice(0, 0)
