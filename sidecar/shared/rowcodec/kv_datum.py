"""One value of a row or key: from its bytes to a plain Python value, and from that to canonical text (model.Kind).

    cell    a value of row format 2: the column's type alone decides how it is written
    datum   a value of row format 1 or of a common handle: a flag byte, then the value

    plain value, by kind                          canonical text
    int uint year enum set bit      int           decimal digits, a year's four digits, labels
    date datetime timestamp         packed int    kv_time
    time                            int, in ns    kv_time
    float double                    float         `repr`; a float through its float32
    decimal                         (int, scale)  digits with the column's scale, rounded half up as TiDB does
    text binary json vector         bytes         text, upper-case hex, kv_json

From pingcap/tidb pkg/util/codec, pkg/util/rowcodec, pkg/types/{time,mydecimal,json_binary}.go.
A value out of its column's range is refused: it was written for another type.
"""

from __future__ import annotations

import math
import struct
from typing import assert_never

from sidecar.shared.model.nouns import Kind
from sidecar.shared.rowcodec.kv_error import Broken
from sidecar.shared.rowcodec.kv_json import json_end, json_text, vector_end, vector_text
from sidecar.shared.rowcodec.kv_table import KvColumn
from sidecar.shared.rowcodec.kv_time import date_text, datetime_text, duration_text

Scaled = tuple[int, int]
"""A decimal: the digits as one int, and how many of them are after the point."""

Plain = int | float | bytes | Scaled

NIL, BYTES, COMPACT_BYTES, INT, UINT, FLOAT, DECIMAL, DURATION, VARINT, UVARINT, JSON, VECTOR = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20

_SIGNED = frozenset[Kind]({"int", "year", "time"})
_NUMBERS = frozenset[Kind]({"int", "uint", "year", "enum", "set", "bit", "date", "datetime", "timestamp", "time"})
ROW_FLAGS: dict[Kind, frozenset[int]] = {
    "int": frozenset({VARINT}), "year": frozenset({VARINT}), "time": frozenset({VARINT, DURATION}), "uint": frozenset({UVARINT}),
    "enum": frozenset({UVARINT}), "set": frozenset({UVARINT}), "bit": frozenset({UVARINT}), "date": frozenset({UVARINT}),
    "datetime": frozenset({UVARINT}), "timestamp": frozenset({UVARINT}), "float": frozenset({FLOAT}), "double": frozenset({FLOAT}),
    "decimal": frozenset({DECIMAL}), "text": frozenset({COMPACT_BYTES}), "binary": frozenset({COMPACT_BYTES}), "json": frozenset({JSON}),
    "vector": frozenset({VECTOR}),
}  # fmt: skip
"""Flags that a value of row format 1 may have."""

_KEY_FLAGS: dict[Kind, frozenset[int]] = {
    "int": frozenset({INT}), "year": frozenset({INT}), "time": frozenset({DURATION}), "uint": frozenset({UINT}),
    "enum": frozenset({UINT}), "set": frozenset({UINT}), "bit": frozenset({UINT}), "date": frozenset({UINT}),
    "datetime": frozenset({UINT}), "timestamp": frozenset({UINT}), "float": frozenset({FLOAT}), "double": frozenset({FLOAT}),
    "decimal": frozenset({DECIMAL}), "text": frozenset({BYTES}), "binary": frozenset({BYTES}), "json": frozenset(),
    "vector": frozenset(),
}  # fmt: skip
"""Flags that a column of a common handle may have."""

INT_BITS = {1: 8, 2: 16, 9: 24, 3: 32, 8: 64}
_YEARS = range(1901, 2156)
_SIGN_BIT = 1 << 63
_ALL_BITS = (1 << 64) - 1
_VARINT_BYTES_MAX = 10
_GROUP = 8
LEFTOVER_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
PRECISION_MAX, SCALE_MAX = 81, 30
_DIGITS_A_WORD = 9

_u64_be = struct.Struct(">Q").unpack_from
_float_of = struct.Struct(">d")
_float32 = struct.Struct("<f")


# ---- cells of row format 2 ------------------------------------------------------------------------------------------


def plain_of_cell(column: KvColumn, data: bytes) -> Plain:
    """`data` is the cell from end to end. Raises Broken."""
    kind = column.column.kind
    if kind in _NUMBERS:
        if len(data) not in (1, 2, 4, 8):
            raise Broken(0, f"an integer of 1, 2, 4 or 8 bytes ({kind})", f"{len(data)} bytes")
        return int.from_bytes(data, "little", signed=kind in _SIGNED)
    if kind in ("float", "double"):
        if len(data) != 8:
            raise Broken(0, f"8 bytes of a {kind}", f"{len(data)} bytes")
        return read_float(data, 0)
    if kind == "decimal":
        value, end = read_decimal(data, 0)
        if end != len(data):
            raise Broken(end, "the end of the decimal", f"{len(data) - end} bytes more")
        return value
    return data


