"""The recording that the demo makes: the same each time, all kinds of changes in all tables, and a replay of it equals its truth."""

from __future__ import annotations

from pathlib import Path

from spark_merge.sinks.files.reader import read_output
from tests.recordings.busy import COUNTS, make
from tests.support.played import Played


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_it_is_the_same_each_time_and_its_replay_equals_the_truth(tmp_path: Path) -> None:
    first, again = tmp_path / "first", tmp_path / "again"
    make(first, seconds=3, scale=0.05)
    (again / "old").mkdir(parents=True)
    make(again, seconds=3, scale=0.05)
    assert files(first) == files(again)
    played = Played(tmp_path, recording=first)
    assert played.report.ok, played.report.to_json()
    assert played.replay.verified is not None
    live = {(row["table"], row["op"]) for row in read_output(played.replay.verified) if row["origin"] == "log"}
    assert live == {(table, op) for table in COUNTS for op in ("insert", "update", "delete")}
