"""Spark's decode stage alone: segments of a log to change rows, which are counted. Beside it: Spark reading the same files."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO
from pathlib import Path

from sidecar.shared.log.storage import open_folder
from spark_merge.delivery.batches import JobSettings
from spark_merge.sinks.console.sink import ConsoleSink
from spark_merge.worker.job import SparkJob
from spark_merge.worker.session import OpenSession
from spark_merge.worker.spark_tasks import SparkTasks
from tests.tools.bench.bench import Bench
from tests.tools.bench.feed import PROTOCOLS, Shape
from tests.tools.bench.figures import Cost, Figure, beside, best, rate, timed_tree
from tests.tools.bench.order import ordered

ROWS = 200_000
SEGMENTS = 4


def measure(bench: Bench) -> Iterator[Figure]:
    """Rows a second of each protocol."""
    for protocol in PROTOCOLS:
        rows, folder = bench.sized(ROWS), bench.new_folder("decode")
        ordered(Shape(protocol, rows, batch_rows=rows // SEGMENTS), log=folder)
        _decode(bench, folder)
        cost = best(lambda folder=folder: _decode(bench, folder))  # type: ignore[misc]
        _scan(bench, folder)
        scan = best(lambda folder=folder: _scan(bench, folder))  # type: ignore[misc]
        limit = "Python workers: JSON to columns of text"
        yield beside(rate(f"{protocol}: decode in Spark", rows, cost, aim="≥ 100,000", limit=limit), "Spark scan", rows, scan)


def _decode(bench: Bench, folder: Path) -> Cost:
    cost, log = Cost(), open_folder(str(folder))
    job = SparkJob(SparkTasks(lambda: OpenSession(bench.spark)), {"console": ConsoleSink(StringIO())}, JobSettings(log), worker_rows=0)
    with timed_tree(cost):
        job.start()
        job.finish()
    return cost


def _scan(bench: Bench, folder: Path) -> Cost:
    cost = Cost()
    with timed_tree(cost):
        bench.spark.read.parquet(*map(str, folder.glob("*.parquet"))).write.format("noop").mode("overwrite").save()
    return cost
