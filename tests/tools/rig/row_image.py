"""Row images of the binlog to values, exactly (MariaDB's log_event and field pack formats; the library's own reader loses
zero dates, the index of an enum, the fraction of a negative TIME and the tail of binary(n)).

    value         ints, year, bit, enum (index from 1), set (mask): int      float (shortest digits of its 4 bytes), double: float
                  decimal, date, time, datetime, timestamp (UTC): canonical text      text, binary: bytes, binary(n) padded

`reader(table, columns)` gives `read(data, at) -> (values, at)`. Only whole images (binlog_row_image=FULL) can be read.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.tools.rig.columns import Table, TableColumn

Value = int | float | str | bytes | None
Image = tuple[Value, ...]

_Take = Callable[[bytes, int], tuple[Value, int]]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DECIMAL_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
_DIGITS_A_GROUP = 9

_STRING, _VARCHAR, _ENUM, _SET = 254, 15, 247, 248


def reader(table: Table, columns: Sequence[Any]) -> Callable[[bytes, int], tuple[Image, int]]:
    """`columns`: the table map's columns (pymysqlreplication), in the same order. Raises ValueError if they are others."""
    if len(columns) != len(table.columns):
        raise ValueError(f"{table.name} has {len(table.columns)} columns, its rows in the binlog {len(columns)}")
    takes = [_take(column, result) for column, result in zip(table.columns, columns, strict=True)]
    bitmap_bytes = (len(takes) + 7) // 8

    def read(data: bytes, at: int) -> tuple[Image, int]:
        nulls = int.from_bytes(data[at : at + bitmap_bytes], "little")
        at += bitmap_bytes
        values: list[Value] = []
        for take in takes:
            if nulls & 1:
                values.append(None)
            else:
                value, at = take(data, at)
                values.append(value)
            nulls >>= 1
        return tuple(values), at

    return read


def _take(column: TableColumn, value: Any) -> _Take:
    match column.data_type:
        case "tinyint" | "smallint" | "mediumint" | "int" | "bigint":
            width = {"tinyint": 1, "smallint": 2, "mediumint": 3, "int": 4, "bigint": 8}[column.data_type]
            return _integer(width, signed=not column.is_unsigned)
        case "float":
            return _float
        case "double":
            return _double
        case "decimal":
            return _decimal(value.precision, value.decimals)
        case "year":
            return lambda data, at: (1900 + data[at] if data[at] else 0, at + 1)
        case "bit":
            return _unsigned(value.bytes, "big")
        case "enum" | "set":
            return _unsigned(value.size, "little")
        case "date":
            return _date
        case "time":
            return _time(value.fsp)
        case "datetime":
            return _datetime(value.fsp)
        case "timestamp":
            return _timestamp(value.fsp)
        case "binary":
            return _padded(_prefixed(2 if value.max_length > 255 else 1), column.length)
        case "char" | "varchar" | "varbinary":
            return _prefixed(2 if value.max_length > 255 else 1)
        case _:
            return _prefixed(value.length_size)


def _integer(width: int, *, signed: bool) -> _Take:
    return lambda data, at: (int.from_bytes(data[at : at + width], "little", signed=signed), at + width)


def _unsigned(width: int, order: Any) -> _Take:
    return lambda data, at: (int.from_bytes(data[at : at + width], order), at + width)


def _prefixed(width: int) -> _Take:
    def take(data: bytes, at: int) -> tuple[Value, int]:
        start = at + width
        end = start + int.from_bytes(data[at:start], "little")
        return data[start:end], end

    return take


def _padded(take: _Take, length: int) -> _Take:
    """The binlog leaves trailing zero bytes of a binary(n) out."""

    def padded(data: bytes, at: int) -> tuple[Value, int]:
        value, at = take(data, at)
        assert isinstance(value, bytes)
        return value.ljust(length, b"\0"), at

    return padded


_float_at = struct.Struct("<f").unpack_from
_double_at = struct.Struct("<d").unpack_from
_pack_float = struct.Struct("<f").pack


def _float(data: bytes, at: int) -> tuple[Value, int]:
    """As TiCDC writes it: the fewest digits that give the same four bytes."""
    (value,) = _float_at(data, at)
    raw = data[at : at + 4]
    for digits in (6, 7, 8):
        short = float(f"{value:.{digits}g}")
        if _packs_to(short, raw):
            return short, at + 4
    return float(f"{value:.9g}"), at + 4


