"""What TiDB makes of a column's values when its type changes. What each sink does about it: tests/scenarios/effects_types.txt."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sidecar.core.model import Column, Kind, TableName, TableSchema
from sidecar.errors import SinkError
from spark_merge.ddl.columns import column_effects
from spark_merge.ddl.conversion import Conversion, conversion
from spark_merge.sinks.clickhouse.alter import ColumnChanges, change
from spark_merge.sinks.clickhouse.columns import column_type, kept_as


@pytest.mark.parametrize("kind", ["int", "uint", "float", "text", "enum", "set", "bit", "date", "datetime", "year", "json", "vector"])
def test_a_column_of_the_same_type_keeps_its_values(kind: Kind) -> None:
    assert conversion(Column("a", kind), Column("b", kind, nullable=False)) is Conversion.UNCHANGED


@pytest.mark.parametrize("kind", ["decimal", "time", "datetime", "timestamp"])
def test_digits_after_the_point_come_and_do_not_go(kind: Kind) -> None:
    short, long = Column("a", kind, scale=1), Column("a", kind, scale=3)
    assert (conversion(short, long), conversion(long, short)) == (Conversion.PADDED, None)


@pytest.mark.parametrize("kind", ["timestamp", "float", "double", "bit", "binary", "vector"])
def test_what_has_another_text_in_tidb_or_one_by_the_sessions_zone_does_not_become_a_text(kind: Kind) -> None:
    assert conversion(Column("a", kind), Column("a", "text")) is None


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
