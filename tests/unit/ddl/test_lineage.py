"""Where a table's rows are in a log of changes: each kind of DDL, from the present backwards."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sidecar.core.model import Column, ColumnDefinition, CommitTs, Seq, TableDefinition, TableName, TableSchema
from sidecar.errors import SinkError
from sidecar.log.manifest import DdlRecord
from spark_merge.ddl.lineage import Stretch, stretches

ORDERS = TableName("shop", "orders")


def table(*names: str, name: TableName = ORDERS, **defaults: str) -> TableSchema:
    definitions = tuple(ColumnDefinition(one, "int", default=defaults.get(one)) for one in names)
    return TableSchema(name, tuple(Column(one, "int") for one in names), names[:1], definition=TableDefinition(definitions))


def traced(schema: TableSchema, *queries: str | tuple[int, str]) -> list[tuple[str, int | None, int | None, list[str | None]]]:
    """Of DDLs that end segments 10, 20, …, or those that are given: table, after, upto, and what the columns were."""
    return [(str(one.table), one.after, one.upto, [column.name for column in one.columns]) for one in found(schema, *queries)]


def found(schema: TableSchema, *queries: str | tuple[int, str]) -> list[Stretch]:
    told = [(10 * number, query) if isinstance(query, str) else query for number, query in enumerate(queries, 1)]
    return stretches(schema, [(Seq(seq), DdlRecord(CommitTs(seq), "shop", "orders", query)) for seq, query in told])


def test_without_ddls_all_rows_are_as_they_are() -> None:
    assert traced(table("id", "a")) == [("shop.orders", None, None, ["id", "a"])]


def test_ddls_of_other_tables_and_of_no_columns_end_nothing() -> None:
    others = (
        "ALTER TABLE bills RENAME COLUMN a TO b", "DROP TABLE bills", "CREATE INDEX i ON orders (a)", "DROP DATABASE other",
        "ALTER TABLE orders ADD INDEX i (a), COMMENT 'x'", "ALTER TABLE orders DROP PARTITION p1", "RENAME TABLE bills TO bills2",
        "ALTER TABLE orders DROP COLUMN gone", "CREATE VIEW v AS SELECT 1",
    )  # fmt: skip
    assert traced(table("id", "a"), *others) == [("shop.orders", None, None, ["id", "a"])]


@pytest.mark.parametrize(
    "query",
    [
        "TRUNCATE TABLE Orders",
        "DROP TABLE bills, orders",
        "DROP DATABASE `shop`",
        "CREATE TABLE orders (id INT PRIMARY KEY)",
        "RECOVER TABLE orders",
    ],
)
def test_what_came_before_the_table_began_is_none_of_its_rows(query: str) -> None:
    assert traced(table("id", "a"), "ALTER TABLE orders RENAME COLUMN x TO a", query) == [("shop.orders", 20, None, ["id", "a"])]


def test_a_column_is_followed_through_its_names() -> None:
    queries = ("ALTER TABLE orders CHANGE a b BIGINT", "ALTER TABLE orders RENAME COLUMN b TO c, RENAME COLUMN d TO b")
    assert traced(table("id", "c", "b"), *queries) == [
        ("shop.orders", 20, None, ["id", "c", "b"]),
        ("shop.orders", 10, 20, ["id", "b", "d"]),
        ("shop.orders", None, 10, ["id", "a", "d"]),
    ]


def test_columns_that_change_places_are_told_apart() -> None:
    assert traced(table("id", "a", "b"), "ALTER TABLE orders RENAME COLUMN a TO b, RENAME COLUMN b TO a")[1] == (
        "shop.orders", None, 10, ["id", "b", "a"],
    )  # fmt: skip


def test_an_added_column_was_not_there_whatever_had_its_name() -> None:
    queries = (
        "ALTER TABLE orders RENAME COLUMN x TO a",
        "ALTER TABLE orders DROP COLUMN a",
        "ALTER TABLE orders ADD (a INT DEFAULT 5, b INT)",
    )
    past = found(table("id", "a", "b", a="'5'"), *queries)
    assert [[(one.name, one.existing) for one in stretch.columns] for stretch in past] == [
        [("id", None), ("a", None), ("b", None)],
        [("id", None), (None, "5"), (None, None)],
        [("id", None), (None, "5"), (None, None)],
    ]
    assert not any(stretch.refused for stretch in past)


@pytest.mark.parametrize("later", ["ALTER TABLE orders ALTER COLUMN b SET DEFAULT 6", "ALTER TABLE orders CHANGE b b INT DEFAULT 6"])
def test_a_default_that_was_changed_since_is_not_known(later: str) -> None:
    past = found(table("id", "a", "b", b="'6'"), "ALTER TABLE orders ADD b INT DEFAULT 5", later)
    past[0].check("there")
    with pytest.raises(SinkError, match=r"ADD b INT DEFAULT 5.*a default that was changed since in column b"):
        past[-1].check("there")
    other = found(table("id", "a", "b", b="'5'"), "ALTER TABLE orders ADD b INT DEFAULT 5", "ALTER TABLE orders MODIFY a BIGINT DEFAULT 6")
    assert (other[-1].refused, other[-1].columns[2].existing) == ("", "5")


def test_rows_are_under_the_names_that_the_table_has_had() -> None:
    queries = (
        "CREATE TABLE bills (id INT PRIMARY KEY)",
        "RENAME TABLE bills TO shop.b2",
        "ALTER TABLE b2 RENAME TO orders, RENAME COLUMN x TO a",
    )
    assert traced(table("id", "a"), *queries) == [
        ("shop.orders", 30, None, ["id", "a"]),
        ("shop.b2", 20, 30, ["id", "x"]),
        ("shop.bills", 10, 20, ["id", "x"]),
    ]


def test_a_name_that_another_table_had_has_no_rows_of_before() -> None:
    assert traced(table("id"), "RENAME TABLE orders TO bills") == [("shop.orders", 10, None, ["id"])]


def test_tables_that_change_names_at_once_are_told_apart() -> None:
    """TiCDC tells each table by itself."""
    assert traced(table("id"), (10, "RENAME TABLE bills TO orders"), (10, "RENAME TABLE orders TO bills"))[1][0] == "shop.bills"
    assert traced(table("id"), "RENAME TABLE orders TO tmp, bills TO orders, tmp TO bills")[1][0] == "shop.bills"


def test_what_is_not_understood_is_refused_up_to_there() -> None:
    past = found(table("id"), "TRUNCATE TABLE orders", "ALTER TABLE orders SECONDARY_LOAD", "ALTER TABLE orders RENAME COLUMN a TO id")
    assert [(one.after, one.upto, bool(one.refused)) for one in past] == [(30, None, False), (20, 30, False), (10, 20, True)]
    assert past[2].ddl == "ALTER TABLE orders SECONDARY_LOAD"


def test_a_name_whose_schema_the_text_does_not_say_is_refused() -> None:
    past = found(table("id", name=TableName("crm", "orders")), "RENAME TABLE orders TO crm.orders")
    with pytest.raises(SinkError, match="does not say which schema orders was in"):
        past[-1].check("there")


def test_a_stretch_meets_the_segments_that_are_in_it() -> None:
    one = replace(found(table("id"))[0], after=Seq(3), upto=Seq(5))
    assert [one.meets(*pair) for pair in [(0, 3), (0, 4), (4, 9), (5, 9), (6, 9)]] == [False, True, True, True, False]
