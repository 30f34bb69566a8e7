from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.shared.codecs.compression import Compression
from sidecar.shared.codecs.open_protocol import OpenProtocol, encode_mark, encode_resolved
from sidecar.shared.codecs.refusals import LARGE_MESSAGE_HINT, MARK_HINT, UNREADABLE_HINT
from sidecar.shared.errors import FeedError, FeedUnsuitable, MessageUnreadable
from sidecar.shared.model.nouns import Change, CommitTs, Ddl, Lane, Mark, MarkKind, Message, Rank, Resolved
from tests.lanes import examples
from tests.unit.codecs.recorded import bracket_marks, changes, mark_changes, messages

LANE = Lane("kafka/orders/2")
ROW_KEY = b'{"ts":10,"scm":"shop","tbl":"orders","t":1}'
INSERT = b'{"u":{"id":{"t":3,"h":true,"f":11,"v":1}}}'
UPDATE = b'{"u":{"id":{"t":3,"h":true,"f":11,"v":1}},"p":{"id":{"t":3,"h":true,"f":11,"v":1}}}'
DELETE = b'{"d":{"id":{"t":3,"h":true,"f":11,"v":1}}}'
DDL_KEY = b'{"ts":11,"scm":"shop","tbl":"orders","t":2}'
DDL = b'{"q":"ALTER TABLE `orders` ADD COLUMN `a` INT","t":5}'
RESOLVED_KEY = b'{"ts":12,"t":3}'

PACK: dict[Compression, Callable[[bytes], bytes]] = {
    "none": bytes,
    "snappy": lambda value: bytes(cramjam.snappy.compress_raw(value)),
    "lz4": lambda value: bytes(cramjam.lz4.compress(value)),
}


def framed(contents: Sequence[bytes]) -> bytes:
    return b"".join(struct.pack(">Q", len(content)) + content for content in contents)


def message(*events: tuple[bytes, bytes], version: int = 1) -> Message:
    key = struct.pack(">Q", version) + framed([key for key, _ in events])
    return Message(LANE, 17, key, framed([value for _, value in events]))


def refusal(broken: Message, codec: OpenProtocol | None = None) -> str:
    with pytest.raises(MessageUnreadable) as caught:
        (codec or OpenProtocol()).envelopes(broken)
    assert caught.value.hint == UNREADABLE_HINT
    text = caught.value.message
    assert caught.value.hint == UNREADABLE_HINT
    assert text.startswith("message kafka/orders/2@17: ")
    return text.removeprefix("message kafka/orders/2@17: ")


def row(value: bytes, rank: Rank, *, key: bytes = ROW_KEY, ts: int = 10) -> Change:
    return Change(CommitTs(ts), rank, "shop", "orders", key, value, LANE, 17)


# ---- what is read ---------------------------------------------------------------------------------------------------


def test_is_named_as_in_the_log() -> None:
    assert OpenProtocol().name == "open-protocol"


def test_reads_a_resolved_mark_as_ticdc_writes_it() -> None:
    """The sample of the fact sheet."""
    key = bytes.fromhex("0000000000000001000000000000001f") + b'{"ts":415508856908021766,"t":3}'
    read = OpenProtocol().envelopes(Message(LANE, 5, key, bytes.fromhex("0000000000000000")))
    assert read == [Resolved(LANE, CommitTs(415508856908021766), 5)]


@pytest.mark.parametrize("compression", ["none", "snappy", "lz4"])
def test_reads_a_batch_of_mixed_tables_and_kinds_in_its_order(compression: Compression) -> None:
    pack = PACK[compression]
    other_key = b'{"ts":9,"scm":"shop","tbl":"item","rid":7,"ptn":55,"t":1,"ohk":false}'
    read = OpenProtocol(compression).envelopes(
        message((ROW_KEY, pack(UPDATE)), (other_key, pack(INSERT)), (ROW_KEY, pack(DELETE)), (DDL_KEY, pack(DDL)), (RESOLVED_KEY, b""))
    )
    assert read == [
        row(UPDATE, Rank.PUT),
        Change(CommitTs(9), Rank.PUT, "shop", "item", other_key, INSERT, LANE, 17),
        row(DELETE, Rank.DELETE),
        Ddl(CommitTs(11), Rank.DDL, "shop", "orders", "ALTER TABLE `orders` ADD COLUMN `a` INT", LANE, 17),
        Resolved(LANE, CommitTs(12), 17),
    ]


