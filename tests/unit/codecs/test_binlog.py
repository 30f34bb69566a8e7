"""A pump's binlogs as ordered changes, and what is no binlog of a transaction with rows."""

from __future__ import annotations

import pytest

from sidecar.core.sequence import Sequence
from sidecar.shared.codecs.binlog import BinlogCodec
from sidecar.shared.codecs.kv import encode_ddl, encode_resolved
from sidecar.shared.errors import MessageUnreadable
from sidecar.shared.log.spill import MemorySpill
from sidecar.shared.model.nouns import MARK_TABLE, Change, CommitTs, Ddl, Lane, Mark, MarkKind, Message, Rank, Resolved
from sidecar.shared.rowcodec.binlog_event import schema_version_of
from sidecar.shared.rowcodec.kv_table import kv_table
from tests.support.binlog_encoder import deleted, fake, inserted, int_handle, transaction, updated
from tests.support.kv_encoder import Plain, column, info
from ticdc_dump.binlog.binlog_pb2 import Binlog, DeleteRow, Insert, PrewriteValue

LANE = Lane("pump/pump-a:8250")
T = CommitTs(470609346576777218)
COLUMNS = {
    1: column(1, "id", "bigint", primary=True),
    2: column(2, "changefeed_id", "varchar", collation="utf8mb4_bin"),
    3: column(3, "unique_identifier", "varchar", collation="utf8mb4_bin"),
    4: column(4, "event_type", "tinyint"),
}
MARKS = kv_table(
    info(list(COLUMNS.values()), int_handle=True, name={"O": MARK_TABLE.table, "L": MARK_TABLE.table}), schema=MARK_TABLE.schema
)
CODEC = BinlogCodec(lambda: MARKS)
Row = dict[int, Plain | None]
A, B, C = ("I", b"new"), ("U", b"old and new"), ("D", b"old")


def message(value: bytes | None) -> Message:
    return Message(LANE, T, None, value)


def changes(value: bytes) -> list[Change]:
    return [one for one in CODEC.envelopes(message(value)) if isinstance(one, Change)]


def test_rows_come_in_the_order_of_the_sequence_with_their_place_in_the_transaction_and_resolve_the_lane() -> None:
    envelopes = CODEC.envelopes(message(transaction(T, {7: [B, A, C, A], 9: [("I", b"other")]}, schema_version=3)))
    assert envelopes[-1] == Resolved(LANE, CommitTs(T + 1), T)
    rows = [one for one in envelopes if isinstance(one, Change)]
    assert {(one.commit_ts, one.schema, one.key, one.lane, one.position) for one in rows} == {(T, "", b"", LANE, T)}
    assert [(one.table, one.rank) for one in rows] == [
        ("7", Rank.PUT), ("7", Rank.PUT), ("7", Rank.DELETE), ("7", Rank.PUT), ("9", Rank.PUT)
    ]  # fmt: skip
    assert [one.value.hex(" ", 4) for one in rows[1:3]] == [
        (b"\0\0\0\x01i" + bytes(7) + b"\x03new").hex(" ", 4), (b"\0\0\0\x02d" + bytes(7) + b"\x03old").hex(" ", 4)
    ]  # fmt: skip
    assert [schema_version_of(one.value) for one in rows] == [3] * 5


@pytest.mark.parametrize(
    ("events", "kinds"),
    [([A, A, A], "III"), ([C, C], "DD"), ([B], "U"), ([B, B], "uu"), ([A, B], "iu"), ([A, C], "id"), ([C, A, A], "dii")],
)
def test_only_what_may_be_changes_of_one_row_is_marked_so(events: list[tuple[str, bytes]], kinds: str) -> None:
    assert "".join(chr(one.value[4]) for one in changes(transaction(T, {7: events}))) == kinds


def test_a_fake_resolves_its_lane_and_is_nothing_else() -> None:
    assert CODEC.envelopes(message(fake(T))) == [Resolved(LANE, CommitTs(T + 1), T)]


def test_what_the_feed_made_comes_back() -> None:
    assert CODEC.envelopes(message(encode_resolved(T))) == [Resolved(LANE, T, T)]
    assert CODEC.envelopes(message(encode_ddl(T, "shop", "t", "drop table t"))) == [Ddl(T, Rank.DDL, "shop", "t", "drop table t", LANE, T)]