# ---- datums ---------------------------------------------------------------------------------------------------------


def read_datum(data: bytes, at: int) -> tuple[int, Plain | None, int]:
    """Flag, value and where it ends. Raises Broken for a flag that no row or key has."""
    if at >= len(data):
        raise Broken(at, "the flag of a value", "the end")
    flag, at = data[at], at + 1
    match flag:
        case 0:  # NIL; constants cannot be patterns
            return flag, None, at
        case 1:
            return flag, *read_bytes(data, at)
        case 2:
            return flag, *_read_compact_bytes(data, at)
        case 3 | 7:
            return flag, _fixed(data, at) - _SIGN_BIT, at + 8
        case 4:
            return flag, _fixed(data, at), at + 8
        case 5:
            _fixed(data, at)
            return flag, read_float(data, at), at + 8
        case 6:
            return flag, *read_decimal(data, at)
        case 8:
            return flag, *read_varint(data, at)
        case 9:
            return flag, *_read_uvarint(data, at)
        case 10:
            end = json_end(data, at)
            return flag, data[at:end], end
        case 20:
            end = vector_end(data, at)
            return flag, data[at:end], end
        case _:
            raise Broken(at - 1, "the flag of a value", str(flag))


def plain_of_datum(column: KvColumn, data: bytes, at: int, *, in_key: bool) -> tuple[Plain | None, int]:
    """A datum that must be of the column's type, and where it ends. None is NULL, which a key does not hold."""
    flag, value, end = read_datum(data, at)
    allowed = (_KEY_FLAGS if in_key else ROW_FLAGS)[column.column.kind]
    if flag not in allowed and (flag != NIL or in_key):
        raise Broken(at, f"a value of kind {column.column.kind} (flag {' or '.join(map(str, sorted(allowed)))})", f"flag {flag}")
    return value, end


def _fixed(data: bytes, at: int) -> int:
    if at + 8 > len(data):
        raise Broken(at, "8 bytes of a number", f"{len(data) - at} bytes")
    number: int = _u64_be(data, at)[0]
    return number


def read_float(data: bytes, at: int) -> float:
    """The memcomparable form: positive numbers with the sign bit set, negative ones inverted."""
    bits = _u64_be(data, at)[0]
    bits = bits ^ _SIGN_BIT if bits & _SIGN_BIT else bits ^ _ALL_BITS
    value: float = _float_of.unpack(bits.to_bytes(8, "big"))[0]
    return value


def read_bytes(data: bytes, at: int) -> tuple[bytes, int]:
    """Groups of eight bytes with a marker behind each: 0xFF minus the count of padding zeros."""
    unpadded = bytearray()
    while True:
        group = data[at : at + _GROUP + 1]
        if len(group) <= _GROUP:
            raise Broken(at, f"a group of {_GROUP + 1} bytes", f"{len(group)} bytes")
        padding = 0xFF - group[_GROUP]
        if padding > _GROUP:
            raise Broken(at + _GROUP, "a marker of at least 0xf7", f"0x{group[_GROUP]:02x}")
        unpadded += group[: _GROUP - padding]
        at += _GROUP + 1
        if padding:
            if any(group[_GROUP - padding : _GROUP]):
                raise Broken(at - 1 - padding, f"{padding} zeros of padding", group[_GROUP - padding : _GROUP].hex())
            return bytes(unpadded), at


def _read_compact_bytes(data: bytes, at: int) -> tuple[bytes, int]:
    length, start = read_varint(data, at)
    if not 0 <= length <= len(data) - start:
        raise Broken(at, f"a length of at most {len(data) - start}", str(length))
    return data[start : start + length], start + length


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Go's zig-zag varint."""
    number, end = _read_uvarint(data, at)
    return (number >> 1) ^ -(number & 1), end


def _read_uvarint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for number, byte in enumerate(data[at : at + _VARINT_BYTES_MAX]):
        value |= (byte & 0x7F) << (7 * number)
        if byte < 0x80:
            if value > _ALL_BITS:
                raise Broken(at, "a number of 64 bits", "a larger one")
            return value, at + number + 1
    raise Broken(at, "a number of variable length", "no end of it")