@pytest.mark.parametrize("key", [b'{"ts":11,"scm":"shop","t":2}', b'{"ts":11,"scm":"shop","tbl":"","t":2}'], ids=["classic", "new"])
def test_reads_a_ddl_of_a_schema(key: bytes) -> None:
    read = OpenProtocol().envelopes(message((key, b'{"q":"CREATE DATABASE `shop`","t":1}')))
    assert read == [Ddl(CommitTs(11), Rank.DDL, "shop", "", "CREATE DATABASE `shop`", LANE, 17)]


def test_identity_distinguishes_changes_by_key_and_images_and_not_by_arrival() -> None:
    codec = OpenProtocol()
    first = row(UPDATE, Rank.PUT)
    again = first._replace(lane=Lane("kafka/orders/0"), position=99)
    assert codec.identity(first) == codec.identity(again)
    assert codec.identity(first) == codec.identity(row(UPDATE, Rank.PUT, key=ROW_KEY.replace(b"orders", b"Orders")))
    others = [row(INSERT, Rank.PUT), row(DELETE, Rank.DELETE), row(UPDATE, Rank.PUT, key=ROW_KEY.replace(b"orders", b"item"))]
    assert len({codec.identity(change) for change in [first, *others]}) == 4


# ---- what is refused ------------------------------------------------------------------------------------------------


def framing(key: bytes | None, value: bytes | None) -> Message:
    return Message(LANE, 17, key, value)


WHOLE = message((ROW_KEY, INSERT))
assert WHOLE.key is not None
assert WHOLE.value is not None


@pytest.mark.parametrize(
    ("broken", "text"),
    [
        (framing(None, WHOLE.value), "key byte 0: expected the 8 bytes of a version; got null"),
        (framing(WHOLE.key, None), "value byte 0: expected frames; got null"),
        (framing(b"\0\0\1", WHOLE.value), "key byte 0: expected the 8 bytes of a version; got 3 bytes"),
        (message((ROW_KEY, INSERT), version=2), "key byte 0: expected version 1; got 2"),
        (message(), "key byte 8: expected the 8 bytes of a length; got 0 bytes"),
        (framing(WHOLE.key, b""), "value byte 0: expected the 8 bytes of a length; got 0 bytes"),
        (framing(WHOLE.key[:-1], WHOLE.value), "key byte 16: expected 43 bytes; got 42 bytes"),
        (framing(WHOLE.key, WHOLE.value[:-2]), "value byte 8: expected 42 bytes; got 40 bytes"),
        (framing(WHOLE.key + b"abc", WHOLE.value), "key byte 59: expected the 8 bytes of a length; got 3 bytes"),
        (framing(WHOLE.key, WHOLE.value + b"abc"), "value byte 50: expected the 8 bytes of a length; got 3 bytes"),
        (framing(WHOLE.key, b"\xff" * 8), "value byte 8: expected 18446744073709551615 bytes; got 0 bytes"),
        (framing(WHOLE.key + framed([ROW_KEY]), WHOLE.value), "value byte 0: expected 2 values for 2 keys; got 1 values"),
        (framing(WHOLE.key, WHOLE.value + framed([INSERT])), "value byte 0: expected 1 values for 1 keys; got 2 values"),
    ],
)
def test_refuses_broken_framing(broken: Message, text: str) -> None:
    assert refusal(broken) == text


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b'{"ts":10,', "Input data was truncated"),
        (b'{"ts":10,"scm":"shop","tbl":"orders","t":1}}', "JSON is malformed: trailing characters (byte 44)"),
        (b'{"scm":"shop","tbl":"orders","t":1}', "Object missing required field `ts`"),
        (b'{"ts":10,"scm":"shop","tbl":"orders"}', "Object missing required field `t`"),
        (b'{"ts":0,"scm":"shop","tbl":"orders","t":1}', "Expected `int` >= 1 - at `$.ts`"),
        (b'{"ts":9223372036854775808,"t":3}', "Expected `int` <= 9223372036854775807 - at `$.ts`"),
        (b'{"ts":10,"scm":"shop","tbl":"orders","t":1,"zip":true}', "Object contains unknown field `zip`"),
        (b'{"ts":10,"scm":"\xff","tbl":"orders","t":1}', "'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"),
    ],
)
def test_refuses_a_key_that_is_not_one(key: bytes, value: str) -> None:
    assert refusal(message((key, INSERT))) == f"key byte 16 (event 0): expected the JSON of a key; got {value}"


