"""simple, slowly: the twin of sidecar/shared/codecs/simple.py and spark_merge/codecs/decode/simple.py."""

from __future__ import annotations

import base64
import re
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from sidecar.shared.model.nouns import Column, TableSchema
from tests.tools.fuzz.slow_values import Row, Texts, Zone, changes, clean, fields, integer, loaded, number, octets, real, words
from tests.tools.fuzz.verdict import Refused

Event = tuple[Any, ...]

_DDLS = {"CREATE", "RENAME", "CINDEX", "DINDEX", "ALTER", "ERASE", "TRUNCATE", "QUERY"}
_FIELDS = {
    "version", "type", "commitTs", "buildTs", "database", "table", "tableID", "sql", "schemaVersion", "claimCheckLocation", "handleKeyOnly",
    "checksum", "unread", "data", "old", "tableSchema", "preTableSchema",
}  # fmt: skip
_DATABASE = re.compile(
    r"(?:(?:CREATE|DROP) (?:DATABASE|SCHEMA)(?: IF(?: NOT)? EXISTS)? |ALTER (?:DATABASE|SCHEMA) )`((?:[^`]|``)*)`.*", re.DOTALL
)
"""As TiDB writes them in its jobs."""


def envelopes(key: bytes | None, value: bytes | None, unpacked: Any) -> list[Event]:
    if value is None:
        raise Refused("null")
    plain = unpacked(value)
    event = fields(loaded(plain), "message")
    if event.keys() - _FIELDS:
        raise Refused("unknown fields")
    version, kind, commit_ts = (
        integer(event.get("version"), "version"),
        clean(event.get("type"), "type"),
        integer(event.get("commitTs"), "ts"),
    )
    for name in ("buildTs", "tableID", "schemaVersion"):
        integer(event.get(name, None if name == "buildTs" else 0), name)
    schema, table, sql, claim, _ = (
        clean(event.get(name, ""), name) for name in ("database", "table", "sql", "claimCheckLocation", "unread")
    )
    only_key, data, old, checksum = (
        event.get("handleKeyOnly", False),
        _image_of(event, "data"),
        _image_of(event, "old"),
        event.get("checksum"),
    )
    if not isinstance(only_key, bool) or version != 1 or not 0 <= commit_ts < 1 << 63:
        raise Refused("a flag, the version or the ts")
    names = [_name_of(event, part) for part in ("tableSchema", "preTableSchema")]
    if checksum is not None and not isinstance(fields(checksum, "checksum").get("corrupted"), bool):
        raise Refused("a checksum")
    if kind == "BOOTSTRAP":
        return []
    if not commit_ts:
        raise Refused("no ts")
    if kind == "WATERMARK":
        return [("resolved", commit_ts)]
    if kind in _DDLS:
        named = next((name for name in names if name), None) or _database(sql)
        return [("ddl", commit_ts, *named, sql)]
    if kind not in ("INSERT", "UPDATE", "DELETE") or claim or only_key or not schema or not table or "\0" in schema + table:
        raise Refused("no row")
    if (data is None) is (kind != "DELETE") or (old is None) is (kind != "INSERT"):
        raise Refused("not the images of its type")
    return [("delete" if kind == "DELETE" else "put", commit_ts, schema, table, key or b"", plain)]


def _image_of(event: dict[str, Any], part: str) -> dict[str, Any] | None:
    return None if event.get(part) is None else fields(event[part], part)


def _name_of(event: dict[str, Any], part: str) -> tuple[str, str] | None:
    if event.get(part) is None:
        return None
    table = fields(event[part], part)
    return clean(table.get("schema"), part), clean(table.get("table"), part)


def _database(sql: str) -> tuple[str, str]:
    if (match := _DATABASE.fullmatch(sql)) is None:
        raise Refused("a DDL of no table")
    return match[1].replace("``", "`"), ""


def mark(value: bytes) -> tuple[Any, Any, int]:
    """changefeed_id, unique_identifier and event_type of the watermark row's new version."""
    row = loaded(value)["data"]
    return row["changefeed_id"], row["unique_identifier"], int(row["event_type"])


def rows(value: bytes, schema: TableSchema, zone: Zone) -> list[Row]:
    event = fields(loaded(value), "message")
    kind, data, old = event.get("type"), _image_of(event, "data"), _image_of(event, "old")
    if kind not in ("INSERT", "UPDATE", "DELETE") or (data is None) is (kind != "DELETE") or (old is None) is (kind != "INSERT"):
        raise Refused("no row")
    if (event.get("checksum") or {}).get("corrupted"):
        raise Refused("not what was written")
    names = set(schema.column_names())
    for image in (data, old):
        if image is not None and image.keys() != names and not (kind == "DELETE" and image.keys() == set(schema.key)):
            raise Refused("other columns")
    before, after = (None if image is None else _image(image, schema, zone) for image in (old, data))
    return changes(before, after, schema)


def _image(image: dict[str, Any], schema: TableSchema, zone: Zone) -> Texts:
    return tuple(_cell(image.get(column.name), column, zone) for column in schema.columns)


def _cell(value: Any, column: Column, zone: Zone) -> str | None:
    if value is None:
        return None
    if column.kind == "timestamp":
        cell = fields(value, column.name)
        if cell.keys() != {"location", "value"}:
            raise Refused("no timestamp")
        location, value = clean(cell["location"], "location"), clean(cell["value"], "value")
        if location not in ("", "Local"):
            zone = Zone(_zone(location), zone.ambiguous)
    text = clean(value, column.name)
    match column.kind:
        case "int" | "uint" | "bit" | "year" | "enum" | "set":
            if not re.fullmatch("0|-?[1-9][0-9]{0,19}", text):
                raise Refused("no integer")
            of_64_bits = column.kind in ("bit", "set") and -(1 << 63) <= int(text) < 0
            return number(int(text) + of_64_bits * (1 << 64), column)
        case "float" | "double":
            if not re.fullmatch(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", text):
                raise Refused("no number")
            return real(float(text), column)
        case "binary":
            try:
                plain = base64.b64decode(text, validate=True)
            except ValueError as error:
                raise Refused("no base64") from error
            if base64.b64encode(plain).decode() != text:
                raise Refused("no base64")
            return octets(plain, column)
        case _:
            return words(text, column, zone)


def _zone(name: str) -> str:
    if name == "Etc/UTC":
        return "UTC"
    try:
        return ZoneInfo(name).key
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise Refused(f"{name} is no zone") from error
