"""Resolved to delivered: how old a segment is when the sink has it, without a dump, while one runs all the time, and while one runs beside
a second sink that takes seconds to accept a batch.

The whole line in this process, paced by the wall: feed, sidecar, log, Spark in a thread, Parquet on the local disk. From
the manifest's file to the moment at which the sink has accepted it.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sidecar.adapters.clock import MonotonicClock
from sidecar.adapters.memory.schemas import StillSchemas
from sidecar.pipeline import Outside, PipelineLimits, attach
from sidecar.replay.progress_file import FileProgress
from sidecar.shared.codecs.canal_json import CanalJson
from sidecar.shared.errors import RefusedRequest
from sidecar.shared.log.segment_log import FolderLog
from sidecar.shared.log.spill import FileSpill
from sidecar.shared.log.storage import open_folder
from sidecar.shared.model.messages import Brackets, Request, StartDump
from spark_merge.delivery.batches import JobSettings
from spark_merge.port.contract import Batch, Outcome, Sink
from spark_merge.sinks.files.sink import FileSink
from spark_merge.sinks.registry import open_sink
from spark_merge.worker.job import SparkJob
from spark_merge.worker.session import OpenSession
from spark_merge.worker.spark_tasks import SparkTasks
from tests.tools.bench.account import ACCOUNT, SCHEMA
from tests.tools.bench.bench import Bench
from tests.tools.bench.cluster import CHANGEFEED, MemorySource, PacedFeed
from tests.tools.bench.dumped import DUMP_ID
from tests.tools.bench.figures import Cost, Figure, percentile, timed_tree

RUN_S, WARM_UP_S = 25, 5
ACCEPT_S, SLOW_RUN_S = 3.0, 40
"""Of the slow sink; and how much longer that run is, so that the dump has reached its pace."""
CHUNK_ROWS = 5_000
SELECT_S = 0.1
"""What a database needs for a chunk; two readers so ask for 100,000 rows a second at most."""


def measure(bench: Bench) -> Iterator[Figure]:
    """p50 and p99 of the segments, both ways."""
    result = {}
    for name, dump, slow in (("no dump", False, False), ("dump", True, False), ("dump beside a slow sink", True, True)):
        out = bench.new_folder("out")
        sinks: dict[str, Sink] = {"parquet": open_sink(f"file://{out}?format=parquet", log_id="bench")}
        if slow:
            sinks["slow"] = SlowSink(open_folder(str(out / "slow")), log_id="bench", file_format="parquet")
        line = result[name] = live(bench, sinks, dump=dump, extra_s=SLOW_RUN_S if slow else 0)
        ages_s = line.ages_s["parquet"]
        core = line.cost.cpu_s / line.cost.wall_s
        limit = f"{len(ages_s)} segments, {core:.1f} cores busy" + (f", {line.dump_rows_a_s:,.0f} dump rows/s" if dump else "")
        yield Figure(f"resolved to delivered, {name}: p50", percentile(ages_s, 0.5), "s", aim="", limit=limit)
        p99 = percentile(ages_s, 0.99)
        aim = "≤ 2, ≤ 1.3 × without" if dump else ""
        against = percentile(result["no dump"].ages_s["parquet"], 0.99)
        reference = f"no dump {against:.2f} s" if dump else ""
        yield Figure(
            f"resolved to delivered, {name}: p99", p99, "s", aim, "a micro-batch and the one before it",
            reference=reference, ratio=p99 / against if dump else None,
        )  # fmt: skip
        if slow:
            slow_p99, bound = percentile(line.ages_s["slow"], 0.99), f"bound {line.bounds_s['slow']:.1f} s"
            yield Figure("the slow sink itself: p99", slow_p99, "s", "≤ its bound", f"{ACCEPT_S:.0f} s to accept", reference=bound)


@dataclass(frozen=True, slots=True)
class Line:
    """By sink. `ages_s`: of each segment, without the warm-up, when it was accepted. `dump_rows_a_s`: delivered while the feed ran.
    `bounds_s`: what the dump kept it within at the end."""

    ages_s: dict[str, list[float]]
    dump_rows_a_s: float
    cost: Cost
    bounds_s: dict[str, float]


class SlowSink(FileSink):
    """As a lake that takes its time for a commit."""

    def accept(self, batch: Batch, outcomes: Sequence[Outcome]) -> None:
        time.sleep(ACCEPT_S)
        super().accept(batch, outcomes)


@dataclass(slots=True)
class Requested:
    """One request at the start, or none."""

    request: Request | None

    def take(self) -> Request | None:
        requested, self.request = self.request, None
        return requested

    def answer(self, refused: RefusedRequest | None) -> None:
        if refused is not None:
            raise refused


def live(bench: Bench, sinks: dict[str, Sink], *, dump: bool, extra_s: int = 0) -> Line:
    """`extra_s`: so much longer, before anything counts."""
    folder, spark, cost = bench.new_folder("live"), bench.spark, Cost()
    log = open_folder(str(folder / "log"))
    feed = PacedFeed()
    source = MemorySource(feed, log, select_s=SELECT_S)
    loop = SparkJob(SparkTasks(lambda: OpenSession(spark)), sinks, JobSettings(log))
    outside = Outside(
        feed=feed,
        codec=CanalJson(),
        log=FolderLog(log),
        source=source,
        schemas=StillSchemas({ACCOUNT: SCHEMA}),
        progress=FileProgress(open_folder(str(folder))),
        requests=Requested(StartDump(DUMP_ID, (ACCOUNT,), Brackets.WATERMARK, CHUNK_ROWS) if dump else None),
        clock=MonotonicClock(),
        spill=FileSpill(str(folder)),
        deliveries=loop,
    )
    pipeline = attach(outside, changefeed_id=CHANGEFEED, epoch=1, limits=PipelineLimits())
    loop.start()
    accepted: dict[str, dict[int, int]] = {name: {} for name in sinks}
    began_ns, end_s = time.time_ns(), time.monotonic() + bench.sized(RUN_S + extra_s)
    with timed_tree(cost):
        while time.monotonic() < end_s:
            pipeline.step(poll_s=0.05)
            loop.check()
            _note(loop, accepted)
    delivered = sum(counts[1] + counts[2] for counts in list(loop.counts.values()))
    bounds = {state.sink: state.bound_s for state in pipeline.pace.states(time.monotonic())}
    source.close()
    loop.finish()
    _note(loop, accepted)
    after_ns = began_ns + bench.sized(WARM_UP_S + extra_s) * 10**9
    ages_s = {name: _ages_s(folder / "log", result, after_ns=after_ns) for name, result in accepted.items()}
    return Line(ages_s, delivered / cost.wall_s, cost, bounds)


def _note(job: SparkJob, accepted: dict[str, dict[int, int]]) -> None:
    """When each batch was: its last segment and the moment, ms."""
    for sink in job.sinks():
        accepted[sink.sink] |= {batch.last: batch.accepted_ms for batch in sink.batches}


def _ages_s(log: Path, accepted: dict[int, int], *, after_ns: int) -> list[float]:
    """A segment was accepted with the first batch that reaches it. One without rows or windows is one too."""
    written = {int(manifest.stem): manifest.stat().st_mtime_ns for manifest in log.glob("[0-9]*.json")}
    lasts = sorted(accepted)
    ages_s = []
    for seq, at_ns in written.items():
        at = bisect_left(lasts, seq)
        if at_ns >= after_ns and at < len(lasts):
            ages_s.append((accepted[lasts[at]] * 1_000_000 - at_ns) / 1e9)
    return ages_s
