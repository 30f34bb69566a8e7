"""The recording that the demo makes: the same each time, all kinds of changes in all tables, and a replay of it equals its truth."""

from __future__ import annotations

from pathlib import Path

import pytest

from sidecar.replay.busy import COUNTS, SHOP, TABLES, make_busy_recording
from sidecar.replay.recording import Recording
from sidecar.shared.errors import SinkError
from spark_merge.sinks.files.reader import read_output
from tests.support.played import Played
from tests.support.recordings import recording


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_it_is_the_same_each_time_and_its_replay_equals_the_truth(tmp_path: Path) -> None:
    first, again = tmp_path / "first", tmp_path / "again"
    make_busy_recording(first, seconds=3, scale=0.05)
    make_busy_recording(again, seconds=0.5, scale=0.01)
    make_busy_recording(again, seconds=3, scale=0.05)
    assert files(first) == files(again)
    played = Played(tmp_path, recording=first)
    assert played.report.ok, played.report.to_json()
    assert played.replay.verified is not None
    live = {(row["table"], row["op"]) for row in read_output(played.replay.verified) if row["origin"] == "log"}
    assert live == {(table, op) for table in COUNTS for op in ("insert", "update", "delete")}


def test_its_tables_are_those_that_tidb_had() -> None:
    demo = Recording(recording("demo"))
    recorded = demo.folder / "schema" / str(demo.start_ts)
    made = files(TABLES)
    assert made == {name: (recorded / name).read_bytes() for name in made}
    assert {f"{SHOP}.{name}.json" for name in COUNTS} < made.keys()


def test_a_folder_of_somebody_elses_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(SinkError, match="not empty"):
        make_busy_recording(tmp_path)
    assert files(tmp_path) == {"mine.txt": b"mine"}
