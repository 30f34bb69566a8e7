"""What a SELECT asks for, and how its texts are spelt."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sidecar.shared.model.keyset import KeyColumn, ReadKey
from sidecar.shared.model.nouns import Column, TableName
from sidecar.shared.resultset.selects import as_sent, as_text, key_select, spelt

TABLE = TableName("app", "t")
ID = Column("id", "int", nullable=False)
KEY = ReadKey(TABLE, (KeyColumn(ID),))


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
    assert spelt(table(["a"], [None]), twice).to_pydict() == {"c1": ["a"], "c0": [None]}


def test_what_follows_the_schemas_columns_is_left_out() -> None:
    assert spelt(table(["1"], ["77"]), [ID]).column_names == ["id"]


@pytest.mark.parametrize(
    ("text", "expected"), [("1", "1.0"), ("-0", "-0.0"), ("1e15", "1000000000000000.0"), ("1e-7", "1e-07"), ("0.1", "0.1"), (None, None)]
)
def test_floats_are_spelt_as_repr(text: str | None, expected: str | None) -> None:
    assert spelt(table([text]), [Column("f", "double")])["f"].to_pylist() == [expected]


@pytest.mark.parametrize(("text", "expected"), [("000.50", "0.50"), ("0042", "42"), ("-0.50", "-0.50"), ("0", "0"), ("100", "100")])
def test_decimals_lose_the_zeros_of_zerofill(text: str, expected: str) -> None:
    assert spelt(table([text]), [Column("d", "decimal")])["d"].to_pylist() == [expected]
