"""A dump, and live rows, through the whole Spark job, log to files. Beside it: Spark copying the same typed rows, Parquet to Parquet."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sidecar.shared.log.storage import Folder
from sidecar.shared.model.nouns import Change, CommitTs, Lane, Rank
from spark_merge.delivery.batches import JobSettings
from spark_merge.sinks.registry import open_sink
from spark_merge.worker.job import SparkJob
from spark_merge.worker.session import OpenSession
from spark_merge.worker.spark_tasks import SparkTasks
from tests.tools.bench.account import ACCOUNT, SCHEMA, canal_updates, message
from tests.tools.bench.account import rows as account_rows
from tests.tools.bench.bench import Bench
from tests.tools.bench.dumped import Dumped, deliver, dumped
from tests.tools.bench.figures import Cost, Figure, beside, best, rate, timed_tree
from tests.tools.bench.log import LogWriter, segment

WINDOWS, WINDOW_CHUNKS, CHUNK_ROWS = 10, 2, 50_000
LARGE_ROWS, SMALL_SEGMENTS = 1_000_000, 10_000


def measure(bench: Bench) -> Iterator[Figure]:
    """To Parquet beside the copy, then to JSON lines, then what the first batch of a new session cost."""
    source = dumped(bench.new_folder("log"), windows=WINDOWS, window_chunks=WINDOW_CHUNKS, chunk_rows=bench.sized(CHUNK_ROWS))
    deliver(bench.spark, source, bench.new_folder("parquet"), "parquet")
    cost = best(lambda: deliver(bench.spark, source, bench.new_folder("parquet"), "parquet"))
    copied = _copied(bench, source)
    limit = "Python workers: text to typed columns, Parquet with zstd"
    figure = rate(f"dump of {source.rows:,} rows to Parquet", source.rows, cost, aim="≥ 300,000, ≥ 0.8 × copy", limit=limit)
    yield beside(figure, "Spark copy", source.rows, copied)
    lines = best(lambda: deliver(bench.spark, source, bench.new_folder("jsonl"), "jsonl"))
    limit = "one task a segment, since lines are in output order; JSON text"
    yield beside(rate("the same to JSON lines", source.rows, lines, aim="", limit=limit), "Spark copy to Parquet", source.rows, copied)
    yield from _live(bench)
    for name, cost, limit in (
        ("session", bench.session_cost, "JVM start"),
        ("first batch, 10,000 rows", bench.cold_cost, "first use of JVM code, workers"),
    ):
        yield Figure(f"cold: {name}", cost.wall_s, "s", aim="", limit=f"{limit}: {cost.cpu_s:.1f} s CPU")


def _live(bench: Bench) -> Iterator[Figure]:
    """Segments of live rows alone: one large one, which tasks share, and many with a row each."""
    for rows, segments in ((bench.sized(LARGE_ROWS), 1), (bench.sized(SMALL_SEGMENTS), bench.sized(SMALL_SEGMENTS))):
        log = _updates(bench.new_folder("live"), rows, segments)
        out, cost = bench.new_folder("live-parquet"), Cost()
        job = SparkJob(
            SparkTasks(lambda: OpenSession(bench.spark)),
            {"parquet": open_sink(f"file://{out}?format=parquet", log_id="bench")},
            JobSettings(log),
        )
        with timed_tree(cost):
            job.start()
            job.finish()
        name = f"{rows:,} live rows in {segments:,} segment{'s' if segments > 1 else ''} to Parquet"
        yield rate(name, rows, cost, aim="", limit="a file a segment, a small decode" if segments > 1 else "JSON decode")


def _updates(folder: Path, rows: int, segments: int) -> Folder:
    writer, updates = LogWriter(folder, codec="canal-json", schemas={ACCOUNT: SCHEMA}), canal_updates(account_rows(1, 10_000))
    for ordinals in (range(rows * at // segments, rows * (at + 1) // segments) for at in range(segments)):
        changes = (
            Change(CommitTs(n + 1), Rank.PUT, *ACCOUNT, b"", message(updates[n % len(updates)], n + 1), Lane("k/0"), n) for n in ordinals
        )
        writer.write(segment(ordinals.start, ordinals.stop, changes))
    return writer.folder


def _copied(bench: Bench, source: Dumped) -> Cost:
    """The rows as the job typed them, in as many even files as Spark has cores."""
    out, rows = bench.new_folder("typed"), bench.new_folder("rows") / "even"
    deliver(bench.spark, source, out, "parquet")
    files = sorted(map(str, out.glob("*.*/*.parquet")))
    bench.spark.read.parquet(*files).coalesce(bench.spark.sparkContext.defaultParallelism).write.parquet(str(rows))
    _copy(bench, rows)
    return best(lambda: _copy(bench, rows))


def _copy(bench: Bench, rows: Path) -> Cost:
    cost = Cost()
    with timed_tree(cost):
        bench.spark.read.parquet(str(rows)).write.parquet(str(bench.new_folder("copy") / "rows"))
    return cost
