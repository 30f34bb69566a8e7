from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.shared.codecs.canal_json import CanalJson
from sidecar.shared.codecs.compression import Compression
from sidecar.shared.codecs.contract import Claim
from sidecar.shared.codecs.refusals import LARGE_MESSAGE_HINT, MARK_HINT, UNREADABLE_HINT
from sidecar.shared.codecs.simple import Simple, encode_mark, encode_resolved
from sidecar.shared.errors import FeedError, FeedUnsuitable, MessageUnreadable
from sidecar.shared.model.nouns import Change, CommitTs, Ddl, Lane, Mark, MarkKind, Message, Rank, Resolved, TableName
from tests.lanes import examples
from tests.unit.codecs.recorded import bracket_marks, changes, mark_changes, messages

LANE = Lane("kafka/orders/2")
PACK: dict[Compression, Callable[[bytes], bytes]] = {
    "none": bytes,
    "snappy": lambda value: bytes(cramjam.snappy.compress_raw(value)),
    "lz4": lambda value: bytes(cramjam.lz4.compress(value)),
}

ROW = {
    "version": 1,
    "database": "shop",
    "table": "orders",
    "tableID": 5,
    "type": "INSERT",
    "commitTs": 10,
    "buildTs": 2,
    "schemaVersion": 9,
    "data": {"id": "1", "note": None},
}
UPDATE = {**ROW, "type": "UPDATE", "old": {"id": "1", "note": "a"}}
DELETE = {**{name: value for name, value in ROW.items() if name != "data"}, "type": "DELETE", "old": {"id": "1", "note": None}}
FORM = {"schema": "shop", "table": "orders", "tableID": 5, "version": 9, "columns": [], "indexes": []}
ADD_COLUMN = "ALTER TABLE `orders` ADD COLUMN `a` INT"
DDL = {"version": 1, "type": "ALTER", "sql": ADD_COLUMN, "commitTs": 11, "buildTs": 2, "tableSchema": FORM, "preTableSchema": FORM}
RESOLVED = {"version": 1, "type": "WATERMARK", "commitTs": 12, "buildTs": 2}
BOOTSTRAP = {"version": 1, "type": "BOOTSTRAP", "commitTs": 0, "buildTs": 2, "tableSchema": FORM}


def as_json(event: dict[str, Any], **changed: Any) -> bytes:
    return json.dumps({**event, **changed}, ensure_ascii=False, separators=(",", ":")).encode()


def message(event: dict[str, Any], **changed: Any) -> Message:
    return Message(LANE, 17, b"", as_json(event, **changed))


def change(event: dict[str, Any], **changed: Any) -> Change:
    (read,) = Simple().envelopes(message(event, **changed))
    assert isinstance(read, Change)
    return read


def refusal(broken: Message, codec: Simple | None = None) -> str:
    with pytest.raises(MessageUnreadable) as caught:
        (codec or Simple()).envelopes(broken)
    assert caught.value.hint == UNREADABLE_HINT
    assert caught.value.message.startswith("message kafka/orders/2@17: value byte 0: ")
    return caught.value.message.removeprefix("message kafka/orders/2@17: value byte 0: ")


# ---- what is read ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("event", "rank"), [(ROW, Rank.PUT), (UPDATE, Rank.PUT), (DELETE, Rank.DELETE)])
def test_reads_a_row(event: dict[str, Any], rank: Rank) -> None:
    sent = message(event)
    assert sent.value is not None
    assert Simple().envelopes(sent) == [Change(CommitTs(10), rank, "shop", "orders", b"", sent.value, LANE, 17)]


def test_reads_a_ddl_and_a_resolved_mark() -> None:
    assert Simple().envelopes(message(DDL)) == [Ddl(CommitTs(11), Rank.DDL, "shop", "orders", ADD_COLUMN, LANE, 17)]
    assert Simple().envelopes(message(RESOLVED)._replace(key=None)) == [Resolved(LANE, CommitTs(12), 17)]


def test_the_form_of_a_table_alone_is_nothing_to_order() -> None:
    assert Simple().envelopes(message(BOOTSTRAP)) == []


@pytest.mark.parametrize(
    ("tables", "name"),
    [
        ({"tableSchema": {**FORM, "table": "new"}, "preTableSchema": FORM}, ("shop", "new")),
        ({"tableSchema": None, "preTableSchema": FORM}, ("shop", "orders")),
        ({"tableSchema": {**FORM, "table": "new"}, "preTableSchema": None}, ("shop", "new")),
    ],
)
def test_a_ddl_is_of_the_table_after_it(tables: dict[str, Any], name: tuple[str, str]) -> None:
    (ddl,) = Simple().envelopes(message(DDL, **tables))
    assert isinstance(ddl, Ddl)
    assert (ddl.schema, ddl.table) == name


