from __future__ import annotations

import json
from contextlib import suppress
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.shared.codecs.canal_json import encode_resolved
from sidecar.shared.codecs.csv import CsvCodec
from sidecar.shared.codecs.refusals import MARK_HINT, UNREADABLE_HINT
from sidecar.shared.errors import FeedUnsuitable, MessageUnreadable
from sidecar.shared.model.nouns import Change, CommitTs, Ddl, Lane, Mark, MarkKind, Message, Rank, Resolved

LANE = Lane("storage")

ROW = {
    "type": "INSERT", "database": "shop", "table": "orders", "columns": ["id", "note"], "binary": "base64", "data": [["1", None]],
    "_tidb": {"commitTs": 10}, "isDdl": False,
}  # fmt: skip
UPDATE = {**ROW, "type": "UPDATE", "old": [["1", "x"]]}
DDL = {
    "id": 0, "database": "shop", "table": "orders", "isDdl": True, "type": "ALTER", "sql": "ALTER TABLE `orders` ADD COLUMN `a` INT",
    "data": None, "old": None, "_tidb": {"commitTs": 11},
}  # fmt: skip
MARK = {
    **ROW,
    "database": "changefeed_dump",
    "table": "changefeed_dump_event",
    "columns": ["id", "changefeed_id", "unique_identifier", "event_type", "create_time", "update_time"],
    "data": [["7", "shop-dump", "3b5431", "1", "1795231963", "1795231975"]],
}


def as_json(event: dict[str, Any], **changed: Any) -> bytes:
    return json.dumps({**event, **changed}, ensure_ascii=False, separators=(",", ":")).encode()


def message(event: dict[str, Any], **changed: Any) -> Message:
    return Message(LANE, 17, None, as_json(event, **changed))


def change(event: dict[str, Any], **changed: Any) -> Change:
    (read,) = CsvCodec().envelopes(message(event, **changed))
    assert isinstance(read, Change)
    return read


@pytest.mark.parametrize(
    ("event", "rank"),
    [(ROW, Rank.PUT), (UPDATE, Rank.PUT), ({**ROW, "type": "UPDATE"}, Rank.PUT), ({**ROW, "type": "DELETE"}, Rank.DELETE)],
    ids=["insert", "update", "update without the old row", "delete"],
)
def test_a_row_is_a_change_whose_value_is_the_message(event: dict[str, Any], rank: Rank) -> None:
    assert change(event) == Change(CommitTs(10), rank, "shop", "orders", b"", as_json(event), LANE, 17)


def test_ddls_and_resolved_marks_are_those_of_canal_json() -> None:
    query = "ALTER TABLE `orders` ADD COLUMN `a` INT"
    assert CsvCodec().envelopes(message(DDL)) == [Ddl(CommitTs(11), Rank.DDL, "shop", "orders", query, LANE, 17)]
    key, value = encode_resolved(12, 1_700_000_000_000)
    assert CsvCodec().envelopes(Message(LANE, 18, key, value)) == [Resolved(LANE, CommitTs(12), 18)]


@pytest.mark.parametrize(
    ("event", "error"),
    [
        ({**ROW, "type": "REPLACE"}, "value byte 0: expected the JSON of a row of csv; got Invalid enum value 'REPLACE'"),
        ({**ROW, "_tidb": {}}, "got Object missing required field `commitTs`"),
        ({**ROW, "_tidb": {"commitTs": 0}}, "got Expected `int` >= 1"),
        ({**ROW, "data": []}, "got Expected `array` of length 1"),
        ({**ROW, "data": [["1"], ["2"]]}, "got Expected `array` of length 1"),
        ({**ROW, "table": ""}, "expected database and table of a row, without NUL; got 'shop' and ''"),
        ({**ROW, "database": "a\0b"}, "expected database and table of a row, without NUL; got 'a\\x00b' and 'orders'"),
        ({**DDL, "type": "INSERT"}, "expected type of a DDL"),
    ],
)
def test_refuses_what_is_no_message_of_the_storage_feed(event: dict[str, Any], error: str) -> None:
    with pytest.raises(MessageUnreadable) as refused:
        CsvCodec().envelopes(message(event))
    assert refused.value.message.startswith("message storage@17: ")
    assert error in refused.value.message
    assert refused.value.hint == UNREADABLE_HINT


def test_a_message_without_value_is_refused() -> None:
    with pytest.raises(MessageUnreadable, match="got null"):
        CsvCodec().envelopes(Message(LANE, 17, None, None))


@given(data=st.data(), event=st.sampled_from([ROW, UPDATE, MARK, DDL]))
def test_damaged_bytes_are_refused_or_still_one_envelope(data: st.DataObject, event: dict[str, Any]) -> None:
    value = bytearray(as_json(event))
    place = data.draw(st.integers(0, len(value) - 1))
    value[place : place + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    with suppress(MessageUnreadable, FeedUnsuitable):
        (envelope,) = CsvCodec().envelopes(Message(LANE, 17, None, bytes(value)))
        assert not isinstance(envelope, Change) or CsvCodec().identity(envelope)


# ---- identity -------------------------------------------------------------------------------------------------------


def test_a_change_that_arrives_again_has_the_same_identity() -> None:
    first, again = change(UPDATE), change(UPDATE, database="SHOP", table="Orders")
    assert CsvCodec().identity(first) == CsvCodec().identity(again._replace(position=90))


def test_different_changes_have_different_identities() -> None:
    different = [
        change(ROW), change(UPDATE), change(ROW, type="DELETE"), change(ROW, type="UPDATE"), change(ROW, data=[["1", "null"]]),
        change(ROW, data=[["1", ""]]), change(ROW, table="other"), change(UPDATE, old=[["1", "y"]]), change(UPDATE, data=[["1", "x"]]),
    ]  # fmt: skip
    for one, other in permutations(different, 2):
        assert CsvCodec().identity(one) != CsvCodec().identity(other), (one, other)


# ---- marks ----------------------------------------------------------------------------------------------------------


def test_a_row_of_the_watermark_table_is_a_mark() -> None:
    assert CsvCodec().mark(change(MARK)) == Mark(CommitTs(10), "shop-dump", "3b5431", MarkKind.LOW)
    assert CsvCodec().mark(change(MARK, type="DELETE")) is None


@pytest.mark.parametrize(
    "changed",
    [
        {"data": [["7", "shop-dump", None, "1", "0", "0"]]},
        {"data": [["7", "shop-dump", "3b5431", "3", "0", "0"]]},
        {"data": [["7", "shop-dump", "3b5431", "x", "0", "0"]]},
        {"data": [["7", "shop-dump", "3b5431", "1", "0"]]},
        {"columns": ["id", "changefeed_id", "uuid", "event_type", "create_time", "update_time"]},
        {"columns": "id"},
    ],
)
def test_a_row_of_another_table_is_no_mark(changed: dict[str, Any]) -> None:
    with pytest.raises(MessageUnreadable) as refused:
        CsvCodec().mark(change(MARK, **changed))
    assert refused.value.hint == MARK_HINT
