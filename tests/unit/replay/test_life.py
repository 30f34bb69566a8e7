"""The life of a key: looked up in what a replay has written, or said to be none."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sidecar.replay.busy import make_busy_recording
from sidecar.replay.life import NO_KEY, LastTs, ReplacedRow, best, life_of_a_key, replaced
from sidecar.replay.replay import Replay
from sidecar.replay.report import ReplaySettings
from sidecar.shared.errors import FeedUnsuitable
from sidecar.shared.model.nouns import Column, CommitTs, Seq, TableName, TableSchema
from spark_merge.port.contract import DueChunk
from spark_merge.sinks.files.reader import read_output
from spark_merge.tail.events import LiveChange
from tests.support.played import Played
from tests.support.recordings import recording

UID = TableName("shop", "uid")
SCHEMA = TableSchema(UID, (Column("id", "int", nullable=False), Column("v", "text", nullable=True)), ("id",))
DUE = DueChunk(UID, CommitTs(10), CommitTs(20), Seq(0), Seq(0), 0, "d" * 16, "chunks/d/1.parquet", 1)


def test_a_dropped_row_was_replaced_between_the_marks_and_is_in_no_output(played: Played) -> None:
    from_chunks = defaultdict[tuple[str, str], list[tuple[str, int]]](list)
    for row in output_of(played):
        if row["origin"] == "dump":
            from_chunks[row["table"], repr(row["key"])].append((row["dump_id"], int(row["commit_ts"])))
    dropped_rows, _ = replaced(played.replay.log)
    assert 0 < len(dropped_rows) <= sum(played.report.dropped.values())
    for one in dropped_rows:
        assert one.due.low_ts < one.change.commit_ts <= one.due.high_ts
        assert one.change.after != one.row
        key = dict(zip(one.schema.key, one.key, strict=True))
        assert (one.due.dump_id, one.due.high_ts) not in from_chunks[one.schema.name.table, repr(key)]


def output_of(played: Played) -> list[dict[str, Any]]:
    assert played.replay.verified is not None
    return list(read_output(played.replay.verified))


def shown(text: str | None) -> str:
    return "NULL" if text is None else repr(text)


def test_the_life_says_change_chunk_row_output_and_truth_of_one_key(played: Played) -> None:
    replay, (head, window, change, row, consumer, output_row, truth) = played.replay, played.report.key_life.splitlines()
    one = best(*replaced(replay.log))
    assert one is not None
    assert head == f"The life of one key: {one.schema.name}, " + ", ".join(
        f"{name} {value!r}" for name, value in zip(one.schema.key, one.key, strict=True)
    )
    assert f"commit-ts {one.due.low_ts} and {one.due.high_ts}" in window
    assert "update at " in change
    assert f"commit-ts {one.change.commit_ts}, between the marks" in change
    assert one.change.after is not None
    place = next(place for place, value in enumerate(one.row) if value != one.change.after[place])
    name, old, new = one.schema.column_names()[place], shown(one.row[place]), shown(one.change.after[place])
    assert f"{name} {old} → {new}" in change
    assert f"{name} {old}" in row
    assert row.endswith("as it was before the change; dropped")
    assert f"{name} {new}" in consumer
    assert f"from the live changes, commit-ts {one.change.commit_ts}" in consumer
    key = dict(zip(one.schema.key, one.key, strict=True))
    rows = [item for item in output_of(played) if item["table"] == one.schema.name.table and item["key"] == key]
    assert output_row.endswith(f" {len(rows)}, {sum(item['origin'] == 'dump' for item in rows) or 'none'} of them from a chunk")
    assert f"{name} {new}" in truth
    assert truth.endswith("the same")
    assert played.report.summary().endswith(played.report.key_life)


def test_a_truth_that_differs_is_said(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    replay = played.replay
    assert replay.verified is not None
    monkeypatch.setattr("sidecar.replay.life._true_row", lambda recording, dropped: None)
    assert life_of_a_key(replay.log, replay.verified, replay.recording).endswith("no row; DIFFERENT")


def test_where_no_key_qualifies_it_says_so(tmp_path: Path) -> None:
    make_busy_recording(tmp_path / "quiet", seconds=0.5, scale=0.01)
    report = Played(tmp_path, recording=tmp_path / "quiet", tables=("shop.item",), key_life=True).report
    assert not sum(report.dropped.values())
    assert report.key_life == NO_KEY
    assert NO_KEY in report.summary()


def test_an_update_that_no_change_followed_is_reported_of_first() -> None:
    update = LiveChange(CommitTs(15), "update", ("1", "a"), ("1", "b"))
    followed = ReplacedRow(SCHEMA, ("1",), DUE, ("1", "a"), update)
    deleted = replace(followed, key=("2",), row=("2", "a"), change=LiveChange(CommitTs(16), "delete", ("2", "a"), None))
    last = replace(followed, key=("3",), row=("3", "a"))
    last_ts: LastTs = {(UID, ("1",)): CommitTs(30), (UID, ("2",)): CommitTs(16), (UID, ("3",)): CommitTs(15)}
    assert best(iter([followed, deleted, last]), last_ts) is last
    assert best(iter([deleted, followed]), last_ts) is deleted
    assert best(iter([]), last_ts) is None


def test_without_json_lines_there_is_no_life(tmp_path: Path) -> None:
    settings = ReplaySettings(
        recording("demo"), out=tmp_path / "out", sinks=(f"file://{tmp_path}/typed?format=parquet",), verify=False, key_life=True
    )
    with pytest.raises(FeedUnsuitable, match="the life of a key"):
        Replay(settings)