@pytest.mark.parametrize(
    ("query", "database"),
    [
        ("CREATE DATABASE `shop2`", "shop2"),
        ("CREATE DATABASE IF NOT EXISTS `a``b` CHARACTER SET utf8mb4", "a`b"),
        ("create schema shop2", "shop2"),
        ("DROP DATABASE `shop2`", "shop2"),
        ("DROP DATABASE IF EXISTS `if`", "if"),
        ("ALTER DATABASE `shop2` CHARACTER SET = utf8", "shop2"),
        ("ALTER DATABASE CHARACTER SET = utf8", ""),
        ("ALTER DATABASE shop2 CHARACTER SET utf8mb4", "shop2"),
        ("ALTER SCHEMA Shop2 COLLATE utf8mb4_bin", "Shop2"),
        ("ALTER DATABASE COLLATE utf8mb4_bin", ""),
        ("ALTER DATABASE PLACEMENT POLICY = p", ""),
    ],
)
def test_a_ddl_of_a_database_names_it_in_its_text_alone(query: str, database: str) -> None:
    without = {name: value for name, value in DDL.items() if name not in ("tableSchema", "preTableSchema")}
    (ddl,) = Simple().envelopes(message(without, type="QUERY", sql=query))
    assert isinstance(ddl, Ddl)
    assert (ddl.schema, ddl.table, ddl.query) == (database, "", query)


@pytest.mark.parametrize("event", [ROW, UPDATE, DELETE, DDL, RESOLVED, BOOTSTRAP], ids=range(6))
@pytest.mark.parametrize("compression", ["snappy", "lz4"])
def test_reads_compressed_values_as_the_plain_ones(event: dict[str, Any], compression: Compression) -> None:
    plain = message(event)
    packed = PACK[compression](plain.value or b"")
    assert Simple(compression).envelopes(plain._replace(value=packed)) == Simple().envelopes(plain)


def test_a_row_whose_checksum_is_right_is_a_row() -> None:
    assert change(ROW, checksum={"version": 1, "corrupted": False, "current": 7, "previous": 0}).rank is Rank.PUT


def test_identity_is_the_same_for_a_row_built_twice() -> None:
    again = change(UPDATE, buildTs=99)._replace(lane=Lane("kafka/orders/0"), position=99)
    assert again.value != change(UPDATE).value
    assert Simple().identity(again) == Simple().identity(change(UPDATE))


def test_identity_distinguishes_table_type_and_images() -> None:
    different = [
        change(ROW),
        change(ROW, table="item"),
        change(ROW, database="other"),
        change(ROW, data={"id": "2", "note": None}),
        change(UPDATE),
        change(UPDATE, old={"id": "1", "note": "b"}),
        change(UPDATE, data=UPDATE["old"], old=UPDATE["data"]),
        change(DELETE),
    ]
    assert len({Simple().identity(each) for each in different}) == len(different)


# ---- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("extra", "sent"),
    [
        ({"handleKeyOnly": True}, "its handle key (handle-key-only)"),
        ({"handleKeyOnly": True, "claimCheckLocation": "s3://claim/1.json"}, "a reference to s3://claim/1.json (claim-check)"),
    ],
)
def test_refuses_a_row_that_ticdc_did_not_send_whole(extra: dict[str, Any], sent: str) -> None:
    with pytest.raises(FeedUnsuitable) as caught:
        Simple().envelopes(message(ROW, **extra))
    row_text = "the row of shop.orders at commit_ts 10 is larger than a message"
    assert str(caught.value) == f"message kafka/orders/2@17: {row_text}, and TiCDC sent only {sent}\n  what to do: {LARGE_MESSAGE_HINT}"


def test_a_row_in_a_file_is_a_claim() -> None:
    sent = message(ROW, claimCheckLocation="s3:/claim/1.json", handleKeyOnly=True)
    assert Simple().parts(sent) == [Claim("s3:/claim/1.json", TableName("shop", "orders"), CommitTs(10))]
    assert Simple().parts(message(ROW)) == []
    assert Simple().parts(message(ROW, data={"id": '"claimCheckLocation":"'})) == []


def test_a_row_that_ticdc_says_is_corrupted_is_refused_by_who_decodes_it() -> None:
    assert change(ROW, checksum={"version": 1, "corrupted": True, "current": 7, "previous": 0}).rank is Rank.PUT


