"""avro as TiCDC writes it: one row a message, in the wire format of Confluent's schema registry.

    key, value     0x00, the schema's id as four bytes, the highest first, the record in Avro
    delete         the value is null; with avro-include-before-value the row as it was, and `_tidb_op` "d"
    update         the row after; with avro-include-before-value the row before in `_ticdc_before`

A schema is registered under `{topic}-key` or `{topic}-value`, and what it is: avro_schema.py. Rows of a dump are inserts. DDLs and resolved
marks, which TiCDC does not send, are as of debezium.py.

Values are TiCDC's, byte for byte, but where those would be wrong: a BIGINT UNSIGNED from 2^63 on, as a long, is an error (TiCDC: a negative
number), and an ENUM's invalid value is its empty text (TiCDC stops). A table without a primary key has its handle key as the key (the new
architecture: no key). Source: pingcap/tiflow and pingcap/ticdc pkg/sink/codec/avro.

Options, besides those in messages.py (a key alone of a deleted row: a delete without a value):

    avro-decimal-handling-mode           precise, string: precise
    avro-bigint-unsigned-handling-mode   long, string: long
    enable-tidb-extension                commit_ts, its milliseconds and the operation are in the value: false
    avro-include-before-value            TiCDC's newest has it: false
    avro-namespace                       the changefeed's namespace, or its keyspace: default
"""

from __future__ import annotations

import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import assert_never
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sidecar.shared.codecs.avro import wire_head
from sidecar.shared.errors import ConfigError, SinkError
from sidecar.shared.log.manifest import DdlRecord
from sidecar.shared.model.nouns import TSO_LOGICAL_BITS, CommitTs, TableSchema
from spark_merge.codecs.encode import debezium
from spark_merge.codecs.encode.avro_columns import NULL_FIRST, Part, floats, longs, nested, record, text_bytes, texts
from spark_merge.codecs.encode.avro_schema import UNSIGNED_HINT, AvroColumn, AvroShape, AvroTable, avro_table
from spark_merge.codecs.encode.block import Block, halved, image_columns, of_changes
from spark_merge.codecs.encode.decimal_bytes import binary_of, decimal_bytes
from spark_merge.codecs.encode.local_time import local_texts, zone_of
from spark_merge.codecs.encode.messages import Architecture, Encoder, RowMessage, SchemaIds
from spark_merge.codecs.encode.typed import unhexed
from spark_merge.port.contract import CHANGES

_OPS = {"insert": text_bytes("c"), "update": text_bytes("u"), "delete": text_bytes("d")}

_TABLES_MAX = 4096
"""Tables whose schemas are kept in a worker."""

_BLOCK_ROWS_MAX = 8192
_BLOCK_BYTES_MAX = 64 << 20
"""Of canonical text, which is longer than what is made of it; Arrow's arrays of bytes end at 2 GiB."""

_LIMITED = {
    "avro-decimal-handling-mode": ("precise", "string"),
    "avro-bigint-unsigned-handling-mode": ("long", "string"),
    "enable-tidb-extension": ("false", "true"),
    "avro-include-before-value": ("false", "true"),
    "delete-only-output-handle-key-columns": ("false", "true"),
}
"""Each option's values, its default first."""


