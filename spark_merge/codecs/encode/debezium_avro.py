"""debezium-avro: Debezium's rows (debezium.py) as Confluent's AvroConverter writes them, in the wire format of its schema registry.

    key, value     0x00, the schema's id as four bytes, the highest first, the record in Avro
    schemas        connect_avro.py; registered under `{topic}-key` and `{topic}-value`

DDLs and resolved marks stay in JSON, in topics of their own, as debezium.py has them. Options: debezium_fields.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa

import sidecar
from sidecar.shared.codecs.avro import wire_head
from sidecar.shared.errors import SinkError
from sidecar.shared.log.manifest import DdlRecord
from sidecar.shared.model.nouns import CommitTs, TableName, TableSchema
from spark_merge.codecs.encode import debezium
from spark_merge.codecs.encode.avro_columns import (
    NULL_FIRST,
    NULL_LAST,
    Branches,
    Part,
    arrays,
    booleans,
    floats,
    longs,
    nested,
    record,
    text_bytes,
    texts,
)
from spark_merge.codecs.encode.avro_schema import check_names
from spark_merge.codecs.encode.block import halved
from spark_merge.codecs.encode.connect_avro import avro_text
from spark_merge.codecs.encode.debezium import CONNECTOR, DebeziumEncoder
from spark_merge.codecs.encode.debezium_fields import DebeziumField, DebeziumOptions
from spark_merge.codecs.encode.debezium_rows import (
    DebeziumImage,
    DebeziumRows,
    debezium_rows,
    key_fields,
    position_ms,
    position_ns,
    position_us,
)
from spark_merge.codecs.encode.debezium_schema import envelope_schema, key_schema
from spark_merge.codecs.encode.messages import Architecture, RowMessage, SchemaIds
from spark_merge.port.contract import CHANGES

_TABLES_MAX = 4096
"""Tables whose schema texts a process keeps."""

_BLOCK_ROWS_MAX = 8192
_BLOCK_BYTES_MAX = 64 << 20
"""Of canonical text, as in avro.py."""

_NULL = NULL_FIRST.null


@dataclass(frozen=True, slots=True)
class DebeziumAvroEncoder:
    """`spark_merge.codecs.encode.messages.Encoder`. `in_json`: of all but rows."""

    schema_ids: SchemaIds
    in_json: DebeziumEncoder

    def rows(
        self,
        schema: TableSchema,
        changes: pa.Table,
        physical_ids: Sequence[int] | None,  # noqa: ARG002  (there is no partition in a message)
        *,
        keys_only: bool = False,
        topic: str = "",
    ) -> list[RowMessage]:
        options, messages = self.in_json.options, list[RowMessage]()
        for part in halved(changes.select(CHANGES.names), rows_max=_BLOCK_ROWS_MAX, bytes_max=_BLOCK_BYTES_MAX):
            (batch,) = part.combine_chunks().to_batches()
            rows, (key, value) = debezium_rows(schema, batch, options, keys_only=keys_only), _schemas(schema, options)
            heads = [wire_head(self.schema_ids.id_of(f"{topic}-{name}", text)) for name, text in (("key", key), ("value", value))]
            keys = record([heads[0], *_fields(schema.name, key_fields(schema, rows.fields), rows.key, None)])
            values = record([heads[1], *_envelope(options.prefix, schema.name, rows)])
            messages += zip(keys.to_pylist(), values.to_pylist(), strict=True)
        return messages

    def location_message(self, whole: RowMessage, schema: TableSchema, location: str) -> RowMessage:
        return self.in_json.location_message(whole, schema, location)

    def resolved(self, ts: CommitTs) -> RowMessage:
        return self.in_json.resolved(ts)

    def ddl(self, ddl: DdlRecord, before: TableSchema | None, after: TableSchema | None) -> RowMessage:
        return self.in_json.ddl(ddl, before, after)


def encoder(*, architecture: Architecture, options: Mapping[str, str], schema_ids: SchemaIds) -> DebeziumAvroEncoder:
    """Raises ConfigError for an option's value that cannot be written."""
    return DebeziumAvroEncoder(schema_ids, debezium.encoder(architecture=architecture, options=options))


@lru_cache(maxsize=_TABLES_MAX)
def _schemas(schema: TableSchema, options: DebeziumOptions) -> tuple[str, str]:
    """Of key and value, in JSON. Raises SinkError for two columns of one name in Avro."""
    check_names(schema, schema.column_names())
    return avro_text(key_schema(schema, options)), avro_text(envelope_schema(schema, options))


def _envelope(prefix: str, table: TableName, rows: DebeziumRows) -> list[Part]:
    """The order of the parts is that of the fields in debezium_schema.py."""
    ms, us, ns = (one(rows.commit_ts) for one in (position_ms, position_us, position_ns))
    times = [part for one in (ms, us, ns) for part in longs(one, NULL_FIRST)]
    source: list[Part] = [
        text_bytes(sidecar.__version__), text_bytes(CONNECTOR), text_bytes(prefix), *longs(ms), *texts(rows.snapshot, NULL_LAST),
        text_bytes(table.schema), _NULL, *longs(us, NULL_FIRST), *longs(ns, NULL_FIRST), NULL_FIRST.value + text_bytes(table.table),
        _SERVER, _NULL, text_bytes(""), *longs(rows.commit_ts), _ROW, _NULL, _NULL, *longs(rows.commit_ts),
    ]  # fmt: skip
    images = (part for image in (rows.before, rows.after) for part in _image(table, rows.fields, image))
    return [*images, *source, _NULL, *texts(rows.op), *times]


_SERVER = _ROW = b"\x00"
"""The number 0."""


def _image(table: TableName, fields: Sequence[DebeziumField], image: DebeziumImage | None) -> list[Part]:
    if image is None:
        return [NULL_FIRST.null]
    parts = _fields(table, fields, image.values, image.is_there)
    return [NULL_FIRST.value, *parts] if image.is_there is None else nested(image.is_there, parts, NULL_FIRST)


def _fields(table: TableName, fields: Sequence[DebeziumField], values: Sequence[pa.Array], is_there: pa.Array | None) -> list[Part]:
    parts: list[Part] = []
    for field, one in zip(fields, values, strict=True):
        there = one if is_there is None or not one.null_count else one.filter(is_there)
        if not field.optional and there.null_count:
            raise SinkError(
                f"table {table}, column {field.column.name}: a row has no value of it, and it is NOT NULL",
                hint="check that the log is whole, then report this: the value does not fit the column's schema in the log",
            )
        parts += _written(field, one, NULL_FIRST if field.optional else None)
    return parts


def _written(field: DebeziumField, values: pa.Array, union: Branches | None) -> list[Part]:
    match field.type.type:
        case "boolean":
            return booleans(values, union)
        case "float" | "double":
            return floats(values, union)
        case "array":
            return arrays(values, floats, union)
        case "string" | "bytes":
            return texts(values, union)
        case _:
            return longs(values, union)
