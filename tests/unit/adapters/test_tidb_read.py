"""The SELECT of a chunk, and what becomes of its columns."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sidecar.shared.errors import SourceError
from sidecar.shared.model.keyset import KeyColumn, ReadKey, rowid_key
from sidecar.shared.model.nouns import Column, TableName, TableSchema
from sidecar.shared.reads.read import canonical, chunk_select

TABLE = TableName("app", "t")
ID, NAME, DATA = Column("id", "int", nullable=False), Column("na`me", "text"), Column("data", "binary", nullable=False)
SCHEMA = TableSchema(TABLE, (ID, NAME, DATA), ("id",))
KEY = ReadKey(TABLE, (KeyColumn(ID),))


def test_every_column_is_text_under_a_name_that_hides_no_column() -> None:
    assert chunk_select(SCHEMA, KEY, after=None, upper=None, where=None, rows_max=7) == (
        "SELECT `t`.`id` AS c0, `t`.`na``me` AS c1, HEX(`t`.`data`) AS c2 FROM `app`.`t` AS `t` ORDER BY `t`.`id` LIMIT 7"
    )


def test_bounds_and_predicate_come_before_the_order() -> None:
    text = chunk_select(SCHEMA, KEY, after=("1",), upper=("9",), where="a = 1 -- or", rows_max=7)
    assert text.endswith(" FROM `app`.`t` AS `t` WHERE ((`t`.`id` > 1 AND `t`.`id` <= 9)) AND (a = 1 -- or\n) ORDER BY `t`.`id` LIMIT 7")


def test_a_rowid_comes_after_the_schemas_columns() -> None:
    text = chunk_select(SCHEMA, rowid_key(TABLE), after=("-3",), upper=None, where=None, rows_max=7)
    assert "HEX(`t`.`data`) AS c2, `t`.`_tidb_rowid` AS c3 FROM" in text
    assert text.endswith(" WHERE ((`t`.`_tidb_rowid` > -3)) ORDER BY `t`.`_tidb_rowid` LIMIT 7")


def table(*columns: list[str | None]) -> pa.Table:
    return pa.table([pa.array(column, pa.string()) for column in columns], names=[f"c{index}" for index in range(len(columns))])


def test_null_in_a_column_that_has_none_ends_the_read() -> None:
    with pytest.raises(SourceError, match=r"reading chunk 1: .* NULL for column data"):
        canonical(table([None]), [DATA], where="reading chunk 1")
