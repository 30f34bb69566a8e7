"""Which column a column was, and what existing rows have in an added one: by ids, by the statement, and the same answer at every sink."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import pytest

from sidecar.shared.log.manifest import DdlRecord, Manifest
from sidecar.shared.model.nouns import Column, ColumnDefinition, CommitTs, Seq, TableDefinition, TableName, TableSchema
from sidecar.shared.rowcodec.kv_layout import layout_of
from spark_merge.ddl.columns import ColumnEffect, column_effects
from spark_merge.ddl.logged import logged_ddls
from spark_merge.port.contract import Head
from spark_merge.sinks.clickhouse.alter import change
from spark_merge.sinks.clickhouse.columns import column_type
from spark_merge.sinks.delta.ddl import moved
from spark_merge.sinks.iceberg.evolution import renamed
from spark_merge.sinks.opensearch.changes import changes
from tests.support.kv_encoder import column as kv_column
from tests.support.kv_encoder import info
from tests.support.sql_types import sql_type

NAME = TableName("s", "t")


class Case(NamedTuple):
    """`was`: of each column after, but the key, the name before; empty for an added one."""

    query: str
    before: str
    was: Mapping[str, str]


CASES = (
    # plain statements
    Case("ALTER TABLE t RENAME COLUMN a TO b", "a", {"b": "a"}),
    Case("alter table t rename column a to b", "a", {"b": "a"}),
    Case("ALTER TABLE `s`.`t` RENAME COLUMN `a` TO `b`", "a", {"b": "a"}),
    Case("ALTER TABLE T RENAME COLUMN A TO b", "a", {"b": "a"}),
    Case("ALTER TABLE t CHANGE a b INT", "a", {"b": "a"}),
    Case("ALTER TABLE t CHANGE COLUMN a b INT", "a", {"b": "a"}),
    Case("ALTER TABLE t CHANGE COLUMN a b INT NOT NULL DEFAULT 0 COMMENT 'x' FIRST", "a", {"b": "a"}),
    Case("ALTER TABLE t CHANGE a b INT AFTER id, ADD INDEX i (b)", "a", {"b": "a"}),
    Case("ALTER IGNORE TABLE t CHANGE a b INT", "a", {"b": "a"}),
    Case("ALTER TABLE t CHANGE a a INT", "a", {"a": "a"}),
    Case("ALTER TABLE t CHANGE a A INT", "a", {"A": "a"}),
    Case("ALTER TABLE t MODIFY a INT", "a", {"a": "a"}),
    Case("ALTER TABLE t MODIFY COLUMN a INT FIRST", "a b", {"b": "b", "a": "a"}),
    Case("ALTER TABLE t ADD COLUMN b INT", "a", {"a": "a", "b": ""}),
    Case("ALTER TABLE t ADD b INT AFTER id", "a", {"b": "", "a": "a"}),
    Case("ALTER TABLE t ADD COLUMN (b INT, c INT)", "a", {"a": "a", "b": "", "c": ""}),
    Case("ALTER TABLE t DROP COLUMN a", "a b", {"b": "b"}),
    Case("ALTER TABLE t DROP a, DROP b", "a b c", {"c": "c"}),
    Case("ALTER TABLE t DROP COLUMN a, ADD COLUMN b INT", "a", {"b": ""}),
    Case("ALTER TABLE t ADD COLUMN b INT, DROP COLUMN a", "a", {"b": ""}),
    Case("ALTER TABLE t ADD INDEX i (a)", "a", {"a": "a"}),
    Case("ALTER TABLE t RENAME INDEX a TO b", "a", {"a": "a"}),
    Case("ALTER TABLE t RENAME KEY a TO b", "a", {"a": "a"}),
    Case("ALTER TABLE t ALTER COLUMN a SET DEFAULT 5", "a", {"a": "a"}),
    # several at once
    Case("ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN c TO d", "a c", {"b": "a", "d": "c"}),
    Case("ALTER TABLE t CHANGE a b INT, DROP COLUMN c, ADD COLUMN d INT", "a c", {"b": "a", "d": ""}),
    Case("ALTER TABLE t RENAME COLUMN a TO b, ADD COLUMN a INT", "a", {"b": "a", "a": ""}),
    Case("ALTER TABLE t RENAME COLUMN a TO b, ADD COLUMN a INT FIRST", "a", {"a": "", "b": "a"}),
    Case("ALTER TABLE t ADD COLUMN c INT, CHANGE b d INT, MODIFY a INT", "a b", {"a": "a", "d": "b", "c": ""}),
    # conditions
    Case("ALTER TABLE t CHANGE IF EXISTS a b INT", "a", {"b": "a"}),
    Case("ALTER TABLE t CHANGE COLUMN IF EXISTS a b INT", "a", {"b": "a"}),
    Case("ALTER TABLE t CHANGE IF EXISTS gone b INT", "a b", {"a": "a", "b": "b"}),
    Case("ALTER TABLE t MODIFY COLUMN IF EXISTS a INT", "a", {"a": "a"}),
    Case("ALTER TABLE t DROP COLUMN IF EXISTS a, ADD COLUMN IF NOT EXISTS b INT", "a", {"b": ""}),
    # words of a change in comments, texts and names
    Case("ALTER TABLE t DROP COLUMN a, ADD COLUMN b INT COMMENT 'was: change a b'", "a", {"b": ""}),
    Case("ALTER TABLE t DROP COLUMN a, ADD COLUMN b INT COMMENT 'rename column a to b'", "a", {"b": ""}),
    Case('ALTER TABLE t DROP COLUMN a, ADD COLUMN b INT COMMENT "rename column a to b"', "a", {"b": ""}),
    Case("ALTER TABLE t DROP COLUMN a, ADD COLUMN b VARCHAR(30) DEFAULT 'change column a b'", "a", {"b": ""}),
    Case("ALTER TABLE t DROP COLUMN a, /* change a b */ ADD COLUMN b INT", "a", {"b": ""}),
    Case("ALTER TABLE t DROP COLUMN a, ADD COLUMN b INT -- rename column a to b", "a", {"b": ""}),
    Case("ALTER TABLE t DROP COLUMN a, ADD COLUMN b INT # change a b", "a", {"b": ""}),
    Case("ALTER TABLE t /* now */ CHANGE /* the column */ a /* to */ b INT", "a", {"b": "a"}),
    Case("ALTER TABLE t RENAME COLUMN/**/a TO b", "a", {"b": "a"}),
    Case("ALTER TABLE t /*! RENAME COLUMN a TO b */", "a", {"b": "a"}),
    Case("ALTER TABLE t CHANGE `change` `rename` INT", "change", {"rename": "change"}),
    Case("ALTER TABLE t CHANGE COLUMN `column` `to` INT", "column", {"to": "column"}),
    Case("ALTER TABLE t ADD COLUMN `change a b` INT, DROP COLUMN a", "a", {"change a b": ""}),
    Case("ALTER TABLE t RENAME COLUMN `a``b` TO `c d`", "a`b", {"c d": "a`b"}),
    Case("ALTER TABLE t RENAME COLUMN spalte TO größe", "spalte", {"größe": "spalte"}),
    # another table's
    Case("ALTER TABLE other.t RENAME COLUMN a TO b", "a", {"a": "a"}),
    Case("CREATE TABLE u (a INT COMMENT 'change a b', PRIMARY KEY (a))", "a", {"a": "a"}),
)
SWAPS = (
    Case("ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO a", "a b", {"b": "a", "a": "b"}),
    Case("ALTER TABLE t CHANGE a b INT, CHANGE b c INT, CHANGE c a INT", "a b c", {"b": "a", "c": "b", "a": "c"}),
)
"""Columns that take each other's names; ClickHouse refuses them."""


