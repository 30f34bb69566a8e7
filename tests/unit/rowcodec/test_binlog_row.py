"""Row events of TiDB-Binlog to text: handles, defaults, broken bytes. Any types: tests/property/test_binlog_decoders.py."""

from __future__ import annotations

from typing import Any

import pytest

from sidecar.shared.errors import MessageUnreadable
from sidecar.shared.model.nouns import PreviousLayout, TableName, TableSchema
from sidecar.shared.rowcodec.binlog_event import event_value, settled_value
from sidecar.shared.rowcodec.binlog_row import DecodedBinlogRows, decode_event, decode_logged
from sidecar.shared.rowcodec.binlog_table import BinlogTable
from sidecar.shared.rowcodec.kv_layout import layout_of
from sidecar.shared.rowcodec.kv_table import kv_table
from tests.support.binlog_encoder import common_handle, deleted, inserted, int_handle, pairs, updated
from tests.support.kv_encoder import NOT_NULL, Plain, column, info

Columns = dict[int, dict[str, Any]]
Row = dict[int, Plain | None]

MARK_INSERT = bytes.fromhex(
    "08828080808080808088010804021662696e6c6f672d64756d7008060240306666336331323463663138343236636135303861313763613035643735356108080804"
    "080a089eee8fb00d080c089eee8fb00d"
)
"""Of recordings/binlog: the handle is an int, its column is not among the pairs."""


def read(columns: Columns, event: tuple[str, bytes], **more: Any) -> DecodedBinlogRows:
    return decode_event(BinlogTable(kv_table(info(list(columns.values()), **more), schema="s")), value_of(event))


def value_of(event: tuple[str, bytes]) -> bytes:
    return event_value(0, ord(event[0]), 1, event[1])


BIG = {1: column(1, "id", "bigint", primary=True, unsigned=True), 2: column(2, "v", "varchar", collation="utf8mb4_bin")}
PLAIN = {1: column(1, "id", "bigint", primary=True), 2: column(2, "v", "varchar", collation="utf8mb4_bin")}
HIDDEN = {1: column(1, "code", "int", flag=NOT_NULL), 2: column(2, "v", "int")}
CI = {
    1: column(1, "code", "varchar", flen=20, collation="utf8mb4_general_ci", flag=NOT_NULL),
    2: column(2, "part", "int", flag=NOT_NULL),
    3: column(3, "v", "int"),
}
CI_KEY = {"primary": [("code", -1), ("part", -1)]}


def test_a_recorded_insert() -> None:
    columns = {
        1: column(1, "id", "bigint", unsigned=True, primary=True),
        2: column(2, "changefeed_id", "varchar", collation="utf8mb4_bin"),
        3: column(3, "unique_identifier", "varchar", collation="utf8mb4_bin"),
        4: column(4, "event_type", "tinyint"),
    }
    decoded_binlog_rows = read(columns, ("I", MARK_INSERT), int_handle=True)
    assert decoded_binlog_rows == (None, ["4899916394579099649", "binlog-dump", "0ff3c124cf18426ca508a17ca05d755a", "2"])


@pytest.mark.parametrize("number", [0, 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1])
def test_an_unsigned_key_is_the_handle_of_the_same_bits(number: int) -> None:
    assert read(BIG, inserted(int_handle(number), BIG, {2: b"x"}), int_handle=True) == (None, [str(number), "x"])
    row: Row = {1: number, 2: b"x"}
    assert read(BIG, updated(BIG, row, {**row, 2: None}), int_handle=True) == ([str(number), "x"], [str(number), None])


def test_a_row_of_defaults_is_its_handle_and_one_zero_byte() -> None:
    assert read(PLAIN, inserted(int_handle(-5), PLAIN, {}), int_handle=True) == (None, ["-5", None])


def test_a_hidden_rowid_is_in_no_text() -> None:
    old: Row = {1: 3, 2: None}
    assert read(HIDDEN, inserted(int_handle(1), HIDDEN, old)) == (None, ["3", None])
    assert read(HIDDEN, updated(HIDDEN, old, {1: 4, 2: 7}, rowid=1)) == (["3", None], ["4", "7"])
    assert read(HIDDEN, deleted(HIDDEN, old, rowid=1)) == (["3", None], None)


def test_a_sort_key_in_the_handle_is_no_text_and_the_pair_is() -> None:
    handle = common_handle([(CI[1], b"\0C\0O\0D\0E"), (CI[2], 7)])
    assert read(CI, inserted(handle, CI, {1: b"Code ", 3: 1}), **CI_KEY) == (None, ["Code ", "7", "1"])
    with pytest.raises(MessageUnreadable, match="column code, of which the key has but its sort key or prefix; got none"):
        read(CI, inserted(handle, CI, {3: 1}), **CI_KEY)


def test_a_key_of_a_prefix_is_whole_in_the_pairs() -> None:
    columns = {1: column(1, "k", "varchar", flag=NOT_NULL), 2: column(2, "v", "int")}
    event = inserted(common_handle([(columns[1], b"ab")]), columns, {1: b"abc"})
    assert read(columns, event, primary=[("k", 2)]) == (None, ["616263", None])


def test_virtual_columns_and_unknown_ids_are_left_out() -> None:
    columns = PLAIN | {3: column(3, "w", "int", generated_expr_string="`id` + 1")}
    event = deleted(columns | {9: column(9, "coming", "int")}, {1: 5, 2: b"x", 3: 6, 9: 1})
    assert read(columns, event, int_handle=True) == (["5", "x"], None)


