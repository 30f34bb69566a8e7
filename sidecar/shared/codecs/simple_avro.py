"""simple with `encoding-format=avro`: the message of simple.py in Avro's binary form, without a registry; its schema is TiCDC's own.

A message is turned into the JSON of simple.py, which the log keeps: so what is behind this module knows the one form. Texts of the values
are those that TiCDC writes in JSON, but that floats have all digits of their double, and that Avro has no unsigned numbers: 64 bits come as
the signed number of the same bits, of a BIGINT UNSIGNED in a record that says so, of BIT(64) and of a SET of 64 labels without.

Source: pingcap/ticdc pkg/sink/codec/simple/message.json, avro.go.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from typing import Any, NamedTuple

from msgspec import json

from sidecar.shared.codecs import simple
from sidecar.shared.codecs.compression import Compression
from sidecar.shared.codecs.contract import Codec
from sidecar.shared.codecs.refusals import unreadable
from sidecar.shared.codecs.simple import Simple
from sidecar.shared.model.nouns import MarkKind, Message

_NAMESPACE = "com.pingcap.simple.avro"
_FORM = "a message of simple in Avro"
_BITS_64 = (1 << 64) - 1


def _record(name: str, /, **fields: Any) -> dict[str, Any]:
    made = [{"name": field, "type": type_} for field, type_ in fields.items()]
    return {"type": "record", "namespace": _NAMESPACE, "name": name, "fields": made}


def _enum(name: str, *symbols: str) -> dict[str, Any]:
    return {"type": "enum", "name": name, "symbols": list(symbols)}


def _array(items: str) -> dict[str, Any]:
    return {"type": "array", "items": items}


_CELLS = {"type": "map", "values": ["null", "long", "float", "double", "string", "bytes", "Timestamp", "UnsignedBigint"]}

_SCHEMA = [
    _record(
        "DataType", mysqlType="string", charset="string", collate="string", length="long", decimal=["null", "int"],
        elements=["null", _array("string")], unsigned=["null", "boolean"], zerofill=["null", "boolean"],
    ),
    _record("ColumnSchema", name="string", dataType="DataType", nullable="boolean", default=["null", "string"]),
    _record("IndexSchema", name="string", unique="boolean", primary="boolean", nullable="boolean", columns=_array("string")),
    _record(
        "TableSchema", database="string", table="string", tableID="long", version="long", columns=_array("ColumnSchema"),
        indexes=_array("IndexSchema"),
    ),
    _record("Checksum", version="int", corrupted="boolean", current="long", previous="long"),
    _record("Watermark", version="int", commitTs="long", buildTs="long"),
    _record("Bootstrap", version="int", buildTs="long", tableSchema="TableSchema"),
    _record(
        "DDL", version="int", type=_enum("DDLType", "CREATE", "ALTER", "ERASE", "RENAME", "TRUNCATE", "CINDEX", "DINDEX", "QUERY"),
        sql="string", commitTs="long", buildTs="long", tableSchema=["null", "TableSchema"], preTableSchema=["null", "TableSchema"],
    ),
    _record("Timestamp", location="string", value="string"),
    _record("UnsignedBigint", value="long"),
    _record(
        "DML", version="int", database="string", table="string", tableID="long", type=_enum("DMLType", "INSERT", "UPDATE", "DELETE"),
        commitTs="long", buildTs="long", schemaVersion="long", claimCheckLocation=["null", "string"], handleKeyOnly=["null", "boolean"],
        checksum=["null", "Checksum"], data=["null", _CELLS], old=["null", _CELLS],
    ),
    _record(
        "Message", type=_enum("MessageType", "WATERMARK", "BOOTSTRAP", "DDL", "DML"), payload=["Watermark", "Bootstrap", "DDL", "DML"]
    ),
]  # fmt: skip
"""A union: each message begins with the number of its last type."""


class _Avro(NamedTuple):
    read: Callable[[BytesIO], Any]
    write: Callable[[BytesIO, Any], None]


@cache
def _avro() -> _Avro:
    import fastavro  # 0.2 s that few changefeeds need

    schema = fastavro.parse_schema(_SCHEMA)
    return _Avro(
        lambda file: fastavro.schemaless_reader(file, schema, None), lambda file, content: fastavro.schemaless_writer(file, schema, content)
    )


def _as_json(message: Message, value: bytes) -> bytes:
    """As simple.py reads it. Raises MessageUnreadable."""
    read, file = _avro().read, BytesIO(value)
    try:
        content = read(file)
    except Exception as error:  # fastavro raises errors of many kinds, some of its own, for bytes that are not of the schema
        raise unreadable(message, "value byte 0", form=_FORM, got=f"{type(error).__name__}: {error}") from error
    if trailing := len(value) - file.tell():
        raise unreadable(message, f"value byte {file.tell()}", form="the end of the message", got=f"{trailing} bytes more")
    if content.keys() != {"type", "payload"}:
        raise unreadable(message, "value byte 0", form=_FORM, got=f"a record of {', '.join(content)}")
    return json.encode(_plain(content["type"], content["payload"]))


def _plain(kind: str, payload: Mapping[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {"type": kind, "commitTs": 0} | {name: part for name, part in payload.items() if part is not None}
    for name in made.keys() & {"tableSchema", "preTableSchema"}:
        made[name] = {"schema": made[name]["database"]} | made[name]
    for name in made.keys() & {"data", "old"}:
        made[name] = {column: _text(made[name][column]) for column in sorted(made[name])}
    return made


def _text(cell: Any) -> Any:
    match cell:
        case bytes():
            return b64encode(cell).decode()
        case int() | float():
            return repr(cell)
        case {"value": int(number)}:
            return str(number & _BITS_64)
        case _:
            return cell


@dataclass(frozen=True, slots=True)
class SimpleAvro(Simple):
    """As Simple; `Change.value` is the message in JSON."""

    def _value(self, message: Message) -> bytes:
        return _as_json(message, Simple._value(self, message))


def codec(compression: Compression) -> Codec:
    return SimpleAvro(compression)


def encode_mark(
    *, commit_ts: int, row_id: int, changefeed_id: str, uuid: str, kind: MarkKind, previous: tuple[str, MarkKind] | None, now_ms: int
) -> tuple[bytes | None, bytes]:
    """As simple.encode_mark."""
    key, value = simple.encode_mark(
        commit_ts=commit_ts, row_id=row_id, changefeed_id=changefeed_id, uuid=uuid, kind=kind, previous=previous, now_ms=now_ms
    )
    row = {"tableID": 0, "schemaVersion": 0} | json.decode(value)
    return key, _encoded("DML", "DML", row)


def encode_resolved(ts: int, now_ms: int) -> tuple[bytes | None, bytes]:
    """As simple.encode_resolved."""
    key, value = simple.encode_resolved(ts, now_ms)
    return key, _encoded("WATERMARK", "Watermark", json.decode(value))


def _encoded(kind: str, name: str, payload: Mapping[str, Any]) -> bytes:
    file = BytesIO()
    content = {"type": kind, "payload": (f"{_NAMESPACE}.{name}", payload)}
    _avro().write(file, (f"{_NAMESPACE}.Message", content))
    return file.getvalue()


def packed(value: bytes, pack: Callable[[bytes], bytes]) -> bytes:
    """TiCDC compresses the whole value."""
    return pack(value)
