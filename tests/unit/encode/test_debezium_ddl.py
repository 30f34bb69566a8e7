"""A table as Debezium's schema change messages describe it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sidecar.shared.model.nouns import ColumnDefinition, TableDefinition, TableName
from spark_merge.codecs.encode.debezium_ddl import table_changes
from tests.unit.encode.debezium_tables import KINDS, one_column

SCHEMA = one_column("decimal(10,2)")


def test_a_table_is_created_altered_and_dropped() -> None:
    ((created,), (altered,), (dropped,)) = (table_changes(None, SCHEMA), table_changes(SCHEMA, SCHEMA), table_changes(SCHEMA, None))
    assert [one["type"] for one in (created, altered, dropped)] == ["CREATE", "ALTER", "DROP"]
    assert {one["id"] for one in (created, altered, dropped)} == {'"shop"."t"'}
    assert created["table"] == altered["table"]
    assert dropped["table"] is None
    assert table_changes(None, None) == []


def test_a_renamed_table_has_its_new_name() -> None:
    (change,) = table_changes(SCHEMA, replace(SCHEMA, name=TableName("shop", 'u"')))
    assert (change["type"], change["id"]) == ("ALTER", '"shop"."u"""')


def test_without_a_definition_there_is_no_description() -> None:
    assert table_changes(SCHEMA, replace(SCHEMA, definition=None)) == []


def test_a_column_is_described_with_its_type() -> None:
    assert SCHEMA.definition is not None
    made = TableDefinition(
        (
            ColumnDefinition("id", "bigint(20) unsigned", nullable=False),
            ColumnDefinition("name", "varchar(20)", charset="utf8mb4", default="'x'"),
            ColumnDefinition("twice", "decimal(10,2)", generated="`id` * 2"),
        ),
        charset="utf8mb4",
    )
    ((change,)) = table_changes(None, replace(SCHEMA, definition=made))
    table = change["table"]
    assert (table["defaultCharsetName"], table["primaryKeyColumnNames"]) == ("utf8mb4", ["id"])
    names = (
        "name",
        "jdbcType",
        "typeName",
        "charsetName",
        "length",
        "scale",
        "position",
        "optional",
        "generated",
        "defaultValueExpression",
    )
    assert [tuple(one[name] for name in names) for one in table["columns"]] == [
        ("id", -5, "BIGINT UNSIGNED", None, 20, None, 1, False, False, None),
        ("name", 12, "VARCHAR", "utf8mb4", 20, None, 2, True, False, "'x'"),
        ("twice", 3, "DECIMAL", None, 10, 2, 3, True, True, None),
    ]


@pytest.mark.parametrize("sql", [one.sql for one in KINDS])
def test_each_type_has_a_number_of_java(sql: str) -> None:
    ((change,)) = table_changes(None, one_column(sql))
    column = change["table"]["columns"][1]
    assert column["typeName"].startswith(sql.partition("(")[0].upper())
    assert column["jdbcType"] != 1111 or sql.startswith(("json", "vector"))
    assert (column["enumValues"] is not None) is sql.startswith(("enum", "set"))