@pytest.mark.parametrize(
    ("value", "result"),
    [
        (b"", "Input data was truncated"),
        (b'{"u":{"id":tru}}', "JSON is malformed: invalid character (byte 12)"),
        (b'{"u":[1]}', "Expected `object | null`, got `array` - at `$.u`"),
        (b'{"u":{},"x":1}', "Object contains unknown field `x`"),
    ],
)
def test_refuses_a_row_that_is_not_one(value: bytes, result: str) -> None:
    assert refusal(message((ROW_KEY, value))) == f"value byte 8 (event 0): expected the JSON of a row; got {result}"


def test_refuses_nesting_without_end() -> None:
    value = b'{"u":{"id":' + b"[" * 100_000 + b"]" * 100_000 + b"}}"
    assert "expected the JSON of a row; got maximum recursion depth exceeded" in refusal(message((ROW_KEY, value)))


@pytest.mark.parametrize(
    ("value", "result"),
    [(b"{}", "neither"), (b'{"u":null}', "neither"), (b'{"p":{}}', "p"), (b'{"u":{},"d":{}}', "u and d"), (b'{"p":{},"d":{}}', "p and d")],
)
def test_refuses_a_row_that_is_neither_put_nor_delete(value: bytes, result: str) -> None:
    assert refusal(message((ROW_KEY, value))) == f"value byte 8 (event 0): expected either u (with or without p) or d; got {result}"


def test_refuses_an_unknown_kind_of_event_and_says_where_in_the_batch() -> None:
    text = refusal(message((ROW_KEY, INSERT), (ROW_KEY, UPDATE), (b'{"ts":10,"t":4}', b"")))
    assert text == f"key byte {16 + 2 * (len(ROW_KEY) + 8)} (event 2): expected t of 1 (row), 2 (DDL) or 3 (resolved); got 4"


@pytest.mark.parametrize("key", [b'{"ts":10,"scm":"shop","tbl":"","t":1}', b'{"ts":10,"scm":"a\\u0000b","tbl":"t","t":1}'])
def test_refuses_a_row_without_a_table_and_one_whose_name_nobody_could_part(key: bytes) -> None:
    text = refusal(message((ROW_KEY, INSERT), (key, INSERT)))
    assert text == f"key byte 67 (event 1): expected scm and tbl of a row, without NUL; got {key.decode()}"


def test_refuses_a_resolved_mark_with_a_value() -> None:
    text = refusal(message((ROW_KEY, INSERT), (RESOLVED_KEY, b"{}")))
    assert text == "value byte 58 (event 1): expected an empty value of a resolved mark; got 2 bytes"


@pytest.mark.parametrize(("value", "result"), [(b"", "Input data was truncated"), (b'{"q":"x"}', "Object missing required field `t`")])
def test_refuses_a_ddl_that_is_not_one(value: bytes, result: str) -> None:
    assert refusal(message((DDL_KEY, value))) == f"value byte 8 (event 0): expected the JSON of a DDL; got {result}"


@pytest.mark.parametrize("key", [ROW_KEY, DDL_KEY])
def test_refuses_a_value_that_is_not_compressed_as_set(key: bytes) -> None:
    text = refusal(message((key, INSERT)), OpenProtocol("lz4"))
    assert text == "value byte 8 (event 0): expected a value compressed with lz4; got lz4: ERROR_frameType_unknown"


