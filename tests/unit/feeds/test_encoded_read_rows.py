"""Rows of which TiCDC sent the handle key alone come whole, the same changes as without that; what TiDB does not have stops by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest

from sidecar.feeds.encoded.read_rows import CodecWithReadRows, WithReadRows
from sidecar.feeds.encoded.whole_rows import WithoutLargeRows
from sidecar.shared.codecs.canal_json import CanalJson
from sidecar.shared.codecs.contract import CodecWithParts
from sidecar.shared.codecs.open_protocol import OpenProtocol
from sidecar.shared.codecs.simple import READ_ROW_HEAD, Simple
from sidecar.shared.columns.zone import ServerZone
from sidecar.shared.errors import FeedLost, FeedUnsuitable, SourceError, SourceLost
from sidecar.shared.model.keyset import Key, key_columns
from sidecar.shared.model.nouns import Change, CommitTs, Lane, Message, TableName, TableSchema
from sidecar.shared.reads.row import KeyOf, RowImage
from spark_merge.codecs.decode.rows import decode
from tests.recordings.make_claims import messages_of
from tests.support.recordings import recording
from tests.unit.decode.log import logged, recorded_changes, recorded_schemas
from tests.unit.feeds.test_encoded_claims import Sent

FEEDS: dict[str, CodecWithParts] = {"open": OpenProtocol(), "canal": CanalJson(), "simple": Simple()}
LANE = Lane("kafka/t/0")

Texts = Sequence[str | None]


class Versions:
    """`RowsInTime` of decoded changes: the newest version of each key at a TSO."""

    def __init__(self, changes: pa.Table, schemas: Mapping[TableName, TableSchema]) -> None:
        self.schemas = schemas
        self.versions: dict[tuple[TableName, Key], list[tuple[int, int, Texts | None]]] = {}
        for row in changes.to_pylist():
            name = TableName(row["schema"], row["table"])
            for image, after in ((row["before"], False), (row["after"], True)):
                if image is not None:
                    ts = row["commit_ts"] - (0 if after else 1)
                    self.versions.setdefault((name, self._key(name, image)), []).append((ts, int(after), image))
            if row["after"] is None:
                self.versions[name, self._key(name, row["before"])].append((row["commit_ts"], 0, None))
        for versions in self.versions.values():
            versions.sort(key=lambda one: one[:2])

    def _key(self, name: TableName, image: Texts) -> Key:
        names = self.schemas[name].column_names()
        return tuple(str(image[names.index(column)]) for column in self.schemas[name].key)

    def row(self, table: TableName, at_ts: CommitTs, key_of: KeyOf) -> RowImage | None:
        schema = self.schemas[table]
        versions = self.versions.get((table, key_of(key_columns(schema))), [])
        images = [image for ts, _, image in versions if ts <= at_ts]
        return RowImage(schema.columns, images[-1]) if images and images[-1] is not None else None


def all_of(feed: WithReadRows) -> list[Message]:
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
    feed = WithReadRows(Sent(messages, at_once=50), codec, versions, ServerZone())
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

    def row(self, table: TableName, at_ts: CommitTs, key_of: KeyOf) -> RowImage | None:
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
    (message,) = all_of(WithReadRows(one(type_, old), CanalJson(), answers, ServerZone()))
    assert answers.asked == asked
    assert message.value is not None
    assert (b'"type":"%s"' % type_) in message.value
    assert message[:2] == (LANE, 3)


@pytest.mark.parametrize(
    ("answer", "kind", "text"),
    [
        (None, FeedUnsuitable, "TiDB has no such row as of TSO 100"),
        (SourceError("it is garbage-collected", hint="raise it"), FeedUnsuitable, "as of TSO 100: it is garbage-collected"),
        (SourceLost("it is away", hint="wait"), FeedLost, "as of TSO 100: it is away"),
    ],
)
def test_what_cannot_be_read_stops_with_the_row(answer: RowImage | Exception | None, kind: type[Exception], text: str) -> None:
    feed = WithReadRows(one(), CanalJson(), Answers(answer), ServerZone())
    with pytest.raises(kind) as caught:
        all_of(feed)
    assert str(caught.value).startswith("message kafka/t/0@3: the row of shop.doc at commit_ts 100 is larger than a message, and ")
    assert text in str(caught.value)


def test_a_key_that_is_none_stops_with_the_row() -> None:
    sent = Sent([Message(LANE, 3, b"", (KEYS % (b"INSERT", b"null")).replace(b'"id":"7"', b'"id":"x"'))])
    with pytest.raises(FeedUnsuitable, match=r"^message kafka/t/0@3: the row of shop\.doc .*value of key column id"):
        all_of(WithReadRows(sent, CanalJson(), Answers(None), ServerZone()))


def test_a_row_in_a_file_is_not_of_such_a_changefeed() -> None:
    value = (KEYS % (b"INSERT", b"null")).replace(b'"onlyHandleKey":true', b'"claimCheckLocation":"s3://b/a.json"')
    with pytest.raises(FeedUnsuitable, match="is in a file"):
        all_of(WithReadRows(Sent([Message(LANE, 3, b"", value)]), CanalJson(), Answers(None), ServerZone()))


def test_who_looks_at_messages_alone_passes_over_them() -> None:
    whole = KEYS.replace(b',"onlyHandleKey":true', b"") % (b"INSERT", b"null")
    sent = Sent([Message(LANE, 3, b"", KEYS % (b"INSERT", b"null")), Message(LANE, 4, b"", whole)])
    assert [message.position for message in WithoutLargeRows(sent, CanalJson()).poll(timeout_s=0.0)] == [4]