def table(*names: str, ids: Mapping[str, int] | None = None) -> TableSchema:
    columns = (Column("id", "int", nullable=False), *(Column(name, "int") for name in names))
    made = TableDefinition(tuple(ColumnDefinition(column.name, "bigint(20)") for column in columns))
    if ids is None:
        return TableSchema(NAME, columns, ("id",), definition=made)
    described = info(
        [kv_column(1, "id", "bigint", primary=True), *(kv_column(ids[name], name, "bigint") for name in names)], int_handle=True
    )
    return TableSchema(NAME, columns, ("id",), 104, (104,), layout=layout_of(1, described, new_collation=True))


def schemas(case: Case, ids: str) -> tuple[TableSchema, TableSchema]:
    before = case.before.split()
    if ids == "no ids":
        return table(*before), table(*case.was)
    old = {name: 10 + at for at, name in enumerate(before)}
    new = {name: old[was] if was and (ids == "ids" or name == was) else 20 + at for at, (name, was) in enumerate(case.was.items())}
    return table(*before, ids=old), table(*case.was, ids=new)


def head(query: str, before: TableSchema, after: TableSchema) -> Head:
    ddl = DdlRecord(CommitTs(90), "s", "t", query)
    manifest = Manifest(Seq(3), 1, CommitTs(0), CommitTs(90), None, 0, 0, {}, "s", "c", (ddl,), next_schemas="n")
    return Head(manifest, {before.name: before}, {after.name: after})


