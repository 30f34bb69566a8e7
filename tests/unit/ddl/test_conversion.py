"""What TiDB makes of a column's values when its type changes. What each sink does about it: tests/scenarios/effects_types.txt."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sidecar.shared.errors import SinkError
from sidecar.shared.log.manifest import DdlRecord, Manifest
from sidecar.shared.model.nouns import Column, ColumnDefinition, CommitTs, Kind, Seq, TableDefinition, TableName, TableSchema
from sidecar.shared.rowcodec.type_cast import ColumnType
from spark_merge.ddl.columns import column_effects
from spark_merge.ddl.conversion import Conversion, Typed, conversion
from spark_merge.port.contract import Head
from spark_merge.sinks.clickhouse.alter import ColumnChanges, change
from spark_merge.sinks.clickhouse.columns import column_type, kept_as
from tests.scenarios.effects_player import _SINKS as SINKS


@pytest.mark.parametrize("kind", ["int", "uint", "float", "text", "enum", "set", "bit", "date", "datetime", "year", "json", "vector"])
def test_a_column_of_the_same_type_keeps_its_values(kind: Kind) -> None:
    assert conversion(Typed(Column("a", kind)), Typed(Column("b", kind, nullable=False))) is Conversion.UNCHANGED


@pytest.mark.parametrize("kind", ["decimal", "time", "datetime", "timestamp"])
def test_digits_after_the_point_come_and_do_not_go(kind: Kind) -> None:
    short, long = Typed(Column("a", kind, length=9, scale=1)), Typed(Column("a", kind, length=11, scale=3))
    assert (conversion(short, long), conversion(long, short)) == (Conversion.PADDED, None)


@pytest.mark.parametrize("kind", ["timestamp", "float", "double", "bit", "binary", "vector"])
def test_what_has_another_text_in_tidb_or_one_by_the_sessions_zone_does_not_become_a_text(kind: Kind) -> None:
    assert conversion(Typed(Column("a", kind)), Typed(Column("a", "text"))) is None


def test_a_text_does_not_become_a_json_as_it_is_and_a_vector_stays_whatever_its_length() -> None:
    assert conversion(Typed(Column("a", "text")), Typed(Column("a", "json"))) is None
    short, long = (Typed(Column("a", "vector"), ColumnType("vector", size)) for size in (3, -1))
    assert conversion(short, long) is conversion(long, short) is Conversion.UNCHANGED


def changed(before: Column, after: Column) -> ColumnChanges:
    """At a ClickHouse table with dates=text."""
    was, now = (TableSchema(TableName("s", "t"), (Column("id", "int"), one), ("id",)) for one in (before, after))
    kept, there = kept_as(was, "text"), {}
    for column in kept.columns:
        there[column.name] = column_type(column, in_key=column.name == "id")
    return change(kept, kept_as(now, "text"), column_effects(was, now, ()), there)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (Column("a", "datetime"), Column("a", "datetime", scale=3)),
        (Column("a", "datetime", scale=3), Column("a", "datetime")),
        (Column("a", "timestamp"), Column("a", "datetime")),
        (Column("a", "datetime"), Column("a", "date")),
        (Column("a", "timestamp"), Column("a", "text")),
    ],
)
def test_a_date_that_clickhouse_keeps_as_a_text_is_judged_by_its_type_at_the_source(before: Column, after: Column) -> None:
    """Both are a String there, and TiDB writes other texts into the rows."""
    with pytest.raises(SinkError, match="may not convert values as the source does"):
        changed(before, after)


def test_a_date_that_clickhouse_keeps_as_a_text_may_become_a_text() -> None:
    at = Column("a", "datetime", scale=3)
    assert changed(at, Column("a", "text")) == changed(at, replace(at, nullable=False)) == ColumnChanges((), ())


@pytest.mark.parametrize("sink", sorted(SINKS.keys() - {"mysql"}))
@pytest.mark.parametrize(
    ("column", "before", "after"),
    [
        (Column("a", "text"), "varchar(10)", "varchar(9)"),
        (Column("a", "text"), "varchar(10)", "char(10)"),
        (Column("a", "text"), "mediumtext", "text"),
        (Column("a", "int"), "bigint(20)", "int(11)"),
        (Column("a", "decimal", length=9, scale=2), "decimal(9,2)", "decimal(9,2) unsigned"),
    ],
)
def test_a_shorter_text_stops_each_sink_that_keeps_rows(sink: str, column: Column, before: str, after: str) -> None:
    """The columns are the same, and a session without strict mode clips values without a change event of any. A SQL target carries the
    statement out in strict mode."""

    def table(kind: str) -> TableSchema:
        made = (ColumnDefinition("id", "int(11)", nullable=False), ColumnDefinition("a", kind, charset="utf8mb4" * (column.kind == "text")))
        key = Column("id", "int", nullable=False)
        return TableSchema(TableName("s", "t"), (key, column), ("id",), definition=TableDefinition(made))

    def head(old: str, new: str) -> Head:
        ddl = DdlRecord(CommitTs(90), "s", "t", f"ALTER TABLE `t` MODIFY COLUMN `a` {new}")
        manifest = Manifest(Seq(3), 1, CommitTs(0), CommitTs(90), None, 0, 0, {}, "s", "c", (ddl,), next_schemas="n")
        return Head(manifest, {TableName("s", "t"): table(old)}, {TableName("s", "t"): table(new)})

    with pytest.raises(SinkError):
        SINKS[sink](head(before, after))
    SINKS[sink](head(before, before))
