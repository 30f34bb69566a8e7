"""What a filter leaves out of binlogs: each row by what its transaction did to it in the end, in the columns that it was written under."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from sidecar.feeds.binlog.joining import lane_of
from sidecar.feeds.binlog.rows import BinlogRows
from sidecar.feeds.kv.row_filter import RowFilter, TableFilter
from sidecar.feeds.kv.schemas import FILTERED, KvSchemas
from sidecar.replay.kv_rows import DDL_JOB_TABLE_INFO
from sidecar.shared.codecs.binlog import BinlogCodec
from sidecar.shared.errors import MessageUnreadable
from sidecar.shared.model.nouns import Change, CommitTs, Message, PreviousLayout, TableName, TableSchema
from sidecar.shared.rowcodec.kv_layout import KvSnapshot, kv_table_of, layout_of
from sidecar.shared.rowcodec.kv_table import kv_table
from sidecar.shared.schema.version import SchemaSnapshot
from sidecar.shared.ticdc.changefeed import Changefeed, ChangefeedName, EventFilter, FeedFilter
from sidecar.shared.ticdc.ddl_rules import DdlRules
from sidecar.shared.ticdc.event_filter import FilterRules, RowEvent
from tests.support.binlog_encoder import Event, deleted, inserted, int_handle, transaction, updated
from tests.support.binlog_recordings import unmarked
from tests.support.kv_encoder import Plain, column, info

COLUMNS = {
    1: column(1, "id", "bigint", primary=True),
    2: column(2, "amount", "int"),
    3: column(3, "name", "varchar", collation="utf8mb4_general_ci", flen=20),
}
ADDED = column(4, "late", "int", origin_default="5")
DESCRIBED = info([*COLUMNS.values()], int_handle=True, name={"O": "orders", "L": "orders"}, update_timestamp=0)
T = "104"
FIRST, SECOND = 6, 7
"""Schema versions."""


def schema(*added: dict[str, Any]) -> TableSchema:
    """With a column added, its rows below SECOND are those of before."""
    layouts = [layout_of(1, DESCRIBED | {"cols": [*COLUMNS.values(), *more]}, new_collation=True) for more in ((), added)]
    result = kv_table(DESCRIBED | {"cols": [*COLUMNS.values(), *added]}, schema="shop").schema
    return replace(result, layout=layouts[1], former=PreviousLayout(SECOND, layouts[0]) if added else None)


def row_filter(**settings: Any) -> RowFilter:
    feed_filter = FeedFilter(rules=("shop.*",), event_filters=(EventFilter(("shop.orders",), **settings),))
    return RowFilter(FilterRules.of(Changefeed(ChangefeedName("d", "d", "cf"), "binlog", "", filter=feed_filter)), BinlogRows())


def filter_of(table: TableSchema, **settings: Any) -> TableFilter:
    result = row_filter(**settings).of(table)
    assert result is not None
    return result


def row(number: int, amount: int | None, name: bytes = b"x") -> dict[int, Plain | None]:
    return {1: number, 2: amount, 3: name}


def insert(number: int, amount: int | None, name: bytes = b"x") -> Event:
    return inserted(int_handle(number), COLUMNS, {2: amount, 3: name})


def changes(*events: Event, version: int = FIRST) -> Sequence[Change]:
    """Of one transaction, unfolded."""
    message = Message(lane_of("a"), 2000, None, transaction(2000, {int(T): events}, schema_version=version))
    return [one for one in BinlogCodec(unmarked).envelopes(message) if isinstance(one, Change)]


def settled(*events: Event, version: int = FIRST) -> list[Change]:
    return list(BinlogRows().settled(changes(*events, version=version), lambda _: kv_table_of(schema())))


CREATED, ALTERED, GONE = insert(7, 1), updated(COLUMNS, row(8, 2), row(8, 1)), deleted(COLUMNS, row(9, 2))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"ignore_event": ("insert",)}, [True, False, False]),
        ({"ignore_event": ("update", "delete")}, [False, True, True]),
        ({"ignore_insert_value_expr": "amount = 1 and id = 7"}, [True, False, False]),
        ({"ignore_insert_value_expr": "amount = 2"}, [False, False, False]),
        ({"ignore_update_old_value_expr": "amount = 2"}, [False, True, False]),
        ({"ignore_update_old_value_expr": "amount = 1"}, [False, False, False]),
        ({"ignore_update_new_value_expr": "amount = 1"}, [False, True, False]),
        ({"ignore_delete_value_expr": "id = 9 and amount = 2"}, [False, False, True]),
        ({"ignore_delete_value_expr": "amount is null"}, [False, False, False]),
    ],
)
def test_the_row_of_the_setting_is_looked_at(settings: dict[str, Any], expected: list[bool]) -> None:
    result = filter_of(schema(), **settings)
    assert [result.leaves_out(one) for one in settled(CREATED, ALTERED, GONE)] == expected


@pytest.mark.parametrize(
    ("events", "kind", "old", "new"),
    [
        ((insert(7, 1), updated(COLUMNS, row(7, 1), row(7, 5))), RowEvent.INSERT, None, ["7", "5", "x"]),
        (
            (updated(COLUMNS, row(7, 1), row(7, 2)), updated(COLUMNS, row(7, 2), row(7, 5))),
            RowEvent.UPDATE,
            ["7", "1", "x"],
            ["7", "5", "x"],
        ),
        ((deleted(COLUMNS, row(7, 1)), insert(7, 5)), RowEvent.UPDATE, ["7", "1", "x"], ["7", "5", "x"]),
        ((updated(COLUMNS, row(7, 1), row(7, 2)), deleted(COLUMNS, row(7, 2))), RowEvent.DELETE, ["7", "1", "x"], None),
    ],
)
def test_several_changes_of_one_row_are_judged_as_one(
    events: Sequence[Event], kind: RowEvent, old: list[str] | None, new: list[str] | None
) -> None:
    (one,) = settled(*events)
    judged = BinlogRows().reader(schema())(one)
    assert judged.event is kind
    assert (None if old is None else list(judged.old())) == old
    assert (None if new is None else list(judged.new())) == new


def test_a_row_of_an_older_version_is_judged_in_the_columns_of_now() -> None:
    """It lacks the column that was added, and has its default; a row of the version since has its own value."""
    result = filter_of(schema(ADDED), ignore_insert_value_expr="late = 5")
    before = changes(insert(7, 1))
    after = changes(inserted(int_handle(8), {**COLUMNS, 4: ADDED}, {2: 1, 3: b"x", 4: 6}), version=SECOND)
    assert [result.leaves_out(one) for one in (*before, *after)] == [True, False]


def test_what_is_left_out_is_counted_and_not_in_the_log() -> None:
    filtered = row_filter(ignore_insert_value_expr="amount = 5", ignore_event=("delete",))
    snapshot = KvSnapshot(CommitTs(1000), [SchemaSnapshot(1, "shop", [DESCRIBED])], DDL_JOB_TABLE_INFO, new_collation=True)
    rules = DdlRules.of(FeedFilter(rules=("shop.*",)), new_architecture=False)
    schemas = KvSchemas(lambda: snapshot, rules, filtered, rows=BinlogRows())
    schemas.begin()
    assert schemas.resolve(CommitTs(3000)) == []
    events = insert(1, 5), insert(2, 4), insert(3, 4), updated(COLUMNS, row(3, 4), row(3, 5)), GONE
    (kept,) = schemas.named(changes(*events))
    assert TableName(kept.schema, kept.table) == TableName("shop", "orders")
    assert list(BinlogRows().reader(schema())(kept).new()) == ["2", "4", "x"]
    assert schemas.dropped == {FILTERED: 3}


def test_a_row_that_cannot_be_read_stops() -> None:
    result = filter_of(schema(), ignore_insert_value_expr="amount = 1")
    with pytest.raises(MessageUnreadable):
        result.leaves_out(changes(("I", b"\x08"))[0])
    with pytest.raises(MessageUnreadable):
        BinlogRows().reader(schema())(changes(GONE)[0]._replace(value=b"no event"))