def effects(value: Head) -> tuple[ColumnEffect, ...]:
    return column_effects(value.schemas[NAME], value.next_schemas[NAME], [ddl.statement for ddl in logged_ddls(value, value.ddls)])


@pytest.mark.parametrize("ids", ["no ids", "ids", "another id for each changed column"])
@pytest.mark.parametrize("case", [*CASES, *SWAPS], ids=lambda case: case.query)
def test_a_column_is_followed_by_id_statement_and_name(case: Case, ids: str) -> None:
    """TiDB gives a column whose type changes another id."""
    results = effects(head(case.query, *schemas(case, ids)))
    assert {one.column.name: one.before.name if one.before else "" for one in results[1:]} == case.was
    assert not [one for one in results if one.unknown or one.existing]


def test_a_rename_that_no_statement_shows_is_followed_by_id() -> None:
    """As of a text that is not understood."""
    case = Case("ALTER TABLE t SOMETHING NEW", "a", {"b": "a"})
    assert [one.before.name for one in effects(head(case.query, *schemas(case, "ids"))) if one.before] == ["id", "a"]
    assert [one.before.name for one in effects(head(case.query, *schemas(case, "no ids"))) if one.before] == ["id"]


@pytest.mark.parametrize("ids", ["no ids", "ids"])
@pytest.mark.parametrize("case", [*CASES, *SWAPS], ids=lambda case: case.query)
def test_every_sink_follows_the_same_columns(case: Case, ids: str) -> None:
    result = head(case.query, *schemas(case, ids))
    expected = {(name, was) for name, was in case.was.items() if was and name != was}
    before, after = result.schemas[NAME], result.next_schemas[NAME]

    (kept,) = changes(result).kept if before != after else ((),)
    assert not kept or {(one.column.name, one.name) for one in kept.sources if one.name not in (None, one.column.name)} == expected

    folded = {(name.lower(), was) for name, was in expected if name.lower() != was}
    assert {(to.lower(), source) for source, to, _ in moved(effects(result))} == folded
    assert set(renamed(effects(result)).items()) == folded

    if case not in SWAPS:
        there = {column.name: column_type(column, in_key=column.name == "id") for column in before.columns}
        clickhouse = change(before, after, effects(result), there)
        assert {*clickhouse.renames} == {f"RENAME COLUMN {_quoted(was)} TO {_quoted(name)}" for name, was in expected}


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "\\`") + "`"


# ---- what existing rows have in an added column ----------------------------------------------------------------------


def added(column: Column, definition: ColumnDefinition | None) -> ColumnEffect:
    before = table()
    made = TableDefinition((definition,)) if definition else None
    after = replace(before, columns=(*before.columns, column), definition=made)
    return effects(head("ALTER TABLE t ADD COLUMN c INT", before, after))[-1]


