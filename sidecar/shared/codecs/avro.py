"""avro as our Kafka sink writes it, read back: JSON that is made of a message and of the schema that the registry has for it.

    row        {"commitTs","database","table","types","key":{field: value},"value":{field: value} or null}
    types      of the value's fields, or of the key's where that is null: {field: TiDB's type}, as one text, which many rows have

A delete has the value null, or `_tidb_op` "d" in it. The names of fields are Avro's (`avro_name`), bytes are base64 and decimals texts
(spark_merge/sinks/kafka/registry_messages.py makes it). DDLs, which have a topic of their own, are as of debezium.py.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from msgspec import Raw, Struct, field, json

from sidecar.shared.codecs import debezium
from sidecar.shared.codecs.compression import Compression
from sidecar.shared.codecs.contract import Part
from sidecar.shared.codecs.refusals import JSON_ERRORS, unreadable
from sidecar.shared.model.nouns import Change, CommitTs, Envelope, Message, Rank

_NOT_FIRST = re.compile("[^A-Za-z_]")
_NOT_IN = re.compile("[^A-Za-z0-9_]")
DELETED = "d"
_ROW = b'{"commitTs":'
_MAGIC = b"\x00"
_ID_BYTES = 4


def avro_name(name: str) -> str:
    """As TiCDC sanitizes a name: each letter that Avro does not allow is `_`, and a first digit has one before it. Source: pingcap/ticdc
    pkg/sink/codec/common/helper.go, SanitizeName."""
    first, rest = name[:1], _NOT_IN.sub("_", name[1:])
    return (_NOT_FIRST.sub("_" + (first if first.isascii() and first.isdigit() else ""), first)) + rest


def wire_head(schema_id: int) -> bytes:
    """How a message of Confluent's wire format begins."""
    return _MAGIC + schema_id.to_bytes(_ID_BYTES, "big")


def wire_parts(message: bytes) -> tuple[int, bytes]:
    """A message's schema id, and its record in Avro. Raises ValueError."""
    if len(message) <= _ID_BYTES or not message.startswith(_MAGIC):
        raise ValueError(f"it begins with {message[:5]!r}, not with 0x00 and the id of a schema")
    return int.from_bytes(message[1 : 1 + _ID_BYTES], "big"), message[1 + _ID_BYTES :]


class _Value(Struct, gc=False):
    op: str = field(name="_tidb_op", default="")


class _Row(Struct, rename="camel", gc=False):
    commit_ts: CommitTs
    database: str
    table: str
    key: Raw
    value: _Value | None


_decode_row = json.Decoder(_Row).decode


@dataclass(frozen=True, slots=True)
class AvroReadBack:
    """`ReadBackCodec`."""

    @property
    def name(self) -> str:
        return "avro"

    def envelopes(self, message: Message) -> list[Envelope]:
        value = message.value or b""
        if not value.startswith(_ROW):
            return debezium.codec("none").envelopes(message)
        try:
            row = _decode_row(value)
        except JSON_ERRORS as error:
            raise unreadable(message, "value byte 0", form="a row of avro in JSON", got=str(error)) from error
        gone = row.value is None or row.value.op == DELETED
        place = (row.database, row.table, message.key or b"", value, message.lane, message.position)
        return [Change(row.commit_ts, Rank.DELETE if gone else Rank.PUT, *place)]

    def parts(self, message: Message) -> list[Part]:  # noqa: ARG002  (a row is never in a file)
        return []


def row_json(commit_ts: int, database: str, table: str, types: str, key: Any, value: Any) -> bytes:
    """What `envelopes` reads. `key`, `value`: records as a reader of Avro gives them."""
    return json.encode({"commitTs": commit_ts, "database": database, "table": table, "types": types, "key": key, "value": value})


def codec(compression: Compression) -> AvroReadBack:  # noqa: ARG001  (of other protocols)
    return AvroReadBack()
