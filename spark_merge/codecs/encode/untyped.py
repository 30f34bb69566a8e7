"""Typed columns as canonical text again: the inverse of typed.py, for every format that took its columns from there.

What a value becomes is decided by its own type and by the column that it is read as. The two differ where a schema change came after the
row (spark_merge/ddl/conversion.py): what TiDB made of the value is its text here, or it is refused.

    column                     of values of
    int, uint, bit, year       whole numbers, decimals without places
    decimal                    the same, decimals of no more places, text of no more places
    text, enum, set, json …    text; whole numbers, decimals and dates as TiDB writes them
    time                       text of no more places
    float, double              floats; doubles as a float where it holds them
    date, datetime, timestamp, binary    themselves; moments of no more places
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sidecar.shared.columns.values import UnfitValue, hex_texts
from sidecar.shared.errors import SinkError
from sidecar.shared.log.float_texts import reprs
from sidecar.shared.model.nouns import Column, TableSchema, lowered
from spark_merge.codecs.encode.block import one_array

_YEAR_BITS_MAX = 32
"""An integer of fewer than 64 bits is a YEAR in every format."""

_NULL_TEXT = pa.scalar(None, pa.string())


class OtherValues(ValueError):
    """A column has values that TiDB may have made others of when its type changed."""


def texts(table: pa.Table, schema: TableSchema, untyped: Any = None, *, written_as: Sequence[Sequence[str]] | None = None) -> pa.Table:
    """Canonical text: a pa.string column for each column of the schema, by its name and in its order. `table`: typed columns in that order,
    under any names. `untyped`: the rows' `_untyped`, None where there is none. `written_as`: what each column was called when `untyped` was
    written, in any case, if not as in the schema. Raises SinkError."""
    kept = {} if untyped is None else _kept_texts(untyped)
    columns = []
    names = written_as or [(name,) for name in schema.column_names()]
    for column, values, own in zip(schema.columns, table.columns, names, strict=True):
        try:
            text = column_texts(column, _plain(one_array(values)))
            for name in kept.keys() & set(map(lowered, own)):
                text = pc.coalesce(text, _untyped_texts(column, kept[name]))
        except (OtherValues, UnfitValue, pa.ArrowInvalid) as error:
            raise SinkError(
                f"{schema.name}.{column.name} has values that are none of a {column.kind}: {error}",
                hint="they are from before its type changed, and TiDB may have made others of them: deliver to a new place, and dump again",
            ) from error
        columns.append(text)
    return pa.Table.from_arrays(columns, names=list(schema.column_names()))


def column_texts(column: Column, values: pa.Array) -> pa.Array:
    """Raises OtherValues, UnfitValue, pa.ArrowInvalid."""
    if values.null_count == len(values):
        return pa.nulls(len(values), pa.string())
    match column.kind:
        case "int" | "uint" | "bit":
            return _whole(column, values)
        case "year":
            return pc.utf8_lpad(_whole(column, values), 4, "0")
        case "decimal":
            return _decimal(column, values)
        case "float" | "double":
            return _floating(column, values)
        case "date":
            return pc.cast(_of_type(values, pa.date32()), pa.string())
        case "datetime":
            return _moment(column, _of_type(values, pa.timestamp("us")))
        case "timestamp":
            return _moment(column, _of_type(values, pa.timestamp("us", tz="UTC")).cast(pa.timestamp("us")))
        case "binary":
            return hex_texts(_of_type(values, pa.binary()))
        case "time":
            return _padded(column, _of_type(values, pa.string()))
        case "text" | "enum" | "set" | "json" | "vector":
            return _as_text(values)
        case _ as never:
            assert_never(never)


# ---- numbers ----------------------------------------------------------------------------------------------------------


def _whole(column: Column, values: pa.Array) -> pa.Array:
    if pa.types.is_integer(values.type) or (pa.types.is_decimal(values.type) and values.type.scale == 0):
        return pc.cast(values, pa.string())
    raise OtherValues(f"{values.type} as {column.kind}")


def _decimal(column: Column, values: pa.Array) -> pa.Array:
    if pa.types.is_string(values.type):
        return _padded(column, values)
    text, scale = _number_texts(column, values)
    if scale > column.scale:
        raise OtherValues(f"{scale} digits after the point, {column.scale} by its type")
    return _with_places(text, scale, column.scale)


def _number_texts(column: Column, values: pa.Array) -> tuple[pa.Array, int]:
    """And how many digits after the point they have."""
    if not pa.types.is_decimal(values.type) or values.type.scale == 0:
        return _whole(column, values), 0
    scale: int = values.type.scale
    text = pc.cast(values, pa.string())
    with_exponent = pc.fill_null(pc.match_substring(text, "E"), fill_value=False)  # below 1e-6, and zeros
    if pc.any(with_exponent).as_py():
        small = values.filter(with_exponent)
        digits = pc.cast(pc.abs(_unscaled(small)), pa.string())
        sign = pc.if_else(pc.starts_with(text.filter(with_exponent), "-"), "-0.", "0.")
        text = pc.replace_with_mask(text, with_exponent, pc.binary_join_element_wise(sign, pc.utf8_lpad(digits, scale, "0"), ""))
    return text, scale


def _unscaled(values: Any) -> Any:
    """Without nulls."""
    whole = {16: pa.decimal128, 32: pa.decimal256}[values.type.byte_width](values.type.precision, 0)
    return pa.Array.from_buffers(whole, len(values), values.buffers(), offset=values.offset)


def _floating(column: Column, values: pa.Array) -> pa.Array:
    if not pa.types.is_floating(values.type):
        raise OtherValues(f"{values.type} as {column.kind}")
    doubles = values.cast(pa.float64())
    if column.kind == "float" and values.type == pa.float64():
        numbers = pc.fill_null(doubles, 0.0).to_numpy(zero_copy_only=False)
        with np.errstate(over="ignore"):
            if (numbers.astype(np.float32) != numbers).any():
                raise OtherValues("a double that no float holds")
    return reprs(doubles)


# ---- dates and times ------------------------------------------------------------------------------------------------------


def _moment(column: Column, values: pa.Array) -> pa.Array:
    """The cast refuses what is cut."""
    if column.scale == 0:
        return pc.cast(pc.cast(values, pa.timestamp("s")), pa.string())
    unit = 10 ** (6 - column.scale)
    if unit > 1 and np.any(pc.fill_null(values.view(pa.int64()), 0).to_numpy(zero_copy_only=False) % unit):
        raise OtherValues(f"more than {column.scale} digits of a second")
    text = pc.cast(values, pa.string())
    return text if unit == 1 else pc.utf8_slice_codeunits(text, 0, 20 + column.scale)


def _padded(column: Column, text: pa.Array) -> pa.Array:
    """Numbers and times that are text, with the column's digits after the point."""
    point = pc.find_substring(text, ".")
    places = pc.if_else(pc.less(point, 0), 0, pc.subtract(pc.subtract(pc.utf8_length(text), point), 1))
    bounds = pc.min_max(places)
    least, most = bounds["min"].as_py(), bounds["max"].as_py()
    if most is None or least == most == column.scale:
        return text
    if most > column.scale:
        raise OtherValues(f"{most} digits after the point, {column.scale} by its type")
    for scale in range(least, column.scale):
        text = pc.if_else(pc.equal(places, scale), _with_places(text, scale, column.scale), text)
    return text


