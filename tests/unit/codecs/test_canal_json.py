from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.shared.codecs.canal_json import CanalJson, encode_mark, encode_resolved
from sidecar.shared.codecs.compression import Compression
from sidecar.shared.codecs.open_protocol import OpenProtocol
from sidecar.shared.codecs.refusals import EXTENSION_HINT, LARGE_MESSAGE_HINT, MARK_HINT, UNREADABLE_HINT
from sidecar.shared.errors import FeedError, FeedUnsuitable, MessageUnreadable
from sidecar.shared.model.nouns import Change, CommitTs, Ddl, Lane, Mark, MarkKind, Message, Rank, Resolved
from tests.lanes import examples
from tests.unit.codecs.recorded import bracket_marks, changes, mark_changes, messages

LANE = Lane("kafka/orders/2")
PACK: dict[Compression, Callable[[bytes], bytes]] = {
    "none": bytes,
    "snappy": lambda value: bytes(cramjam.snappy.compress_raw(value)),
    "lz4": lambda value: bytes(cramjam.lz4.compress(value)),
}

ROW = {
    "id": 0,
    "database": "shop",
    "table": "orders",
    "pkNames": ["id"],
    "isDdl": False,
    "type": "INSERT",
    "es": 1,
    "ts": 2,
    "sql": "",
    "sqlType": {"id": -5, "note": 12},
    "mysqlType": {"id": "bigint", "note": "varchar"},
    "old": None,
    "data": [{"id": "1", "note": None}],
    "_tidb": {"commitTs": 10},
}
DDL = {**ROW, "isDdl": True, "type": "ALTER", "sql": "ALTER TABLE `orders` ADD COLUMN `a` INT", "data": None, "_tidb": {"commitTs": 11}}
RESOLVED = {**ROW, "database": "", "table": "", "type": "TIDB_WATERMARK", "data": None, "_tidb": {"watermarkTs": 12}}


def as_json(event: dict[str, Any], **changed: Any) -> bytes:
    return json.dumps({**event, **changed}, ensure_ascii=False, separators=(",", ":")).encode()


def message(event: dict[str, Any], **changed: Any) -> Message:
    return Message(LANE, 17, b"", as_json(event, **changed))


def change(event: dict[str, Any], **changed: Any) -> Change:
    (read,) = CanalJson().envelopes(message(event, **changed))
    assert isinstance(read, Change)
    return read


def refusal(broken: Message, codec: CanalJson | None = None) -> str:
    with pytest.raises(MessageUnreadable) as caught:
        (codec or CanalJson()).envelopes(broken)
    text = caught.value.message
    assert caught.value.hint == UNREADABLE_HINT
    assert text.startswith("message kafka/orders/2@17: value byte 0: ")
    return text.removeprefix("message kafka/orders/2@17: value byte 0: ")


# ---- what is read ---------------------------------------------------------------------------------------------------


def test_is_named_as_in_the_log() -> None:
    assert CanalJson().name == "canal-json"


@pytest.mark.parametrize(
    ("event_type", "old", "rank"), [("INSERT", None, Rank.PUT), ("UPDATE", [{"id": "1"}], Rank.PUT), ("DELETE", None, Rank.DELETE)]
)
def test_reads_a_row(event_type: str, old: object, rank: Rank) -> None:
    sent = message(ROW, type=event_type, old=old)
    assert sent.value is not None
    assert CanalJson().envelopes(sent) == [Change(CommitTs(10), rank, "shop", "orders", b"", sent.value, LANE, 17)]


def test_reads_fields_in_any_order_and_passes_over_fields_it_does_not_know() -> None:
    backwards = dict(reversed({**ROW, "gtid": "x"}.items()))
    assert change(backwards).commit_ts == 10


def test_keeps_a_message_key() -> None:
    (read,) = CanalJson().envelopes(message(ROW)._replace(key=b"orders"))
    assert isinstance(read, Change)
    assert read.key == b"orders"


@pytest.mark.parametrize("key", [b"", None])
def test_a_missing_message_key_is_empty(key: bytes | None) -> None:
    (read,) = CanalJson().envelopes(message(ROW)._replace(key=key))
    assert isinstance(read, Change)
    assert read.key == b""


def test_reads_the_row_key_of_the_new_architecture() -> None:
    assert change(ROW, _tidb={"commitTs": 10, "rowkey": "dIAAAAAAAABf"}).commit_ts == 10


