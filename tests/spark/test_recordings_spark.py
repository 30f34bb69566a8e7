"""Real streams through the whole line with Spark, files on disk, crashes: equal to the truth at every snapshot.

Four cases, in which every protocol, way to a topic's lanes and kind of brackets occurs, in turn with everything done by Spark's
tasks and with live rows in the worker's own process; `make matrix` plays every recording on each of its feeds with all kinds of
brackets, both ways. Many schedules, merged by the slow rule, are in tests/integration, and `test_merge_is_the_rule` holds
the two merges equal.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sidecar.replay.replay import Replay
from sidecar.replay.report import ReplaySettings
from spark_merge.delivery.places import WORKER_ROWS
from spark_merge.worker.session import OpenSession
from tests.integration.test_recordings import CASES
from tests.lanes import LANE
from tests.support.binlog_recordings import WHOLE as BINLOGS
from tests.support.recordings import recording

FEW = [
    ("restart", "canal-json", "recorded"),
    ("shop", "open-protocol-zip", "snapshot"),
    ("shop-new", "open-protocol-index", "watermark"),
    ("ddl-new", "kv", "watermark"),
]
"""Schema changes are played by raw key-values: `ddl` over Kafka cannot equal the truth (tests/integration/test_ddl_recordings.py)."""

OF_KAFKA = [(*case, brackets) for case in CASES for brackets in ("recorded", "watermark", "snapshot")]
WITH_KEY_VALUES = [("shop", "kv", "watermark"), ("rowformats", "kv", "recorded"), ("ddl-new", "kv", "watermark")]
OF_PUMPS = [(name, "binlog", brackets) for name in BINLOGS for brackets in ("watermark", "snapshot")]

PLACES = (0, WORKER_ROWS)
WHOLE = [(*case, rows) for case in (*OF_KAFKA, *WITH_KEY_VALUES, *OF_PUMPS) for rows in PLACES]
PLAYED = WHOLE if LANE.whole else [(*case, PLACES[number % 2]) for number, case in enumerate(FEW)]


@pytest.mark.spark
@pytest.mark.recordings
@pytest.mark.parametrize(("name", "feed", "brackets", "worker_rows"), PLAYED)
def test_the_files_equal_the_truth(spark: SparkSession, tmp_path: Path, name: str, feed: str, brackets: str, worker_rows: int) -> None:
    seed = len(name) + len(feed) + len(brackets)
    settings = ReplaySettings(
        recording(name), feed=feed, brackets=brackets, chunk_rows=100, seed=seed, crashes=2, resends=1, out=tmp_path / "out",
        worker_rows=worker_rows,
    )  # fmt: skip
    report = Replay(settings).run(lambda status: None, lambda: OpenSession(spark))
    assert report.ok, report.to_json()
    assert report.dump_rows > 0
    assert report.changes > 0
    assert report.verdict is not None
    assert all(table.snapshots_compared > 0 for table in report.verdict.tables)
