"""What a TableInfo must be before anything is made of it, and the successor of a column amid MODIFY COLUMN."""

from __future__ import annotations

from typing import Any

import pytest

from sidecar.shared.errors import FeedUnsuitable, MessageUnreadable
from sidecar.shared.model.nouns import TableName, TableSchema
from sidecar.shared.rowcodec.kv_layout import kv_table_of, layout_of
from sidecar.shared.rowcodec.kv_row import decode_row
from sidecar.shared.rowcodec.kv_table import KvTable, kv_table
from tests.support.kv_encoder import NOT_NULL, PRIMARY, Plain, column, info, memcomparable_int, row_1, row_2, row_key

ID, C = column(1, "id", "int", primary=True), column(2, "c", "int")


def refused(value: dict[str, Any]) -> str:
    with pytest.raises(FeedUnsuitable, match="lacks or breaks a field") as caught:
        kv_table(value, schema="shop")
    return str(caught.value)


@pytest.mark.parametrize("field", ["id", "name", "cols", "index_info", "pk_is_handle", "is_common_handle"])
def test_a_field_that_is_missing_is_refused(field: str) -> None:
    result = info([ID, C], int_handle=True)
    del result[field]
    assert field in refused(result)


@pytest.mark.parametrize(
    "wrong",
    [
        {"id": -1}, {"id": "2"}, {"id": 1 << 63}, {"id": 1}, {"name": {"O": "id", "L": "id"}}, {"name": {"O": 7}}, {"offset": None},
        {"version": "x"}, {"origin_default": [1]}, {"origin_default": "x"}, {"state": None}, {"type": None}, {"generated_stored": 0},
    ],
)  # fmt: skip
def test_a_column_that_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    refused(info([ID, C | wrong], int_handle=True))


@pytest.mark.parametrize(
    "wrong",
    [
        column(2, "c", "decimal", flen=66), column(2, "c", "decimal", flen=0), column(2, "c", "decimal", flen=60, decimal=31),
        column(2, "c", "bit", flen=65), column(2, "c", "bit", flen=0), column(2, "c", "char", flen=1 << 40),
        column(2, "c", "datetime", decimal=7), column(2, "c", "enum", elems=[]), column(2, "c", "set", elems=["x"] * 65),
        column(2, "c", "enum", elems=[7]), column(2, "c", "varchar", flen=1 << 70),
    ],
)  # fmt: skip
def test_a_size_that_no_type_has_is_refused(wrong: dict[str, Any]) -> None:
    refused(info([ID, wrong], int_handle=True))


@pytest.mark.parametrize("type_", ["varchar", "decimal", "json", "datetime"])
def test_a_handle_that_is_no_integer_is_refused(type_: str) -> None:
    assert "is no integer" in refused(info([column(1, "id", type_, flen=9, primary=True)], int_handle=True))


def test_a_key_column_of_a_type_that_no_key_has_is_refused() -> None:
    assert "that no key has" in refused(info([column(1, "k", "json", flag=NOT_NULL | PRIMARY)], primary=[("k", -1)]))


# ---- successors -----------------------------------------------------------------------------------------------------

NEW = column(3, "_Col$_c_0", "varchar", flen=9, collation="utf8mb4_bin", state=1)
AMID = info([ID, C | {"successor": NEW}], int_handle=True)
COLUMNS = {item["id"]: item for item in (ID, C, NEW)}
KEY = row_key(memcomparable_int(1))


def amid() -> KvTable:
    return kv_table(AMID, schema="shop")


def test_a_column_with_a_successor_is_the_same_column_to_everybody_else() -> None:
    plain = kv_table(info([ID, C], int_handle=True), schema="shop")
    assert amid().schema == plain.schema
    successor = amid().columns[1].successor
    assert successor is not None
    assert (successor.id, successor.column.kind, successor.length) == (3, "text", 9)


@pytest.mark.parametrize("wrong", [{"id": 2}, {"id": None}, {"type": NEW["type"] | {"Tp": 200}}, {"type": NEW["type"] | {"Flen": "9"}}])
def test_a_successor_that_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(FeedUnsuitable):
        kv_table(info([ID, C | {"successor": NEW | wrong}], int_handle=True), schema="shop")


def test_the_logs_layout_keeps_the_successor() -> None:
    """Spark decodes by the log's schemas alone."""
    layout = layout_of(5, AMID, new_collation=True)
    assert kv_table_of(TableSchema(TableName("shop", "t"), (), (), layout=layout)) == amid()


@pytest.mark.parametrize("row", [row_1, row_2])
@pytest.mark.parametrize(
    ("values", "expected"),
    [({2: 5, 3: b"5"}, "5"), ({2: 5}, "5"), ({3: b"-5"}, "-5"), ({3: None}, None), ({2: None, 3: b"5"}, None), ({}, None)],
)
def test_a_row_has_its_own_column_or_else_the_successor(row: Any, values: dict[int, Plain | None], expected: str | None) -> None:
    assert decode_row(amid(), KEY, row(COLUMNS, values)) == ["1", expected]


@pytest.mark.parametrize("row", [row_1, row_2])
@pytest.mark.parametrize("text", [b"x", b"", b"05", b"2147483648", b"1.0", b"\xff"])
def test_a_successor_that_is_no_value_of_the_column_is_refused(row: Any, text: bytes) -> None:
    with pytest.raises(MessageUnreadable, match="column c"):
        decode_row(amid(), KEY, row(COLUMNS, {3: text}))