def test_a_transaction_that_two_pumps_have_is_one_and_its_equal_rows_are_two() -> None:
    payload = transaction(T, {7: [A, A, B, B], 8: [A]})
    without_key = Binlog.FromString(payload)
    without_key.ClearField("prewrite_key")  # as the pump that asked TiKV writes it
    other = Lane("pump/pump-b:8251")
    sequence = Sequence(CODEC.identity, MemorySpill(), CommitTs(1), held_bytes_max=1 << 20)
    for lane, value in ((LANE, payload), (other, without_key.SerializeToString())):
        sequence.accept(lane, T, CODEC.envelopes(Message(lane, T, None, value)))
    (segment,) = sequence.release(T, even_if_empty=False)
    assert [(one.table, event_ordinal(one)) for one in segment.changes] == [("7", 0), ("7", 1), ("7", 2), ("7", 3), ("8", 4)]
    assert sequence.repeats == 5


def event_ordinal(change: Change) -> int:
    return int.from_bytes(change.value[:4], "big")


def test_a_mark_is_the_new_row_of_an_update_or_an_insert_and_not_of_a_delete() -> None:
    old: Row = {1: 5, 2: b"dump", 3: b"one", 4: 1}
    new: Row = {1: 5, 2: b"dump", 3: b"two", 4: 2}
    (update,) = changes(transaction(T, {7: [updated(COLUMNS, old, new)]}))
    assert CODEC.mark(update) == Mark(T, "dump", "two", MarkKind.HIGH)
    (insert,) = changes(transaction(T, {7: [inserted(int_handle(5), COLUMNS, {2: b"dump", 3: b"one", 4: 1})]}))
    assert CODEC.mark(insert) == Mark(T, "dump", "one", MarkKind.LOW)
    (delete,) = changes(transaction(T, {7: [deleted(COLUMNS, old)]}))
    assert CODEC.mark(delete) is None


@pytest.mark.parametrize("row", [{1: 5, 2: b"dump", 3: b"x", 4: 7}, {1: 5, 2: b"dump", 3: None, 4: 1}, {1: 5, 2: 7, 3: b"x", 4: 1}])
def test_a_row_that_is_no_mark_is_refused(row: Row) -> None:
    columns = COLUMNS if isinstance(row[2], bytes) else COLUMNS | {2: column(2, "changefeed_id", "int")}
    (change,) = changes(transaction(T, {7: [updated(columns, row, row)]}))
    with pytest.raises(MessageUnreadable, match="expected a row of changefeed_dump"):
        CODEC.mark(change)


def prewrite(**fields: object) -> bytes:
    made = PrewriteValue(schema_version=1)
    made.mutations.add(table_id=7, **fields)
    data: bytes = made.SerializeToString()
    return data


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "expected a value; got null"),
        (b"", "expected a commit_ts; got 0"),
        (b"\x08\x01\xff", "expected a Binlog with a PrewriteValue"),
        (transaction(T, {}, prewrite_value=b"\x12\xff"), "expected a Binlog with a PrewriteValue"),
        (transaction(T, {7: [A]}, tp=0), "type 0, start_ts"),
        (transaction(T, {7: [A]}, tp=2), "type 2, start_ts"),
        (transaction(0, {7: [A]}, tp=2, start_ts=7), "expected a commit_ts; got 0"),
        (transaction(T, {}, ddl_job_id=312, ddl_query=b"drop table t"), "type 1 of DDL job 312"),
        (transaction(T, {7: [A]}, start_ts=T), "expected no rows in a fake binlog"),
        (transaction(T, {}, prewrite_value=prewrite(inserted_rows=[b"a"], sequence=[])), r"\(1, 0, 0\) inserts.*got one of \(0, 0, 0\)"),
        (transaction(T, {}, prewrite_value=prewrite(inserted_rows=[b"a"], sequence=[DeleteRow])), r"got one of \(0, 0, 1\)"),
        (transaction(T, {}, prewrite_value=prewrite(sequence=[Insert])), r"got one of \(1, 0, 0\)"),
        (transaction(T, {}, prewrite_value=prewrite(deleted_ids=[5], sequence=[])), "1 obsolete"),
        (transaction(T, {}, prewrite_value=2 * prewrite(sequence=[])), r"one TableMutation a table; got those of tables \[7, 7\]"),
    ],
)  # fmt: skip
def test_what_is_no_transaction_with_rows_is_refused_by_name(value: bytes | None, words: str) -> None:
    with pytest.raises(MessageUnreadable, match=words) as caught:
        CODEC.envelopes(message(value))
    assert f"message {LANE}@{T}" in str(caught.value)


def test_no_bytes_raise_anything_else() -> None:
    whole = transaction(T, {7: [A, B, C], 9: [A]})
    for at in range(len(whole)):
        for made in (whole[:at], whole[:at] + bytes([whole[at] ^ 0x81]) + whole[at + 1 :]):
            try:
                CODEC.envelopes(message(made))
            except MessageUnreadable as error:
                assert str(LANE) in str(error)  # noqa: PT017 - either is right