def test_a_column_that_is_absent_has_its_origin_default_and_an_explicit_null_is_null() -> None:
    columns = PLAIN | {3: column(3, "n", "int", origin_default="42"), 4: column(4, "must", "int", flag=NOT_NULL)}
    assert read(columns, inserted(int_handle(1), columns, {}), int_handle=True) == (None, ["1", None, "42", "0"])
    assert read(columns, inserted(int_handle(1), columns, {3: None}), int_handle=True) == (None, ["1", None, None, "0"])


def test_what_a_fold_made() -> None:
    old, new = pairs(BIG, {1: 5, 2: b"old"}), inserted(int_handle(5), BIG, {2: b"new"})[1]
    table = BinlogTable(kv_table(info(list(BIG.values()), int_handle=True), schema="s"))
    assert decode_event(table, settled_value(7, 1, old, new, has_handle=True)) == (["5", "old"], ["5", "new"])
    assert decode_event(table, settled_value(7, 1, old, old, has_handle=False)) == (["5", "old"], ["5", "old"])
    assert decode_event(table, settled_value(7, 1, b"", old, has_handle=False)) == (None, ["5", "old"])


@pytest.mark.parametrize("event", ["I", "U", "D"])
def test_a_row_that_lacks_a_column_of_the_handle_key_is_refused(event: str) -> None:
    """Amid DROP COLUMN of a unique one: with its default in its place all rows of that time would be one."""
    columns = {1: column(1, "uk", "int", flag=NOT_NULL), 2: column(2, "v", "int")}
    unique = {
        "id": 1,
        "idx_name": {"O": "uk", "L": "uk"},
        "state": 5,
        "is_unique": True,
        "is_primary": False,
        "idx_cols": [{"name": {"O": "uk", "L": "uk"}, "length": -1}],
    }
    row: Row = {2: 5}
    made = {"I": inserted(int_handle(1), columns, row), "U": updated(columns, row, row, rowid=1), "D": deleted(columns, row, rowid=1)}
    with pytest.raises(MessageUnreadable, match="expected a value of column uk, of the handle key; got none: it is being dropped"):
        read(columns, made[event], index_info=[unique])
    assert read(columns, deleted(columns, {1: 7, 2: 5}, rowid=1), index_info=[unique]) == (["7", "5"], None)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (b"", "byte 0: expected 13 bytes and a row; got 0 bytes"),
        (value_of(("I", b"")), "byte 0: expected 13 bytes and a row; got 13 bytes"),
        (value_of(("X", b"\x08\x02")), "byte 4: expected the kind of a row event; got 0x58"),
        (value_of(("I", b"\x09\x02")), r"byte 13: expected an int handle \(flag 8\); got flag 9"),
        (value_of(("I", b"\x08\x02")), "byte 15: expected columns; got the end"),
        (value_of(("I", b"\x08\x02\x08\x04\x02\x10abc")), "byte 18: column v: expected|byte"),
        (value_of(("D", pairs(PLAIN, {2: b"x"}))), "expected column id; got neither"),
        (value_of(("U", pairs(PLAIN, {1: 5, 2: b"x"}) + pairs(PLAIN, {1: 5}))), "an old and a new row of the same columns"),
        (value_of(("U", pairs(PLAIN, {1: 5}) + pairs(PLAIN, {2: b"x"}))), r"the same columns; got column ids \[1, 2\]"),
        (value_of(("D", pairs(PLAIN, {1: 5}) * 2)), "byte 17: expected a column id of format 1 that is new; got 1"),
        (value_of(("D", b"\x08\x02\x08\x0a\x08\x03\x00")), "a column id of format 1 that is new; got -2"),
        (settled_value(0, 1, b"", b"", has_handle=False), "expected two rows|bytes and a row"),
        (event_value(0, ord("r"), 1, b"\0\0\0\1ab"), "the kind of a row event; got 0x72"),
        (event_value(0, ord("S"), 1, b"\0\0\0\2ab"), "expected two rows; got 6 bytes, of which the old row has 2"),
    ],
)
def test_broken_events_are_refused_with_the_table_and_the_byte(value: bytes, words: str) -> None:
    with pytest.raises(MessageUnreadable, match=words) as caught:
        decode_event(BinlogTable(kv_table(info(list(PLAIN.values()), int_handle=True), schema="s")), value)
    assert "table s.t (id 104): row event byte" in str(caught.value)


def test_logged_rows_are_read_by_the_version_that_they_name() -> None:
    before = info([PLAIN[1], column(2, "n", "int")], int_handle=True)
    now = info([PLAIN[1], column(7, "n", "bigint"), column(8, "added", "int", origin_default="3")], int_handle=True)
    name = TableName("s", "t")
    schema = TableSchema(
        name, (), ("id",), layout=layout_of(1, now, new_collation=True), former=PreviousLayout(9, layout_of(1, before, new_collation=True))
    )
    row = inserted(int_handle(1), {2: column(2, "n", "int")}, {2: 5})[1]
    assert decode_logged(schema, event_value(0, ord("I"), 8, row)) == (None, ["1", "5", "3"])
    assert decode_logged(schema, event_value(0, ord("I"), 9, row)) == (None, ["1", None, "3"])
    with pytest.raises(MessageUnreadable, match=r"s\.t \(id 104\): row event byte 0"):
        decode_logged(schema, b"short")