@pytest.mark.parametrize(
    ("value", "result"),
    [
        (b"", "Input data was truncated"),
        (b"[]", "Expected `object`, got `array`"),
        (as_json(ROW)[:-1], "Input data was truncated"),
        (as_json(ROW) + b"{", f"JSON is malformed: trailing characters (byte {len(as_json(ROW)) + 1})"),
        (as_json(ROW, data=[]), "Expected `object | null`, got `array` - at `$.data`"),
        (as_json(ROW, commitTs=-1), "Expected `int` >= 0 - at `$.commitTs`"),
        (as_json(ROW, commitTs=1 << 63), "Expected `int` <= 9223372036854775807 - at `$.commitTs`"),
        (as_json(ROW, zip=1), "Object contains unknown field `zip`"),
        (b'{"database":"\xff"}', "'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"),
        (b'{"version":1}', "Object missing required field `type`"),
        (b'{"data":{"a":' + b"[" * 100_000, "maximum recursion depth exceeded while deserializing an object"),
    ],
    ids=range(11),
)
def test_refuses_what_is_not_simple(value: bytes, result: str) -> None:
    assert refusal(Message(LANE, 17, b"", value)) == f"expected the JSON of simple; got {result}"


def test_refuses_a_null_value() -> None:
    assert refusal(Message(LANE, 17, None, None)) == "expected the JSON of simple; got null"


_TYPES = "type INSERT, UPDATE, DELETE, WATERMARK, BOOTSTRAP, or of a DDL: ALTER, CINDEX, CREATE, DINDEX, ERASE, QUERY, RENAME, TRUNCATE"
_IMAGES = "data of an INSERT, old of a DELETE, both of an UPDATE"


@pytest.mark.parametrize(
    ("event", "text"),
    [
        ({**ROW, "version": 2}, "expected version 1; got 2"),
        ({**ROW, "type": "UPSERT"}, f"expected {_TYPES}; got 'UPSERT'"),
        ({**ROW, "commitTs": 0}, "expected commitTs of 1 or more; got 0"),
        ({**RESOLVED, "commitTs": 0}, "expected commitTs of 1 or more; got 0"),
        ({**DDL, "commitTs": 0}, "expected commitTs of 1 or more; got 0"),
        ({**ROW, "table": ""}, "expected database and table of a row, without NUL; got 'shop' and ''"),
        ({**ROW, "table": "a\0b"}, "expected database and table of a row, without NUL; got 'shop' and 'a\\x00b'"),
        ({**ROW, "data": None}, f"expected {_IMAGES}; got neither of type INSERT"),
        ({**ROW, "old": {}}, f"expected {_IMAGES}; got data and old of type INSERT"),
        ({**UPDATE, "old": None}, f"expected {_IMAGES}; got data of type UPDATE"),
        ({**DELETE, "data": {}}, f"expected {_IMAGES}; got data and old of type DELETE"),
        ({**DDL, "tableSchema": None, "preTableSchema": None}, f"expected tableSchema of a DDL that is of no database; got {ADD_COLUMN}"),
        ({**DDL, "tableSchema": None, "preTableSchema": None, "sql": ""}, "expected tableSchema of a DDL that is of no database; got "),
    ],
)
def test_refuses_events_that_make_no_sense(event: dict[str, Any], text: str) -> None:
    assert refusal(message(event)) == text


def test_refuses_a_value_that_is_not_compressed_as_set() -> None:
    assert refusal(message(ROW), Simple("lz4")) == "expected a value compressed with lz4; got lz4: ERROR_frameType_unknown"


# ---- marks ----------------------------------------------------------------------------------------------------------

MARK_ROW = {"changefeed_id": "demo", "unique_identifier": "abc", "event_type": "1"}
MARK = {**ROW, "data": MARK_ROW}


def test_a_mark_is_the_new_version_of_the_row() -> None:
    assert Simple().mark(change(MARK)) == Mark(CommitTs(10), "demo", "abc", MarkKind.LOW)
    assert Simple().mark(change(DELETE)) is None


@pytest.mark.parametrize(
    ("row", "value"),
    [
        ({"event_type": "3"}, "Invalid enum value '3' - at `$.data.event_type`"),
        ({"event_type": None}, "Expected `str`, got `null` - at `$.data.event_type`"),
        ({"unique_identifier": None}, "Expected `str`, got `null` - at `$.data.unique_identifier`"),
    ],
)
def test_refuses_a_mark_that_does_not_fit(row: dict[str, Any], value: str) -> None:
    with pytest.raises(MessageUnreadable) as caught:
        Simple().mark(change(MARK, data={**MARK_ROW, **row}))
    assert str(caught.value) == (
        "message kafka/orders/2@17: expected a row of changefeed_dump.changefeed_dump_event with texts changefeed_id and "
        f"unique_identifier and event_type 1 or 2; got {value}\n  what to do: {MARK_HINT}"
    )


# ---- damage ---------------------------------------------------------------------------------------------------------


