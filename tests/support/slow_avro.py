"""avro written slowly: a row as a dict, by fastavro; the schema as TiCDC's source puts it together. The twin of codecs/encode/avro.py."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

import fastavro
import numpy as np

from sidecar.shared.model.nouns import Column, ColumnDefinition, TableSchema
from tests.support import slow_canal

_TYPES = {"int": "INT", "bigint": "BIGINT", "tinyint": "INT", "smallint": "INT", "mediumint": "INT"}
_DEFAULTS = {
    "int": ["'7'", "-7", "(nextval(`s`.`q`))"], "uint": ["'7'"], "float": ["'1.1'", "3e25"], "double": ["'1.1'", "'1e-7'"],
    "decimal": ["'1.5000'"], "text": ["'<x>'", "''", "(uuid())"], "enum": ["'a'"], "set": ["'p,q'"], "bit": ["b'101'"],
    "date": ["'2020-02-30'"], "timestamp": ["CURRENT_TIMESTAMP", "'2020-01-01 00:00:00'"], "datetime": ["CURRENT_TIMESTAMP(6)"],
    "year": ["'2000'"],
}  # fmt: skip
_JSON_DEFAULTS: dict[str, Any] = {
    "'7'": 7, "-7": -7, "(nextval(`s`.`q`))": None, "3e25": 3e25, "'1e-7'": 1e-7, "'<x>'": "<x>", "''": "", "(uuid())": "uuid()",
    "'a'": "a", "'p,q'": "p,q", "'2020-02-30'": "2020-02-30", "CURRENT_TIMESTAMP": "CURRENT_TIMESTAMP",
    "'2020-01-01 00:00:00'": "2020-01-01 00:00:00", "CURRENT_TIMESTAMP(6)": "CURRENT_TIMESTAMP", "'2000'": 2000,
}  # fmt: skip


@dataclass(frozen=True)
class Slow:
    """TiCDC's options."""

    decimal: str = "precise"
    unsigned: str = "long"
    extension: bool = False
    before: bool = False
    zone: str = "UTC"
    new: bool = False
    key_only: bool = False


def sanitized(name: str) -> str:
    made = ""
    for place, char in enumerate(name):
        letter = "a" <= char <= "z" or "A" <= char <= "Z" or char == "_"
        digit = "0" <= char <= "9"
        made += char if letter or (digit and place) else "_" + char if digit else "_"
    return made


def random_table(random: Random) -> TableSchema:
    """Of slow_canal, with columns that are NOT NULL and some that have a default. Its key is NOT NULL."""
    schema = slow_canal.random_table(random)
    schema = replace(schema, key=schema.key or (schema.columns[0].name,))
    assert schema.definition is not None
    columns, made = [], []
    for column, definition in zip(schema.columns, schema.definition.columns, strict=True):
        nullable = column.name not in schema.key and random.random() < 0.6
        default = random.choice(_DEFAULTS.get(column.kind, [None])) if random.random() < 0.5 else None
        if column.kind == "binary" and random.random() < 0.3 and "blob" not in definition.type_text:
            default = "'abü'"
        columns.append(replace(column, nullable=nullable))
        made.append(replace(definition, nullable=nullable, default=default))
    return replace(schema, columns=tuple(columns), definition=replace(schema.definition, columns=tuple(made)))


def filled(random: Random, schema: TableSchema, rows: Sequence[Mapping[str, Any]], *, long_max: bool) -> list[dict[str, Any]]:
    """Without NULL where that cannot be; `long_max`: without a BIGINT UNSIGNED that no long holds."""

    def image(texts: Sequence[str | None] | None) -> list[str | None] | None:
        if texts is None:
            return None
        assert schema.definition is not None
        row = list(texts)
        for place, (column, definition) in enumerate(zip(schema.columns, schema.definition.columns, strict=True)):
            while row[place] is None and not column.nullable:
                row[place] = slow_canal.random_text(random, column, definition.type_text)
            if long_max and column.kind == "uint" and row[place] is not None:
                row[place] = str(min(int(row[place] or 0), (1 << 63) - 1))
        return row

    return [{**row, "before": image(row["before"]), "after": image(row["after"])} for row in rows]


# ---- schemas --------------------------------------------------------------------------------------------------------


