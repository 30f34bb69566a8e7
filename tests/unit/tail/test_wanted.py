"""A table and a key as somebody types them."""

from __future__ import annotations

from pathlib import Path

import pytest

from sidecar.shared.errors import RefusedRequest
from sidecar.shared.log.storage import open_folder
from sidecar.shared.model.nouns import Column, TableName, TableSchema
from spark_merge.tail.wanted import parse_key, table_named
from tests.unit.tail.logs import ORDERS, WrittenLog

ITEM, OLD = TableName("shop", "item"), TableName("shop", "Old")


def test_a_table_is_named_without_case_and_as_it_was_called_last(tmp_path: Path) -> None:
    log = open_folder(str(tmp_path / "log"))
    with pytest.raises(RefusedRequest, match="has no segment yet"):
        table_named(log, "shop.orders")
    to = WrittenLog(log, {ORDERS: 1, OLD: 2})
    to.segment(ddl="RENAME TABLE", tables={ORDERS: 1, ITEM: 2})
    to.segment()
    assert table_named(log, "SHOP.Orders")[0].name == ORDERS
    followed, schema = table_named(log, "shop.old")
    assert (followed.name, followed.table_id, schema.name) == (OLD, 2, OLD)
    with pytest.raises(RefusedRequest, match=r"has no table shop\.order, did you mean shop\.orders\?"):
        table_named(log, "shop.order")


def table(*columns: Column, key: tuple[str, ...]) -> TableSchema:
    return TableSchema(ORDERS, columns, key)


ONE = table(Column("v", "text"), Column("id", "uint", nullable=False), key=("id",))
NAMED = table(Column("name", "text", nullable=False), key=("name",))
TWO = table(Column("part", "int", nullable=False), Column("name", "text", nullable=False), key=("name", "part"))


@pytest.mark.parametrize(
    ("schema", "text", "key"),
    [
        (ONE, "42", ("42",)),
        (ONE, "0042", ("42",)),
        (NAMED, "a,b", ("a,b",)),
        (NAMED, '["a"]', ("a",)),
        (NAMED, '[""]', ("",)),
        (NAMED, '["a","b"]', ('["a","b"]',)),
        (NAMED, "[1", ("[1",)),
        (NAMED, "", ("",)),
        (TWO, "a,2", ("a", "2")),
        (TWO, '["a,b", 2]', ("a,b", "2")),
        (TWO, "-,-2", ("-", "-2")),
    ],
)
def test_a_key_is_one_text_or_several_with_commas_or_as_json(schema: TableSchema, text: str, key: tuple[str, ...]) -> None:
    assert parse_key(schema, text) == key


@pytest.mark.parametrize(
    ("schema", "text", "why"),
    [
        (ONE, "x", r"'x' is no value of key column id \(uint\)"),
        (ONE, "-1", "'-1' is no value of key column id"),
        (TWO, "a", "has 1 values, and the handle key of shop.orders has 2: name .text., part .int."),
        (TWO, "a,b,2", "has 3 values"),
        (TWO, '["a", null]', "' null]' is no value of key column part"),
        (TWO, "a,b", "'b' is no value of key column part"),
    ],
)
def test_another_number_of_values_or_another_kind_is_refused(schema: TableSchema, text: str, why: str) -> None:
    with pytest.raises(RefusedRequest, match=why):
        parse_key(schema, text)