def test_reads_a_ddl_and_a_resolved_mark() -> None:
    query = "ALTER TABLE `orders` ADD COLUMN `a` INT"
    assert CanalJson().envelopes(message(DDL)) == [Ddl(CommitTs(11), Rank.DDL, "shop", "orders", query, LANE, 17)]
    assert CanalJson().envelopes(message(RESOLVED)._replace(key=None)) == [Resolved(LANE, CommitTs(12), 17)]


@pytest.mark.parametrize("event", [ROW, DDL, RESOLVED], ids=["row", "ddl", "resolved"])
@pytest.mark.parametrize("compression", ["snappy", "lz4"])
def test_reads_compressed_values_as_the_plain_ones(event: dict[str, Any], compression: Compression) -> None:
    plain = message(event)
    packed = PACK[compression](plain.value or b"")
    assert CanalJson(compression).envelopes(plain._replace(value=packed)) == CanalJson().envelopes(plain)


def test_identity_is_the_same_for_a_row_built_twice() -> None:
    codec = CanalJson()
    again = change(ROW, ts=99, mysqlType={"note": "varchar", "id": "bigint"})._replace(lane=Lane("kafka/orders/0"), position=99)
    assert again.value != change(ROW).value
    assert codec.identity(again) == codec.identity(change(ROW))


def test_identity_distinguishes_table_type_and_images() -> None:
    update = {**ROW, "type": "UPDATE", "old": [{"id": "1", "note": "a"}]}
    different = [
        change(ROW),
        change(ROW, table="item"),
        change(ROW, database="other"),
        change(ROW, type="DELETE"),
        change(ROW, data=[{"id": "2", "note": None}]),
        change(update),
        change(update, old=[{"id": "1", "note": "b"}]),
    ]
    assert len({CanalJson().identity(each) for each in different}) == len(different)


# ---- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "what"),
    [
        (ROW, "a row of shop.orders"),
        ({**ROW, "type": "DELETE"}, "a row of shop.orders"),
        (DDL, "a DDL of shop"),
    ],
)
def test_refuses_a_feed_without_the_extension(event: dict[str, Any], what: str) -> None:
    without = {name: value for name, value in event.items() if name != "_tidb"}
    with pytest.raises(FeedUnsuitable) as caught:
        CanalJson().envelopes(message(without))
    text = f"message kafka/orders/2@17: {what} has no `_tidb`, so no commit_ts to order it by"
    assert str(caught.value) == f"{text}\n  what to do: {EXTENSION_HINT}"
    assert "enable-tidb-extension=true" in caught.value.hint


@pytest.mark.parametrize(
    ("extension", "sent"),
    [
        ({"commitTs": 10, "onlyHandleKey": True}, "its handle key (handle-key-only)"),
        ({"commitTs": 10, "claimCheckLocation": "s3://claim/1.json"}, "a reference to s3://claim/1.json (claim-check)"),
    ],
)
def test_refuses_a_row_that_ticdc_did_not_send_whole(extension: dict[str, Any], sent: str) -> None:
    with pytest.raises(FeedUnsuitable) as caught:
        CanalJson().envelopes(message(ROW, _tidb=extension))
    row_text = "the row of shop.orders at commit_ts 10 is larger than a message"
    assert str(caught.value) == (f"message kafka/orders/2@17: {row_text}, and TiCDC sent only {sent}\n  what to do: {LARGE_MESSAGE_HINT}")


@pytest.mark.parametrize(
    ("value", "result"),
    [
        (b"", "Input data was truncated"),
        (b"[]", "Expected `object`, got `array`"),
        (as_json(ROW)[:-1], "Input data was truncated"),
        (as_json(ROW) + b"{", f"JSON is malformed: trailing characters (byte {len(as_json(ROW)) + 1})"),
        (as_json(ROW, data=[]), "Expected `array` of length 1 - at `$.data`"),
        (as_json(ROW, data=[{}, {}]), "Expected `array` of length 1 - at `$.data`"),
        (as_json(ROW, _tidb={"commitTs": 0}), "Expected `int` >= 1 - at `$._tidb.commitTs`"),
        (as_json(ROW, _tidb={"commitTs": 10, "zip": 1}), "Object contains unknown field `zip` - at `$._tidb`"),
        (b'{"database":"\xff"}', "'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"),
        (b'{"database":"a"}', "Object missing required field `table`"),
        (b'{"ts":' + b"[" * 100_000, "maximum recursion depth exceeded while deserializing an object"),
    ],
    ids=range(11),
)
def test_refuses_what_is_not_canal_json(value: bytes, result: str) -> None:
    assert refusal(Message(LANE, 17, b"", value)) == f"expected the JSON of canal-json; got {result}"


def test_refuses_a_null_value() -> None:
    assert refusal(Message(LANE, 17, None, None)) == "expected the JSON of canal-json; got null"


