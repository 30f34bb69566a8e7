"""What a filter leaves out of key-values: by type whatever the values, else by the old or the new row; and tables that change."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sidecar.feeds.kv.row_filter import RowFilter, TableFilter
from sidecar.shared.codecs.kv import encode_images
from sidecar.shared.errors import FeedUnsuitable, MessageUnreadable
from sidecar.shared.model.nouns import MARK_TABLE, Change, CommitTs, Lane, Rank, TableName, TableSchema
from sidecar.shared.rowcodec.kv_layout import before_virtual, layout_of
from sidecar.shared.rowcodec.kv_table import kv_table
from sidecar.shared.ticdc.changefeed import Changefeed, ChangefeedName, EventFilter, FeedFilter
from sidecar.shared.ticdc.event_filter import FilterRules
from tests.support.kv_encoder import Plain, column, info, memcomparable_int, row_2, row_key

COLUMNS = {
    1: column(1, "id", "bigint", primary=True),
    2: column(2, "amount", "int"),
    3: column(3, "name", "varchar", collation="utf8mb4_general_ci", flen=20),
}
VIRTUAL = column(4, "twice", "int", generated_expr_string="`amount` * 2")
BEHIND = column(5, "behind", "int")


def schema(name: TableName = TableName("shop", "orders"), **more: Any) -> TableSchema:  # noqa: B008  # a value
    described = info([*COLUMNS.values(), *more.pop("columns", [])], int_handle=True, name={"O": name.table, "L": name.table.lower()})
    result = kv_table(described, schema=name.schema).schema
    return replace(result, layout=layout_of(1, described, new_collation=True), **more)


def row_filter(*filters: EventFilter, rules: tuple[str, ...] = ("shop.*",)) -> RowFilter:
    feed_filter = FeedFilter(rules=rules, event_filters=filters)
    return RowFilter(FilterRules.of(Changefeed(ChangefeedName("d", "d", "cf"), "1", "custom://sink", filter=feed_filter)))


def filter_of(**settings: Any) -> TableFilter:
    result = row_filter(EventFilter(("shop.orders",), **settings)).of(schema())
    assert result is not None
    return result


def row(amount: int | None, name: bytes = b"x") -> bytes:
    values: dict[int, Plain | None] = {2: amount, 3: name}
    return row_2(COLUMNS, values)


def change(new: bytes, old: bytes) -> Change:
    key = row_key(memcomparable_int(7))
    return Change(CommitTs(9), Rank.PUT if new else Rank.DELETE, "", "104", key, encode_images(new, old), Lane("kv/104"), 8)


INSERT, UPDATE, DELETE = change(row(1), b""), change(row(1), row(2)), change(b"", row(2))


def left_out(value: TableFilter) -> list[bool]:
    return [value.leaves_out(one) for one in (INSERT, UPDATE, DELETE)]


@pytest.mark.parametrize(
    ("ignored", "expected"),
    [
        (("insert",), [True, False, False]),
        (("update", "delete"), [False, True, True]),
        (("all dml",), [True, True, True]),
        (("drop table", "delete"), [False, False, True]),
    ],
)
def test_by_type_no_row_is_looked_at(ignored: tuple[str, ...], expected: list[bool]) -> None:
    result = filter_of(ignore_event=ignored)
    assert left_out(result) == expected
    rows = [change(b"no row", b""), change(b"no row", b"none"), change(b"", b"none")]
    assert [result.leaves_out(one) for one in rows] == expected


@pytest.mark.parametrize(
    ("setting", "text", "expected"),
    [
        ("ignore_insert_value_expr", "amount = 1", [True, False, False]),
        ("ignore_insert_value_expr", "amount = 2", [False, False, False]),
        ("ignore_update_old_value_expr", "amount = 2", [False, True, False]),
        ("ignore_update_old_value_expr", "amount = 1", [False, False, False]),
        ("ignore_update_new_value_expr", "amount = 1", [False, True, False]),
        ("ignore_delete_value_expr", "id = 7 and amount = 2", [False, False, True]),
        ("ignore_delete_value_expr", "name = 'X'", [False, False, False]),
    ],
)
def test_by_value_the_row_of_the_setting_is_looked_at(setting: str, text: str, expected: list[bool]) -> None:
    assert left_out(filter_of(**{setting: text})) == expected


def test_null_leaves_nothing_out() -> None:
    result = filter_of(ignore_insert_value_expr="amount < 5 or amount >= 5")
    assert not result.leaves_out(change(row(None), b""))


def test_any_filter_that_has_the_table_leaves_out() -> None:
    first, second = EventFilter(("shop.*",), ignore_delete_value_expr="amount = 0"), EventFilter(("*.orders",), ignore_event=("insert",))
    result = row_filter(first, second).of(schema())
    assert result is not None
    assert left_out(result) == [True, False, False]


@pytest.mark.parametrize("name", [TableName("shop", "other"), TableName("away", "orders"), MARK_TABLE])
def test_tables_that_no_filter_has_are_not_looked_at(name: TableName) -> None:
    result = row_filter(
        EventFilter(("shop.orders", "away.*", "changefeed_dump.*"), ignore_event=("insert",)), rules=("shop.*", "changefeed_dump.*")
    )
    assert result.of(schema(name)) is None


def test_a_table_that_changes_is_looked_at_again() -> None:
    result = row_filter(EventFilter(("shop.*",), ignore_insert_value_expr="name = 'x'"))
    before = result.of(schema())
    assert result.of(schema()) is before
    assert result.of(schema(columns=[VIRTUAL])) is not before
    without = info([COLUMNS[1], COLUMNS[2]], int_handle=True, name={"O": "orders", "L": "orders"})
    gone = replace(kv_table(without, schema="shop").schema, layout=layout_of(1, without, new_collation=True))
    with pytest.raises(FeedUnsuitable, match="'name', which is no column"):
        result.check([gone])


def test_columns_behind_a_virtual_one_are_refused_as_ticdcs_architectures_differ_there() -> None:
    table = schema(columns=[VIRTUAL, BEHIND])
    assert before_virtual(table) == {"id", "amount", "name"}
    assert row_filter(EventFilter(("shop.*",), ignore_insert_value_expr="amount = 1")).of(table) is not None
    with pytest.raises(FeedUnsuitable, match="behind a virtual generated column"):
        row_filter(EventFilter(("shop.*",), ignore_insert_value_expr="behind = 1")).of(table)
    with pytest.raises(FeedUnsuitable, match="'twice', which is no column of the table that is stored"):
        row_filter(EventFilter(("shop.*",), ignore_insert_value_expr="twice = 1")).of(table)


def test_only_replicated_tables_are_checked() -> None:
    result = row_filter(EventFilter(("shop.*",), ignore_insert_value_expr="nope = 1"))
    result.check([schema(key=())])
    with pytest.raises(FeedUnsuitable, match="nope"):
        result.check([schema()])


def test_a_row_that_cannot_be_read_stops() -> None:
    with pytest.raises(MessageUnreadable):
        filter_of(ignore_insert_value_expr="amount = 1").leaves_out(change(b"\x80no row", b""))
