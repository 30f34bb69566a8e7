"""canal-json, slowly: the twin of sidecar/shared/codecs/canal_json.py and spark_merge/codecs/decode/canal_json.py."""

from __future__ import annotations

import re
from typing import Any

from sidecar.shared.model.nouns import Column, TableSchema
from tests.tools.fuzz.slow_values import Row, Texts, Zone, changes, clean, fields, integer, loaded, number, octets, real, words
from tests.tools.fuzz.verdict import Refused

Event = tuple[Any, ...]

_DDLS = {"CREATE", "RENAME", "CINDEX", "DINDEX", "ALTER", "ERASE", "TRUNCATE", "QUERY"}
_INTEGERS = {"tinyint", "smallint", "mediumint", "int", "bigint"}
_TEXTS = {"char", "varchar", "tinytext", "text", "mediumtext", "longtext"}
_BLOBS = {"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"}


def envelopes(key: bytes | None, value: bytes | None, unpacked: Any) -> list[Event]:
    if value is None:
        raise Refused("null")
    plain = unpacked(value)
    event = fields(loaded(plain), "message")
    schema, table, kind = (clean(event.get(name), name) for name in ("database", "table", "type"))
    is_ddl, sql = event.get("isDdl"), clean(event.get("sql", ""), "sql")
    data, old = _one(event.get("data")), _one(event.get("old"))
    more = fields(event.get("_tidb"), "_tidb")
    if not isinstance(is_ddl, bool) or more.keys() - {"commitTs", "watermarkTs", "onlyHandleKey", "claimCheckLocation", "rowkey"}:
        raise Refused("isDdl or _tidb")
    if more.get("onlyHandleKey", False) is not False or more.get("claimCheckLocation", "") != "":
        raise Refused("not whole")
    clean(more.get("rowkey", ""), "rowkey")
    commit_ts, mark_ts = (None if more.get(name) is None else integer(more[name], name) for name in ("commitTs", "watermarkTs"))
    if any(ts is not None and not 1 <= ts < 1 << 63 for ts in (commit_ts, mark_ts)):
        raise Refused("a ts")
    if is_ddl and kind in _DDLS and commit_ts is not None:
        return [("ddl", commit_ts, schema, table, sql)]
    if not is_ddl and kind == "TIDB_WATERMARK" and mark_ts is not None:
        return [("resolved", mark_ts)]
    if (
        is_ddl
        or kind not in ("INSERT", "UPDATE", "DELETE")
        or commit_ts is None
        or not schema
        or not table
        or "\0" in schema + table
        or data is None
    ):
        raise Refused("no row")
    if kind == "UPDATE" and old is None:
        raise Refused("no old")
    return [("delete" if kind == "DELETE" else "put", commit_ts, schema, table, key or b"", plain)]


def mark(value: bytes) -> tuple[Any, Any, int]:
    """changefeed_id, unique_identifier and event_type of the watermark row's new version."""
    row = loaded(value)["data"][0]
    return row["changefeed_id"], row["unique_identifier"], int(row["event_type"])


def _one(value: Any) -> dict[str, Any] | None:
    if value is None:
        return None
    if not isinstance(value, list) or len(value) != 1:
        raise Refused("not one object")
    return fields(value[0], "image")


def rows(value: bytes, schema: TableSchema, zone: Zone) -> list[Row]:
    event = fields(loaded(value), "message")
    kind, data, old, types = event.get("type"), _one(event.get("data")), _one(event.get("old")), fields(event.get("mysqlType"), "mysqlType")
    if kind not in ("INSERT", "UPDATE", "DELETE") or data is None or (kind == "UPDATE") is (old is None):
        raise Refused("no row")
    names = set(schema.column_names())
    if (data.keys() | (old or {}).keys() | types.keys()) - names:
        raise Refused("other columns")
    if data.keys() != names and not (kind == "DELETE" and data.keys() == set(schema.key)):
        raise Refused("columns are missing")
    for column in schema.columns:
        if (named := types.get(column.name)) is not None and _kind(clean(named, "mysqlType")) != column.kind:
            raise Refused("another type")
    image = _image(data, schema, zone)
    if kind == "DELETE":
        return changes(image, None, schema)
    return changes(None if old is None else _image({**data, **old}, schema, zone), image, schema)


def _kind(mysql_type: str) -> str:
    word = re.split(r"[( ]", mysql_type, maxsplit=1)[0]
    if word in _INTEGERS:
        return "uint" if " unsigned" in mysql_type else "int"
    return "text" if word in _TEXTS else "binary" if word in _BLOBS else word


def _image(image: dict[str, Any], schema: TableSchema, zone: Zone) -> Texts:
    return tuple(_cell(image.get(column.name), column, zone) for column in schema.columns)


def _cell(value: Any, column: Column, zone: Zone) -> str | None:
    if value is None:
        return None
    text = clean(value, column.name)
    match column.kind:
        case "int" | "uint" | "bit" | "year" | "enum" | "set":
            if not re.fullmatch("0|-?[1-9][0-9]{0,19}", text):
                raise Refused("no integer")
            return number(int(text), column)
        case "float" | "double":
            if not re.fullmatch(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", text):
                raise Refused("no number")
            return real(float(text), column)
        case "binary":
            try:
                return octets(text.encode("iso-8859-1"), column)
            except UnicodeEncodeError as error:
                raise Refused("no ISO-8859-1") from error
        case _:
            return words(text, column, zone)