@pytest.mark.parametrize(
    ("event", "text"),
    [
        ({**ROW, "type": "UPSERT"}, "expected type INSERT, UPDATE, DELETE or TIDB_WATERMARK; got 'UPSERT'"),
        ({**ROW, "type": "CREATE"}, "expected type INSERT, UPDATE, DELETE or TIDB_WATERMARK; got 'CREATE'"),
        (
            {**DDL, "type": "INSERT"},
            "expected type of a DDL: ALTER, CINDEX, CREATE, DINDEX, ERASE, QUERY, RENAME, TRUNCATE; got 'INSERT'",
        ),
        (
            {**RESOLVED, "_tidb": None},
            "expected a known type, with `_tidb`; got type 'TIDB_WATERMARK' without it",
        ),
        (
            {**ROW, "type": "GTID", "_tidb": None},
            "expected a known type, with `_tidb`; got type 'GTID' without it",
        ),
        ({**ROW, "_tidb": {"watermarkTs": 10}}, "expected `_tidb` of a row with commitTs; got none"),
        ({**DDL, "_tidb": {}}, "expected `_tidb` of a DDL with commitTs; got none"),
        ({**RESOLVED, "_tidb": {"commitTs": 12}}, "expected `_tidb` of TIDB_WATERMARK with watermarkTs; got none"),
        ({**ROW, "table": ""}, "expected database and table of a row, without NUL; got 'shop' and ''"),
        ({**ROW, "table": "a\0b"}, "expected database and table of a row, without NUL; got 'shop' and 'a\\x00b'"),
        ({**ROW, "data": None}, "expected data of a row with one object; got null"),
        ({**ROW, "type": "UPDATE"}, "expected old of an UPDATE with one object; got null"),
    ],
)
def test_refuses_events_that_make_no_sense(event: dict[str, Any], text: str) -> None:
    assert refusal(message(event)) == text


def test_refuses_a_value_that_is_not_compressed_as_set() -> None:
    text = refusal(message(ROW), CanalJson("lz4"))
    assert text == "expected a value compressed with lz4; got lz4: ERROR_frameType_unknown"


# ---- marks ----------------------------------------------------------------------------------------------------------

MARK_ROW = {"changefeed_id": "demo", "unique_identifier": "abc", "event_type": "1"}
MARK = {**ROW, "data": [MARK_ROW]}


def test_a_mark_is_the_new_version_of_the_row() -> None:
    assert CanalJson().mark(change(MARK)) == Mark(CommitTs(10), "demo", "abc", MarkKind.LOW)


def test_a_deleted_mark_is_none() -> None:
    assert CanalJson().mark(change(MARK, type="DELETE")) is None


@pytest.mark.parametrize(
    ("row", "value"),
    [
        ({"event_type": "3"}, "Invalid enum value '3' - at `$.data[0].event_type`"),
        ({"event_type": None}, "Expected `str`, got `null` - at `$.data[0].event_type`"),
        ({"unique_identifier": None}, "Expected `str`, got `null` - at `$.data[0].unique_identifier`"),
    ],
)
def test_refuses_a_mark_that_does_not_fit(row: dict[str, Any], value: str) -> None:
    with pytest.raises(MessageUnreadable) as caught:
        CanalJson().mark(change(MARK, data=[{**MARK_ROW, **row}]))
    assert str(caught.value) == (
        "message kafka/orders/2@17: expected a row of changefeed_dump.changefeed_dump_event with texts changefeed_id and "
        f"unique_identifier and event_type 1 or 2; got {value}\n  what to do: {MARK_HINT}"
    )


# ---- damage ---------------------------------------------------------------------------------------------------------


@settings(max_examples=examples(400))
@given(data=st.data(), event=st.sampled_from([ROW, {**MARK, "type": "UPDATE", "old": MARK["data"]}, DDL, RESOLVED]))
def test_damaged_bytes_raise_feed_errors_only(data: st.DataObject, event: dict[str, Any]) -> None:
    whole = as_json(event)
    compression: Compression = data.draw(st.sampled_from(["none", "snappy", "lz4"]))
    packed = PACK[compression](whole)
    at = data.draw(st.integers(0, len(packed)))
    damaged = packed[:at] + data.draw(st.binary(max_size=4)) + packed[at + data.draw(st.integers(0, 4)) :]
    codec = CanalJson(compression)
    try:
        for read in codec.envelopes(Message(LANE, 17, b"", damaged)):
            if isinstance(read, Change):
                codec.identity(read)
                codec.mark(read)
    except FeedError as error:
        assert "what to do: " in str(error)  # noqa: PT017  (an undamaged or harmlessly damaged message raises nothing)


