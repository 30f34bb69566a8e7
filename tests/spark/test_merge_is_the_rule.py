"""Spark's merge gives exactly what the slow rule gives: every row, in its order (habit 13). tests/unit/merge/test_merge.py has the same
without Spark, for many more histories."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from sidecar.shared.log.storage import Folder
from spark_merge.delivery.batches import JobSettings
from spark_merge.delivery.places import WORKER_ROWS
from spark_merge.merge.cut import BatchLimits
from spark_merge.sinks.folder.layout import LIVE_PARTS
from spark_merge.sinks.registry import open_sink
from spark_merge.testing.histories import SEGMENTS, check, random_history, write_log
from spark_merge.worker.job import SparkJob
from spark_merge.worker.session import OpenSession
from spark_merge.worker.spark_tasks import SparkTasks
from tests.support.sinks import place_of


@pytest.mark.spark
@pytest.mark.parametrize("seed", range(6))
def test_every_row_of_random_windows_is_the_rules(spark: SparkSession, tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """To JSON lines in order; to Parquet with segments in parts."""
    rng = Random(seed)
    history = random_history(rng)
    log, out = Folder("file", str(tmp_path / "log")), Folder("file", str(tmp_path / "out"))
    manifests = write_log(log, history)
    limits = BatchLimits(segments_max=rng.choice([1, 2, SEGMENTS]))
    monkeypatch.setitem(LIVE_PARTS, "parquet", rng.choice([2, 5]))
    parquet = place_of(f"file://{tmp_path}/parquet?format=parquet")
    sinks = {"jsonl": open_sink(str(tmp_path / "out"), log_id="x"), "parquet": parquet.sink()}
    job = SparkJob(
        SparkTasks(lambda: OpenSession(spark)), sinks, JobSettings(log, limits=limits), worker_rows=rng.choice([0, 5, WORKER_ROWS])
    )
    job.start()
    job.finish()
    check(history, manifests, out)
    rows = [(table, *row) for table, rows in parquet.rows().items() for row in rows]
    expected = [(row.table, row.seq, row.commit_ts, row.op, row.key, row.after) for row in history.merged(manifests)]
    assert sorted(map(repr, rows)) == sorted(map(repr, expected))
