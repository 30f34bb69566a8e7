"""Lakes at size: a dump of ten million rows amid live rows, commits of scattered keys into what is there then, and what a reader of
merged Iceberg tables pays until somebody compacts them.

Everything is on this disk. The reader is Spark with Iceberg's runtime, in a process of its own, so its figures are walls alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from spark_merge.delivery.batches import JobSettings
from spark_merge.merge.cut import BatchLimits
from spark_merge.sinks.registry import open_sink
from spark_merge.worker.job import SparkJob
from spark_merge.worker.session import OpenSession
from spark_merge.worker.spark_tasks import SparkTasks
from tests.support.services.iceberg_spark import IcebergSpark
from tests.support.spark_lake import named, rewritten, spark_of
from tests.tools.bench import sink_delta, sink_iceberg
from tests.tools.bench.account import SCHEMA, rows_of
from tests.tools.bench.bench import Bench
from tests.tools.bench.dumped import Dumped, log_writer, write_dump, write_updates
from tests.tools.bench.figures import Cost, Figure, beside, best, rate, timed, timed_tree
from tests.tools.bench.log import LogWriter
from tests.tools.bench.sinks import Target

WINDOWS, WINDOW_CHUNKS, CHUNK_ROWS = 100, 4, 25_000
SCATTERED_ROWS, COMMITS = 1_000, 5


def measure(bench: Bench) -> Iterator[Figure]:
    folder = bench.new_folder("lakes")
    targets = [
        sink_iceberg.target(folder / "iceberg", "append"),
        sink_iceberg.target(folder / "iceberg", "merge"),
        sink_delta.target(folder / "delta", "append"),
        sink_delta.target(folder / "delta", "merge"),
    ]
    writer = log_writer(bench.new_folder("log"))
    source = write_dump(writer, windows=bench.sized(WINDOWS), window_chunks=WINDOW_CHUNKS, chunk_rows=CHUNK_ROWS)
    bench.spark  # noqa: B018 - warm
    plain = Cost()
    for target in targets:
        cost = _deliver(bench, source, target)
        plain = cost if target is targets[0] else plain
        figure = rate(f"dump of {source.rows:,} rows into {target.name}", source.rows, cost, aim="", limit=target.limit)
        yield beside(figure, f"{targets[0].name}'s", source.rows, plain)
    merged = targets[1].uri(targets[1].name.lower())
    with spark_of(merged, folder / "reader") as spark:
        first = best(lambda: _read(spark, source.rows), 2)
    scatter(writer, source)
    for target in targets:
        cost = _deliver(bench, source, target, limits=BatchLimits(segments_max=1))
        reported = f"wall of {COMMITS} batches, by {COMMITS}"
        yield Figure(
            f"{SCATTERED_ROWS:,} scattered updates into {target.name}, {source.rows:,} rows there", cost.wall_s / COMMITS, "s", "", reported
        )
    yield from _readers(merged, folder / "reader", source, first)


def scatter(writer: LogWriter, source: Dumped) -> None:
    """Segments of updates all over the dump's rows."""
    for number in range(COMMITS):
        write_updates(writer, rows_of(np.linspace(1 + number, source.rows - COMMITS + number, SCATTERED_ROWS).astype(np.int64)))


def _deliver(bench: Bench, source: Dumped, target: Target, limits: BatchLimits | None = None) -> Cost:
    """What the log has more than the target."""
    cost, settings = Cost(), JobSettings(source.log, limits=limits or BatchLimits())
    job = SparkJob(
        SparkTasks(lambda: OpenSession(bench.spark)), {"sink": open_sink(target.uri(target.name.lower()), log_id="bench")}, settings
    )
    with timed_tree(cost):
        job.start()
        job.finish()
    return cost


def _readers(uri: str, folder: Path, source: Dumped, first: Cost) -> Iterator[Figure]:
    with spark_of(uri, folder) as spark:
        scattered = best(lambda: _read(spark, source.rows), 2)
        rewritten(spark, SCHEMA)
        compacted = best(lambda: _read(spark, source.rows), 2)
    for name, cost in (("after its dump", first), (f"and {COMMITS} batches", scattered), ("after Spark's compaction", compacted)):
        reference = f"compacted {source.rows / compacted.wall_s:,.0f} rows/s"
        yield Figure(
            f"Spark reads {source.rows:,} merged Iceberg rows, {name}",
            source.rows / cost.wall_s,
            "rows/s",
            "",
            "deletes that readers hold",
            reference=reference,
            ratio=compacted.wall_s / cost.wall_s,
        )


def _read(spark: IcebergSpark, rows: int) -> Cost:
    cost = Cost()
    with timed(cost):
        result: dict[str, Any] = spark.rows(f"SELECT count(*) AS rows, sum(amount) AS amount, max(note) AS note FROM {named(SCHEMA)}")[0]
    assert result["rows"] == rows, result
    return cost
