"""open-protocol, slowly: the twin of sidecar/shared/codecs/open_protocol.py and spark_merge/codecs/decode/open_protocol.py."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from typing import Any

from sidecar.shared.model.nouns import Column, TableSchema
from tests.tools.fuzz.slow_values import Row, Texts, Zone, changes, clean, fields, integer, loaded, number, octets, real, words
from tests.tools.fuzz.verdict import Refused

Event = tuple[Any, ...]

_CODES = {
    "int": {1, 2, 3, 8, 9}, "uint": {1, 2, 3, 8, 9}, "year": {13}, "bit": {16}, "enum": {247}, "set": {248}, "float": {4}, "double": {5},
    "text": {15, 249, 250, 251, 252, 253, 254}, "binary": {15, 249, 250, 251, 252, 253, 254}, "timestamp": {7}, "date": {10, 14},
    "time": {11}, "datetime": {12}, "vector": {225}, "json": {245}, "decimal": {246},
}  # fmt: skip
_BASE64 = range(249, 253)
_KEY_FIELDS = {"ts", "t", "scm", "tbl", "rid", "ptn", "ohk", "ccl"}


def envelopes(key: bytes | None, value: bytes | None, unpacked: Any) -> list[Event]:
    """`unpacked`: a value of the framing to its plain bytes; raises Refused."""
    if key is None or value is None or key[:8] != b"\0\0\0\0\0\0\0\1":
        raise Refused("no version")
    keys, values = _frames(key[8:]), _frames(value)
    if len(keys) != len(values):
        raise Refused("keys and values")
    return [_event(one, other, unpacked) for one, other in zip(keys, values, strict=True)]


def _frames(data: bytes) -> list[bytes]:
    frames: list[bytes] = []
    while data or not frames:
        size = int.from_bytes(data[:8], "big")
        if len(data) < 8 + size:
            raise Refused("a frame is short")
        frames.append(data[8 : 8 + size])
        data = data[8 + size :]
    return frames


def _event(key: bytes, value: bytes, unpacked: Any) -> Event:
    head = fields(loaded(key), "key")
    if head.keys() - _KEY_FIELDS or head.get("ohk", False) is not False or head.get("ccl", "") != "":
        raise Refused("a key of another kind")
    ts, kind = integer(head.get("ts"), "ts"), integer(head.get("t"), "t")
    schema, table = clean(head.get("scm", ""), "scm"), clean(head.get("tbl", ""), "tbl")
    integer(head.get("rid", 0), "rid"), integer(head.get("ptn", 0), "ptn")
    if not 1 <= ts < 1 << 63:
        raise Refused("ts")
    if kind == 3:
        if value:
            raise Refused("a resolved mark with a value")
        return ("resolved", ts)
    if kind == 2:
        query = fields(loaded(unpacked(value)), "query")
        if query.keys() != {"q", "t"}:
            raise Refused("query")
        integer(query["t"], "t")
        return ("ddl", ts, schema, table, clean(query["q"], "q"))
    if kind != 1 or not schema or not table or "\0" in schema + table:
        raise Refused("t")
    plain = unpacked(value)
    new, old, gone = _parts(loaded(plain))
    if (new is None) is (gone is None) or (gone is not None and old is not None):
        raise Refused("neither put nor delete")
    return ("put" if gone is None else "delete", ts, schema, table, key, plain)


def mark(value: bytes) -> tuple[Any, Any, int]:
    """changefeed_id, unique_identifier and event_type of the watermark row's new version."""
    row = loaded(value)["u"]
    return row["changefeed_id"]["v"], row["unique_identifier"]["v"], int(row["event_type"]["v"])


def _parts(value: Any) -> list[Any]:
    row = fields(value, "row")
    if row.keys() - {"u", "p", "d"}:
        raise Refused("a row's parts")
    return [None if row.get(part) is None else fields(row[part], part) for part in ("u", "p", "d")]


def rows(value: bytes, schema: TableSchema, zone: Zone) -> list[Row]:
    new, old, gone = _parts(loaded(value))
    if (new is None) is (gone is None) or (gone is not None and old is not None):
        raise Refused("neither put nor delete")
    if gone is not None and gone.keys() == set(schema.key):
        missing = {column.name: None for column in schema.columns if column.name not in gone}
        return changes(_image(gone, schema, zone, missing), None, schema)
    before = old if gone is None else gone
    return changes(
        None if before is None else _image(before, schema, zone, {}), None if new is None else _image(new, schema, zone, {}), schema
    )


def _image(image: dict[str, Any], schema: TableSchema, zone: Zone, missing: dict[str, None]) -> Texts:
    if image.keys() | missing.keys() != set(schema.column_names()):
        raise Refused("other columns")
    return tuple(None if column.name in missing else _cell(image[column.name], column, zone) for column in schema.columns)


def _cell(result: Any, column: Column, zone: Zone) -> str | None:
    cell = fields(result, "cell")
    kind, code = column.kind, integer(cell.get("t"), "t")
    if "v" not in cell or code not in _CODES[kind]:
        raise Refused("a cell")
    value = cell["v"]
    is_string = kind in ("text", "binary")
    flags = integer(cell.get("f"), "f") if is_string else 0
    if value is None:
        return None
    if kind in ("int", "uint", "year", "bit", "enum", "set"):
        return number(integer(value, "v"), column)
    if kind in ("float", "double"):
        return real(value if isinstance(value, float) else integer(value, "v"), column)
    text = clean(value, "v")
    if not is_string:
        return words(text, column, zone)
    if code in _BASE64:
        return octets(_unbase64(text), column)
    return octets(unquoted(text, strictly=not flags & 1), column) if kind == "binary" else text


def _unbase64(text: str) -> bytes:
    if not re.fullmatch(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?", text):
        raise Refused("no base64")
    data = b64decode(text)
    if b64encode(data).decode() != text:
        raise Refused("bits of no byte")
    return data


def unquoted(text: str, *, strictly: bool) -> bytes:
    """The body of a Go quoted text. `strictly`: what Quote would have escaped does not stand there."""
    made, at = b"", 0
    while at < len(text):
        letter = text[at]
        if letter != "\\":
            if strictly and (letter == '"' or letter < " " or letter == "\x7f"):
                raise Refused("not quoted")
            made, at = made + letter.encode(), at + 1
            continue
        escape = text[at + 1 : at + 2]
        if escape and escape in 'abfnrtv\\"':
            made, at = made + dict(zip('abfnrtv\\"', b'\a\b\f\n\r\t\v\\"', strict=True))[escape].to_bytes(1, "big"), at + 2
            continue
        digits = text[at + 2 : at + 2 + {"x": 2, "u": 4, "U": 8}.get(escape, 0)]
        if not digits or not re.fullmatch("[0-9a-f]+", digits) or len(digits) != {"x": 2, "u": 4, "U": 8}[escape]:
            raise Refused("no escape of Quote")
        code = int(digits, 16)
        if escape != "x" and (code > 0x10FFFF or 0xD800 <= code < 0xE000):
            raise Refused("no rune")
        made, at = made + (bytes([code]) if escape == "x" else chr(code).encode()), at + 2 + len(digits)
    return made
