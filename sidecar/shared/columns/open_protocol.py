"""Values of open-protocol as canonical text: {"t": type, "h": handle, "f": flags, "v": value}.

Rules of tiflow pkg/sink/codec/internal/column.go:
- type codes 249 to 252 are base64, of text too; on 15, 253 and 254 binary is the body of a Go `strconv.Quote` and text stands as it is;
- which of both a column is its schema says, for both architectures encode by it. Flag bit 1 does not: the new one has flags from a cache
  by table id that outlives DDLs (ticdc pkg/sink/codec/open/encoder.go), so a new column has none, and one made again its namesake's;
- enum and set are numbers, a timestamp is in the server's zone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import msgspec
import pyarrow as pa

from sidecar.shared.columns.go_quote import go_unquote, go_unquote_all
from sidecar.shared.columns.values import (
    UnfitValue,
    byte_array,
    from_bytes,
    from_floats,
    from_ints,
    from_texts,
    int_array,
    unbase64,
    utf8_texts,
)
from sidecar.shared.columns.zone import ServerZone
from sidecar.shared.model.nouns import Column, Kind

_BASE64_TYPES = frozenset({249, 250, 251, 252})
BINARY_FLAG = 1


class _Int(msgspec.Struct, gc=False):
    t: Literal[1, 2, 3, 8, 9]
    v: int | None


class _Year(msgspec.Struct, gc=False):
    t: Literal[13]
    v: int | None


class _Bit(msgspec.Struct, gc=False):
    t: Literal[16]
    v: int | None


class _Enum(msgspec.Struct, gc=False):
    t: Literal[247]
    v: int | None


class _Set(msgspec.Struct, gc=False):
    t: Literal[248]
    v: int | None


class _Float(msgspec.Struct, gc=False):
    t: Literal[4]
    v: float | None


class _Double(msgspec.Struct, gc=False):
    t: Literal[5]
    v: float | None


class _String(msgspec.Struct, gc=False):
    t: Literal[15, 249, 250, 251, 252, 253, 254]
    f: int
    v: str | None


class _Timestamp(msgspec.Struct, gc=False):
    t: Literal[7]
    v: str | None


class _Date(msgspec.Struct, gc=False):
    t: Literal[10, 14]
    v: str | None


class _Time(msgspec.Struct, gc=False):
    t: Literal[11]
    v: str | None


class _Datetime(msgspec.Struct, gc=False):
    t: Literal[12]
    v: str | None


class _Vector(msgspec.Struct, gc=False):
    t: Literal[225]
    v: str | None


class _Json(msgspec.Struct, gc=False):
    t: Literal[245]
    v: str | None


class _Decimal(msgspec.Struct, gc=False):
    t: Literal[246]
    v: str | None


CELLS: dict[Kind, type[msgspec.Struct]] = {
    "int": _Int, "uint": _Int, "year": _Year, "bit": _Bit, "enum": _Enum, "set": _Set, "float": _Float, "double": _Double,
    "text": _String, "binary": _String, "timestamp": _Timestamp, "date": _Date, "time": _Time, "datetime": _Datetime,
    "vector": _Vector, "json": _Json, "decimal": _Decimal,
}  # fmt: skip


def cell(value: Any, column: Column) -> Any:
    """Of plain JSON. Raises msgspec.ValidationError."""
    return msgspec.convert(value, CELLS[column.kind])


def texts(cells: Sequence[Any], column: Column, zone: ServerZone) -> pa.Array:
    """Raises UnfitValue."""
    values = [cell.v for cell in cells]
    match column.kind:
        case "int" | "uint" | "bit" | "year" | "enum" | "set":
            return from_ints(int_array(values, column), column)
        case "float" | "double":
            return from_floats(pa.array(values, pa.float64()), column)
        case "text":
            if not _is_plain(cells):
                return utf8_texts(_bytes(cells, values, of_text=True))
            return pa.array(values, pa.string())
        case "binary":
            return from_bytes(_bytes(cells, values, of_text=False), column)
        case _:
            return from_texts(pa.array(values, pa.string()), column, zone)


def _is_plain(cells: Sequence[Any]) -> bool:
    """Whether every text stands as it is."""
    return _BASE64_TYPES.isdisjoint({cell.t for cell in cells})


def _bytes(cells: Sequence[Any], values: Sequence[str | None], *, of_text: bool) -> pa.Array:
    """The bytes behind base64 or quotes. One way for the column if its type is one, else value by value."""
    ways = {_way(type_, flags, of_text=of_text) for type_, flags in {(cell.t, cell.f) for cell in cells}}
    if len(ways) == 1:
        return byte_array(values, *ways.pop())
    cell_bytes: list[bytes | None] = []
    for index, cell in enumerate(cells):
        to_bytes, reason = _way(cell.t, cell.f, of_text=of_text)
        try:
            cell_bytes.append(None if cell.v is None else to_bytes(cell.v))
        except ValueError:
            raise UnfitValue(index, cell.v, reason) from None
    return pa.array(cell_bytes, pa.binary())


def _way(type_: int, flags: int, *, of_text: bool) -> tuple[Callable[[str], bytes], str]:
    """How a value's bytes are written, and what is wrong with a value that is not. Where the flag does not bear the schema out, a value
    must be what only Quote writes."""
    if type_ in _BASE64_TYPES:
        return unbase64, "is not base64"
    if of_text:
        return str.encode, "is not UTF-8"
    return (go_unquote if flags & BINARY_FLAG else go_unquote_all), "is of a binary column and not a Go quoted text"
