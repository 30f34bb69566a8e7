"""Rows of which TiCDC sent the handle key alone come whole, the same changes as without that; what TiDB does not have stops by name."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

from sidecar.feeds.contract import NotifyingFeed
from sidecar.feeds.encoded.claims import ClaimFiles
from sidecar.feeds.encoded.make import with_whole_rows
from sidecar.feeds.encoded.read_rows import CodecWithReadRows, KeyRows, RowsInTime
from sidecar.feeds.encoded.whole_rows import CodecOfWholeRows, WithWholeRows
from sidecar.shared.codecs.canal_json import CanalJson
from sidecar.shared.codecs.contract import Claim, CodecWithParts, KeyAlone
from sidecar.shared.codecs.open_protocol import OpenProtocol
from sidecar.shared.codecs.simple import READ_ROW_HEAD, Simple
from sidecar.shared.columns.zone import ServerZone
from sidecar.shared.config import KafkaSection
from sidecar.shared.errors import FeedLost, FeedUnsuitable, SourceError, SourceGone, SourceLost
from sidecar.shared.model.keyset import Key, key_columns
from sidecar.shared.model.nouns import Change, Column, CommitTs, Lane, Message, Rank, TableName, TableSchema
from sidecar.shared.reads.row import KeyOf, RowImage
from sidecar.shared.ticdc.changefeed import Changefeed, ChangefeedName
from spark_merge.codecs.decode.rows import decode
from tests.recordings.make_claims import messages_of
from tests.support.recordings import recording
from tests.unit.decode.log import logged, recorded_changes, recorded_schemas
from tests.unit.feeds.test_encoded_claims import Sent, place, put, row

FEEDS: dict[str, CodecWithParts] = {"open": OpenProtocol(), "canal": CanalJson(), "simple": Simple()}
LANE = Lane("kafka/t/0")

Texts = Sequence[str | None]


class Versions:
    """`RowsInTime` of decoded changes: the newest version of each key at a TSO."""

    def __init__(self, changes: pa.Table, schemas: Mapping[TableName, TableSchema]) -> None:
        self.schemas = schemas
        self.versions: dict[tuple[TableName, Key], list[tuple[int, int, Texts | None]]] = {}
        for logged_row in changes.to_pylist():
            name = TableName(logged_row["schema"], logged_row["table"])
            for image, after in ((logged_row["before"], False), (logged_row["after"], True)):
                if image is not None:
                    ts = logged_row["commit_ts"] - (0 if after else 1)
                    self.versions.setdefault((name, self._key(name, image)), []).append((ts, int(after), image))
            if logged_row["after"] is None:
                self.versions[name, self._key(name, logged_row["before"])].append((logged_row["commit_ts"], 0, None))
        for versions in self.versions.values():
            versions.sort(key=lambda one: one[:2])

    def _key(self, name: TableName, image: Texts) -> Key:
        names = self.schemas[name].column_names()
        return tuple(str(image[names.index(column)]) for column in self.schemas[name].key)

    def row(self, table: TableName, at_ts: CommitTs, columns: Collection[str], key_of: KeyOf) -> RowImage | None:
        schema = self.schemas[table]
        assert set(columns) == set(schema.key)
        versions = self.versions.get((table, key_of(key_columns(schema))), [])
        images = [image for ts, _, image in versions if ts <= at_ts]
        return RowImage(schema.columns, images[-1]) if images and images[-1] is not None else None


def with_read_rows(feed: NotifyingFeed, codec: CodecWithParts, rows: RowsInTime, zone: ServerZone, *, after_ts: int = 0) -> WithWholeRows:
    keys = KeyRows(codec.name, rows, zone)
    return WithWholeRows(feed, codec, {KeyAlone: keys}, after_ts=lambda: CommitTs(after_ts), end=keys.close)


def all_of(feed: WithWholeRows) -> list[Message]:
    feed.seek({})
    messages: list[Message] = []
    while some := feed.poll(timeout_s=0.0):
        messages += some
    feed.close()
    return messages


def decoded(codec: Any, messages: Sequence[Message], schemas: Mapping[TableName, TableSchema]) -> list[Any]:
    changes = [one for message in messages for one in codec.envelopes(message) if isinstance(one, Change)]
    table = decode(logged(changes, codec=codec.name), codec=codec.name, schemas=schemas)
    rows = table.select(["commit_ts", "schema", "table", "op", "key", "before", "after"]).to_pylist()
    return sorted(rows, key=repr)


@pytest.mark.recordings
@pytest.mark.parametrize(("name", "rows"), [("open", 177), ("canal", 185), ("simple", 139)])
def test_the_recorded_rows_are_those_of_the_feed_that_has_them_whole(name: str, rows: int) -> None:
    folder, codec = recording("large"), FEEDS[name]
    schemas = recorded_schemas(folder)
    whole = recorded_changes(folder, "canal-json", codec="canal-json")
    versions = Versions(decode(logged(whole, codec="canal-json"), codec="canal-json", schemas=schemas), schemas)
    messages = messages_of(folder, f"{name}-handle-key-only")
    feed = with_read_rows(Sent(messages, at_once=50), codec, versions, ServerZone())
    read = all_of(feed)
    assert sum(one.value is not None and one.value.startswith(READ_ROW_HEAD) and b'"buildTs":0' in one.value for one in read) == rows
    assert decoded(CodecWithReadRows(codec), read, schemas) == decoded(CanalJson(), messages_of(folder, "canal-json"), schemas)


KEYS = (
    b'{"id":0,"database":"shop","table":"doc","isDdl":false,"type":"%s","old":%s,"data":[{"id":"7"}],'
    b'"_tidb":{"commitTs":100,"onlyHandleKey":true}}'
)


class Answers:
    """`RowsInTime` that answers so."""

    def __init__(self, answer: RowImage | Exception | None) -> None:
        self.answer, self.asked = answer, list[tuple[int, Key]]()
        self.schema = recorded_schemas(recording("large"))[TableName("shop", "doc")]

    def row(self, table: TableName, at_ts: CommitTs, columns: Collection[str], key_of: KeyOf) -> RowImage | None:
        self.asked.append((at_ts, key_of(key_columns(self.schema))))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def one(type_: bytes = b"INSERT", old: bytes = b"null") -> Sent:
    return Sent([Message(LANE, 3, b"", KEYS % (type_, old))])


@pytest.mark.parametrize(
    ("type_", "old", "asked"),
    [
        (b"INSERT", b"null", [(100, ("7",))]),
        (b"DELETE", b"null", [(99, ("7",))]),
        (b"UPDATE", b'[{"id":"7"}]', [(100, ("7",)), (99, ("7",))]),
    ],
)
def test_a_row_is_read_as_of_its_commit_and_what_it_was_as_of_the_moment_before(
    type_: bytes, old: bytes, asked: list[tuple[int, Key]]
) -> None:
    answers = Answers(None)
    answers.answer = RowImage(answers.schema.columns, ["7", *[None] * (len(answers.schema.columns) - 1)])
    (message,) = all_of(with_read_rows(one(type_, old), CanalJson(), answers, ServerZone()))
    assert answers.asked == asked
    assert message.value is not None
    assert (b'"type":"%s"' % type_) in message.value
    assert message[:2] == (LANE, 3)


@pytest.mark.parametrize(
    ("answer", "kind", "text"),
    [
        (None, FeedUnsuitable, "TiDB has no such row as of TSO 100"),
        (SourceError("it is not there", hint="grant it"), FeedUnsuitable, "as of TSO 100: it is not there"),
        (SourceLost("it is away", hint="wait"), FeedLost, "as of TSO 100: it is away"),
    ],
)
def test_what_the_operator_can_mend_stops_with_the_row(answer: RowImage | Exception | None, kind: type[Exception], text: str) -> None:
    feed = with_read_rows(one(), CanalJson(), Answers(answer), ServerZone())
    with pytest.raises(kind) as caught:
        all_of(feed)
    assert str(caught.value).startswith("message kafka/t/0@3: the row of shop.doc at commit_ts 100 is larger than a message, and ")
    assert text in str(caught.value)


@pytest.mark.parametrize("type_", [b"INSERT", b"DELETE"])
@pytest.mark.parametrize(
    ("key", "answer", "why"),
    [
        (b"7", SourceGone("it is garbage-collected", hint=""), "it is garbage-collected; its key in the message: {'id': '7'}"),
        (b"x", None, "value of key column id (int); its key in the message: {'id': 'x'}"),
        (b"7", RowImage([Column("id", "int"), Column("e", "enum")], ["7", "x"]), "none of the 0 labels"),
    ],
)
def test_a_row_that_can_never_be_read_is_logged_as_such(type_: bytes, key: bytes, answer: RowImage | Exception | None, why: str) -> None:
    """Delivery stops at it, where an operator can skip it; the stream continues."""
    sent = Sent([Message(LANE, 3, b"", (KEYS % (type_, b"null")).replace(b'"id":"7"', b'"id":"%s"' % key))])
    (message,) = all_of(with_read_rows(sent, CanalJson(), Answers(answer), ServerZone()))
    (change,) = CodecWithReadRows(CanalJson()).envelopes(message)
    assert isinstance(change, Change)
    assert (change.commit_ts, change.rank) == (100, Rank.DELETE if type_ == b"DELETE" else Rank.PUT)
    assert why in json.loads(change.value)["unread"]


CLAIMED = (KEYS % (b"INSERT", b"null")).replace(b'"onlyHandleKey":true', b'"claimCheckLocation":"s3://b/a.json"')


def test_a_row_of_a_kind_without_a_way_to_fetch_it_is_refused() -> None:
    with pytest.raises(FeedUnsuitable, match=r"^message kafka/t/0@3: the row of shop\.doc .*a reference to s3://b/a\.json"):
        all_of(with_read_rows(Sent([Message(LANE, 3, b"", CLAIMED)]), CanalJson(), Answers(None), ServerZone()))


def test_each_row_is_fetched_in_the_way_that_its_message_says(tmp_path: Path) -> None:
    """The changefeed's option was changed between them."""
    put(tmp_path, "a.json", row(7, body="x"))
    answers = Answers(None)
    answers.answer = RowImage(answers.schema.columns, ["7", *[None] * (len(answers.schema.columns) - 1)])
    keys, files = KeyRows("canal-json", answers, ServerZone()), ClaimFiles(CanalJson(), place(tmp_path), raw=False)
    sent = Sent([Message(LANE, 3, b"", row(7, file="s3://b/a.json")), Message(LANE, 4, b"", KEYS % (b"INSERT", b"null"))])
    feed = WithWholeRows(sent, CanalJson(), {KeyAlone: keys, Claim: files}, after_ts=lambda: CommitTs(0), end=keys.close)
    first, second = all_of(feed)
    assert (first.position, first.value) == (3, row(7, body="x"))
    assert (second.position, (second.value or b"").startswith(READ_ROW_HEAD)) == (4, True)


