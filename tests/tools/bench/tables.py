"""Live cost by the number of changing tables: 500 changes a second, spread over 1 to 1,000 tables, to one sink and to three.

The log is written before. While it counts, its manifests are put in place, five a second, as the pipeline would; so the processor's time is
the worker's alone. Where no dump runs Spark is not needed, and not started.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import cycle, islice
from pathlib import Path

from sidecar.shared.log.layout import manifest_name
from sidecar.shared.log.storage import Folder
from sidecar.shared.model.nouns import Change, CommitTs, Lane, Rank, Seq, TableName
from spark_merge.delivery.batches import JobSettings
from spark_merge.sinks.registry import open_sink
from spark_merge.worker.job import SparkJob
from spark_merge.worker.session import OpenSession
from spark_merge.worker.spark_tasks import SparkTasks
from tests.tools.bench.account import ACCOUNT, SCHEMA, canal_updates, message, rows
from tests.tools.bench.bench import Bench
from tests.tools.bench.feed import FIRST_TS, TS_STEP
from tests.tools.bench.figures import Cost, Figure, percentile, timed_tree
from tests.tools.bench.log import LogWriter, segment

TABLES = (1, 12, 100, 1_000)
SINKS = (("jsonl",), ("parquet",), ("jsonl", "sqlite", "spool"))
SEGMENTS_A_S, SEGMENT_ROWS = 5, 100
RUN_S, WARM_UP_S = 12, 4


def measure(bench: Bench) -> Iterator[Figure]:
    """p99 of each, beside the cores that the worker was busy with."""
    for tables in TABLES:
        for names in SINKS:
            ages_s, cost = delivered(bench, tables, names)
            touched = min(tables, SEGMENT_ROWS)
            each_ms = 1_000 * cost.cpu_s / (len(ages_s) * touched)
            yield Figure(
                f"tables that change: {tables:,}, to {', '.join(names)}: p99", percentile(ages_s, 0.99), "s", "≤ 0.5, ≤ 0.5 cores",
                f"{cost.cpu_s / cost.wall_s:.2f} cores busy, p50 {percentile(ages_s, 0.5):.2f} s,"
                f" {each_ms:.2f} ms a table, segment and sink",
            )  # fmt: skip


def delivered(bench: Bench, tables: int, names: tuple[str, ...]) -> tuple[list[float], Cost]:
    """How old each segment was when a sink had it, of all sinks, without the warm-up."""
    folder, cost = bench.new_folder("tables"), Cost()
    count = bench.sized(SEGMENTS_A_S * (WARM_UP_S + RUN_S))
    log = written(folder / "log", tables, count)
    waiting = {Seq(seq): [path.name for path in _files(folder / "log", Seq(seq))] for seq in range(1, count)}
    for name in (name for files in waiting.values() for name in files):
        (folder / "log" / name).rename(folder / name)
    sinks = {name: open_sink(_uri(folder, name), log_id="bench") for name in names}
    job = SparkJob(SparkTasks(lambda: OpenSession(bench.spark), when_needed=True), sinks, JobSettings(log))
    job.start()
    appeared_ms, accepted = dict[int, float](), {name: dict[int, int]() for name in names}
    warm = bench.sized(SEGMENTS_A_S * WARM_UP_S)

    def put(seqs: range) -> None:
        began_s = time.monotonic()
        for number, seq in enumerate(seqs):
            time.sleep(max(0.0, began_s + number / SEGMENTS_A_S - time.monotonic()))
            appeared_ms[seq] = time.time() * 1_000
            for name in waiting[Seq(seq)]:
                (folder / name).rename(folder / "log" / name)
            job.check()
            for sink in job.sinks():
                accepted[sink.sink] |= {batch.last: batch.accepted_ms for batch in sink.batches}
        time.sleep(1 / SEGMENTS_A_S)

    put(range(1, warm))
    with timed_tree(cost):
        put(range(warm, count))
    job.finish()
    for sink in job.sinks():
        accepted[sink.sink] |= {batch.last: batch.accepted_ms for batch in sink.batches}
    ages_s = [
        (min(at for last, at in lasts.items() if last >= seq) - appeared_ms[seq]) / 1_000
        for lasts in accepted.values()
        for seq in range(warm, count)
    ]
    return ages_s, cost


def _files(log: Path, seq: Seq) -> list[Path]:
    """Of a segment: its data, then its manifest."""
    manifest = manifest_name(seq)
    return [*sorted(log.glob(f"{manifest.removesuffix('.json')}-*")), log / manifest]


def _uri(folder: Path, name: str) -> str:
    others = {"spool": f"grpc://{folder / 'spool'}/bench", "sqlite": f"sqlite://{folder / 'copy.db'}"}
    return others.get(name, f"file://{folder / name}?format={name}")


def written(folder: Path, tables: int, segments: int) -> Folder:
    """A log of so many segments with SEGMENT_ROWS updates each, which go around the tables."""
    names = [TableName(ACCOUNT.schema, f"t{number:04d}") for number in range(tables)]
    writer = LogWriter(folder, codec="canal-json", schemas={name: replace(SCHEMA, name=name) for name in names})
    updates = cycle(canal_updates(rows(1, 1_000)))
    turns, ts, position = cycle(names), FIRST_TS, 0
    for _ in range(segments):
        changes, after_ts = [], ts
        for table, update in zip(islice(turns, SEGMENT_ROWS), updates, strict=False):
            ts, position = ts + TS_STEP, position + 1
            value = message(update.replace(b'"table":"account"', b'"table":"%s"' % table.table.encode()), ts)
            changes.append(Change(CommitTs(ts), Rank.PUT, *table, b"", value, Lane("kafka/bench/0"), position))
        ts += TS_STEP
        writer.write(segment(after_ts, ts, iter(changes)))
    return writer.folder