@dataclass(frozen=True, slots=True)
class AvroEncoder:
    """`spark_merge.codecs.encode.messages.Encoder`. `control`: of DDLs and resolved marks."""

    schema_ids: SchemaIds
    control: Encoder
    shape: AvroShape
    zone: ZoneInfo
    deleted_key_only: bool

    def rows(
        self,
        schema: TableSchema,
        changes: pa.Table,
        physical_ids: Sequence[int] | None,  # noqa: ARG002  (avro has no partition)
        *,
        keys_only: bool = False,
        topic: str = "",
    ) -> list[RowMessage]:
        table, messages = _table(schema, self.shape), list[RowMessage]()
        for part in halved(changes.select(CHANGES.names), rows_max=_BLOCK_ROWS_MAX, bytes_max=_BLOCK_BYTES_MAX):
            (batch,) = part.combine_chunks().to_batches()
            block = of_changes(schema, part["seq"][0].as_py(), batch)
            messages += self._messages(table, block, topic, keys_only=keys_only or self.deleted_key_only)
        return messages

    def location_message(self, whole: RowMessage, schema: TableSchema, location: str) -> RowMessage:  # noqa: ARG002  (no such message)
        raise AssertionError("avro has no message for a row that is in a file: spark_merge/sinks/kafka/uri.py refuses it")

    def resolved(self, ts: CommitTs) -> RowMessage:
        return self.control.resolved(ts)

    def ddl(self, ddl: DdlRecord, before: TableSchema | None, after: TableSchema | None) -> RowMessage:
        return self.control.ddl(ddl, before, after)

    def _messages(self, table: AvroTable, block: Block, topic: str, *, keys_only: bool) -> list[RowMessage]:
        images = image_columns(block)
        keys = self._joined(table, table.key, images, self._head(topic, "key", table.key_schema))
        if self.shape.before and not keys_only:
            return list(zip(keys, self._values(table, block, images, topic), strict=True))
        puts = np.flatnonzero(pc.not_equal(block.op, "delete").to_numpy(zero_copy_only=False))
        values: list[bytes | None] = [None] * block.rows
        if len(puts) == block.rows:
            values[:] = self._values(table, block, images, topic)
        elif len(puts):
            some = _taken(block, puts)
            for place, value in zip(puts.tolist(), self._values(table, some, image_columns(some), topic), strict=True):
                values[place] = value
        return list(zip(keys, values, strict=True))

    def _values(self, table: AvroTable, block: Block, images: Sequence[pa.Array], topic: str) -> list[bytes]:
        added: list[Part] = []
        if self.shape.before:
            has_before = block.before.is_valid()
            old = [block.before.field(place) for place in range(block.before.type.num_fields)]
            added += nested(has_before, self._parts(table, table.value, old, has_before), NULL_FIRST)
        if self.shape.before or self.shape.extension:
            ops = block.op.dictionary_encode()
            added.append(pa.array([_OPS[op] for op in ops.dictionary.to_pylist()], pa.binary()).take(ops.indices))
        if self.shape.extension:
            added += [*longs(block.commit_ts), *longs(pc.shift_right(block.commit_ts, TSO_LOGICAL_BITS))]
        return self._joined(table, table.value, images, self._head(topic, "value", table.value_schema), added)

    def _head(self, topic: str, part: str, schema: str) -> bytes:
        return wire_head(self.schema_ids.id_of(f"{topic}-{part}", schema))

    def _joined(
        self, table: AvroTable, columns: Sequence[AvroColumn], images: Sequence[pa.Array], head: bytes, added: Sequence[Part] = ()
    ) -> list[bytes]:
        made: list[bytes] = record([head, *self._parts(table, columns, images, None), *added]).to_pylist()
        return made

    def _parts(
        self, table: AvroTable, columns: Sequence[AvroColumn], images: Sequence[pa.Array], is_present: pa.Array | None
    ) -> list[Part]:
        """`is_present`: of each image, None where all are."""
        parts: list[Part] = []
        for one in columns:
            text = images[one.place]
            if one.union is None and text.null_count and (is_present is None or pc.any(pc.and_(text.is_null(), is_present)).as_py()):
                raise SinkError(
                    f"table {table.schema.name}, column {one.column.name}: a row has no value of it, and it is NOT NULL", hint=_UNFIT_HINT
                )
            try:
                parts += self._written(text, one)
            except (pa.ArrowInvalid, binascii.Error) as error:
                raise _unfit(table, one, text, error) from error
        return parts

    def _written(self, text: pa.Array, one: AvroColumn) -> list[Part]:
        match one.form:
            case "long":
                return longs(text.cast(pa.uint64() if one.column.kind == "uint" else pa.int64()), one.union)
            case "float":
                return floats(text.cast(pa.float64()).cast(pa.float32()), one.union)
            case "double":
                return floats(text.cast(pa.float64()), one.union)
            case "bits":
                return texts(_bits(text.cast(pa.uint64()), (one.column.length + 7) // 8 if self.shape.wide_bits else 1), one.union)
            case "decimal":
                return texts(decimal_bytes(text, precision=one.column.length, scale=one.column.scale), one.union)
            case "bytes":
                return texts(unhexed(text), one.union)
            case "string":
                return texts(local_texts(text, self.zone) if one.column.kind == "timestamp" else text, one.union)
            case _ as never:
                assert_never(never)


_UNFIT_HINT = "check that the log is whole, then report this: the value does not fit the column's schema in the log"


def encoder(*, architecture: Architecture, options: Mapping[str, str], schema_ids: SchemaIds) -> AvroEncoder:
    """Raises ConfigError for an option, named, that cannot be written."""
    chosen = {name: options.get(name) or values[0] for name, values in _LIMITED.items()}
    for name, value in chosen.items():
        if value not in _LIMITED[name]:
            raise ConfigError(f"{name}={value}: avro is not written so", hint=f"set {name} to {' or '.join(_LIMITED[name])}")
    shape = AvroShape(
        decimal_as_text=chosen["avro-decimal-handling-mode"] == "string",
        unsigned_as_text=chosen["avro-bigint-unsigned-handling-mode"] == "string",
        extension=chosen["enable-tidb-extension"] == "true",
        before=chosen["avro-include-before-value"] == "true",
        namespace=options.get("avro-namespace") or "default",
        wide_bits=architecture == "new",
    )
    zone, control = zone_of(options.get("time-zone") or "UTC"), debezium.encoder(architecture=architecture, options=options)
    return AvroEncoder(schema_ids, control, shape, zone, chosen["delete-only-output-handle-key-columns"] == "true")


@lru_cache(maxsize=_TABLES_MAX)
def _table(schema: TableSchema, shape: AvroShape) -> AvroTable:
    return avro_table(schema, shape)


def _taken(block: Block, places: npt.NDArray[np.int64]) -> Block:
    chosen = pa.array(places)
    names = ("ordinal", "commit_ts", "op", "before", "after")
    return replace(block, **{name: getattr(block, name).take(chosen) for name in names})


def _bits(numbers: pa.Array, width_min: int) -> pa.Array:
    """The highest byte first: as many as the number needs, `width_min` at least."""
    data = pc.fill_null(numbers, 0).to_numpy(zero_copy_only=False).astype(">u8").view(np.uint8).reshape(-1, 8)
    needed = 8 - np.cumprod(data == 0, axis=1).sum(axis=1)
    sizes = np.maximum(needed, width_min)
    return binary_of(data[np.arange(8) >= 8 - sizes[:, None]], sizes, numbers)


def _unfit(table: AvroTable, one: AvroColumn, text: pa.Array, error: Exception) -> SinkError:
    what = f"table {table.schema.name}, column {one.column.name}"
    if one.column.kind == "uint" and one.form == "long":
        large = next((value for value in text.to_pylist() if value is not None and value.isdigit() and int(value) >> 63), None)
        if large is not None and int(large) < 1 << 64:
            return SinkError(f"{what}: the value {large} fits no long of Avro", hint=UNSIGNED_HINT)
    return SinkError(f"{what}: a value is no {one.column.kind}: {error}", hint=_UNFIT_HINT)