def read_decimal(data: bytes, at: int) -> tuple[Scaled, int]:
    """Precision, scale, then MySQL's binary decimal: words of nine digits, sign in the first bit, negative ones inverted."""
    if at + 2 > len(data):
        raise Broken(at, "precision and scale of a decimal", f"{len(data) - at} bytes")
    precision, scale = data[at], data[at + 1]
    if not (1 <= precision <= PRECISION_MAX and scale <= min(precision, SCALE_MAX)):
        raise Broken(at, "precision and scale of a decimal", f"({precision}, {scale})")
    sizes = decimal_words(precision, scale)
    start, end = at + 2, at + 2 + sum(LEFTOVER_BYTES[digits] for digits in sizes)
    if end > len(data):
        raise Broken(start, f"{end - start} bytes of a decimal({precision}, {scale})", f"{len(data) - start} bytes")
    negative = not data[start] & 0x80
    body = bytes(byte ^ 0xFF for byte in data[start:end]) if negative else data[start:end]
    body = bytes([body[0] ^ 0x80]) + body[1:]
    unscaled, place = 0, 0
    for digits in sizes:
        width = LEFTOVER_BYTES[digits]
        word = int.from_bytes(body[place : place + width], "big")
        if word >= 10**digits:
            raise Broken(start + place, f"{digits} decimal digits", str(word))
        unscaled, place = unscaled * 10**digits + word, place + width
    return (-unscaled if negative else unscaled, scale), end


def decimal_words(precision: int, scale: int) -> list[int]:
    """How many digits each word of the binary form has, in order."""
    whole, lead = divmod(precision - scale, _DIGITS_A_WORD)
    part, trail = divmod(scale, _DIGITS_A_WORD)
    return [lead] * (lead > 0) + [_DIGITS_A_WORD] * (whole + part) + [trail] * (trail > 0)


# ---- canonical text -------------------------------------------------------------------------------------------------


def canonical(column: KvColumn, value: Plain) -> str:
    """Raises Broken for a value that the column cannot have, at an offset inside the value."""
    kind = column.column.kind
    match value:
        case int():
            return _int_text(column, value)
        case float():
            return _float_text(value, narrow=kind == "float")
        case bytes():
            return _bytes_text(column, value)
        case (unscaled, scale):
            return _decimal_text(column, unscaled, scale)
        case _:
            assert_never(value)


def _int_text(column: KvColumn, value: int) -> str:
    shape = column.column
    match shape.kind:
        case "date":
            return date_text(value, 0)
        case "datetime" | "timestamp":
            return datetime_text(value, shape.scale, 0)
        case "time":
            return duration_text(value, shape.scale, 0)
        case "enum":
            _refuse_outside(value, range(len(shape.elements) + 1), f"an index into the enum's {len(shape.elements)} labels")
            return shape.elements[value - 1] if value else ""
        case "set":
            _refuse_outside(value, range(1 << len(shape.elements)), f"a mask of the set's {len(shape.elements)} labels")
            return ",".join(label for bit, label in enumerate(shape.elements) if value >> bit & 1)
        case "bit":
            _refuse_outside(value, range(1 << shape.length), f"a value of bit({shape.length})")
        case "year":
            if value != 0:
                _refuse_outside(value, _YEARS, "a year, 0 or 1901 to 2155")
            return f"{value:04d}"
        case _:
            bits = INT_BITS[column.type_code]
            low = 0 if column.unsigned else -(1 << (bits - 1))
            _refuse_outside(value, range(low, low + (1 << bits)), f"an integer of {bits} bits")
    return str(value)


def _refuse_outside(value: int, allowed: range, form: str) -> None:
    if value not in allowed:
        raise Broken(0, form, str(value))


def _float_text(value: float, *, narrow: bool) -> str:
    if math.isfinite(value) and narrow:
        try:
            value = _float32.unpack(_float32.pack(value))[0]
        except OverflowError:
            raise Broken(0, "a float32", repr(value)) from None
    if not math.isfinite(value):
        raise Broken(0, "a finite number", repr(value))
    return repr(value)


def _bytes_text(column: KvColumn, value: bytes) -> str:
    shape = column.column
    match shape.kind:
        case "json":
            return json_text(value)
        case "vector":
            return vector_text(value)
        case "binary":
            if 0 <= shape.length < len(value):
                raise Broken(0, f"at most {shape.length} bytes", f"{len(value)} bytes")
            return value.hex().upper().ljust(2 * shape.length, "0")
        case _:
            try:
                return value.decode()
            except UnicodeDecodeError as error:
                raise Broken(error.start, "UTF-8", f"0x{value[error.start]:02x}") from error


def _decimal_text(column: KvColumn, unscaled: int, scale: int) -> str:
    wanted = column.column.scale
    size = abs(unscaled)
    if scale <= wanted:
        size *= 10 ** (wanted - scale)
    else:
        cut = 10 ** (scale - wanted)
        size = (size + cut // 2) // cut
    if size >= 10**column.column.length:
        raise Broken(0, f"a decimal({column.column.length}, {wanted})", f"{unscaled} with {scale} digits after the point")
    digits = str(size).rjust(wanted + 1, "0")
    text = f"{digits[:-wanted]}.{digits[-wanted:]}" if wanted else digits
    return f"-{text}" if unscaled < 0 and size else text
