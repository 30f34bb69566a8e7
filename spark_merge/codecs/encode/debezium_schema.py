"""The Connect schemas of Debezium's messages, in the JSON that JsonConverter has for them: of rows, DDLs and heartbeats.

    {prefix}.{schema}.{table}.Key, .Value, .Envelope       of a row; names as Debezium's, with `_` where Kafka allows no such letter
    io.debezium.connector.mysql.Source                     with `commit_ts` behind Debezium's own fields
    io.debezium.connector.mysql.SchemaChangeKey, …Value    of a DDL
    io.debezium.connector.common.ServerNameKey, Heartbeat  of a resolved mark, with `commit_ts`

Source: debezium at aad55199, SchemaFactory.java, BinlogSourceInfoStructMaker.java, TableSchemaBuilder.java, Envelope.java; Kafka's
JsonConverter.java (asJsonSchema).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from sidecar.shared.model.nouns import ColumnDefinition, TableSchema
from sidecar.shared.rowcodec.type_cast import defined_default
from spark_merge.codecs.encode.debezium_fields import (
    ConnectType,
    DebeziumField,
    DebeziumOptions,
    InvalidDates,
    fields_of_table,
    table_name,
)
from spark_merge.codecs.encode.debezium_json import values_in_json
from spark_merge.codecs.encode.debezium_rows import key_fields
from spark_merge.codecs.encode.debezium_values import UNFIT, InvalidDate, field_values
from spark_merge.codecs.encode.messages import definition_of

Schema: TypeAlias = "dict[str, Any]"

_MYSQL, _COMMON, _HISTORY = "io.debezium.connector.mysql.", "io.debezium.connector.common.", "io.debezium.connector.schema."
_ENVELOPE_VERSION = 2
_SNAPSHOT_WORDS = "true,first,first_in_data_collection,last_in_data_collection,last,false,incremental"


def of_type(connect: ConnectType, *, optional: bool = False) -> Schema:
    items = {"items": {"type": connect.items, "optional": False}} if connect.items else {}
    name = {"name": connect.name, "version": connect.version} if connect.name else {}
    parameters = {"parameters": dict(connect.parameters)} if connect.parameters else {}
    return {"type": connect.type, **items, "optional": optional, **name, **parameters}


def struct(name: str, fields: Iterable[tuple[str, Schema]], *, version: int | None = 1, optional: bool = False) -> Schema:
    of_version = {} if version is None else {"version": version}
    return {
        "type": "struct",
        "fields": [{**one, "field": field} for field, one in fields],
        "optional": optional,
        "name": name,
        **of_version,
    }


def simple(kind: str, *, optional: bool = False) -> Schema:
    return {"type": kind, "optional": optional}


def array(items: Schema, *, optional: bool = False) -> Schema:
    return {"type": "array", "items": items, "optional": optional}


SOURCE = struct(
    f"{_MYSQL}Source",
    [
        ("version", simple("string")),
        ("connector", simple("string")),
        ("name", simple("string")),
        ("ts_ms", simple("int64")),
        (
            "snapshot",
            of_type(ConnectType("string", "io.debezium.data.Enum", parameters=(("allowed", _SNAPSHOT_WORDS),)), optional=True)
            | {"default": "false"},
        ),
        ("db", simple("string")),
        ("sequence", simple("string", optional=True)),
        ("ts_us", simple("int64", optional=True)),
        ("ts_ns", simple("int64", optional=True)),
        ("table", simple("string", optional=True)),
        ("server_id", simple("int64")),
        ("gtid", simple("string", optional=True)),
        ("file", simple("string")),
        ("pos", simple("int64")),
        ("row", simple("int32")),
        ("thread", simple("int64", optional=True)),
        ("query", simple("string", optional=True)),
        ("commit_ts", simple("int64")),
    ],
)

_TRANSACTION = struct(
    "event.block",
    [("id", simple("string")), ("total_order", simple("int64")), ("data_collection_order", simple("int64"))],
    optional=True,
)

_COLUMN = struct(
    f"{_HISTORY}Column",
    [
        ("name", simple("string")),
        ("jdbcType", simple("int32")),
        ("nativeType", simple("int32", optional=True)),
        ("typeName", simple("string")),
        ("typeExpression", simple("string", optional=True)),
        ("charsetName", simple("string", optional=True)),
        ("length", simple("int32", optional=True)),
        ("scale", simple("int32", optional=True)),
        ("position", simple("int32")),
        ("optional", simple("boolean", optional=True)),
        ("autoIncremented", simple("boolean", optional=True)),
        ("generated", simple("boolean", optional=True)),
        ("comment", simple("string", optional=True)),
        ("defaultValueExpression", simple("string", optional=True)),
        ("enumValues", array(simple("string"), optional=True)),
    ],
)
_TABLE = struct(
    f"{_HISTORY}Table",
    [
        ("defaultCharsetName", simple("string", optional=True)),
        ("primaryKeyColumnNames", array(simple("string"), optional=True)),
        ("columns", array(_COLUMN)),
        ("comment", simple("string", optional=True)),
    ],
    optional=True,
)
_CHANGE = struct(f"{_HISTORY}Change", [("type", simple("string")), ("id", simple("string")), ("table", _TABLE)])

DDL_KEY = struct(f"{_MYSQL}SchemaChangeKey", [("databaseName", simple("string"))])
DDL_VALUE = struct(
    f"{_MYSQL}SchemaChangeValue",
    [
        ("source", SOURCE),
        ("ts_ms", simple("int64")),
        ("databaseName", simple("string", optional=True)),
        ("schemaName", simple("string", optional=True)),
        ("ddl", simple("string", optional=True)),
        ("tableChanges", array(_CHANGE)),
    ],
)
HEARTBEAT_KEY = struct(f"{_COMMON}ServerNameKey", [("serverName", simple("string"))])
HEARTBEAT_VALUE = struct(f"{_COMMON}Heartbeat", [("ts_ms", simple("int64")), ("commit_ts", simple("int64"))])


def key_schema(schema: TableSchema, options: DebeziumOptions) -> Schema:
    fields = key_fields(schema, fields_of_table(schema, options))
    return struct(f"{table_name(options.prefix, schema.name)}.Key", _of_fields(schema, fields, options), version=None)


def envelope_schema(schema: TableSchema, options: DebeziumOptions) -> Schema:
    name = table_name(options.prefix, schema.name)
    image = struct(f"{name}.Value", _of_fields(schema, fields_of_table(schema, options), options), version=None, optional=True)
    times = [(unit, simple("int64", optional=True)) for unit in ("ts_ms", "ts_us", "ts_ns")]
    parts = [("before", image), ("after", image), ("source", SOURCE), ("transaction", _TRANSACTION), ("op", simple("string")), *times]
    return struct(f"{name}.Envelope", parts, version=_ENVELOPE_VERSION)


def text_of(schema: Schema) -> str:
    return json.dumps(schema, ensure_ascii=False, separators=(",", ":"))


def _of_fields(schema: TableSchema, fields: Sequence[DebeziumField], options: DebeziumOptions) -> Iterable[tuple[str, Schema]]:
    made = {one.name: one for one in definition_of(schema).columns}
    return (
        (field.column.name, of_type(field.type, optional=field.optional) | _default(field, made[field.column.name], options.invalid_dates))
        for field in fields
    )


def _default(field: DebeziumField, made: ColumnDefinition, invalid_dates: InvalidDates) -> Schema:
    """Of a required field: a reader gives it to rows that are there when the column comes. In an optional one it would take it for NULL.
    Debezium has 1970 for a moment that is computed: those rows have another one, and MySQL's TIMESTAMP cannot be it. Here it is omitted, as
    is a default that a row could not have with these options."""
    if field.optional or field.is_key or made.default is None:
        return {}
    try:
        text = defined_default(field.column, made)
        values = field_values(field, pa.array([text], pa.string()), invalid_dates)
        (in_json,) = values_in_json(field, values).to_pylist()
        return {"default": json.loads(in_json)}
    except (*UNFIT, InvalidDate, ArithmeticError, IndexError):
        return {}