def _packs_to(value: float, raw: bytes) -> bool:
    try:
        return _pack_float(value) == raw
    except OverflowError:
        return False


def _double(data: bytes, at: int) -> tuple[Value, int]:
    return _double_at(data, at)[0], at + 8


def _decimal(precision: int, decimals: int) -> _Take:
    """Groups of nine digits in four bytes from the point outwards; the first bit is the sign, negatives are inverted."""
    integral = precision - decimals
    groups = [integral % _DIGITS_A_GROUP, *[_DIGITS_A_GROUP] * (integral // _DIGITS_A_GROUP)]
    fraction = [*[_DIGITS_A_GROUP] * (decimals // _DIGITS_A_GROUP), decimals % _DIGITS_A_GROUP]
    sizes = [(digits, _DECIMAL_BYTES[digits]) for digits in [*groups, *fraction] if digits]
    total = sum(size for _, size in sizes)

    def take(data: bytes, at: int) -> tuple[Value, int]:
        raw = bytearray(data[at : at + total])
        negative = not raw[0] & 0x80
        raw[0] ^= 0x80
        if negative:
            raw = bytearray(byte ^ 0xFF for byte in raw)
        text, place = "", 0
        for digits, size in sizes:
            text += str(int.from_bytes(raw[place : place + size], "big")).rjust(digits, "0")
            place += size
        whole = text[:integral].lstrip("0") or "0"
        result = f"{whole}.{text[integral:]}" if decimals else whole
        return f"-{result}" if negative else result, at + total

    return take


def _date(data: bytes, at: int) -> tuple[Value, int]:
    packed = int.from_bytes(data[at : at + 3], "little")
    return f"{packed >> 9:04d}-{packed >> 5 & 15:02d}-{packed & 31:02d}", at + 3


def _fraction_text(fraction: int, fraction_bytes: int, digits: int) -> str:
    """`fraction` counts hundredths a byte."""
    return "." + f"{fraction:0{2 * fraction_bytes}d}"[:digits] if digits else ""


def _time(digits: int) -> _Take:
    fraction_bytes = (digits + 1) // 2
    width, bits = 3 + fraction_bytes, 8 * fraction_bytes

    def take(data: bytes, at: int) -> tuple[Value, int]:
        packed = int.from_bytes(data[at : at + width], "big") - (0x800000 << bits)
        sign, packed = ("-", -packed) if packed < 0 else ("", packed)
        clock, fraction = packed >> bits, packed & ((1 << bits) - 1)
        text = f"{sign}{clock >> 12 & 1023:02d}:{clock >> 6 & 63:02d}:{clock & 63:02d}"
        return text + _fraction_text(fraction, fraction_bytes, digits), at + width

    return take


def _datetime(digits: int) -> _Take:
    fraction_bytes = (digits + 1) // 2

    def take(data: bytes, at: int) -> tuple[Value, int]:
        packed = int.from_bytes(data[at : at + 5], "big") - (1 << 39)
        fraction = int.from_bytes(data[at + 5 : at + 5 + fraction_bytes], "big")
        day, clock = packed >> 17, packed & 0x1FFFF
        year, month = divmod(day >> 5, 13)
        text = f"{year:04d}-{month:02d}-{day & 31:02d} {clock >> 12:02d}:{clock >> 6 & 63:02d}:{clock & 63:02d}"
        return text + _fraction_text(fraction, fraction_bytes, digits), at + 5 + fraction_bytes

    return take


def _timestamp(digits: int) -> _Take:
    fraction_bytes = (digits + 1) // 2

    def take(data: bytes, at: int) -> tuple[Value, int]:
        seconds = int.from_bytes(data[at : at + 4], "big")
        fraction = int.from_bytes(data[at + 4 : at + 4 + fraction_bytes], "big")
        is_zero = seconds == 0 and fraction == 0
        text = "0000-00-00 00:00:00" if is_zero else f"{_EPOCH + timedelta(seconds=seconds):%Y-%m-%d %H:%M:%S}"
        return text + _fraction_text(fraction, fraction_bytes, digits), at + 4 + fraction_bytes

    return take