def _type(column: Column, definition: ColumnDefinition, slow: Slow) -> tuple[Any, Any]:
    """The type, and the value of its default."""
    word, unsigned = slow_canal.word_of(definition.type_text), " UNSIGNED" if column.kind == "uint" else ""
    default: Any = None if definition.default is None else _JSON_DEFAULTS.get(definition.default)
    tidb = _TYPES.get(word, {"text": "TEXT", "binary": "BLOB", "vector": "TiDBVECTORFloat32"}.get(column.kind, column.kind.upper()))
    parameters = {"tidb_type": tidb + unsigned}
    match column.kind:
        case "int" | "uint":
            if word == "bigint":
                avro = "string" if slow.unsigned == "string" and unsigned else "long"
            else:
                avro = "long" if word == "int" and unsigned else "int"
            default = str(default) if avro == "string" and default is not None else default
        case "year":
            avro = "int"
        case "float" | "double":
            avro = column.kind
            if definition.default == "'1.1'":
                default = 1.1 if avro == "double" else float(np.float32(1.1))
            if definition.default == "3e25" and avro == "float":
                default = float(np.float32(3e25))
        case "bit":
            avro, parameters = "bytes", {"length": str(column.length)} | parameters
            default = None if definition.default is None else "\0" * ((column.length + 7) // 8 - 1) + "\5"
        case "binary":
            avro = "bytes"
            default = None if definition.default is None else "abü".encode().decode("latin-1")
        case "decimal":
            if slow.decimal == "precise":
                return {
                    "type": "bytes", "connect.parameters": parameters, "logicalType": "decimal", "precision": column.length,
                    "scale": column.scale,
                }, None  # fmt: skip
            avro, default = "string", None if definition.default is None else "1.5000"
        case "enum" | "set":
            avro, parameters = "string", {"allowed": ",".join(column.elements)} | parameters
        case _:
            avro = "string"
    return {"type": avro, "connect.parameters": parameters}, default


def _fields(schema: TableSchema, slow: Slow, names: Sequence[str]) -> list[dict[str, Any]]:
    assert schema.definition is not None
    fields = []
    for column, definition in zip(schema.columns, schema.definition.columns, strict=True):
        if column.name not in names:
            continue
        type_, default = _type(column, definition, slow)
        field: dict[str, Any] = {"name": sanitized(column.name), "type": type_}
        if column.nullable:
            field |= {"type": ["null", type_] if default is None else [type_, "null"], "default": default}
        elif default is not None:
            field["default"] = default
        fields.append(dict(sorted(field.items())))
    return fields


def record_schema(schema: TableSchema, slow: Slow, names: Sequence[str], suffix: str = "") -> dict[str, Any]:
    return {
        "type": "record", "name": sanitized(schema.name.table) + suffix, "namespace": f"default.{sanitized(schema.name.schema)}",
        "fields": _fields(schema, slow, names),
    }  # fmt: skip


def value_schema(schema: TableSchema, slow: Slow) -> dict[str, Any]:
    made, names = record_schema(schema, slow, schema.column_names()), schema.column_names()
    if slow.before:
        made["fields"].append({"default": None, "name": "_ticdc_before", "type": ["null", record_schema(schema, slow, names, "_before")]})
    if slow.before or slow.extension:
        made["fields"].append({"default": "", "name": "_tidb_op", "type": "string"})
    if slow.extension:
        made["fields"] += [{"default": 0, "name": f"_tidb_commit_{name}", "type": "long"} for name in ("ts", "physical_time")]
    return made


def same_schema(text: str, slowly: Mapping[str, Any]) -> bool:
    """Whether the JSON is this, in this order, and as short as Go has it."""
    html = text.replace("\\u003c", "<").replace("\\u003e", ">").replace("\\u0026", "&").replace("\\u2028", "\u2028")
    made = json.dumps(slowly, ensure_ascii=False, separators=(",", ":")).replace("e-07", "e-7")
    return not set("<>&\u2028") & set(text) and html == made


# ---- rows -----------------------------------------------------------------------------------------------------------


def message(schema: TableSchema, row: Mapping[str, Any], slow: Slow, *, key_id: int, value_id: int) -> tuple[bytes, bytes | None]:
    image, op = row["after"] if row["after"] is not None else row["before"], row["op"]
    values = _values(schema, image, slow)
    key = {sanitized(name): values[sanitized(name)] for name in schema.key}
    written_key = _written(key_id, record_schema(schema, slow, schema.key), key)
    if op == "delete" and (slow.key_only or not slow.before):
        return written_key, None
    content: dict[str, Any] = dict(values)
    if slow.before:
        content["_ticdc_before"] = None if op == "insert" else _values(schema, row["before"], slow)
    content |= {"_tidb_op": op.replace("insert", "create")[0], "_tidb_commit_ts": row["commit_ts"]}
    content["_tidb_commit_physical_time"] = row["commit_ts"] >> 18
    return written_key, _written(value_id, value_schema(schema, slow), content)


def _written(schema_id: int, schema: Mapping[str, Any], content: Mapping[str, Any]) -> bytes:
    file = io.BytesIO()
    fastavro.schemaless_writer(file, fastavro.parse_schema(dict(schema)), content)
    return b"\0" + schema_id.to_bytes(4, "big") + file.getvalue()


def _values(schema: TableSchema, image: Sequence[str | None], slow: Slow) -> dict[str, Any]:
    assert schema.definition is not None
    return {
        sanitized(column.name): None if text is None else _value(text, column, definition, slow)
        for column, definition, text in zip(schema.columns, schema.definition.columns, image, strict=True)
    }


def _value(text: str, column: Column, definition: ColumnDefinition, slow: Slow) -> Any:
    match column.kind:
        case "uint" if slow.unsigned == "string" and definition.type_text.startswith("bigint"):
            return text
        case "int" | "uint" | "year":
            return int(text)
        case "float" | "double":
            return float(text)
        case "bit":
            number = int(text)
            return number.to_bytes((column.length + 7) // 8 if slow.new else max(1, (number.bit_length() + 7) // 8), "big")
        case "binary":
            return bytes.fromhex(text)
        case "decimal" if slow.decimal == "precise":
            return Decimal(text)
        case "timestamp" if not text.startswith("0000"):
            local = datetime.fromisoformat(text[:19]).replace(tzinfo=UTC).astimezone(ZoneInfo(slow.zone))
            return local.strftime("%Y-%m-%d %H:%M:%S") + text[19:]
        case _:
            return text
