"""Changes of a table as the fields of Debezium's messages, before they are JSON or Avro.

    op           c: an insert, u: an update, d: a delete of a row or of a key, r: a row of a dump
    snapshot     incremental: of a dump, else false
    commit_ts    of a dump's row that of its window's end, as of every sink
    key          the handle key's columns, after the change, of a delete before it
    before, after     the columns; of a delete of which only the key is known the others are null, or zero where NOT NULL

`position_ns` rises strictly with commit_ts: a TSO's milliseconds in nanoseconds, and its logical counter, which has 18 bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import TableSchema
from spark_merge.codecs.encode.block import Block, image_columns, of_changes
from spark_merge.codecs.encode.debezium_fields import INVALID_DATES, DebeziumField, DebeziumOptions, fields_of_table
from spark_merge.codecs.encode.debezium_values import UNFIT, InvalidDate, field_values, zero_text
from spark_merge.port.contract import RANK_CHUNK

_LOGICAL_BITS = 18
"""Of a TSO, below its milliseconds."""

_NANOS = 1_000_000
"""Of a millisecond: more than a TSO's logical counter has values."""


@dataclass(frozen=True, slots=True)
class DebeziumImage:
    """`values`: an array a field, as debezium_values.py has them. `is_there`: of each row; None: of all."""

    values: Sequence[pa.Array]
    is_there: pa.Array | None


@dataclass(frozen=True, slots=True)
class DebeziumRows:
    """`key`: an array a field of the key, in the key's order. An image is None where no row has one. `op`, `snapshot`: pa.string,
    `commit_ts`: pa.int64."""

    fields: Sequence[DebeziumField]
    key: Sequence[pa.Array]
    before: DebeziumImage | None
    after: DebeziumImage | None
    op: pa.Array
    snapshot: pa.Array
    commit_ts: pa.Array


def key_fields(schema: TableSchema, fields: Sequence[DebeziumField]) -> list[DebeziumField]:
    """In the key's order."""
    by_name = {field.column.name: field for field in fields}
    return [by_name[name] for name in schema.key]


def position_ms(commit_ts: pa.Array) -> pa.Array:
    return pc.shift_right(commit_ts, _LOGICAL_BITS)


def position_us(commit_ts: pa.Array) -> pa.Array:
    return pc.multiply(position_ms(commit_ts), 1_000)


def position_ns(commit_ts: pa.Array) -> pa.Array:
    return pc.add(pc.multiply(position_ms(commit_ts), _NANOS), pc.bit_wise_and(commit_ts, (1 << _LOGICAL_BITS) - 1))


def debezium_rows(schema: TableSchema, changes: pa.RecordBatch, options: DebeziumOptions, *, keys_only: bool) -> DebeziumRows:
    """`changes`: of contract.CHANGES. `keys_only`: as of Encoder. Raises SinkError."""
    fields = fields_of_table(schema, options)
    block = of_changes(schema, changes.column("seq")[0].as_py(), changes)
    from_dump = pc.equal(changes.column("rank"), RANK_CHUNK)
    made = _Values(block, changes.column("key"), options)
    image = image_columns(block)
    is_delete, is_new = block.after.is_null(), block.before.is_null()
    reduced = is_delete if keys_only or options.key_of_deleted else None
    return DebeziumRows(
        fields,
        [made.of(field, image[field.place]) for field in key_fields(schema, fields)],
        made.image(fields, block.before, reduced),
        made.image(fields, block.after, None),
        pc.if_else(is_delete, "d", pc.if_else(from_dump, "r", pc.if_else(is_new, "c", "u"))),
        pc.if_else(from_dump, "incremental", "false"),
        block.commit_ts,
    )


class _Values:
    def __init__(self, block: Block, keys: pa.Array, options: DebeziumOptions) -> None:
        self._table, self._keys, self._invalid_dates = block.schema.name, keys, options.invalid_dates

    def image(self, fields: Sequence[DebeziumField], images: pa.StructArray, reduced: pa.Array | None) -> DebeziumImage | None:
        """`reduced`: in these rows only the key is known."""
        if images.null_count == len(images):
            return None
        values = []
        for field in fields:
            texts = images.field(field.place)
            if reduced is not None and not field.is_key:
                unknown: Any = pa.scalar(None if field.optional else zero_text(field.column), pa.string())
                texts = pc.if_else(reduced, unknown, texts)
            values.append(self.of(field, texts))
        return DebeziumImage(values, images.is_valid() if images.null_count else None)

    def of(self, field: DebeziumField, texts: pa.Array) -> pa.Array:
        what = f"{self._table}.{field.column.name}"
        try:
            return field_values(field, texts, self._invalid_dates)
        except InvalidDate as invalid:
            key, text = self._keys[invalid.index].as_py(), texts[invalid.index].as_py()
            raise SinkError(
                f"{what} of the row with key {key} is {text}, which no calendar has",
                hint=f"set {INVALID_DATES}=null-or-epoch in the sink's URI, and readers get NULL, or 1970 where the column is NOT NULL; or"
                " change the value in TiDB. In a handle key such a value cannot be written",
            ) from invalid
        except UNFIT as error:
            hint = getattr(error, "hint", "")
            raise SinkError(
                f"{what} holds a text that is no {field.column.kind} of its type: {error}",
                hint=hint or "the table's schema in the log does not fit its rows: check that no DDL is missing, then report this",
            ) from error
