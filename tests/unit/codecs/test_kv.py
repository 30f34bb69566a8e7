"""Raw key-values as messages and back, and what is no message of theirs."""

from __future__ import annotations

import pytest

from sidecar.replay.kv_rows import row_key, row_value
from sidecar.shared.codecs.kv import KvCodec, KvImages, encode_ddl, encode_images, encode_resolved, encode_row, images_of
from sidecar.shared.errors import MessageUnreadable
from sidecar.shared.model.nouns import MARK_TABLE, Change, CommitTs, Ddl, Lane, Mark, MarkKind, Message, Rank, Resolved
from sidecar.shared.rowcodec.key_values import KvEntry, rows_of
from sidecar.shared.rowcodec.kv_table import KvTable, kv_table
from tests.support.kv_encoder import column, info

LANE = Lane("kv/104")
T = CommitTs(470609346576777218)
MARKS: KvTable = kv_table(
    info(
        [
            column(1, "id", "bigint", primary=True),
            column(2, "changefeed_id", "varchar", collation="utf8mb4_bin"),
            column(3, "unique_identifier", "varchar", collation="utf8mb4_bin"),
            column(4, "event_type", "tinyint"),
        ],
        int_handle=True,
        name={"O": MARK_TABLE.table, "L": MARK_TABLE.table},
    ),
    schema=MARK_TABLE.schema,
)
CODEC = KvCodec(lambda: MARKS)
KEY = row_key(104, 1)


def message(entry: KvEntry) -> Message:
    return Message(LANE, 7, entry.key, encode_row(entry))


@pytest.mark.parametrize(("new", "old", "rank"), [(b"new", b"", Rank.PUT), (b"n", b"old", Rank.PUT), (b"", b"old", Rank.DELETE)])
def test_a_row_is_a_change_of_its_physical_id_with_both_values(new: bytes, old: bytes, rank: Rank) -> None:
    (change,) = CODEC.envelopes(message(KvEntry(T, T - 5, KEY, new, old)))
    assert change == Change(T, rank, "", "104", KEY, encode_images(new, old), LANE, 7)
    assert images_of(change.value) == KvImages(new, old)


@pytest.mark.parametrize("keyspace", [b"", b"x\0\0\x07"])
@pytest.mark.parametrize("physical_id", [1, 104, (1 << 48) - 2])
def test_the_table_is_the_id_in_the_key_behind_any_keyspace(physical_id: int, keyspace: bytes) -> None:
    key = rows_of(physical_id, keyspace=keyspace).start + b"\x80" + bytes(20)
    (change,) = CODEC.envelopes(message(KvEntry(T, T, key, b"new", b"")))
    assert isinstance(change, Change)
    assert change.table == str(physical_id)


def test_a_resolved_mark_comes_back() -> None:
    assert CODEC.envelopes(Message(LANE, 9, None, encode_resolved(T))) == [Resolved(LANE, T, 9)]


def test_a_ddl_comes_back_and_so_does_one_that_is_reported_to_nobody() -> None:
    data = encode_ddl(T, "shop", "orders", "alter table `orders` add ü int")
    assert CODEC.envelopes(Message(LANE, 9, None, data)) == [Ddl(T, Rank.DDL, "shop", "orders", "alter table `orders` add ü int", LANE, 9)]
    assert CODEC.envelopes(Message(LANE, 9, None, encode_ddl(T, "", "", ""))) == [Ddl(T, Rank.DDL, "", "", "", LANE, 9)]


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        (KEY, None, "a value; got null"),
        (KEY, encode_row(KvEntry(T, T, KEY, b"", b"")), "more than 12 bytes of a row; got 12 bytes"),
        (KEY, encode_row(KvEntry(T, T, KEY, b"12345", b""))[:-1], "a new value of 5 bytes; got 4 bytes"),
        (b"m" + KEY, encode_row(KvEntry(T, T, KEY, b"1", b"")), "key byte 0"),
        (KEY[:9] + b"_i" + KEY[11:], encode_row(KvEntry(T, T, KEY, b"1", b"")), "_r of a row's key"),
        (None, b"", "R and eight bytes, or D and JSON; got no bytes"),
        (None, b"R1234567", "R and eight bytes"),
        (None, b"X", "R and eight bytes"),
        (None, b"D{}", "the JSON of a DDL"),
        (None, b'D{"ts":1,"schema":"s","table":"t","query":"q","more":1}', "the JSON of a DDL"),
    ],
)
def test_what_is_no_message_of_this_feed_is_refused_with_its_place(key: bytes | None, value: bytes | None, text: str) -> None:
    with pytest.raises(MessageUnreadable, match="kv/104@7") as refused:
        CODEC.envelopes(Message(LANE, 7, key, value))
    assert text in str(refused.value)


@pytest.mark.parametrize("value", [b"", b"\0\0\0", b"\0\0\0\5abcd"])
def test_a_logged_value_that_is_no_pair_of_images_is_refused(value: bytes) -> None:
    with pytest.raises(ValueError, match="no pair of images"):
        images_of(value)


def test_two_arrivals_are_one_change_and_other_values_another() -> None:
    def identity(key: bytes, new: bytes, old: bytes, position: int) -> object:
        (change,) = CODEC.envelopes(Message(LANE, position, key, encode_row(KvEntry(T, T, key, new, old))))
        assert isinstance(change, Change)
        return CODEC.identity(change)

    assert identity(KEY, b"ab", b"c", 1) == identity(KEY, b"ab", b"c", 2)
    others = [(row_key(104, 2), b"ab", b"c"), (KEY, b"a", b"bc"), (KEY, b"ab", b"d"), (KEY, b"bb", b"c")]
    assert identity(KEY, b"ab", b"c", 1) not in {identity(*one, position=1) for one in others}


def marked(new: bytes) -> Change:
    rank = Rank.PUT if new else Rank.DELETE
    return Change(T, rank, *MARK_TABLE, row_key(MARKS.id, 1), encode_images(new, b"old" if not new else b""), LANE, 7)


def test_a_row_of_the_watermark_table_is_a_mark_and_its_deletion_none() -> None:
    row = row_value(MARKS, {"changefeed_id": "feed-1", "unique_identifier": "u" * 32, "event_type": 2})
    assert CODEC.mark(marked(row)) == Mark(T, "feed-1", "u" * 32, MarkKind.HIGH)
    assert CODEC.mark(marked(b"")) is None


@pytest.mark.parametrize(
    "row",
    [b"\x80", row_value(MARKS, {"changefeed_id": "f", "unique_identifier": "u", "event_type": 3}), row_value(MARKS, {"event_type": 1})],
)
def test_a_watermark_row_that_is_no_mark_is_refused(row: bytes) -> None:
    with pytest.raises(MessageUnreadable, match="kv/104@7"):
        CODEC.mark(marked(row))
