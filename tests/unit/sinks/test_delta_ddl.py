"""What a schema change means for the rows of a merged Delta table, told by the schemas before and after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from sidecar.shared.errors import SinkError
from sidecar.shared.log.manifest import DdlRecord, Manifest
from sidecar.shared.log.storage import open_folder
from sidecar.shared.model.nouns import Column, ColumnDefinition, CommitTs, Seq, TableDefinition, TableName, TableSchema
from spark_merge.ddl.routes import Routes, routes_of
from spark_merge.port.contract import Head
from spark_merge.sinks.delta.ddl import DELTA, filled, moved
from spark_merge.sinks.delta.uri import DeltaSettings
from spark_merge.sinks.lake.ddl import LakeAltered, alterations
from tests.support.sql_types import sql_type

NAME, OTHER = TableName("s", "t"), TableName("s", "u")
KEY = Column("id", "int", nullable=False)


def table(*columns: Column, name: TableName = NAME, defined: Sequence[ColumnDefinition] = ()) -> TableSchema:
    definitions = {one.name: one for one in defined}
    known = tuple(definitions.get(column.name) or ColumnDefinition(column.name, sql_type(column)) for column in (KEY, *columns))
    return TableSchema(name, (KEY, *columns), ("id",), definition=TableDefinition(known))


def head(query: str, before: list[TableSchema], after: list[TableSchema]) -> Head:
    ddl = DdlRecord(CommitTs(90), "s", "t", query)
    manifest = Manifest(Seq(3), 1, CommitTs(0), CommitTs(90), None, 0, 0, {}, "s", "c", (ddl,))
    return Head(manifest, _by_name(before), _by_name(after))


def _by_name(schemas: list[TableSchema]) -> Mapping[TableName, TableSchema]:
    return {schema.name: schema for schema in schemas}


def found(query: str, before: list[TableSchema], after: list[TableSchema], routes: str = "", done: int = 0) -> list[LakeAltered]:
    settings = DeltaSettings(
        open_folder("file:///out"), "merge", routes=routes_of(routes) if routes else Routes(), ddl_done=frozenset({CommitTs(done)})
    )
    return list(alterations(head(query, before, after), settings, DELTA).values())


@pytest.mark.parametrize("query", ["TRUNCATE TABLE t", "DROP TABLE `s`.`T`", "DROP TABLE s.t, s.none", "DROP DATABASE s"])
def test_what_empties_a_table(query: str) -> None:
    (one,) = found(query, [table()], [table()])
    assert (one.name, one.emptied) == (NAME, True)


@pytest.mark.parametrize(
    "query",
    ["CREATE TABLE s.u (id INT PRIMARY KEY)", "CREATE INDEX i ON t (id)", "ALTER TABLE t COMMENT = 'DROP it'", "DROP TABLE other.t"],
)
def test_what_does_nothing(query: str) -> None:
    assert not found(query, [table()], [table()])


def test_a_new_column_is_filled_with_its_default() -> None:
    columns = [
        Column("a", "int"), Column("b", "text"), Column("n", "int"), Column("z", "int", nullable=False),
        Column("d", "decimal", length=5, scale=2),
    ]  # fmt: skip
    defined = [
        ColumnDefinition("a", "int", default="'7'"),
        ColumnDefinition("b", "text", default="'it''s'"),
        ColumnDefinition("z", "int", nullable=False),
        ColumnDefinition("d", "decimal(5,2)", default="1.50"),
    ]
    (one,) = found("ALTER TABLE t ADD COLUMN a INT", [table()], [table(*columns, defined=defined)])
    assert dict(filled(one.columns)) == {
        "a": "CAST('7' AS BIGINT)",
        "b": "'it''s'",
        "z": "CAST('0' AS BIGINT)",
        "d": "CAST('1.50' AS DECIMAL(5,2))",
    }
    assert not one.unless_empty


def test_a_renamed_column_moves() -> None:
    a, b = Column("a", "int"), Column("b", "int")
    for query in ("ALTER TABLE t RENAME COLUMN a TO b", "ALTER TABLE t CHANGE COLUMN `a` `b` INT"):
        (renamed,) = found(query, [table(a)], [table(b)])
        assert ([*moved(renamed.columns)], [*filled(renamed.columns)], renamed.unless_empty) == ([("a", "b", "{}")], [], "")


@pytest.mark.parametrize(
    ("before", "after", "value"),
    [
        (Column("a", "bit", length=8), Column("a", "int"), "CAST({} AS BIGINT)"),
        (Column("a", "int"), Column("a", "text"), "CAST({} AS VARCHAR)"),
        (Column("a", "decimal", length=5, scale=2), Column("a", "decimal", length=9, scale=3), "CAST({} AS DECIMAL(9,3))"),
        (Column("a", "float"), Column("a", "double"), "CAST({} AS DOUBLE)"),
    ],
)
def test_a_column_of_a_type_that_holds_all_values_moves(before: Column, after: Column, value: str) -> None:
    (one,) = found("ALTER TABLE t MODIFY COLUMN a BIGINT", [table(before)], [table(after)])
    assert ([*moved(one.columns)], one.unless_empty) == ([("a", "a", value)], "")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (Column("a", "datetime"), Column("a", "datetime", scale=6)),
        (Column("a", "enum", elements=("x",)), Column("a", "enum", elements=("x", "y"))),
        (Column("a", "int"), Column("a", "int", nullable=False)),
    ],
)
def test_a_column_that_holds_its_values_as_they_are_stays(before: Column, after: Column) -> None:
    (one,) = found("ALTER TABLE t MODIFY COLUMN a BIGINT", [table(before)], [table(after)])
    assert ([*moved(one.columns)], [*filled(one.columns)], one.unless_empty) == ([], [], "")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (Column("a", "text"), Column("a", "int")),
        (Column("a", "datetime", scale=6), Column("a", "datetime")),
        (Column("a", "time"), Column("a", "time", scale=3)),
        (Column("a", "decimal", length=9, scale=3), Column("a", "decimal", length=9, scale=2)),
        (Column("a", "binary", length=4), Column("a", "binary", length=8)),
        (Column("a", "text"), Column("a", "enum", elements=("x",))),
        (Column("a", "decimal", length=60, scale=2), Column("a", "decimal", length=60, scale=3)),
    ],
)
def test_a_conversion_that_may_change_values_is_only_for_a_table_without_rows(before: Column, after: Column) -> None:
    (one,) = found("ALTER TABLE t MODIFY COLUMN a BIGINT", [table(before)], [table(after)])
    assert one.unless_empty.startswith("column a has values of a")


@pytest.mark.parametrize(
    ("definition", "why"),
    [
        (ColumnDefinition("a", "datetime", default="CURRENT_TIMESTAMP"), "computed default"),
        (ColumnDefinition("a", "int", generated="id + 1", stored=True), "formula"),
        (ColumnDefinition("a", "datetime", nullable=False), "'0000-00-00 00:00:00', a datetime"),
    ],
)
def test_a_new_column_whose_values_are_not_known_is_only_for_a_table_without_rows(definition: ColumnDefinition, why: str) -> None:
    (one,) = found(
        "ALTER TABLE t ADD COLUMN a DATETIME", [table()], [table(Column("a", "datetime", definition.nullable), defined=[definition])]
    )
    assert why in one.unless_empty


@pytest.mark.parametrize(
    "query",
    ["ALTER TABLE t DROP PARTITION p0", "ALTER TABLE t TRUNCATE PARTITION p0", "ALTER TABLE t EXCHANGE PARTITION p0 WITH TABLE u"],
)
def test_rows_that_move_unseen_are_refused_until_the_operator_says(query: str) -> None:
    with pytest.raises(SinkError, match="cannot be carried out") as refused:
        found(query, [table(), table(name=OTHER)], [table(), table(name=OTHER)])
    assert "ddl-done=90" in refused.value.hint
    by_hand = found(query, [table(), table(name=OTHER)], [table(), table(name=OTHER)], done=90)
    assert {(one.by_hand, one.emptied, one.unless_empty) for one in by_hand} == {(True, False, "")}


def test_a_table_that_loses_its_key_is_refused_if_it_has_rows() -> None:
    (one,) = found("ALTER TABLE t DROP PRIMARY KEY", [table()], [replace(table(), key=())])
    assert one.unless_empty == "s.t has no key any more, so its rows are not delivered"
    assert not found("ALTER TABLE t DROP PRIMARY KEY", [table()], [replace(table(), key=())], done=90)


def test_a_name_in_another_case_is_another_folder() -> None:
    with pytest.raises(SinkError, match="not renamed") as refused:
        found("RENAME TABLE t TO T", [table()], [table(name=TableName("s", "T"))])
    assert "s.T=>s.t" in refused.value.hint


def test_a_renamed_table_stays_where_it_is_by_a_route() -> None:
    moved = TableName("s", "v")
    with pytest.raises(SinkError, match="not renamed") as refused:
        found("RENAME TABLE t TO v", [table()], [table(name=moved)])
    assert "s.v=>s.t" in refused.value.hint
    assert not found("RENAME TABLE t TO v", [table()], [table(name=moved)], "s.v=>s.t")
