"""A block as a table of typed columns: what a Parquet file of a table holds.

    _seq, _ordinal, _commit_ts   int64                    _op         insert | update | delete
    _origin                      log | dump               _dump_id    null for rows of the log
    _untyped                     null, or JSON {column: text} of the values that have no typed form
    then the table's columns, in order: of the new image, for a delete of the old one

If a column of the table is named like one of the first seven (letter case aside), all seven take one more underscore in
front, and so on until none is. The first seven columns are these under any name, and the file's metadata `ticdc-dump`
holds {schema, table, key, prefix}.

    int    int64                        date       date32                        bit      uint64
    uint   uint64                       datetime   timestamp[us]                 binary   binary
    float  float32                      timestamp  timestamp[us, UTC]            year     int16
    double float64                      time       string
    decimal(p, s)  decimal128, decimal256 above 38 digits or where the precision is not known (then 65, TiDB's most)
    text, enum, set, json, vector       string

- A time stays text: MySQL's spans ±838 hours, Parquet's only a day, and Parquet has no duration.
- TiDB holds dates that no calendar has: zero dates, '2020-00-10', '2020-02-30' (ALLOW_INVALID_DATES), and the year 0,
  which readers disagree on. Such a value is null in its column and its text is in `_untyped`: nothing is lost.
"""

from __future__ import annotations

import binascii
import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import Column, TableSchema
from spark_merge.codecs.encode.block import Block, image_columns
from spark_merge.codecs.encode.lazy_polars import pl

DECIMAL_DIGITS_MAX = 65
"""TiDB's largest precision."""

_DECIMAL128_DIGITS_MAX = 38

_TABLES_MAX = 4096
"""Tables whose files' columns are kept in a worker."""

ROW_GROUP_ROWS_MAX = 131_072
"""What a reader of a Parquet file must hold at least; a chunk or a batch of changes is a row group of its own below that."""

_ENVELOPE = (
    ("seq", pa.int64()),
    ("ordinal", pa.int64()),
    ("commit_ts", pa.int64()),
    ("op", pa.string()),
    ("origin", pa.string()),
    ("dump_id", pa.string()),
    ("untyped", pa.string()),
)

_DATE = r"^\d{4}-\d\d-\d\d$"
_MOMENT = r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{1,6})?$"


@lru_cache(maxsize=_TABLES_MAX)
def file_schema(schema: TableSchema) -> pa.Schema:
    """The columns of a table's file: a function of the table's schema alone."""
    prefix = envelope_prefix(schema)
    fields = envelope_fields(prefix)
    fields += [pa.field(column.name, arrow_type(column)) for column in schema.columns]
    about = {"schema": schema.name.schema, "table": schema.name.table, "key": schema.key, "prefix": prefix}
    return pa.schema(fields, metadata={"ticdc-dump": json.dumps(about, ensure_ascii=False)})


@lru_cache(maxsize=_TABLES_MAX)
def dictionary_columns(schema: TableSchema) -> Sequence[str]:
    """Columns of few values: a dictionary pays there, and costs half of the writing elsewhere (measured)."""
    prefix = envelope_prefix(schema)
    few = [column.name for column in schema.columns if column.kind in ("enum", "set", "year", "bit")]
    return [prefix + name for name in ("seq", "commit_ts", "op", "origin", "dump_id")] + few


def typed(block: Block, into: pa.Schema) -> pa.Table:
    """The block's rows under `into`: the `file_schema` of its table, or what a format has instead of these names and types (a string for
    any of them). Raises SinkError for a text that is no value."""
    columns: list[pa.Array] = []
    untyped: list[tuple[str, pa.Array]] = []
    kinds = into.types[len(_ENVELOPE) :]
    for column, kind, text in zip(block.schema.columns, kinds, image_columns(block), strict=True):
        try:
            values, refused = _typed_column(column, kind, text)
        except (pa.ArrowInvalid, binascii.Error) as error:
            raise SinkError(
                f"{block.schema.name}.{column.name} in segment {block.seq} holds a text that is no {column.kind}: {error}",
                hint="the table's schema in the log does not fit its rows: check that no DDL is missing, then report this",
            ) from error
        columns.append(values)
        if refused is not None:
            untyped.append((column.name, refused))
    count = block.rows
    envelope = [
        pa.repeat(pa.scalar(block.seq, pa.int64()), count),
        block.ordinal,
        block.commit_ts,
        block.op,
        pa.repeat(block.origin, count),
        pa.nulls(count, pa.string()) if block.dump_id is None else pa.repeat(block.dump_id, count),
        _untyped_text(untyped, count),
    ]
    return pa.Table.from_arrays(envelope + columns, schema=into)


