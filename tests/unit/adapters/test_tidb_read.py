"""The SELECT of a chunk, and what becomes of its columns."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sidecar.adapters.tidb.read import as_sent, as_text, canonical, chunk_select, key_select
from sidecar.core.keyset import KeyColumn, ReadKey, rowid_key
from sidecar.core.model import Column, TableName, TableSchema
from sidecar.errors import SourceError

TABLE = TableName("app", "t")
ID, NAME, DATA = Column("id", "int", nullable=False), Column("na`me", "text"), Column("data", "binary", nullable=False)
SCHEMA = TableSchema(TABLE, (ID, NAME, DATA), ("id",))
KEY = ReadKey(TABLE, (KeyColumn(ID),))


def test_every_column_is_text_under_a_name_that_hides_no_column() -> None:
    assert chunk_select(SCHEMA, KEY, after=None, upper=None, where=None, rows_max=7) == (
        "SELECT `t`.`id` AS c0, `t`.`na``me` AS c1, HEX(`t`.`data`) AS c2 FROM `app`.`t` AS `t` ORDER BY `t`.`id` LIMIT 7"
    )


def test_bounds_and_predicate_come_before_the_order() -> None:
    found = chunk_select(SCHEMA, KEY, after=("1",), upper=("9",), where="a = 1 -- or", rows_max=7)
    assert found.endswith(" FROM `app`.`t` AS `t` WHERE ((`t`.`id` > 1 AND `t`.`id` <= 9)) AND (a = 1 -- or\n) ORDER BY `t`.`id` LIMIT 7")


def test_a_rowid_comes_after_the_schemas_columns() -> None:
    found = chunk_select(SCHEMA, rowid_key(TABLE), after=("-3",), upper=None, where=None, rows_max=7)
    assert "HEX(`t`.`data`) AS c2, `t`.`_tidb_rowid` AS c3 FROM" in found
    assert found.endswith(" WHERE ((`t`.`_tidb_rowid` > -3)) ORDER BY `t`.`_tidb_rowid` LIMIT 7")


def test_a_key_alone_is_selected_as_text() -> None:
    assert key_select(KEY, " LIMIT 1") == "SELECT CAST(`t`.`id` + 0 AS CHAR) AS c0 FROM `app`.`t` AS `t` LIMIT 1"


@pytest.mark.parametrize("kind", ["decimal", "text", "enum", "set", "date", "time", "datetime", "timestamp", "json", "vector"])
def test_kinds_whose_text_is_canonical_are_only_cast_and_a_chunk_takes_them_as_they_are(kind: str) -> None:
    assert as_sent(Column("c", kind), "t.c") == ("t.c" if kind != "vector" else "CAST(t.c AS CHAR)")  # type: ignore[arg-type]  # parametrized
    assert as_text(Column("c", kind), "t.c") == "CAST(t.c AS CHAR)"  # type: ignore[arg-type]  # parametrized


def table(*columns: list[str | None]) -> pa.Table:
    return pa.table([pa.array(column, pa.string()) for column in columns], names=[f"c{index}" for index in range(len(columns))])


def test_columns_get_their_names_whatever_they_are() -> None:
    twice = (Column("c1", "text"), Column("c0", "text"))
    assert canonical(table(["a"], [None]), twice, where="x").to_pydict() == {"c1": ["a"], "c0": [None]}


def test_what_follows_the_schemas_columns_is_left_out() -> None:
    assert canonical(table(["1"], ["77"]), [ID], where="x").column_names == ["id"]


@pytest.mark.parametrize(
    ("text", "expected"), [("1", "1.0"), ("-0", "-0.0"), ("1e15", "1000000000000000.0"), ("1e-7", "1e-07"), ("0.1", "0.1"), (None, None)]
)
def test_floats_are_spelt_as_repr(text: str | None, expected: str | None) -> None:
    assert canonical(table([text]), [Column("f", "double")], where="x")["f"].to_pylist() == [expected]


@pytest.mark.parametrize(("text", "expected"), [("000.50", "0.50"), ("0042", "42"), ("-0.50", "-0.50"), ("0", "0"), ("100", "100")])
def test_decimals_lose_the_zeros_of_zerofill(text: str, expected: str) -> None:
    assert canonical(table([text]), [Column("d", "decimal")], where="x")["d"].to_pylist() == [expected]


def test_null_in_a_column_that_has_none_ends_the_read() -> None:
    with pytest.raises(SourceError, match=r"reading chunk 1: .* NULL for column data"):
        canonical(table([None]), [DATA], where="reading chunk 1")