def _with_places(text: pa.Array, scale: int, wanted: int) -> pa.Array:
    if scale == wanted:
        return text
    return pc.binary_join_element_wise(text, "" if scale else ".", "0" * (wanted - scale), "")


# ---- texts and bytes --------------------------------------------------------------------------------------------------------


def _as_text(values: pa.Array) -> pa.Array:
    kind = values.type
    if pa.types.is_string(kind):
        return values
    if pa.types.is_integer(kind):
        text = pc.cast(values, pa.string())
        return pc.utf8_lpad(text, 4, "0") if kind.bit_width <= _YEAR_BITS_MAX else text
    if pa.types.is_decimal(kind):
        return _number_texts(Column("", "text"), values)[0]
    return pc.cast(_of_type(values, pa.date32()), pa.string())


# ---- what has no typed form ------------------------------------------------------------------------------------------------


def _kept_texts(untyped: Any) -> Mapping[str, pa.Array]:
    """By column the texts that `untyped` has, null in the other rows."""
    encoded = pc.dictionary_encode(one_array(untyped))
    objects = [json.loads(text) for text in encoded.dictionary.to_pylist()]
    kept_texts = {}
    for name in {name for one in objects for name in one}:
        kept_texts[lowered(name)] = pa.array([one.get(name) for one in objects], pa.string()).take(encoded.indices)
    return kept_texts


def _untyped_texts(column: Column, kept: pa.Array) -> pa.Array:
    return _padded(column, kept) if column.kind in ("datetime", "timestamp") else kept


def _plain(values: pa.Array) -> pa.Array:
    """Of the types that typed.py has, whatever program wrote the file."""
    kind = values.type
    if pa.types.is_dictionary(kind):
        return _plain(values.dictionary_decode())
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return values.cast(pa.string())
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind) or pa.types.is_fixed_size_binary(kind):
        return values.cast(pa.binary())
    return values.cast(pa.timestamp("us", tz=kind.tz)) if pa.types.is_timestamp(kind) and kind.unit != "us" else values


def _of_type(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if values.type != kind:
        raise OtherValues(f"{values.type} as {kind}")
    return values