def arrow_type(column: Column) -> pa.DataType:
    match column.kind:
        case "int":
            return pa.int64()
        case "uint" | "bit":
            return pa.uint64()
        case "float":
            return pa.float32()
        case "double":
            return pa.float64()
        case "decimal":
            digits = column.length if column.length > 0 else DECIMAL_DIGITS_MAX
            return pa.decimal128(digits, column.scale) if digits <= _DECIMAL128_DIGITS_MAX else pa.decimal256(digits, column.scale)
        case "date":
            return pa.date32()
        case "datetime":
            return pa.timestamp("us")
        case "timestamp":
            return pa.timestamp("us", tz="UTC")
        case "year":
            return pa.int16()
        case "binary":
            return pa.binary()
        case "text" | "enum" | "set" | "time" | "json" | "vector":
            return pa.string()
        case _ as never:
            assert_never(never)


def envelope_fields(prefix: str) -> list[pa.Field]:
    return [pa.field(prefix + name, kind) for name, kind in _ENVELOPE]


def envelope_prefix(schema: TableSchema) -> str:
    taken = {column.name.lower() for column in schema.columns}
    prefix = "_"
    while any(prefix + name in taken for name, _ in _ENVELOPE):
        prefix += "_"
    return prefix


def _typed_column(column: Column, kind: pa.DataType, text: pa.Array) -> tuple[pa.Array, pa.Array | None]:
    """The typed values, and the texts that have no typed form (null in all other rows), None if there are none."""
    if pa.types.is_string(kind):
        return text, None
    match column.kind:
        case "binary":
            return unhexed(text), None
        case "date" | "datetime":
            return _calendar(text, kind)
        case "timestamp":
            values, refused = _calendar(text, pa.timestamp("us"))
            return values.view(kind), refused
        case "float":
            return pc.cast(pc.cast(text, pa.float64()), kind), None
        case _:
            return pc.cast(text, kind), None


def _calendar(text: pa.Array, kind: pa.DataType) -> tuple[pa.Array, pa.Array | None]:
    year_zero = pc.starts_with(text, "0000")
    if not pc.any(year_zero).as_py():
        try:
            return pc.cast(text, kind), None
        except pa.ArrowInvalid:
            pass  # what is below finds the values that have no typed form, and raises again if it was another reason
    is_date = pa.types.is_date(kind)
    series = pl.Series(pl.from_arrow(text))
    read = series.str.to_date("%Y-%m-%d", strict=False) if is_date else series.str.to_datetime("%Y-%m-%d %H:%M:%S%.f", strict=False)
    in_no_calendar = pc.or_(year_zero, read.is_null().to_arrow())
    refused = pc.if_else(
        pc.and_(in_no_calendar, pc.match_substring_regex(text, _DATE if is_date else _MOMENT)), text, pa.scalar(None, pa.string())
    )
    return pc.cast(pc.if_else(refused.is_valid(), pa.scalar(None, pa.string()), text), kind), refused


def _untyped_text(untyped: Sequence[tuple[str, pa.Array]], count: int) -> pa.Array:
    """JSON by joining: the texts are digits and dashes, which need no escapes."""
    if not untyped:
        return pa.nulls(count, pa.string())
    pairs = [pc.binary_join_element_wise(f',{json.dumps(name, ensure_ascii=False)}:"', text, '"', "") for name, text in untyped]
    # not null_handling="skip": Arrow omits rows that are null in every argument
    joined = pc.binary_join_element_wise(*pairs, "", null_handling="replace", null_replacement="")
    objects = pc.binary_join_element_wise("{", pc.utf8_slice_codeunits(joined, 1), "}", "")
    return pc.if_else(pc.equal(joined, ""), pa.scalar(None, pa.string()), objects)


def unhexed(text: pa.Array) -> pa.Array:
    """All values in one go: every one has an even number of digits, so the joined digits are the joined values'."""
    digits: Any = pc.fill_null(text, "")
    _, ends, data = digits.buffers()
    offsets = np.frombuffer(ends, np.int32, count=len(digits) + 1, offset=4 * digits.offset)
    if (offsets % 2 != offsets[0] % 2).any():
        raise binascii.Error("an odd number of hex digits")
    raw = binascii.unhexlify(memoryview(data)[offsets[0] : offsets[-1]]) if data is not None else b""
    moved = ((offsets - offsets[0]) // 2).astype(np.int32)
    values = pa.Array.from_buffers(pa.binary(), len(digits), [None, pa.py_buffer(moved), pa.py_buffer(raw)])
    return values if text.null_count == 0 else pc.if_else(text.is_valid(), values, pa.scalar(None, pa.binary()))
