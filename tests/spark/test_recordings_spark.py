"""Real streams through the whole line with Spark, files on disk, crashes: equal to the truth at every snapshot.

Every recording and feed with one kind of brackets, in turn; `make matrix` plays all of them. Twenty schedules, merged by the slow rule,
are in tests/integration, and `test_merge_is_the_rule` holds the two merges equal.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sidecar.replay.replay import Replay
from sidecar.replay.report import ReplaySettings
from tests.integration.test_recordings import CASES, WHOLE_MATRIX
from tests.support.recordings import recording

WITH_KEY_VALUES = (("shop", "kv", "watermark"), ("rowformats", "kv", "recorded"), ("ddl-new", "kv", "watermark"))
"""Raw key-values, and schema changes: `ddl` over Kafka cannot equal the truth (tests/integration/test_ddl_recordings.py)."""


BRACKETS = ("recorded", "watermark", "snapshot")
OF_KAFKA = [(*case, brackets) for place, case in enumerate(CASES) for brackets in (BRACKETS if WHOLE_MATRIX else BRACKETS[place % 3 :][:1])]


@pytest.mark.spark
@pytest.mark.recordings
@pytest.mark.parametrize(
    ("name", "feed", "brackets"),
    [*OF_KAFKA, *WITH_KEY_VALUES],
)
def test_the_files_equal_the_truth(spark: SparkSession, tmp_path: Path, name: str, feed: str, brackets: str) -> None:
    seed = len(name) + len(feed) + len(brackets)
    settings = ReplaySettings(
        recording(name), feed=feed, brackets=brackets, chunk_rows=100, seed=seed, crashes=2, resends=1, out=tmp_path / "out"
    )
    report = Replay(settings).run(lambda status: None, spark)
    assert report.ok, report.to_json()
    assert report.dump_rows > 0
    assert report.changes > 0
    assert report.verdict is not None
    assert all(table.snapshots_compared > 0 for table in report.verdict.tables)
