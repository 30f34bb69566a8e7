"""Which tables of the target are looked at before rows, and for how long what was seen is believed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sidecar.shared.model.nouns import Column, TableDefinition, TableName, TableSchema
from spark_merge.port.contract import Head
from spark_merge.sinks.kit import target_tables
from spark_merge.sinks.kit.target_tables import TargetTables
from tests.unit.merge.test_cut import head

SCHEMA = TableSchema(TableName("s", "t"), (Column("a", "int"), Column("v", "text")), ("a",))
OTHER = replace(SCHEMA, name=TableName("s", "u"))
KEYLESS = replace(SCHEMA, name=TableName("s", "w"), key=())


def of(*tables: TableSchema, rows: TableSchema) -> list[Head]:
    """Segments of these tables, with rows of `rows`."""
    return [replace(head(0, {rows.name: 1, KEYLESS.name: 1}), schemas={one.name: one for one in (*tables, KEYLESS)})]


def due(tables: TargetTables[str], heads: list[Head], *, all_tables: bool = False) -> list[TableSchema]:
    return tables.due(heads, all_tables=all_tables)


def test_a_table_is_looked_at_before_it_gets_rows_and_at_the_start_each_is() -> None:
    tables, heads = TargetTables[str](), of(SCHEMA, OTHER, rows=OTHER)
    assert due(tables, heads) == [OTHER]
    assert due(tables, heads, all_tables=True) == [SCHEMA, OTHER], "the log has no rows of a table without a key"


def test_what_a_table_has_is_believed_for_a_while_or_until_it_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    tables, heads = TargetTables[str](), of(SCHEMA, OTHER, rows=SCHEMA)
    tables.learn({SCHEMA: "columns"})
    assert (due(tables, heads), due(tables, heads, all_tables=True)) == ([], [OTHER])
    assert (tables.get(SCHEMA), tables.get(OTHER)) == ("columns", None)
    with monkeypatch.context() as patch:
        patch.setattr(target_tables, "TABLES_KNOWN_S", 0)
        assert due(tables, heads) == [SCHEMA]
    redefined = replace(SCHEMA, definition=TableDefinition(()))
    assert due(tables, of(redefined, rows=redefined)) == [redefined], "a DDL may have changed what it is compared with"
    tables.forget()
    assert (due(tables, heads), tables.get(SCHEMA)) == ([SCHEMA], None)