@pytest.mark.parametrize(
    ("column", "default", "text"),
    [
        (Column("c", "int"), None, None),
        (Column("c", "int"), "NULL", None),
        (Column("c", "int"), "'5'", "5"),
        (Column("c", "decimal", length=9, scale=3), "'1.5'", "1.500"),
        (Column("c", "decimal", length=9, scale=3), "-1", "-1.000"),
        (Column("c", "text"), "'it''s'", "it's"),
        (Column("c", "text"), "'NULL'", "NULL"),
        (Column("c", "enum", elements=("a", "b")), "'b'", "b"),
        (Column("c", "datetime", scale=3), "'2020-01-02 03:04:05'", "2020-01-02 03:04:05.000"),
        (Column("c", "timestamp"), "'2020-01-02 03:04:05'", "2020-01-02 03:04:05"),
        (Column("c", "year"), "'0000'", "0000"),
        (Column("c", "text"), r"'C:\\dir'", r"C:\dir"),
        (Column("c", "decimal", length=3, scale=1), "'1.55'", "1.6"),
        (Column("c", "int", nullable=False), None, "0"),
        (Column("c", "text", nullable=False), None, ""),
        (Column("c", "enum", nullable=False, elements=("a", "b")), None, "a"),
        (Column("c", "datetime", nullable=False), None, "0000-00-00 00:00:00"),
    ],
)
def test_a_literal_default_is_what_existing_rows_have(column: Column, default: str | None, text: str | None) -> None:
    effect = added(column, ColumnDefinition("c", sql_type(column), default=default))
    assert (effect.before, effect.existing, effect.unknown) == (None, text, "")


@pytest.mark.parametrize(
    ("column", "definition", "why"),
    [
        (Column("c", "int"), None, "a default that the log does not have"),
        (Column("c", "int"), ColumnDefinition("c", "int", generated="id + 1", stored=True), "what a formula makes of each row"),
        (Column("c", "datetime"), ColumnDefinition("c", "…", default="CURRENT_TIMESTAMP"), "the computed default CURRENT_TIMESTAMP"),
        (Column("c", "text"), ColumnDefinition("c", "varchar(2)", default="'abc'"), "the computed default"),
        (Column("c", "time"), ColumnDefinition("c", "…", default="'1:2'"), "the computed default"),
        (Column("c", "binary"), ColumnDefinition("c", "…", default="'a'"), "the computed default"),
        (Column("c", "bit"), ColumnDefinition("c", "…", default="b'1'"), "the computed default"),
        (Column("c", "decimal", length=3, scale=1), ColumnDefinition("c", "decimal(3,1)", default="'99.95'"), "the computed default"),
    ],
)
def test_a_default_that_is_no_plain_literal_is_unknown(column: Column, definition: ColumnDefinition | None, why: str) -> None:
    effect = added(column, definition)
    assert effect.existing is None
    assert effect.unknown.startswith(why)


@pytest.mark.parametrize(
    ("before", "after"),
    [(table("a"), table("a", "b")), (table("a"), replace(table("a", "b"), name=TableName("s", "u")))],
)
def test_what_existing_rows_have_in_a_column_that_was_omitted_is_unknown_whatever_its_default(
    before: TableSchema, after: TableSchema
) -> None:
    """By its own name, and by another one."""
    for name in ("b", "c"):
        hidden = replace(before, omitted=(Column(name, "int"),))
        assert [(one.unknown, one.was_omitted) for one in column_effects(hidden, after, [])[2:]] == [
            ("values that the changefeed omitted", True)
        ]
    beside = replace(before, omitted=(Column("c", "int"),)), replace(after, omitted=(Column("c", "int"),))
    assert column_effects(*beside, [])[2].unknown == "", "it was added"


def test_a_log_of_key_values_has_the_value_of_existing_rows() -> None:
    before = table(ids={})
    described = info(
        [kv_column(1, "id", "bigint", primary=True), kv_column(2, "c", "bigint", origin_default="7", default="9")], int_handle=True
    )
    after = replace(table("c"), table_id=104, physical_ids=(104,), layout=layout_of(1, described, new_collation=True))
    assert effects(head("ALTER TABLE t ADD COLUMN c INT", before, after))[-1].existing == "7"