@settings(max_examples=examples(400))
@given(data=st.data(), event=st.sampled_from([ROW, {**MARK, "type": "UPDATE", "old": MARK["data"]}, DDL, RESOLVED, BOOTSTRAP]))
def test_damaged_bytes_raise_feed_errors_only(data: st.DataObject, event: dict[str, Any]) -> None:
    whole = as_json(event)
    compression: Compression = data.draw(st.sampled_from(["none", "snappy", "lz4"]))
    packed = PACK[compression](whole)
    at = data.draw(st.integers(0, len(packed)))
    damaged = packed[:at] + data.draw(st.binary(max_size=4)) + packed[at + data.draw(st.integers(0, 4)) :]
    codec = Simple(compression)
    try:
        for read in codec.envelopes(Message(LANE, 17, b"", damaged)):
            if isinstance(read, Change):
                codec.identity(read)
                codec.mark(read)
    except FeedError as error:
        assert "what to do: " in str(error)  # noqa: PT017  (an undamaged or harmlessly damaged message raises nothing)


# ---- recordings of a real cluster -----------------------------------------------------------------------------------


@pytest.mark.recordings
@pytest.mark.parametrize("name", ["shop", "shop-new"])
def test_every_message_of_the_shop_is_read_and_every_bracket_mark(name: str) -> None:
    codec = Simple()
    marks = [codec.mark(mark_change) for mark_change in mark_changes(codec, messages(name, "simple-json"))]
    assert {(mark.uuid, mark.kind, mark.commit_ts) for mark in marks if mark} >= bracket_marks(name)


@pytest.mark.recordings
@pytest.mark.parametrize("name", ["shop", "shop-new", "ddl", "ddl-new"])
def test_reads_the_same_changes_as_from_canal_json(name: str) -> None:
    simple, canal = changes(Simple(), messages(name, "simple-json")), changes(CanalJson(), messages(name, "canal-json"))
    assert {each[:4] for each in simple} == {each[:4] for each in canal}


@pytest.mark.recordings
@pytest.mark.parametrize(("name", "others"), [("ddl", 0), ("ddl-new", 1)])
def test_every_ddl_of_the_recording_is_read_as_from_canal_json(name: str, others: int) -> None:
    """The new architecture's canal-json names an EXCHANGE's other table."""

    def ddls(codec: Simple | CanalJson, feed: str) -> set[tuple[object, ...]]:
        read = [event for each in messages(name, feed) for event in codec.envelopes(each) if isinstance(event, Ddl)]
        return {each[:5] for each in read}

    differing = ddls(Simple(), "simple-json") ^ ddls(CanalJson(), "canal-json")
    assert len(differing) == 2 * others
    assert all("EXCHANGE PARTITION" in str(each[4]) for each in differing)


@pytest.mark.recordings
@pytest.mark.parametrize(("feed", "sent"), [("simple-claim-check", "claim-check"), ("simple-handle-key-only", "handle-key-only")])
def test_large_messages_of_the_recording_are_refused(feed: str, sent: str) -> None:
    with pytest.raises(FeedUnsuitable, match=rf"^message kafka/{feed}/\d@\d+: the row of shop\.doc .* \({sent}\)"):
        changes(Simple(), messages("large", feed))


@pytest.mark.recordings
def test_writes_marks_and_resolved_marks_as_ticdc() -> None:
    """All but the ids, and the two times, which the recorded dump set itself."""
    codec, recorded = Simple(), messages("shop", "simple-json")
    previous: tuple[str, MarkKind] | None = None
    for mark_change in mark_changes(codec, recorded):
        mark = codec.mark(mark_change)
        assert mark is not None
        sent = json.loads(mark_change.value)
        key, value = encode_mark(
            commit_ts=mark.commit_ts,
            row_id=int(sent["data"]["id"]),
            changefeed_id=mark.changefeed_id,
            uuid=mark.uuid,
            kind=mark.kind,
            previous=previous,
            now_ms=sent["buildTs"],
        )
        assert key == mark_change.key
        assert without_volatile(json.loads(value)) == without_volatile(sent)
        previous = (mark.uuid, mark.kind)
    resolved = [(each, event) for each in recorded for event in codec.envelopes(each) if isinstance(event, Resolved)]
    assert resolved
    for each, event in resolved:
        assert each.value is not None
        assert (each.key, each.value) == encode_resolved(event.ts, json.loads(each.value)["buildTs"])


def without_volatile(event: dict[str, Any]) -> dict[str, Any]:
    images = {
        part: {name: text for name, text in event[part].items() if not name.endswith("_time")} for part in ("data", "old") if part in event
    }
    return {name: value for name, value in event.items() if name not in ("tableID", "schemaVersion")} | images
