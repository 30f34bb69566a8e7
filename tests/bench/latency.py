"""Resolved to delivered: how old a segment is when the sink has it, without a dump and while one runs all the time.

The whole line in this process, paced by the wall: feed, sidecar, log, Spark in a thread, Parquet on the local disk. From
the manifest's file to the sink's `_segments` file.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
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
from spark_merge.delivery import JobSettings
from spark_merge.job import Job, SparkTasks
from spark_merge.sinks.registry import open_sink
from tests.bench.account import ACCOUNT, SCHEMA
from tests.bench.bench import Bench
from tests.bench.cluster import CHANGEFEED, MemorySource, PacedFeed
from tests.bench.dumped import DUMP_ID
from tests.bench.figures import Cost, Figure, percentile, timed_tree

RUN_S, WARM_UP_S = 25, 5
CHUNK_ROWS = 5_000
SELECT_S = 0.1
"""What a database needs for a chunk; two readers so ask for 100,000 rows a second at most."""


def measure(bench: Bench) -> Iterator[Figure]:
    """p50 and p99 of the segments, both ways."""
    found = {}
    for name, dump in (("no dump", False), ("dump", True)):
        line = found[name] = _live(bench, dump=dump)
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


@dataclass(frozen=True, slots=True)
class Line:
    """`ages_s`: of each segment, warm-up left out, when it was delivered. `dump_rows_a_s`: delivered while the feed ran."""

    ages_s: list[float]
    dump_rows_a_s: float
    cost: Cost


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


def _live(bench: Bench, *, dump: bool) -> Line:
    folder, spark, cost = bench.new_folder("live"), bench.spark, Cost()
    log, out = open_folder(str(folder / "log")), folder / "out"
    feed = PacedFeed()
    source = MemorySource(feed, log, select_s=SELECT_S)
    loop = Job(SparkTasks(lambda: spark), {"parquet": open_sink(f"file://{out}?format=parquet", log_id="bench")}, JobSettings(log))
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
    began_ns, end_s = time.time_ns(), time.monotonic() + bench.sized(RUN_S)
    with timed_tree(cost):
        while time.monotonic() < end_s:
            pipeline.step(poll_s=0.05)
            loop.check()
    delivered = sum(counts[1] + counts[2] for counts in list(loop.counts.values()))
    source.close()
    loop.finish()
    ages_s = _ages_s(folder / "log", out, after_ns=began_ns + bench.sized(WARM_UP_S) * 10**9)
    return Line(ages_s, delivered / cost.wall_s, cost)


def _ages_s(log: Path, out: Path, *, after_ns: int) -> list[float]:
    """Both files have the segment's name. A segment without rows or windows is one too."""
    written = {manifest.name: manifest.stat().st_mtime_ns for manifest in log.glob("[0-9]*.json")}
    return [((out / "_segments" / name).stat().st_mtime_ns - at_ns) / 1e9 for name, at_ns in written.items() if at_ns >= after_ns]
