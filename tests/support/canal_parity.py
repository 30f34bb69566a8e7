"""Recorded messages of canal-json beside the same, decoded to canonical text and encoded again.

`ts`, the moment at which TiCDC built a message, is set to 0 in both, and the fields of `mysqlType`, in random order there, are sorted. All
other bytes are compared as they are.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from sidecar.replay.recording import Recording
from sidecar.replay.tables import logged
from sidecar.shared.codecs.canal_json import CanalJson
from sidecar.shared.errors import FeedUnsuitable
from sidecar.shared.log.manifest import DdlRecord
from sidecar.shared.model.nouns import MARK_TABLE, Change, Ddl, Message, Resolved, TableName, TableSchema
from sidecar.shared.schema.version import TableVersion
from spark_merge.codecs.decode.rows import decode
from spark_merge.codecs.encode.messages import Encoder, RowMessage
from spark_merge.codecs.protocols import encoder
from tests.support.kv_ddl import ddl_recording
from tests.support.recordings import recording

Sent = tuple[bytes | None, bytes | None]
SchemaAt = Callable[[TableName, int], TableSchema]

_ROW = re.compile(rb'(\{.*?,"es":[0-9]+,"ts":)[0-9]+(,"sql":"","sqlType":\{.*?\},"mysqlType":\{)(.*?)(\},"old":.*)', re.DOTALL)
_OTHER = re.compile(rb'(\{"id":0,.*?,"es":[0-9]+,"ts":)[0-9]+(,"sql":.*)', re.DOTALL)


def of_row(value: bytes) -> bytes:
    match = _ROW.fullmatch(value)
    assert match is not None, value
    return b"%b0%b%b%b" % (match[1], match[2], b",".join(sorted(match[3].split(b","))), match[4])


def of_other(value: bytes) -> bytes:
    match = _OTHER.fullmatch(value)
    assert match is not None, value
    return b"%b0%b" % (match[1], match[2])


@dataclass
class Parity:
    """`equal`: messages by what they are (INSERT, …, DDL, resolved); `values`: those of the rows' columns by SQL type; `apart`: messages
    that are not compared, by why. `differing`: where there is a difference, by table and field."""

    equal: Counter[str] = field(default_factory=Counter)
    values: Counter[str] = field(default_factory=Counter)
    separate: Counter[str] = field(default_factory=Counter)
    differing: Counter[str] = field(default_factory=Counter)


def parity(name: str, feed: str, *, architecture: Literal["classic", "new"], server_tz: str = "UTC") -> Parity:
    """Of every message of a feed."""
    result = Recording(recording(name))
    made = encoder("canal-json", architecture=architecture, options={"enable-tidb-extension": "true", "time-zone": server_tz})
    reported, codec = Parity(), CanalJson()
    groups: defaultdict[TableSchema, list[tuple[Change, Sent]]] = defaultdict(list)
    schema_at = _schemas(result)
    for lane, messages in result.messages(result.feed_config(feed)).items():
        for position, message in enumerate(messages):
            sent = (message.key, message.value)
            try:
                (envelope,) = codec.envelopes(Message(lane, position, *sent))
            except FeedUnsuitable:
                assert b'"claimCheckLocation":' in (message.value or b"") or b'"onlyHandleKey":true' in (message.value or b"")
                reported.separate["of a large row"] += 1
                continue
            if isinstance(envelope, Change):
                table = TableName(envelope.schema, envelope.table)
                if table == MARK_TABLE:
                    reported.separate["of a mark"] += 1
                else:
                    groups[schema_at(table, envelope.commit_ts - 1)].append((envelope, sent))
            else:
                _compare_other(reported, made, envelope, sent)
    for schema, rows in groups.items():
        _compare_rows(reported, made, schema, rows, server_tz)
    return reported


def _schemas(value: Recording) -> SchemaAt:
    if not value.ddls:
        return lambda table, _: value.schemas[table]
    history = ddl_recording(value.name).history

    def at(table: TableName, ts: int) -> TableSchema:
        version = history.by_name(table, ts)
        assert isinstance(version, TableVersion)
        return version.description.schema

    return at


def _compare_other(reported: Parity, made: Encoder, envelope: Any, sent: Sent) -> None:
    match envelope:
        case Resolved(ts=ts):
            ours, what = made.resolved(ts), "resolved"
        case Ddl(commit_ts=ts, schema=schema, table=table, query=query):
            ours, what = made.ddl(DdlRecord(ts, schema, table, query), None, None), "DDL"
        case _:
            raise AssertionError(envelope)
    assert sent[1] is not None
    assert ours[1] is not None
    if ours[0] == sent[0] and of_other(ours[1]) == of_other(sent[1]):
        reported.equal[what] += 1
    else:
        reported.differing[f"{what}: {sent[1]!r} is here {ours[1]!r}"] += 1


def _compare_rows(reported: Parity, made: Encoder, schema: TableSchema, rows: list[tuple[Change, Sent]], server_tz: str) -> None:
    decoded = decode(
        logged([change for change, _ in rows], "canal-json"), codec="canal-json", schemas={schema.name: schema}, server_tz=server_tz
    )
    assert decoded.num_rows == len(rows), "TiCDC has split what changes its key"
    assert schema.definition is not None
    types = {column.name: column.type_text for column in schema.definition.columns}
    for ordinal, ours in zip(decoded["ordinal"].to_pylist(), made.rows(schema, decoded, None), strict=True):
        key, value = rows[ordinal][1]
        assert value is not None
        assert ours[1] is not None
        kind = msgspec.json.decode(value)["type"]
        if ours[0] == key and of_row(ours[1]) == of_row(value):
            reported.equal[kind] += 1
            reported.values.update(types[column.name].partition("(")[0].partition(" ")[0] for column in schema.columns)
        else:
            reported.differing.update(_differences(schema.name, kind, ours, value))


def _differences(table: TableName, kind: str, ours: RowMessage, value: bytes) -> Iterator[str]:
    """Field by field; what is not in a field alone is the whole message."""
    here, there = (msgspec.json.decode(one) for one in (ours[1] or b"", value))
    result = False
    for part in ("sqlType", "mysqlType", "data", "old"):
        mine, theirs = ((one[part][0] if isinstance(one[part], list) else one[part]) or {} for one in (here, there))
        for name in mine.keys() | theirs.keys():
            if mine.get(name) != theirs.get(name):
                result = True
                yield f"{table} {kind} {part}.{name}: {theirs.get(name)!r} is here {mine.get(name)!r}"
    if not result:
        yield f"{table} {kind}: {value!r} is here {ours[1]!r}"
