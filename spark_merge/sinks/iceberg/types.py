"""What a column is in Iceberg, and a block of rows as columns of it. All of them may be null.

    int, year      long, int               date        date                       text, enum, set, json, vector   string
    uint, bit      decimal(20, 0)          datetime    timestamp                  time                            string
    float          float                   timestamp   timestamptz                binary                          binary
    double         double                  decimal     decimal(p, s); string with more than 38 digits

- Iceberg has no unsigned 64 bits, and no more digits: such a decimal is its canonical text, with all of the column's places.
- A time is text: MySQL's spans ±838 hours, Iceberg's a day. What has no calendar is null, and its text in `_untyped`
  (codecs/encode/typed.py).
- The first fields of a table are the envelope's of codecs/encode/typed.py, in that order, whatever they are called: all seven in
  `mode=append`, `_commit_ts` and `_untyped` in `mode=merge`.
- Files carry Iceberg's field ids, so a file of a column's earlier name or type stays what it was.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal, assert_never

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
)

from sidecar.shared.model.nouns import Column, TableSchema
from spark_merge.codecs.encode.block import Block
from spark_merge.codecs.encode.typed import DECIMAL_DIGITS_MAX, file_schema, typed

Mode = Literal["append", "merge"]

DIGITS_MAX = 38
UNSIGNED = DecimalType(20, 0)

_ENVELOPE: tuple[IcebergType, ...] = (LongType(), LongType(), LongType(), StringType(), StringType(), StringType(), StringType())
_KEPT: dict[Mode, tuple[int, ...]] = {"append": tuple(range(7)), "merge": (2, 6)}
"""Of the envelope."""

_ARROW = {
    "int": pa.int32(), "long": pa.int64(), "float": pa.float32(), "double": pa.float64(), "string": pa.string(), "binary": pa.binary(),
    "date": pa.date32(), "timestamp": pa.timestamp("us"), "timestamptz": pa.timestamp("us", tz="UTC"),
}  # fmt: skip
_DECIMAL = re.compile(r"decimal\((\d+), (\d+)\)")


def iceberg_type(column: Column) -> IcebergType:
    match column.kind:
        case "int":
            return LongType()
        case "year":
            return IntegerType()
        case "uint" | "bit":
            return UNSIGNED
        case "float":
            return FloatType()
        case "double":
            return DoubleType()
        case "decimal":
            digits = column.length if column.length > 0 else DECIMAL_DIGITS_MAX
            return DecimalType(digits, column.scale) if digits <= DIGITS_MAX else StringType()
        case "date":
            return DateType()
        case "datetime":
            return TimestampType()
        case "timestamp":
            return TimestamptzType()
        case "binary":
            return BinaryType()
        case "text" | "enum" | "set" | "time" | "json" | "vector":
            return StringType()
        case _ as never:
            assert_never(never)


def envelope_fields(mode: Mode) -> int:
    """How many fields of a table are the envelope's: the first ones."""
    return len(_KEPT[mode])


def envelope(schema: TableSchema, mode: Mode) -> list[str]:
    """What these fields are called, beside the table's columns."""
    names = file_schema(schema).names
    return [names[place] for place in _KEPT[mode]]


def iceberg_schema(schema: TableSchema, mode: Mode = "append") -> Schema:
    """Of a table that is made."""
    kept = [_ENVELOPE[place] for place in _KEPT[mode]]
    kinds = [*zip(envelope(schema, mode), kept, strict=True), *((column.name, iceberg_type(column)) for column in schema.columns)]
    return Schema(*(NestedField(number, name, kind, required=False) for number, (name, kind) in enumerate(kinds, 1)))


def widened(there: IcebergType, wanted: IcebergType) -> IcebergType | None:
    """What holds the values of both, and what Iceberg takes for the first without rewriting files; None where there is no such type."""
    match there, wanted:
        case DecimalType(), DecimalType() if there.scale == wanted.scale:
            return there if there.precision >= wanted.precision else wanted
        case (FloatType(), DoubleType()) | (DoubleType(), FloatType()):
            return DoubleType()
        case (IntegerType(), LongType()) | (LongType(), IntegerType()):
            return LongType()
        case _:
            return there if there == wanted else None


def in_order(schema: Schema, table: TableSchema, mode: Mode = "append") -> list[NestedField]:
    """The fields of the envelope and then of each column, as `typed` has them. Raises KeyError where they do not fit."""
    own = envelope_fields(mode)
    by_name = {field.name: field for field in schema.fields[own:]}
    return [*schema.fields[:own], *(by_name[column.name] for column in table.columns)]


def arrow_schema(fields: Sequence[NestedField]) -> pa.Schema:
    """As it is written: with Iceberg's ids."""
    return pa.schema(
        [pa.field(field.name, _arrow_type(field.field_type), metadata={b"PARQUET:field_id": str(field.field_id)}) for field in fields]
    )


def rows_of(blocks: Iterator[Block], into: pa.Schema, mode: Mode = "append") -> Iterator[pa.Table]:
    """Blocks of one table, under `into`, its `arrow_schema`. Raises SinkError for a text that is no value."""
    for block in blocks:
        if block.rows:
            yield rows_of_block(block, into, mode)


def rows_of_block(block: Block, into: pa.Schema, mode: Mode) -> pa.Table:
    exact = replace(block.schema, columns=tuple(map(_written_as, block.schema.columns)))
    rows = typed(replace(block, schema=exact), file_schema(exact)).columns
    kept = [*(rows[place] for place in _KEPT[mode]), *rows[len(_ENVELOPE) :]]
    return pa.Table.from_arrays([column.cast(field.type) for column, field in zip(kept, into, strict=True)], schema=into)


def _written_as(column: Column) -> Column:
    """A column whose typed values (codecs/encode/typed.py) are those of Iceberg's type, or cast to it as they are."""
    kind = iceberg_type(column)
    if kind == UNSIGNED and column.kind != "decimal":
        return replace(column, kind="decimal", length=UNSIGNED.precision, scale=0)
    if column.kind == "decimal" and isinstance(kind, StringType):
        return replace(column, kind="text")
    return column


def _arrow_type(kind: IcebergType) -> pa.DataType:
    if match := _DECIMAL.fullmatch(str(kind)):
        return pa.decimal128(int(match[1]), int(match[2]))
    return _ARROW[str(kind)]
