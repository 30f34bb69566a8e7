"""What a MERGE is given of a batch: of each key the last row, out of the files that tasks wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from sidecar.shared.errors import SinkError
from sidecar.shared.log.storage import open_folder
from sidecar.shared.model.nouns import Column, TableSchema
from spark_merge.sinks.delta.ddl import DELTA
from spark_merge.sinks.delta.merge import Folded
from spark_merge.sinks.delta.writer import STAGED, TablePlace, WrittenFile
from spark_merge.sinks.registry import open_sink
from tests.support.deliveries import ORDERS, SCHEMA, Row, Segments, change, chunk, opened, write, write_chunk


def written(folder: Path, seqs: list[int], rows: list[Row]) -> tuple[TablePlace, list[WrittenFile]]:
    sink = opened(open_sink(f"delta://{folder}/out?mode=merge", log_id="log-1"))
    batch, outcomes = write(sink, Segments(seqs, rows), log=open_folder(str(folder / "log")))
    return batch.writer.targets[ORDERS], [file for outcome in outcomes for file in outcome.note]  # type: ignore[attr-defined]


def folded(folder: Path, seqs: list[int], rows: list[Row]) -> dict[int, tuple[str | None, bool]]:
    place, files = written(folder, seqs, rows)
    result = Folded(place, files, open_folder(str(folder / "out"))).reader().read_all().to_pylist()
    by_key = {row["id"]: (row["name"], row["gone"]) for row in result}
    assert len(by_key) == len(result)
    return by_key


def test_the_last_row_of_each_key_counts_over_segments(tmp_path: Path) -> None:
    rows = [
        change(1, 10, after=("1", "a")),
        change(1, 20, before=("1", "a"), after=("1", "b"), ordinal=1),
        change(1, 20, after=("2", "c"), ordinal=2),
        change(2, 120, before=("2", "c"), ordinal=0),
        change(2, 130, after=("3", "d"), ordinal=1),
    ]
    assert folded(tmp_path, [1, 2], rows) == {1: ("b", False), 2: ("c", True), 3: ("d", False)}


def test_a_key_that_is_taken_over_in_one_transaction_is_there(tmp_path: Path) -> None:
    rows = [change(1, 10, after=("1", "new"), ordinal=0), change(1, 10, before=("1", "old"), ordinal=1)]
    assert folded(tmp_path, [1], rows) == {1: ("new", False)}


def test_a_dumps_row_comes_at_its_high_mark(tmp_path: Path) -> None:
    log = open_folder(str(tmp_path / "log"))
    write_chunk(log, "c1", [("1", "dump"), ("2", "dump"), ("3", "dump")])
    rows = [
        change(1, 10, after=("1", "before"), ordinal=0),
        chunk(1, 20, "c1", touched=("3",)),
        change(1, 30, before=("2", "dump"), after=("2", "after"), ordinal=1),
    ]
    assert folded(tmp_path, [1], rows) == {1: ("dump", False), 2: ("after", False)}


def test_live_rows_are_aside_and_a_dumps_where_the_table_can_take_them(tmp_path: Path) -> None:
    write_chunk(open_folder(str(tmp_path / "log")), "c1", [("1", "dump")])
    _, files = written(tmp_path, [1], [change(1, 10, after=("2", "x")), chunk(1, 20, "c1")])
    assert {(file.path.startswith(f"{STAGED}/"), file.passes) for file in files} == {(True, frozenset()), (False, frozenset({("d1", 0)}))}


def test_keys_bound_the_files_that_are_read(tmp_path: Path) -> None:
    place, files = written(tmp_path, [1], [change(1, 10, after=("-5", "a")), change(1, 11, after=("70", "b"), ordinal=1)])
    assert Folded(place, files, open_folder(str(tmp_path / "out"))).predicate() == "t.`id` = s.`id` AND t.`id` BETWEEN -5 AND 70"


def test_a_floating_point_key_is_refused() -> None:
    DELTA.check_key(SCHEMA)
    with pytest.raises(SinkError, match="floating-point"):
        DELTA.check_key(TableSchema(ORDERS, (Column("id", "double", nullable=False),), ("id",)))