@pytest.mark.parametrize("value", [KEYS % (b"INSERT", b"null"), CLAIMED], ids=["key", "file"])
def test_a_row_that_nobody_takes_is_not_fetched_and_says_that_a_gap_before_it_is_none(value: bytes) -> None:
    """What is gone is older than the row, which the log has."""
    whole = KEYS.replace(b',"onlyHandleKey":true', b"") % (b"INSERT", b"null")
    sent = Sent([Message(LANE, 3, b"", value, after_gap=True), Message(LANE, 4, b"", whole)])
    feed = with_read_rows(sent, CanalJson(), Answers(SourceGone("it is garbage-collected", hint="")), ServerZone(), after_ts=100)
    assert [(message.position, message.after_gap) for message in all_of(feed)] == [(4, False)]


def test_a_key_that_stands_for_two_moments_is_no_key() -> None:
    """Whatever kafka.ambiguous takes for values: the other moment can be another row's."""
    definition: dict[str, object] = {"sink": {"kafka-config": {"large-message-handle": {"large-message-handle-option": "handle-key-only"}}}}
    uri = "kafka://b/t?protocol=canal-json&enable-tidb-extension=true"
    large = Changefeed(ChangefeedName("c", "n", "cf"), "1", uri, protocol="canal-json", config=definition)
    zone = KafkaSection(server_tz="Europe/Berlin", ambiguous="first")

    class Zoned(Answers):
        def row(self, table: TableName, at_ts: CommitTs, columns: Collection[str], key_of: KeyOf) -> RowImage | None:
            key_of([Column("id", "timestamp")])
            return None

    sent = Sent([Message(LANE, 3, b"", (KEYS % (b"INSERT", b"null")).replace(b'"id":"7"', b'"id":"2024-10-27 02:30:00"'))])
    feed = cast(WithWholeRows, with_whole_rows(sent, CanalJson(), large, zone, Zoned(None), lambda: CommitTs(0)))
    (message,) = all_of(feed)
    assert "two moments" in json.loads(message.value or b"")["unread"]


def test_who_looks_at_messages_alone_passes_over_rows_that_are_not_whole() -> None:
    codec = CodecOfWholeRows(CanalJson())
    whole = (KEYS.replace(b',"onlyHandleKey":true', b"")) % (b"INSERT", b"null")
    (change,) = codec.envelopes(Message(LANE, 4, b"", whole))
    assert isinstance(change, Change)
    assert [codec.envelopes(Message(LANE, 3, b"", value)) for value in (CLAIMED, KEYS % (b"INSERT", b"null"))] == [[], []]