# ---- recordings of a real cluster -----------------------------------------------------------------------------------


def test_every_message_of_the_demo_is_read_and_every_bracket_mark_found() -> None:
    codec = CanalJson()
    marks = [codec.mark(mark_change) for mark_change in mark_changes(codec, messages("demo", "canal-json"))]
    assert {(mark.uuid, mark.kind, mark.commit_ts) for mark in marks if mark} >= bracket_marks("demo")
    assert {mark.changefeed_id for mark in marks if mark} == {"demo-dump"}


def test_reads_the_same_changes_from_the_demo_as_from_open_protocol() -> None:
    canal = changes(CanalJson(), messages("demo", "canal-json"))
    opened = changes(OpenProtocol(), messages("demo", "open-protocol"))
    assert sorted(each[:4] for each in canal) == sorted(each[:4] for each in opened)


def test_writes_marks_and_resolved_marks_as_ticdc() -> None:
    """All but the order of mysqlType (random) and the two times, which the recorded dump set itself."""
    codec = CanalJson()
    recorded = messages("demo", "canal-json")
    previous: tuple[str, MarkKind] | None = None
    for mark_change in mark_changes(codec, recorded):
        mark = codec.mark(mark_change)
        assert mark is not None
        sent = json.loads(mark_change.value)
        written = encode_mark(
            commit_ts=mark.commit_ts,
            row_id=int(sent["data"][0]["id"]),
            changefeed_id=mark.changefeed_id,
            uuid=mark.uuid,
            kind=mark.kind,
            previous=previous,
            now_ms=sent["ts"],
        )
        assert written[0] == mark_change.key
        assert without_volatile(written[1]) == without_volatile(mark_change.value)
        assert json.loads(written[1])["mysqlType"] == sent["mysqlType"]
        previous = (mark.uuid, mark.kind)
    resolved = [(each, event) for each in recorded for event in codec.envelopes(each) if isinstance(event, Resolved)]
    assert resolved
    for each, event in resolved:
        assert each.value is not None
        assert (each.key, each.value) == encode_resolved(event.ts, json.loads(each.value)["ts"])


def without_volatile(value: bytes) -> bytes:
    return re.sub(rb'"mysqlType":{[^}]*}', b"", re.sub(rb'_time":"\d{10}"', b'_time":"0"', value))


@pytest.mark.recordings
@pytest.mark.parametrize("name", ["shop", "shop-new"])
def test_every_message_of_the_shop_is_read_and_every_bracket_mark_found(name: str) -> None:
    codec = CanalJson()
    marks = [codec.mark(mark_change) for mark_change in mark_changes(codec, messages(name, "canal-json"))]
    assert {(mark.uuid, mark.kind, mark.commit_ts) for mark in marks if mark} >= bracket_marks(name)


@pytest.mark.recordings
@pytest.mark.parametrize("name", ["shop", "shop-new"])
def test_the_recorded_feed_without_the_extension_is_refused(name: str) -> None:
    with pytest.raises(FeedUnsuitable, match="enable-tidb-extension=true"):
        changes(CanalJson(), messages(name, "canal-json-noext"))


@pytest.mark.recordings
@pytest.mark.parametrize("name", ["ddl", "ddl-new"])
def test_every_ddl_of_the_recording_is_read(name: str) -> None:
    codec = CanalJson()
    ddls = [event for each in messages(name, "canal-json") for event in codec.envelopes(each) if isinstance(event, Ddl)]
    assert "ALTER TABLE `customer` ADD COLUMN `score` INT NOT NULL DEFAULT 42" in {ddl.query for ddl in ddls}
    assert len(ddls) > 25


@pytest.mark.recordings
def test_repeats_after_a_restart_are_the_same_change() -> None:
    codec = CanalJson()
    arrived = changes(codec, messages("restart", "canal-json"))
    assert 8 <= len(arrived) - len({(each.commit_ts, codec.identity(each)) for each in arrived}) <= 17
    assert len({each.value for each in arrived}) > len({(each.commit_ts, codec.identity(each)) for each in arrived})


@pytest.mark.recordings
@pytest.mark.parametrize(("feed", "sent"), [("canal-claim-check", "claim-check"), ("canal-handle-key-only", "handle-key-only")])
def test_large_messages_of_the_recording_are_refused(feed: str, sent: str) -> None:
    with pytest.raises(FeedUnsuitable, match=rf"^message kafka/{feed}/\d@\d+: the row of shop\.doc .* \({sent}\)"):
        changes(CanalJson(), messages("large", feed))
