"""What `ticdc-dump size` predicts of live changes, beside what they cost here: cores of the whole line in one process, of shapes that the
model's costs were taken from (`FITTED`) and of others (`CHECKED`).

As `latency` without a dump: feed, sidecar, log, and the sinks' loops in threads. What a real sidecar has besides is not here: the broker's
client, etcd, the control service, a JVM that waits. The cost "processes" is for these, and is no part of the
prediction here. `cpu_ratio` of a figure is predicted ÷ measured.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from sidecar.adapters.clock import MonotonicClock
from sidecar.adapters.memory.schemas import StillSchemas
from sidecar.pipeline import Outside, PipelineLimits, attach
from sidecar.replay.progress_file import FileProgress
from sidecar.report.size_costs import ROW_BYTES
from sidecar.report.sizing import SizedLoad, line_cores
from sidecar.shared.codecs.canal_json import CanalJson
from sidecar.shared.log.segment_log import FolderLog
from sidecar.shared.log.spill import FileSpill
from sidecar.shared.log.storage import open_folder
from sidecar.shared.model.nouns import TableName
from spark_merge.delivery.batches import JobSettings
from spark_merge.sinks.registry import open_sink
from spark_merge.worker.job import SparkJob
from spark_merge.worker.session import OpenSession
from spark_merge.worker.spark_tasks import SparkTasks
from tests.tools.bench.account import ACCOUNT, SCHEMA
from tests.tools.bench.bench import Bench
from tests.tools.bench.cluster import CHANGEFEED, MemorySource, PacedFeed
from tests.tools.bench.figures import Cost, Figure, timed_tree
from tests.tools.bench.latency import Requested

RUN_S, WARM_UP_S = 14, 6
NEVER_ON_SPARK = 1_000_000_000
"""Rows. Spark's start is no cost of live changes, and a machine that others keep busy makes batches that would begin it."""


@dataclass(frozen=True, slots=True)
class LiveShape:
    """`sinks`: by their names in `size`."""

    tables: int
    changes_a_s: int
    sinks: tuple[str, ...]


FITTED = (
    LiveShape(1, 500, ("file:parquet",)), LiveShape(100, 500, ("file:parquet",)), LiveShape(10, 3_000, ("file:parquet",)),
    LiveShape(1, 2_000, ("file:jsonl",)), LiveShape(100, 500, ("file:jsonl",)), LiveShape(10, 1_000, ("file:jsonl",)),
    LiveShape(10, 1_000, ("sqlite",)), LiveShape(100, 500, ("sqlite",)), LiveShape(10, 1_000, ("grpc",)), LiveShape(100, 500, ("grpc",)),
)  # fmt: skip
CHECKED = (
    LiveShape(25, 800, ("file:parquet", "sqlite")), LiveShape(50, 1_500, ("grpc",)), LiveShape(40, 1_000, ("file:jsonl", "file:parquet")),
)  # fmt: skip


def measure(bench: Bench) -> Iterator[Figure]:
    """Cores by the model, beside those of this run."""
    for kind, shapes in (("fitted", FITTED), ("checked", CHECKED)):
        for shape in shapes:
            cost = live_cost(bench, shape)
            measured = cost.cpu_s / cost.wall_s
            load = SizedLoad(1, ROW_BYTES, shape.tables, shape.changes_a_s, shape.sinks)
            name = f"size, {kind}: {shape.tables} tables, {shape.changes_a_s:,} changes/s, {', '.join(shape.sinks)}"
            yield Figure(
                name, line_cores(load), "cores", "0.75 to 1.25", "other programs raise what is measured",
                reference=f"measured {measured:.2f} cores", cpu_ratio=line_cores(load) / measured,
            )  # fmt: skip


def live_cost(bench: Bench, shape: LiveShape) -> Cost:
    """Of the line, without its warm-up."""
    folder, cost = bench.new_folder("sizes"), Cost()
    log = open_folder(str(folder / "log"))
    names = [TableName(ACCOUNT.schema, f"t{number:04d}") for number in range(shape.tables)]
    feed = PacedFeed(changes_a_s=shape.changes_a_s, tables=names)
    source = MemorySource(feed, log, select_s=0)
    uris = {
        "file:jsonl": f"file://{folder}/jsonl?format=jsonl",
        "file:parquet": f"file://{folder}/parquet?format=parquet",
        "sqlite": f"sqlite://{folder}/copy.db",
        "grpc": f"grpc://{folder}/spool/bench",
        "delta": f"delta://{folder}/delta?mode=append&commit-interval=0s",
    }
    sinks = {name: open_sink(uris[name], log_id="bench") for name in shape.sinks}
    job = SparkJob(SparkTasks(lambda: OpenSession(bench.spark), when_needed=True), sinks, JobSettings(log), worker_rows=NEVER_ON_SPARK)
    outside = Outside(
        feed=feed,
        codec=CanalJson(),
        log=FolderLog(log),
        source=source,
        schemas=StillSchemas({name: replace(SCHEMA, name=name) for name in names}),
        progress=FileProgress(open_folder(str(folder))),
        requests=Requested(None),
        clock=MonotonicClock(),
        spill=FileSpill(str(folder)),
        deliveries=job,
    )
    pipeline = attach(outside, changefeed_id=CHANGEFEED, epoch=1, limits=PipelineLimits())
    job.start()

    def run(seconds: float) -> None:
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s:
            pipeline.step(poll_s=0.05)
            job.check()

    run(bench.sized(WARM_UP_S))
    with timed_tree(cost):
        run(bench.sized(RUN_S))
    source.close()
    job.finish()
    return cost
