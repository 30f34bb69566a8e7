"""A file of a log of changes, of which each era has columns of its own: what its rows and their versions are."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import Column, CommitTs, TableSchema
from spark_merge.ddl.eras import Era, PreviousColumn
from spark_merge.port.contract import RANK_CHUNK, RANK_DELETE, RANK_PUT
from spark_merge.sinks.formats.parquet import LogEnvelope, LogFile, LogPart
from spark_merge.sinks.formats.parquet_rows import ColumnSources
from spark_merge.sinks.kit.errors import sink_folder
from tests.support.deliveries import ORDERS

SCHEMA = TableSchema(ORDERS, (Column("id", "int"), Column("b", "text"), Column("c", "int")), ("id",))
ENVELOPE = LogEnvelope("_ts", "_op", "_origin")


def era(
    after: int, upto: int, *names: str | None, existing: str | None = None, unreadable: str = "", redefined: str = ""
) -> tuple[Era, ColumnSources]:
    columns = [
        PreviousColumn(column, name, None if name else existing, redefined) for column, name in zip(SCHEMA.columns, names, strict=True)
    ]
    where = tuple((name,) if name else () for name in names)
    result = Era(SCHEMA, ORDERS, CommitTs(after), CommitTs(upto), tuple(columns), unreadable)
    return result, ColumnSources(where, where, "_untyped")


def part(folder: Path, *eras: tuple[Era, ColumnSources]) -> LogPart:
    columns = {
        "_ts": [10, 20, 30, 40], "_op": ["insert", "insert", "delete", "update"],
        "_origin": ["log", "dump", "log", "log"], "_untyped": [None] * 4, "id": [1, 2, 2, 4], "a": ["x", "y", None, None],
        "b": [None, None, "z", "w"], "c": [None, None, None, 9],
    }  # fmt: skip
    types = {"_ts": pa.int64(), "id": pa.int64(), "c": pa.int64()}
    pq.write_table(
        pa.table({name: pa.array(result, types.get(name, pa.string())) for name, result in columns.items()}), folder / "f.parquet"
    )
    return LogPart(SCHEMA, (LogFile(sink_folder(str(folder)), "f.parquet", 1, ENVELOPE, eras),))


def test_each_row_has_the_columns_of_its_era_and_its_version(tmp_path: Path) -> None:
    results = list(part(tmp_path, era(30, 99, "id", "b", "c"), era(20, 30, "id", "b", None, existing="5"), era(0, 20, "id", "a", None))())
    rows = [row for piece in results for row in zip(*piece.rows.to_pydict().values(), strict=True)]
    assert rows == [("4", "w", "9"), ("2", "z", "5"), ("1", "x", None), ("2", "y", None)]
    versions = [one for piece in results for one in zip(*(column.to_pylist() for column in piece.versions or ()), strict=True)]
    assert versions == [(40, RANK_PUT, False), (30, RANK_DELETE, True), (10, RANK_PUT, False), (20, RANK_CHUNK, False)]


def test_rows_that_are_in_no_era_are_none(tmp_path: Path) -> None:
    (piece,) = part(tmp_path, era(30, 99, "id", "b", "c"), era(0, 5, "id", "b", "c", unreadable="and nobody asks"))()
    assert piece.rows.column("id").to_pylist() == ["4"]


def test_what_cannot_be_read_is_refused_with_the_ddl(tmp_path: Path) -> None:
    with pytest.raises(SinkError, match="why not"):
        list(part(tmp_path, era(0, 99, "id", "b", "c", unreadable="why not"))())
    with pytest.raises(SinkError, match=r"values that are none of a int.*from before 'ALTER x'"):
        list(part(tmp_path, era(0, 99, "b", "b", "c", redefined="ALTER x"))())
    with pytest.raises(SinkError, match=r"values that are none of a int[^;]*$"):
        list(part(tmp_path, era(0, 99, "b", "b", "c"))())
    with pytest.raises(SinkError, match="rows of column b are from before 'ALTER x'"):
        list(part(tmp_path, era(0, 99, "id", "gone", "c", redefined="ALTER x"))())
    with pytest.raises(SinkError, match="have no column gone, and no DDL of the output added it"):
        list(part(tmp_path, era(0, 99, "id", "gone", "c"))())
