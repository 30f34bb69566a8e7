"""Rows of TiDB-Binlog in the log to changes: both images of every row, whatever their number, and the place of one that is broken."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sidecar.shared.errors import FeedUnsuitable, MessageUnreadable
from sidecar.shared.model.nouns import Change, CommitTs, Lane, PreviousLayout, Rank, TableName, TableSchema
from sidecar.shared.rowcodec.binlog_event import event_value, settled_value
from sidecar.shared.rowcodec.kv_layout import layout_of
from sidecar.shared.rowcodec.kv_table import kv_table
from spark_merge.codecs.decode.binlog_rows import _SLOW_ROWS_MAX
from spark_merge.codecs.decode.rows import decode
from tests.support.binlog_encoder import Event, Values, deleted, inserted, int_handle, pairs, updated
from tests.support.kv_encoder import NOT_NULL, column, info, row_1
from tests.unit.decode.log import logged

COLUMNS = {1: column(1, "code", "int", flag=NOT_NULL), 2: column(2, "v", "varchar", flen=400, collation="utf8mb4_bin")}
INFO: dict[str, Any] = info(list(COLUMNS.values()))
NAME = TableName("shop", "t")
LAYOUT = layout_of(1, INFO, new_collation=True)
SCHEMAS = {NAME: replace(kv_table(INFO, schema="shop").schema, key=("code",), layout=LAYOUT)}
FEW_AND_MANY = [1, _SLOW_ROWS_MAX, _SLOW_ROWS_MAX + 1, 500]


def change(number: int, event: Event, *, position: int = 7, schema_version: int = 5) -> Change:
    kind, row = event
    value = event_value(0, ord(kind), schema_version, row)
    return Change(CommitTs(100 + number), Rank.DELETE if kind == "D" else Rank.PUT, *NAME, b"", value, Lane("pump/a"), position)


def event(number: int) -> Event:
    """Of a table with a hidden handle: its key may change in an update."""
    old: Values = {1: number, 2: b"old"}
    match number % 4:
        case 0:
            return inserted(int_handle(number), COLUMNS, {1: number, 2: b"n" * 300})
        case 1:
            return updated(COLUMNS, old, {1: number, 2: None}, rowid=number)
        case 2:
            return deleted(COLUMNS, old, rowid=number)
        case _:
            return updated(COLUMNS, old, {1: -number, 2: b"moved"}, rowid=number)


def decoded(changes: list[Change], schemas: dict[TableName, TableSchema] = SCHEMAS) -> list[dict[str, Any]]:
    results: list[dict[str, Any]] = decode(logged(changes, codec="binlog"), codec="binlog", schemas=schemas).to_pylist()
    return results


def expected(number: int) -> list[tuple[str, list[str | None] | None, list[str | None] | None]]:
    reported = str(number)
    match number % 4:
        case 0:
            return [("insert", None, [reported, "n" * 300])]
        case 1:
            return [("update", [reported, "old"], [reported, None])]
        case 2:
            return [("delete", [reported, "old"], None)]
        case _:
            return [("delete", [reported, "old"], None), ("insert", None, [f"-{reported}", "moved"])]


@pytest.mark.parametrize("count", FEW_AND_MANY)
def test_each_row_has_its_images_and_a_changed_key_makes_two(count: int) -> None:
    results = decoded([change(number, event(number)) for number in range(count)])
    rows = sorted(results, key=lambda row: (row["commit_ts"], row["rank"]))
    assert [(row["op"], row["before"], row["after"]) for row in rows] == [one for number in range(count) for one in expected(number)]


@pytest.mark.parametrize("count", FEW_AND_MANY)
def test_a_broken_row_is_named_with_its_lane_position_and_table(count: int) -> None:
    changes = [change(number, event(number), position=1000 + number) for number in range(count)]
    changes[count // 2] = changes[count // 2]._replace(value=changes[count // 2].value[:-1])
    with pytest.raises(MessageUnreadable) as refused:
        decoded(changes)
    assert f"message pump/a@{1000 + count // 2}: table shop.t: table shop.t (id 104): row event byte " in str(refused.value)
    assert f"ticdc-dump skip --config FILE --seq 1 --ordinal {count // 2}" in str(refused.value)


@pytest.mark.parametrize("count", FEW_AND_MANY)
def test_rows_of_a_previous_layout_are_among_the_others(count: int) -> None:
    """Under the former one the column was an int, with another id."""
    old = {1: COLUMNS[1], 9: column(9, "v", "int")}
    previous = layout_of(1, info(list(old.values())), new_collation=True)
    schemas = {NAME: replace(SCHEMAS[NAME], former=PreviousLayout(5, previous))}
    events = [
        change(number, inserted(int_handle(1), old, {1: number, 9: 70 + number}), schema_version=4)
        if number % 3 == 0
        else change(number, inserted(int_handle(1), COLUMNS, {1: number, 2: b"x"}))
        for number in range(count)
    ]
    assert [row["after"] for row in decoded(events, schemas)] == [
        [str(number), str(70 + number) if number % 3 == 0 else "x"] for number in range(count)
    ]


@pytest.mark.parametrize("count", FEW_AND_MANY)
def test_a_schema_of_another_feed_is_refused(count: int) -> None:
    with pytest.raises(FeedUnsuitable, match="not one of key-values"):
        decoded([change(number, event(number)) for number in range(count)], {NAME: replace(SCHEMAS[NAME], layout="")})


@pytest.mark.parametrize("count", FEW_AND_MANY)
def test_rows_that_a_fold_made_keep_their_old_row_under_an_older_schema_version(count: int) -> None:
    schema = replace(SCHEMAS[NAME], former=PreviousLayout(9, LAYOUT))
    old, new = (pairs(COLUMNS, {1: 5, 2: text}, 1) for text in (b"old", b"new"))
    replaced, settled = int_handle(1) + row_1(COLUMNS, {1: 5, 2: b"new"}), new
    made = [settled_value(0, 5, old, one, has_handle=has_handle) for one, has_handle in ((replaced, True), (settled, False))]
    rows = [Change(CommitTs(100), Rank.PUT, *NAME, b"", made[number % 2], Lane("pump/a"), 7) for number in range(count)]
    results = [(row["op"], row["before"], row["after"]) for row in decoded(rows, {NAME: schema})]
    assert results == [("update", ["5", "old"], ["5", "new"])] * count


@pytest.mark.parametrize("count", FEW_AND_MANY)
def test_a_row_that_lacks_a_column_of_the_handle_key_is_refused_whatever_their_number(count: int) -> None:
    unique = {
        "id": 1,
        "idx_name": {"O": "uk", "L": "uk"},
        "state": 5,
        "is_unique": True,
        "is_primary": False,
        "idx_cols": [{"name": {"O": "code", "L": "code"}, "length": -1}],
    }
    layout = layout_of(1, info(list(COLUMNS.values()), index_info=[unique]), new_collation=True)
    changes = [change(number, deleted(COLUMNS, {2: b"x"}, rowid=number)) for number in range(count)]
    with pytest.raises(MessageUnreadable, match="a value of column code, of the handle key; got none: it is being dropped"):
        decoded(changes, {NAME: replace(SCHEMAS[NAME], layout=layout)})


@pytest.mark.parametrize("count", FEW_AND_MANY)
def test_a_broken_value_of_a_column_that_the_table_does_not_have_is_refused_whatever_their_number(count: int) -> None:
    nine_digits_of_eight = b"\x08\x12" + b"\x06\x08\x00\xff\xff\xff\xff"
    changes = [change(number, ("D", pairs(COLUMNS, {1: number, 2: b"x"}) + nine_digits_of_eight)) for number in range(count)]
    with pytest.raises(MessageUnreadable, match="expected 8 decimal digits"):
        decoded(changes)