@pytest.mark.parametrize(
    ("field", "sent"),
    [
        (b',"ohk":true', "its handle key (handle-key-only)"),
        (b',"ohk":false,"ccl":"s3://claim/1.json"', "a reference to s3://claim/1.json (claim-check)"),
    ],
)
def test_refuses_a_row_that_ticdc_did_not_send_whole(field: bytes, sent: str) -> None:
    with pytest.raises(FeedUnsuitable) as caught:
        OpenProtocol().envelopes(message((ROW_KEY[:-1] + field + b"}", INSERT)))
    row_text = "the row of shop.orders at commit_ts 10 is larger than a message"
    assert str(caught.value) == (f"message kafka/orders/2@17: {row_text}, and TiCDC sent only {sent}\n  what to do: {LARGE_MESSAGE_HINT}")
    assert 'large-message-handle-option = "claim-check"' in caught.value.hint


# ---- marks ----------------------------------------------------------------------------------------------------------

MARK = b'{"u":{"changefeed_id":{"v":"demo"},"unique_identifier":{"v":"abc"},"event_type":{"v":2}}}'


def test_a_mark_is_the_new_version_of_the_row() -> None:
    assert OpenProtocol().mark(row(MARK, Rank.PUT)) == Mark(CommitTs(10), "demo", "abc", MarkKind.HIGH)


def test_a_deleted_mark_is_none() -> None:
    assert OpenProtocol().mark(row(MARK.replace(b'"u"', b'"d"'), Rank.DELETE)) is None


@pytest.mark.parametrize(
    ("value", "result"),
    [
        (MARK.replace(b'"v":2', b'"v":3'), "Invalid enum value 3 - at `$.u.event_type.v`"),
        (MARK.replace(b'"v":2', b'"v":null'), "Expected `int`, got `null` - at `$.u.event_type.v`"),
        (MARK.replace(b'"abc"', b"null"), "Expected `str`, got `null` - at `$.u.unique_identifier.v`"),
        (INSERT, "Object missing required field `changefeed_id` - at `$.u`"),
    ],
)
def test_refuses_a_mark_that_does_not_fit(value: bytes, result: str) -> None:
    with pytest.raises(MessageUnreadable) as caught:
        OpenProtocol().mark(row(value, Rank.PUT))
    assert str(caught.value) == (
        "message kafka/orders/2@17: expected a row of changefeed_dump.changefeed_dump_event with texts changefeed_id and "
        f"unique_identifier and event_type 1 or 2; got {result}\n  what to do: {MARK_HINT}"
    )


# ---- damage ---------------------------------------------------------------------------------------------------------


@settings(max_examples=examples(400))
@given(data=st.data(), compression=st.sampled_from(["none", "snappy", "lz4"]))
def test_damaged_bytes_raise_feed_errors_only(data: st.DataObject, compression: Compression) -> None:
    pack = PACK[compression]
    whole = message((ROW_KEY, pack(UPDATE)), (DDL_KEY, pack(DDL)), (ROW_KEY, pack(DELETE)), (RESOLVED_KEY, b""))
    assert whole.key is not None
    assert whole.value is not None
    damaged = whole._replace(key=damage(data, whole.key), value=damage(data, whole.value))
    try:
        events = OpenProtocol(compression).envelopes(damaged)
        for event in events:
            if isinstance(event, Change):
                OpenProtocol(compression).identity(event)
                OpenProtocol(compression).mark(event)
    except FeedError as error:
        assert "what to do: " in str(error)  # noqa: PT017  (an undamaged or harmlessly damaged message raises nothing)


def damage(data: st.DataObject, whole: bytes) -> bytes:
    at = data.draw(st.integers(0, len(whole)))
    dropped = data.draw(st.integers(0, 4))
    return whole[:at] + data.draw(st.binary(max_size=4)) + whole[at + dropped :]


# ---- recordings of a real cluster -----------------------------------------------------------------------------------


