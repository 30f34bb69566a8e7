"""Rows of an older schema version in the columns of a segment's table."""

from __future__ import annotations

from typing import Any

import pytest

from sidecar.shared.errors import FeedUnsuitable, MessageUnreadable
from sidecar.shared.model.nouns import PreviousLayout, TableName, TableSchema
from sidecar.shared.rowcodec.binlog_event import event_value
from sidecar.shared.rowcodec.binlog_row import decode_logged
from sidecar.shared.rowcodec.binlog_table import binlog_table_of, is_older
from sidecar.shared.rowcodec.kv_layout import layout_of
from tests.support.binlog_encoder import Values, inserted, int_handle
from tests.support.kv_encoder import column, info

ID = column(1, "id", "bigint", primary=True)
N = column(2, "n", "int")
Columns = list[dict[str, Any]]


def schema(before: Columns, now: Columns) -> TableSchema:
    """The DDL between them made schema version 10."""
    previous, layout = (layout_of(1, info([ID, *columns], int_handle=True), new_collation=True) for columns in (before, now))
    return TableSchema(TableName("s", "t"), (), ("id",), layout=layout, former=PreviousLayout(10, previous))


def read(value: TableSchema, schema_version: int, columns: Columns, values: Values) -> list[str | None] | None:
    row = inserted(int_handle(1), {one["id"]: one for one in columns}, values)[1]
    after = decode_logged(value, event_value(0, ord("I"), schema_version, row)).after
    return None if after is None else after[1:]


def test_a_row_is_of_the_table_now_from_the_version_of_its_last_ddl_on() -> None:
    result = schema([N], [column(3, "n", "bigint")])
    assert [is_older(result, version) for version in (-1, 0, 9, 10, 99)] == [True, True, True, False, False]
    assert not is_older(TableSchema(TableName("s", "t"), (), ("id",)), 0)


@pytest.mark.parametrize(
    ("before", "now", "row", "expected"),
    [
        ([], [N], {}, [None]),
        ([], [column(2, "n", "int", origin_default="42")], {}, ["42"]),
        ([N], [], {2: 7}, []),
        ([N], [column(2, "m", "bigint")], {2: 7}, ["7"]),
        ([N], [column(3, "n", "varchar", flen=9, collation="utf8mb4_bin")], {2: 7}, ["7"]),
        ([N], [column(3, "n", "varchar", flen=9, collation="utf8mb4_bin")], {}, [None]),
        ([N], [column(3, "n", "bigint")], {2: 7, 3: 8}, ["8"]),
        ([N], [column(3, "n", "bigint")], {3: 8}, ["8"]),
        ([N, column(3, "m", "int")], [column(3, "m", "int")], {2: 7}, [None]),
        ([N], [column(3, "m", "bigint")], {2: 7, 3: 8}, ["8"]),
    ],
    ids=[
        "added", "added with a default", "dropped", "renamed", "of another type", "of another type, absent", "both are in the row",
        "as the table is now, under an older version", "one dropped", "maybe renamed, and in the row",
    ],
)  # fmt: skip
@pytest.mark.parametrize("schema_version", [9, 1])
def test_columns_are_matched_by_id(before: Columns, now: Columns, row: Values, expected: list[str | None], schema_version: int) -> None:
    """However old the version that the row tells: its transaction may have begun long ago."""
    assert read(schema(before, now), schema_version, [*before, *now], row) == expected


def test_a_column_that_came_where_another_went_is_not_guessed() -> None:
    result = schema([N], [column(3, "m", "bigint")])
    assert binlog_table_of(result, 9).unclear == {1}
    with pytest.raises(MessageUnreadable, match="expected column m; got neither it nor what it may have been"):
        read(result, 9, [N], {2: 7})
    assert read(result, 10, [N], {}) == [None]


def test_a_value_that_the_new_type_cannot_say_is_refused() -> None:
    with pytest.raises(MessageUnreadable, match="amid a MODIFY COLUMN"):
        read(schema([N], [column(3, "n", "tinyint")]), 9, [N], {2: 300})


def test_a_schema_of_another_feed_is_refused() -> None:
    with pytest.raises(FeedUnsuitable, match=r"the layout of s\.t in the log's schemas"):
        binlog_table_of(TableSchema(TableName("s", "t"), (), ("id",)), 1)
