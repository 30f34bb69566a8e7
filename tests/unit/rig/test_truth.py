"""Waiting for an output and judging it against the tables."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from sidecar.shared.log.storage import Folder, open_folder
from sidecar.shared.model.nouns import CommitTs
from spark_merge.sinks.files.sink import FileSink
from tests.support.deliveries import ORDERS, SCHEMA, Segments, change, deliver, opened
from tests.support.eventually import PATIENCE_S
from tests.tools.rig.truth import LiveTruth, await_delivered

COMPLETE = {ORDERS: CommitTs(100)}


def delivered(tmp_path: Path) -> Folder:
    """Two segments, to ts 200: the first with rows 1 and 2."""
    out, log = open_folder(str(tmp_path / "out")), open_folder(str(tmp_path / "log"))
    rows = [change(1, 90, after=[str(number), "x"], ordinal=number) for number in (1, 2)]
    deliver(opened(FileSink(out, log_id="log-1", file_format="jsonl")), Segments([1, 2], rows), log=log, schemas={ORDERS: SCHEMA})
    return out


def truth(*ids: str, ts: int) -> LiveTruth:
    rows = pa.table([pa.array(ids, pa.string()), pa.array(["x"] * len(ids), pa.string())], names=list(SCHEMA.column_names()))
    return LiveTruth({ORDERS: SCHEMA}, {ORDERS: rows}, CommitTs(ts))


def test_an_output_equal_to_the_tables_is_ok(tmp_path: Path) -> None:
    assert await_delivered(delivered(tmp_path), truth("1", "2", ts=150), complete_at=COMPLETE, timeout_s=PATIENCE_S).ok


def test_a_row_that_is_not_in_the_output_is_found(tmp_path: Path) -> None:
    verdict = await_delivered(delivered(tmp_path), truth("1", "2", "3", ts=150), complete_at=COMPLETE, timeout_s=PATIENCE_S)
    assert not verdict.ok
    assert [sample.key for sample in verdict.tables[0].missing.samples] == [("3",)]


def test_a_table_that_no_dump_completed_is_not_ok(tmp_path: Path) -> None:
    assert not await_delivered(delivered(tmp_path), truth("1", "2", ts=150), complete_at={}, timeout_s=PATIENCE_S).ok


def test_an_output_that_does_not_get_there_is_an_error_that_says_how_far_it_is(tmp_path: Path) -> None:
    with pytest.raises(TimeoutError, match="reaches 200 in 2 segments, the truth is at 999"):
        await_delivered(delivered(tmp_path), truth(ts=999), complete_at=COMPLETE, timeout_s=0.2)