def test_every_message_of_the_demo_is_read_and_every_bracket_mark_found() -> None:
    codec = OpenProtocol()
    recorded = messages("demo", "open-protocol")
    marks = [codec.mark(change) for change in mark_changes(codec, recorded)]
    assert {(mark.uuid, mark.kind, mark.commit_ts) for mark in marks if mark} >= bracket_marks("demo")
    assert {mark.changefeed_id for mark in marks if mark} == {"demo-dump"}


def test_writes_marks_and_resolved_marks_byte_for_byte_as_ticdc() -> None:
    """All but the two times, which the recorded dump set itself: those are compared where both versions have the same."""
    codec = OpenProtocol()
    recorded = messages("demo", "open-protocol")
    previous: tuple[str, MarkKind] | None = None
    exact = 0
    for change in mark_changes(codec, recorded):
        mark = codec.mark(change)
        assert mark is not None
        (row_id,) = re.findall(rb'"rid":(\d+)', change.key)
        times = set(re.findall(rb'"v":(\d{10})}', change.value))
        written = encode_mark(
            commit_ts=mark.commit_ts,
            row_id=int(row_id),
            changefeed_id=mark.changefeed_id,
            uuid=mark.uuid,
            kind=mark.kind,
            previous=previous,
            now_ms=int(max(times)) * 1000,
        )
        (again,) = codec.envelopes(Message(LANE, 0, *written))
        assert isinstance(again, Change)
        assert again.key == change.key
        assert without_times(again.value) == without_times(change.value)
        exact += again.value == change.value
        previous = (mark.uuid, mark.kind)
    assert exact >= 2
    read = [(event, message) for message in recorded for event in codec.envelopes(message)]
    resolved = {(event.ts, message.key, message.value) for event, message in read if isinstance(event, Resolved)}
    assert resolved
    assert resolved == {(ts, *encode_resolved(ts, 0)) for ts, _, _ in resolved}


def without_times(value: bytes) -> bytes:
    return re.sub(rb'"v":\d{10}}', b'"v":0}', value)


@pytest.mark.recordings
@pytest.mark.parametrize(
    ("name", "feed", "compression"),
    [
        ("shop", "open-protocol", "none"),
        ("shop", "open-protocol-index", "none"),
        ("shop", "open-protocol-raw", "none"),
        ("shop", "open-protocol-zip", "lz4"),
        ("shop-new", "open-protocol", "none"),
        ("shop-new", "open-protocol-zip", "lz4"),
    ],
)
def test_every_message_of_the_shop_is_read_and_every_bracket_mark_found(name: str, feed: str, compression: Compression) -> None:
    codec = OpenProtocol(compression)
    marks = [codec.mark(change) for change in mark_changes(codec, messages(name, feed))]
    assert {(mark.uuid, mark.kind, mark.commit_ts) for mark in marks if mark} >= bracket_marks(name)


@pytest.mark.recordings
@pytest.mark.parametrize("name", ["ddl", "ddl-new"])
def test_every_ddl_of_the_recording_is_read(name: str) -> None:
    codec = OpenProtocol()
    ddls = [event for message in messages(name, "open-protocol") for event in codec.envelopes(message) if isinstance(event, Ddl)]
    queries = {ddl.query for ddl in ddls}
    assert "ALTER TABLE `customer` ADD COLUMN `score` INT NOT NULL DEFAULT 42" in queries
    assert len(queries) > 25
    assert {ddl.lane[-1] for ddl in ddls} == {"0", "1", "2"}


@pytest.mark.recordings
def test_repeats_after_a_restart_are_the_same_change() -> None:
    codec = OpenProtocol()
    seen = [(change.commit_ts, codec.identity(change)) for change in changes(codec, messages("restart", "open-protocol"))]
    assert 8 <= len(seen) - len(set(seen)) <= 17


@pytest.mark.recordings
@pytest.mark.parametrize(("feed", "sent"), [("open-claim-check", "claim-check"), ("open-handle-key-only", "handle-key-only")])
def test_large_messages_of_the_recording_are_refused(feed: str, sent: str) -> None:
    with pytest.raises(FeedUnsuitable, match=rf"^message kafka/{feed}/\d@\d+: the row of shop\.doc .* \({sent}\)"):
        changes(OpenProtocol(), messages("large", feed))
