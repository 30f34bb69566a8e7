"""A file of a log of changes, of which each stretch has columns of its own: what its rows and their versions are."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sidecar.core.model import Column, Seq, TableSchema
from sidecar.errors import SinkError
from sidecar.log.storage import open_folder
from spark_merge.contract import RANK_CHUNK, RANK_DELETE, RANK_PUT
from spark_merge.ddl.lineage import ColumnThen, Stretch
from spark_merge.sinks.log_parts import LogEnvelope, LogFile, LogPart
from spark_merge.sinks.parquet_rows import Sources
from tests.support.deliveries import ORDERS

SCHEMA = TableSchema(ORDERS, (Column("id", "int"), Column("b", "text"), Column("c", "int")), ("id",))
ENVELOPE = LogEnvelope("_seq", "_ts", "_op", "_origin")


def stretch(
    after: int | None, upto: int | None, *names: str | None, existing: str | None = None, refused: str = ""
) -> tuple[Stretch, Sources]:
    then = tuple(ColumnThen(name, None if name else existing) for name in names)
    columns = tuple((name,) if name else () for name in names)
    found = Stretch(ORDERS, None if after is None else Seq(after), None if upto is None else Seq(upto), then, "ALTER x", refused)
    return found, Sources(columns, columns, "_untyped", then)


def part(folder: Path, *stretches: tuple[Stretch, Sources]) -> LogPart:
    columns = {
        "_seq": [1, 2, 3, 4], "_ts": [10, 20, 30, 40], "_op": ["insert", "insert", "delete", "update"],
        "_origin": ["log", "dump", "log", "log"], "_untyped": [None] * 4, "id": [1, 2, 2, 4], "a": ["x", "y", None, None],
        "b": [None, None, "z", "w"], "c": [None, None, None, 9],
    }  # fmt: skip
    types = {"_seq": pa.int64(), "_ts": pa.int64(), "id": pa.int64(), "c": pa.int64()}
    pq.write_table(pa.table({name: pa.array(found, types.get(name, pa.string())) for name, found in columns.items()}), folder / "f.parquet")
    return LogPart(SCHEMA, (LogFile(open_folder(str(folder)), "f.parquet", 1, ENVELOPE, stretches),))


def test_each_row_has_the_columns_of_its_stretch_and_its_version(tmp_path: Path) -> None:
    found = list(
        part(tmp_path, stretch(3, None, "id", "b", "c"), stretch(2, 3, "id", "b", None, existing="5"), stretch(0, 2, "id", "a", None))()
    )
    rows = [row for piece in found for row in zip(*piece.rows.to_pydict().values(), strict=True)]
    assert rows == [("4", "w", "9"), ("2", "z", "5"), ("1", "x", None), ("2", "y", None)]
    versions = [one for piece in found for one in zip(*(column.to_pylist() for column in piece.versions or ()), strict=True)]
    assert versions == [(40, RANK_PUT, False), (30, RANK_DELETE, True), (10, RANK_PUT, False), (20, RANK_CHUNK, False)]


def test_rows_that_are_in_no_stretch_are_none(tmp_path: Path) -> None:
    (piece,) = part(tmp_path, stretch(3, None, "id", "b", "c"))()
    assert piece.rows.column("id").to_pylist() == ["4"]


def test_what_cannot_be_read_is_refused_with_the_ddl(tmp_path: Path) -> None:
    with pytest.raises(SinkError, match="why not"):
        list(part(tmp_path, stretch(0, None, "id", "b", "c", refused="why not"))())
    with pytest.raises(SinkError, match=r"values that are none of a int.*before the DDL 'ALTER x'"):
        list(part(tmp_path, stretch(0, None, "b", "b", "c"))())
    with pytest.raises(SinkError, match=r"no column b of the type.*before the DDL 'ALTER x'"):
        list(part(tmp_path, stretch(0, None, "id", "gone", "c"))())
