"""Parquet files read back: where their columns are, and what of them is passed over."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import Column, TableSchema
from spark_merge.sinks.formats.parquet_rows import WantedKeys, opened
from spark_merge.sinks.kit.errors import sink_folder
from tests.support.deliveries import ORDERS

KEYED = TableSchema(ORDERS, (Column("id", "int"), Column("part", "text"), Column("day", "date")), ("id", "part"))


def wanted(*keys: tuple[str, str]) -> WantedKeys:
    ids, parts = zip(*keys, strict=True) if keys else ((), ())
    return WantedKeys(KEYED, pa.table({"id": pa.array(ids, pa.string()), "part": pa.array(parts, pa.string())}))


def test_wanted_keys_are_compared_as_a_whole() -> None:
    rows = pa.table({"id": ["1", "1", "2"], "part": ["a", "b", "a"], "day": [None, "2020-01-01", None]}, schema=pa.schema(
        [(name, pa.string()) for name in KEYED.column_names()]
    ))  # fmt: skip
    assert wanted(("1", "b"), ("2", "b"), ("3", "a")).of(rows).to_pylist() == [rows.to_pylist()[1]]
    assert wanted().of(rows).num_rows == 0


def test_a_file_is_passed_over_where_no_key_is_between_its_bounds() -> None:
    keys = wanted(("5", "b"), ("100", "d"))
    assert [keys.meet("id", *bounds) for bounds in [(6, 99), (100, 100), (0, 5), (101, 200)]] == [False, True, True, False]
    assert [keys.meet("part", *bounds) for bounds in [("c", "ca"), ("d", "e")]] == [False, True]
    assert keys.meet("id", None, 3)
    assert keys.meet("day", "2020-01-01", "2020-01-02")
    assert keys.meet("part", 1, 2)
    assert not wanted().meet("id", 0, 9)


def written(folder: Path) -> None:
    ids = pa.field("id", pa.int64(), metadata={b"PARQUET:field_id": b"3"})
    pq.write_table(pa.table({"id": pa.array(range(30)), "x": pa.array(map(str, range(30)))}, schema=pa.schema([ids, ("x", pa.string())])),
                   folder / "f.parquet", row_group_size=10)  # fmt: skip


def test_rows_come_with_their_places_and_row_groups_without_a_key_are_passed_over(tmp_path: Path) -> None:
    written(tmp_path)
    with opened(sink_folder(str(tmp_path)), "f.parquet") as file:
        assert (file.name_of(3), file.name_of("id"), file.name_of("y"), file.name_of(4)) == ("id", "id", None, None)
        assert [(first, rows.column("id").to_pylist()[0]) for first, rows in file.batches(["x", 3])] == [(0, 0), (10, 10), (20, 20)]
        groups = file.groups_with(wanted(("25", "a")), {"id": 3})
        assert groups == [2]
        assert [(first, rows.column_names) for first, rows in file.batches(["x"], groups)] == [(20, ["x"])]
        assert file.groups_with(None, {"id": 3}) is None


def test_what_is_gone_or_broken_is_an_error_of_the_sink(tmp_path: Path) -> None:
    with pytest.raises(SinkError, match="is gone since the reading began"), opened(sink_folder(str(tmp_path)), "f.parquet"):
        pass
    (tmp_path / "f.parquet").write_bytes(b"PAR1 but no more")
    with pytest.raises(SinkError, match="no Parquet file that can be read"), opened(sink_folder(str(tmp_path)), "f.parquet"):
        pass
