"""Resolved to delivered: how old a segment is when the sink has it, without a dump, while one runs all the time, and while one runs beside
a second sink that takes seconds to accept a batch.

The whole line in this process, paced by the wall: feed, sidecar, log, Spark in a thread, Parquet on the local disk. From
the manifest's file to the sink's `_segments` file.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sidecar.adapters.clock import MonotonicClock
from sidecar.adapters.memory.schemas import StillSchemas
from sidecar.codecs.canal_json import CanalJson
from sidecar.core.messages import Brackets, Request, StartDump
from sidecar.errors import RefusedRequest
from sidecar.log.segment_log import FolderLog
from sidecar.log.spill import FileSpill
from sidecar.log.storage import open_folder
from sidecar.pipeline import Limits, Outside, attach
from sidecar.replay.progress_file import FileProgress
from spark_merge.contract import Batch, Outcome, Sink
from spark_merge.delivery import JobSettings
from spark_merge.job import Job, SparkTasks
from spark_merge.sinks.files.sink import FileSink
from spark_merge.sinks.registry import open_sink
from tests.bench.account import ACCOUNT, SCHEMA
from tests.bench.bench import Bench
from tests.bench.cluster import CHANGEFEED, MemorySource, PacedFeed
from tests.bench.dumped import DUMP_ID
from tests.bench.figures import Cost, Figure, percentile, timed_tree

RUN_S, WARM_UP_S = 25, 5
ACCEPT_S, SLOW_RUN_S = 3.0, 40
"""Of the slow sink; and how much longer that run is, so that the dump has found its pace."""
CHUNK_ROWS = 5_000
SELECT_S = 0.1
"""What a database needs for a chunk; two readers so ask for 100,000 rows a second at most."""


def measure(bench: Bench) -> Iterator[Figure]:
    """p50 and p99 of the segments, both ways."""
    found = {}
    for name, dump, slow in (("no dump", False, False), ("dump", True, False), ("dump beside a slow sink", True, True)):
        line = found[name] = _live(bench, dump=dump, slow=slow)
        core = line.cost.cpu_s / line.cost.wall_s
        limit = f"{len(line.ages_s)} segments, {core:.1f} cores busy" + (f", {line.dump_rows_a_s:,.0f} dump rows/s" if dump else "")
        yield Figure(f"resolved to delivered, {name}: p50", percentile(line.ages_s, 0.5), "s", aim="", limit=limit)
        p99 = percentile(line.ages_s, 0.99)
        aim = "≤ 2, ≤ 1.3 × without" if dump else ""
        against = percentile(found["no dump"].ages_s, 0.99)
        reference = f"no dump {against:.2f} s" if dump else ""
        yield Figure(
            f"resolved to delivered, {name}: p99", p99, "s", aim, "a micro-batch and the one before it",
            reference=reference, ratio=p99 / against if dump else None,
        )  # fmt: skip
        if slow:
            slow_p99, bound = percentile(line.slow_s, 0.99), f"bound {line.slow_bound_s:.1f} s"
            yield Figure("the slow sink itself: p99", slow_p99, "s", "≤ its bound", f"{ACCEPT_S:.0f} s to accept", reference=bound)


@dataclass(frozen=True, slots=True)
class Line:
    """`ages_s`: of each segment, warm-up left out, when it was delivered. `dump_rows_a_s`: delivered while the feed ran. `slow_s`: as
    `ages_s` of the slow sink, `slow_bound_s`: what the dump kept it within at the end; empty and 0 without one."""

    ages_s: list[float]
    dump_rows_a_s: float
    cost: Cost
    slow_s: list[float]
    slow_bound_s: float


class SlowSink(FileSink):
    """As a lake that takes its time for a commit."""

    def accept(self, batch: Batch, outcomes: Sequence[Outcome]) -> None:
        time.sleep(ACCEPT_S)
        super().accept(batch, outcomes)


@dataclass(slots=True)
class _Asked:
    """One request at the start, or none."""

    request: Request | None

    def take(self) -> Request | None:
        asked, self.request = self.request, None
        return asked

    def answer(self, refused: RefusedRequest | None) -> None:
        if refused is not None:
            raise refused


def _live(bench: Bench, *, dump: bool, slow: bool) -> Line:
    folder, spark, cost = bench.new_folder("live"), bench.spark, Cost()
    log, out = open_folder(str(folder / "log")), folder / "out"
    feed = PacedFeed()
    source = MemorySource(feed, log, select_s=SELECT_S)
    sinks: dict[str, Sink] = {"parquet": open_sink(f"file://{out}?format=parquet", log_id="bench")}
    if slow:
        sinks["slow"] = SlowSink(open_folder(str(folder / "slow")), log_id="bench", file_format="parquet")
    loop = Job(SparkTasks(lambda: spark), sinks, JobSettings(log))
    outside = Outside(
        feed=feed,
        codec=CanalJson(),
        log=FolderLog(log),
        source=source,
        schemas=StillSchemas({ACCOUNT: SCHEMA}),
        progress=FileProgress(open_folder(str(folder))),
        requests=_Asked(StartDump(DUMP_ID, (ACCOUNT,), Brackets.WATERMARK, CHUNK_ROWS) if dump else None),
        clock=MonotonicClock(),
        spill=FileSpill(str(folder)),
        deliveries=loop,
    )
    pipeline = attach(outside, changefeed_id=CHANGEFEED, epoch=1, limits=Limits())
    loop.start()
    seconds = RUN_S + (SLOW_RUN_S if slow else 0)
    began_ns, end_s = time.time_ns(), time.monotonic() + bench.sized(seconds)
    with timed_tree(cost):
        while time.monotonic() < end_s:
            pipeline.step(poll_s=0.05)
            loop.check()
    delivered = sum(counts[1] + counts[2] for counts in list(loop.counts.values()))
    bounds = {state.sink: state.bound_s for state in pipeline.pace.states(time.monotonic())}
    source.close()
    loop.finish()
    after_ns = began_ns + bench.sized(WARM_UP_S + (SLOW_RUN_S if slow else 0)) * 10**9
    ages_s, slow_s = (_ages_s(folder / "log", to, after_ns=after_ns) for to in (out, folder / "slow"))
    return Line(ages_s, delivered / cost.wall_s, cost, slow_s, bounds.get("slow", 0.0))


def _ages_s(log: Path, out: Path, *, after_ns: int) -> list[float]:
    """Both files have the segment's name. A segment without rows or windows is one too."""
    written = {manifest.name: manifest.stat().st_mtime_ns for manifest in log.glob("[0-9]*.json")}
    found = {name: out / "_segments" / name for name, at_ns in written.items() if at_ns >= after_ns}
    return [(file.stat().st_mtime_ns - written[name]) / 1e9 for name, file in found.items() if file.exists()]
