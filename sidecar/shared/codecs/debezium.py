"""Debezium's form, as our own Kafka sink writes it (spark_merge/codecs/encode/debezium.py), read back.

    row        {"before", "after", "source": {…, "commit_ts"}, "op": "c|u|d|r", …}        DDL    {"source", "databaseName", "ddl", …}
    resolved   {"ts_ms", "commit_ts"}

Each is alone in a message, or the `payload` of one with a schema. TiCDC's own messages of this protocol are none of these: they cannot
carry a dump (registry.py). A tombstone has no value and is nothing here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta, Struct, json

from sidecar.shared.codecs.compression import Compression
from sidecar.shared.codecs.contract import Part, ReadBackCodec
from sidecar.shared.codecs.refusals import JSON_ERRORS, unreadable
from sidecar.shared.model.nouns import Change, CommitTs, Ddl, Envelope, Message, Rank, Resolved

_RANKS = {"c": Rank.PUT, "r": Rank.PUT, "u": Rank.PUT, "d": Rank.DELETE}
_FORM = "a row, a DDL or a resolved mark of Debezium's form as ticdc-dump writes it"

_Ts = Annotated[CommitTs, Meta(ge=1, le=2**63 - 1)]


class _Source(Struct, gc=False):
    commit_ts: _Ts
    db: str
    table: str | None = None


class _Payload(Struct, gc=False):
    op: str | None = None
    source: _Source | None = None
    ddl: str | None = None
    commit_ts: _Ts | None = None


class _Message(_Payload, gc=False):
    payload: _Payload | None = None


_decode = json.Decoder(_Message).decode


@dataclass(frozen=True, slots=True)
class Debezium:
    """`Change.key` and `Change.value` are the message's own."""

    @property
    def name(self) -> str:
        return "debezium"

    def envelopes(self, message: Message) -> list[Envelope]:
        if message.value is None:
            return []
        try:
            whole = _decode(message.value)
        except JSON_ERRORS as error:
            raise unreadable(message, "value byte 0", form=_FORM, got=error) from error
        return [_envelope(message, whole.payload or whole)]

    def parts(self, message: Message) -> list[Part]:  # noqa: ARG002  (no row is in a file)
        return []


def codec(compression: Compression) -> ReadBackCodec:  # noqa: ARG001  (values are as they are)
    return Debezium()


def _envelope(message: Message, payload: _Payload) -> Envelope:
    source, lane, position = payload.source, message.lane, message.position
    if source is None:
        if payload.commit_ts is not None:
            return Resolved(lane, payload.commit_ts, position)
    elif payload.ddl is not None:
        return Ddl(source.commit_ts, Rank.DDL, source.db, source.table or "", payload.ddl, lane, position)
    elif (rank := _RANKS.get(payload.op or "")) is not None and source.table:
        return Change(source.commit_ts, rank, source.db, source.table, message.key or b"", message.value or b"", lane, position)
    raise unreadable(message, "value byte 0", form=_FORM, got=f"op {payload.op!r}")
