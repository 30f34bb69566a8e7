"""Canonical texts of a column as values of its field (debezium_fields.py), a column at a time. A form writes these arrays, as JSON or Avro:

    boolean               pa.bool_          float      pa.float32        bytes    pa.binary         array    pa.list_(pa.float32())
    int16, int32, int64   pa.int64          double     pa.float64        string   pa.string

Bytes of a Decimal are the unscaled number in as few bytes of two's complement as it needs, big-endian; those of Bits are little-endian, as
many as the column's bits need.

A date that no calendar has (debezium_dates.py) has no value. It stops the sink, or is null or 1970, as Debezium has it. In a handle key it
always stops: two rows would have one key.
"""

from __future__ import annotations

import binascii
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sidecar.shared.columns.values import UnfitValue
from sidecar.shared.model.nouns import Column
from spark_merge.codecs.encode.debezium_dates import dates, moments, times, zoned
from spark_merge.codecs.encode.debezium_fields import DECIMAL, MILLIS_DIGITS, UNSIGNED, DebeziumField, InvalidDates
from spark_merge.codecs.encode.decimal_bytes import binary_of, decimal_bytes, shortest
from spark_merge.codecs.encode.typed import unhexed

_FLOATS = pa.list_(pa.float32())
_EPOCHS = {pa.int64(): pa.scalar(0, pa.int64()), pa.string(): pa.scalar("1970-01-01T00:00:00Z")}

UNFIT = (ValueError, binascii.Error)
"""What a text that is none of its kind raises; pyarrow's errors are ValueErrors."""


class FieldValues(NamedTuple):
    """`refused`: true where a text is a date that no calendar has, and the value is null; None: nowhere."""

    values: pa.Array
    refused: npt.NDArray[np.bool_] | None = None


def typed(field: DebeziumField, texts: pa.Array) -> FieldValues:
    """Of pa.string, null where null. Raises UNFIT for what is no canonical text of the column's kind."""
    column = field.column
    match column.kind:
        case "int" | "uint":
            return FieldValues(_integers(field, texts))
        case "float" | "double":
            numbers = texts.cast(pa.float64())
            return FieldValues(numbers.cast(pa.float32(), safe=False) if field.type.type == "float" else numbers)
        case "decimal":
            return FieldValues(decimal_bytes(texts, precision=column.length, scale=column.scale) if field.type.type == "bytes" else texts)
        case "binary":
            return FieldValues(unhexed(texts))
        case "bit":
            return FieldValues(pc.equal(texts, "1") if field.type.type == "boolean" else _bits(texts, column))
        case "year":
            return FieldValues(texts.cast(pa.int64()))
        case "date":
            return FieldValues(*dates(texts))
        case "datetime":
            return FieldValues(*moments(texts, scale=column.scale, unit=1_000 if column.scale <= MILLIS_DIGITS else 1))
        case "timestamp":
            return FieldValues(*zoned(texts, scale=column.scale))
        case "time":
            return FieldValues(times(texts, scale=column.scale))
        case "vector":
            return FieldValues(_vectors(texts))
        case _:
            return FieldValues(texts)


class InvalidDate(Exception):
    """A value at place `index` is a date that no calendar has."""

    def __init__(self, index: int) -> None:
        super().__init__(index)
        self.index = index


def field_values(field: DebeziumField, texts: pa.Array, invalid_dates: InvalidDates) -> pa.Array:
    """As `typed`. Raises InvalidDate, UNFIT."""
    values, refused = typed(field, texts)
    if refused is None:
        return values
    if invalid_dates == "error" or field.is_key:
        raise InvalidDate(int(np.flatnonzero(refused)[0]))
    return values if field.optional else pc.if_else(pa.array(refused), _EPOCHS[values.type], values)


def zero_text(column: Column) -> str:
    """The canonical text that stands for a value which is not known, in a column that is NOT NULL."""
    match column.kind:
        case "int" | "uint" | "bit":
            return "0"
        case "float" | "double":
            return "0.0"
        case "decimal":
            return f"0.{'0' * column.scale}" if column.scale else "0"
        case "year":
            return "0000"
        case "date":
            return "1970-01-01"
        case "datetime" | "timestamp":
            return "1970-01-01 00:00:00" + _zeros(column)
        case "time":
            return "00:00:00" + _zeros(column)
        case "json":
            return "{}"
        case "vector":
            return "[]"
        case _:
            return ""


def _zeros(column: Column) -> str:
    return f".{'0' * column.scale}" if column.scale else ""


# ---- numbers --------------------------------------------------------------------------------------------------------


def _integers(field: DebeziumField, texts: pa.Array) -> pa.Array:
    if field.column.kind == "int":
        return texts.cast(pa.int64())
    if field.type.type == "string":
        texts.cast(pa.uint64())  # for its error alone
        return texts
    numbers = texts.cast(pa.uint64())
    if field.type.name == DECIMAL:
        return _of_uint64(numbers)
    above = pc.fill_null(pc.greater(numbers, pa.scalar((1 << 63) - 1, pa.uint64())), False)
    if pc.any(above).as_py():
        index = pc.index(above, True).as_py()
        hint = f"set {UNSIGNED} to precise or string in the sink's URI, and deliver to new topics"
        raise UnfitValue(index, texts[index].as_py(), f"is above 2^63-1, and {UNSIGNED} is long", hint=hint)
    return numbers.cast(pa.int64())


def _of_uint64(numbers: pa.Array) -> pa.Array:
    """With a byte before eight: none of them is negative."""
    digits = pc.fill_null(numbers, 0).to_numpy(zero_copy_only=False).astype(">u8").view(np.uint8).reshape(-1, 8)
    return shortest(np.hstack([np.zeros((len(digits), 1), np.uint8), digits]), numbers)


def _bits(texts: pa.Array, column: Column) -> pa.Array:
    width = (column.length + 7) // 8
    numbers = pc.fill_null(texts.cast(pa.uint64()), 0).to_numpy(zero_copy_only=False)
    digits = numbers.astype("<u8").view(np.uint8).reshape(-1, 8)[:, :width]
    return binary_of(digits.ravel(), np.full(len(texts), width), texts)


def _vectors(texts: pa.Array) -> pa.Array:
    inner = pc.utf8_slice_codeunits(texts, 1, -1)
    parts = pc.if_else(pc.equal(inner, ""), pa.scalar([], pa.list_(pa.string())), pc.split_pattern(inner, ","))
    numbers = parts.flatten().cast(pa.float32())
    lengths = pc.fill_null(pc.list_value_length(parts), 0).to_numpy(zero_copy_only=False)
    ends = pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
    return pa.ListArray.from_arrays(ends, numbers, type=_FLOATS, mask=texts.is_null())
