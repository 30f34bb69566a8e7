from __future__ import annotations

from base64 import b64encode
from io import BytesIO
from typing import Any

import pytest
from msgspec import json

from sidecar.shared.codecs import simple_avro
from sidecar.shared.codecs.contract import Claim
from sidecar.shared.codecs.simple import Simple
from sidecar.shared.codecs.simple_avro import SimpleAvro, encode_mark, encode_resolved
from sidecar.shared.errors import FeedUnsuitable, MessageUnreadable
from sidecar.shared.model.nouns import Change, CommitTs, Ddl, Lane, Mark, MarkKind, Message, Rank, Resolved, TableName
from spark_merge.codecs.decode.rows import decode
from tests.support.recordings import recording
from tests.unit.codecs.recorded import bracket_marks, mark_changes, messages
from tests.unit.decode.log import logged, recorded_changes, recorded_schemas

LANE = Lane("kafka/orders/2")
ROW: dict[str, Any] = {
    "version": 1, "database": "shop", "table": "t", "tableID": 5, "type": "INSERT", "commitTs": 10, "buildTs": 2, "schemaVersion": 9,
    "data": {"id": 1},
}  # fmt: skip


def avro(kind: str, payload: dict[str, Any], name: str = "") -> bytes:
    return simple_avro._encoded(kind, name or kind, payload)


def message(value: bytes | None) -> Message:
    return Message(LANE, 17, b"", value)


def row(**changed: Any) -> Change:
    (change,) = SimpleAvro().envelopes(message(avro("DML", {**ROW, **changed})))
    assert isinstance(change, Change)
    return change


def test_a_value_is_the_text_that_it_has_in_json() -> None:
    cells = {
        "i": -5, "u": ("com.pingcap.simple.avro.UnsignedBigint", {"value": -1}), "d": 1e21, "s": "é<", "b": b"\0\xff", "n": None,
        "t": ("com.pingcap.simple.avro.Timestamp", {"location": "Etc/UTC", "value": "2026-01-02 03:04:05"}),
    }  # fmt: skip
    content = json.decode(row(data=cells).value)["data"]
    assert content == {
        "b": b64encode(b"\0\xff").decode(), "d": "1e+21", "i": "-5", "n": None, "s": "é<",
        "t": {"location": "Etc/UTC", "value": "2026-01-02 03:04:05"}, "u": "18446744073709551615",
    }  # fmt: skip
    assert list(content) == sorted(content)


def test_a_map_whose_order_differs_is_the_same_change() -> None:
    one, other = row(data={"a": "x", "b": "y"}), row(data={"b": "y", "a": "x"}, buildTs=3)
    assert SimpleAvro().identity(one) == SimpleAvro().identity(other)


def test_ddls_marks_and_forms_are_read() -> None:
    table = {"database": "shop", "table": "t", "tableID": 5, "version": 9, "columns": [], "indexes": []}
    sql = "ALTER TABLE `t` ADD COLUMN `a` INT"
    ddl = {"version": 1, "type": "ALTER", "sql": sql, "commitTs": 11, "buildTs": 2, "tableSchema": table}
    assert SimpleAvro().envelopes(message(avro("DDL", ddl))) == [Ddl(CommitTs(11), Rank.DDL, "shop", "t", sql, LANE, 17)]
    assert SimpleAvro().envelopes(message(avro("BOOTSTRAP", {"version": 1, "buildTs": 2, "tableSchema": table}, "Bootstrap"))) == []
    assert SimpleAvro().envelopes(message(encode_resolved(12, 2)[1])) == [Resolved(LANE, CommitTs(12), 17)]


@pytest.mark.parametrize("previous", [None, ("before", MarkKind.HIGH)])
def test_the_marks_of_a_replay_are_read(previous: tuple[str, MarkKind] | None) -> None:
    key, value = encode_mark(commit_ts=9, row_id=3, changefeed_id="c", uuid="é", kind=MarkKind.LOW, previous=previous, now_ms=5)
    (change,) = SimpleAvro().envelopes(message(value))
    assert isinstance(change, Change)
    assert (key, SimpleAvro().mark(change)) == (b"", Mark(CommitTs(9), "c", "é", MarkKind.LOW))


def test_large_rows_are_known_and_checksums_kept() -> None:
    claim = message(avro("DML", {**ROW, "claimCheckLocation": "s3://claim/1.json", "handleKeyOnly": True}))
    assert SimpleAvro().parts(claim) == [Claim("s3://claim/1.json", TableName("shop", "t"), CommitTs(10))]
    with pytest.raises(FeedUnsuitable, match="its handle key"):
        row(handleKeyOnly=True)
    assert b'"corrupted":true' in row(checksum={"version": 1, "corrupted": True, "current": 1, "previous": 0}).value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "expected the JSON of simple; got null"),
        (b"", "expected a message of simple in Avro; got EOFError"),
        (b"{}", "expected a message of simple in Avro; got "),
        (avro("DML", ROW)[:-1], "expected a message of simple in Avro; got "),
        (avro("DML", ROW) + b"\0", "expected the end of the message; got 1 bytes more"),
        (avro("DML", {**ROW, "version": 2}), "expected version 1; got 2"),
    ],
)
def test_what_is_no_message_is_refused(value: bytes | None, text: str) -> None:
    with pytest.raises(MessageUnreadable) as caught:
        SimpleAvro().envelopes(message(value))
    assert text in caught.value.message


def test_a_record_that_is_no_message_is_refused() -> None:
    file = BytesIO()
    simple_avro._avro().write(file, ("com.pingcap.simple.avro.Timestamp", {"location": "a", "value": "b"}))
    with pytest.raises(MessageUnreadable, match="got a record of location, value"):
        SimpleAvro().envelopes(message(file.getvalue()))


@pytest.mark.recordings
@pytest.mark.parametrize("name", ["shop", "shop-new"])
def test_the_recorded_rows_are_those_of_json(name: str) -> None:
    folder = recording(name)
    schemas = recorded_schemas(folder)

    def rows(feed: str) -> set[str]:
        table = decode(logged(recorded_changes(folder, feed, codec="simple"), codec="simple"), codec="simple", schemas=schemas)
        return {repr(one) for one in table.drop_columns(["seq", "ordinal"]).to_pylist()}

    assert rows("simple-avro") == rows("simple-json")


@pytest.mark.recordings
@pytest.mark.parametrize("name", ["shop", "shop-new"])
def test_every_bracket_mark_is_read(name: str) -> None:
    codec = SimpleAvro()
    marks = [codec.mark(mark_change) for mark_change in mark_changes(codec, messages(name, "simple-avro"))]
    assert {(mark.uuid, mark.kind, mark.commit_ts) for mark in marks if mark} >= bracket_marks(name)


def test_it_is_named_as_what_the_log_keeps() -> None:
    assert SimpleAvro().name == Simple().name
