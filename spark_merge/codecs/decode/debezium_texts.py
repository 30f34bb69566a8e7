"""Values of Debezium's fields as canonical texts: the inverse of encode/debezium_values.py, of JSON's cells and of typed values.

Decimal    in base64, or the number's text            bytes, Bits   in base64            time   microseconds
Date       days since 1970                            Timestamp, MicroTimestamp          milli-, microseconds since 1970
"""

from __future__ import annotations

import binascii
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sidecar.shared.columns.values import UnfitValue, byte_array, from_bytes, from_floats, from_ints, from_texts, int_array, unbase64
from sidecar.shared.columns.zone import ServerZone
from sidecar.shared.model.nouns import Column
from spark_merge.codecs.encode.debezium_fields import MILLIS_DIGITS, DebeziumOptions

_UTC = ServerZone()
_MICROS, _MINUTE_S, _HOUR_S = 1_000_000, 60, 3600
_CLOCK_CHARS = 19


def texts_of_cells(cells: Sequence[Any], column: Column, options: DebeziumOptions) -> pa.Array:
    """One pa.string a cell, null where None. Raises UnfitValue."""
    match column.kind:
        case "int":
            return from_ints(_array(cells, pa.int64(), int), column)
        case "uint":
            return from_ints(int_array(_each(cells, _unsigned(options)), column), column)
        case "float" | "double":
            return from_floats(_array(cells, pa.float64(), (float, int)), column)
        case "decimal":
            if options.decimals == "string":
                return from_texts(_array(cells, pa.string(), str), column, _UTC)
            return pa.array(_each(cells, lambda cell: _decimal(_signed(cell), column.scale)), pa.string())
        case "binary":
            return from_bytes(byte_array(_array(cells, pa.string(), str).to_pylist(), unbase64, "is not base64"), column)
        case "bit":
            return from_ints(int_array(_each(cells, _bits), column), column)
        case "year":
            return from_ints(_array(cells, pa.uint64(), int), column)
        case "date":
            return _array(cells, pa.int32(), int).cast(pa.date32()).cast(pa.string())
        case "datetime":
            return _moments(_array(cells, pa.int64(), int), column)
        case "timestamp":
            spaced = pc.replace_substring(pc.utf8_rtrim(_array(cells, pa.string(), str), "Z"), "T", " ", max_replacements=1)
            return from_texts(spaced, column, _UTC)
        case "time":
            return pa.array(_each(_array(cells, pa.int64(), int).to_pylist(), lambda cell: _time(cell, column.scale)), pa.string())
        case "vector":
            return pa.array(_each(cells, _vector), pa.string())
        case _:
            return _array(cells, pa.string(), str)


def _array(cells: Sequence[Any], kind: pa.DataType, python: type | tuple[type, ...]) -> pa.Array:
    """Raises UnfitValue for a cell of another type: Arrow would make a number of a boolean, and text of bytes."""
    for index, cell in enumerate(cells):
        if cell is not None and (not isinstance(cell, python) or isinstance(cell, bool)):
            raise UnfitValue(index, cell, f"is not a {kind}")
    try:
        return pa.array(cells, kind)
    except (pa.ArrowInvalid, OverflowError) as error:
        raise UnfitValue(0, cells[0], f"is in a column that is not of {kind}: {error}") from error


def _each(cells: Sequence[Any], read: Callable[[Any], Any]) -> list[Any]:
    made = []
    for index, cell in enumerate(cells):
        try:
            made.append(None if cell is None else read(cell))
        except (ValueError, TypeError, binascii.Error) as error:
            raise UnfitValue(index, cell, f"is no value of the column: {error}") from error
    return made


def _signed(cell: str) -> int:
    return int.from_bytes(unbase64(cell), "big", signed=True)


def _unsigned(options: DebeziumOptions) -> Callable[[Any], int]:
    of_text: Callable[[str], int] = int if options.unsigned == "string" else _signed
    return lambda cell: of_text(cell) if isinstance(cell, str) else int(cell)


def _decimal(unscaled: int, scale: int) -> str:
    digits = str(abs(unscaled)).rjust(scale + 1, "0")
    whole, places = digits[: len(digits) - scale], digits[len(digits) - scale :]
    return f"{'-' if unscaled < 0 else ''}{whole}{'.' if scale else ''}{places}"


def _bits(cell: bool | str) -> int:
    return int(cell) if isinstance(cell, bool) else int.from_bytes(unbase64(cell), "little")


def _moments(numbers: pa.Array, column: Column) -> pa.Array:
    unit = "ms" if column.scale <= MILLIS_DIGITS else "us"
    text = numbers.view(pa.timestamp(unit)).cast(pa.timestamp("us")).cast(pa.string())
    return pc.utf8_slice_codeunits(text, 0, _CLOCK_CHARS + (column.scale and column.scale + 1))


def _time(micros: int, scale: int) -> str:
    seconds, fraction = divmod(abs(micros), _MICROS)
    clock = f"{seconds // _HOUR_S:02d}:{seconds % _HOUR_S // _MINUTE_S:02d}:{seconds % _MINUTE_S:02d}"
    places = f".{fraction:06d}"[: scale + 1] if scale else ""
    return f"{'-' if micros < 0 else ''}{clock}{places}"


def _vector(cell: Sequence[float]) -> str:
    """As TiDB writes it: without exponents."""
    numbers = (np.format_float_positional(np.float32(float(one)), unique=True, trim="-") for one in cell)
    return f"[{','.join(numbers)}]"
