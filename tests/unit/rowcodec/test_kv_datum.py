"""Values, from their bytes: literal vectors of tikv components/codec and codec/mysql, bounds, and what is refused."""

from __future__ import annotations

import math
import struct
from typing import Any

import pytest

from sidecar.shared.rowcodec.kv_datum import canonical, plain_of_cell, plain_of_datum, read_bytes, read_datum, read_decimal, read_float
from sidecar.shared.rowcodec.kv_error import Broken
from sidecar.shared.rowcodec.kv_table import KvColumn, kv_table
from sidecar.shared.rowcodec.kv_time import datetime_text
from tests.support.kv_encoder import NOT_NULL, column, info, memcomparable_bytes, memcomparable_float, uvarint, varint


def of_type(type_: str, **more: Any) -> KvColumn:
    return kv_table(info([column(1, "a", type_, **more)]), schema="s").columns[0]


def text(value: KvColumn, cell: str) -> str:
    return canonical(value, plain_of_cell(value, bytes.fromhex(cell)))


@pytest.mark.parametrize(
    ("type_", "more", "cell", "expected"),
    [
        ("bigint", {}, "00d0ed902e000000", "200000000000"),
        ("int", {}, "02", "2"),
        ("tinyint", {}, "ff", "-1"),
        ("bigint", {"unsigned": True}, "ffffffffffffffff", "18446744073709551615"),
        ("float", {"decimal": -1}, "c027fae140000000", "11.989999771118164"),
        ("float", {"decimal": -1}, "3fd8051ebfffffff", "-11.989999771118164"),
        ("double", {"decimal": -1}, "bffccccccccccccd", "1.8"),
        ("decimal", {"flen": 6, "decimal": 4}, "06048b26ac", "11.9900"),
        ("decimal", {"flen": 6, "decimal": 2}, "06048b26ac", "11.99"),
        ("decimal", {"flen": 8, "decimal": 6}, "06048b26ac", "11.990000"),
        ("decimal", {"flen": 14, "decimal": 4}, "0e04810dfb38d204d2", "1234567890.1234"),
        ("decimal", {"flen": 14, "decimal": 4}, "0e047ef204c72dfb2d", "-1234567890.1234"),
        ("decimal", {"flen": 14, "decimal": 3}, "0e04810dfb38d204d2", "1234567890.123"),
        ("decimal", {"flen": 10, "decimal": 0}, "0a00800000000c", "12"),
        ("datetime", {}, "000000454d69a619", "2020-05-20 20:53:05"),
        ("time", {}, "00c622c1c50d0000", "04:12:23"),
        ("year", {}, "e407", "2020"),
        ("year", {}, "00", "0000"),
        ("varchar", {"collation": "utf8mb4_bin"}, "e4b8ad", "中"),
        ("char", {"flen": 4}, "ff", "FF000000"),
        ("enum", {"elems": ["a", "b"]}, "02", "b"),
        ("enum", {"elems": ["a", "b"]}, "00", ""),
        ("set", {"elems": ["a", "b", "c"]}, "05", "a,c"),
        ("bit", {"flen": 12}, "ff0f", "4095"),
        ("vector", {}, "010000000000803f", "[1]"),
    ],
)
def test_cells_of_row_format_2(type_: str, more: dict[str, Any], cell: str, expected: str) -> None:
    assert text(of_type(type_, **more), cell) == expected


def test_the_packed_time_of_rowcodecs_test() -> None:
    assert datetime_text(1840446893366133311, 6, 0) == "2011-11-10 11:11:11.999999"


@pytest.mark.parametrize(("scale", "expected"), [(3, "-838:59:59.000"), (0, "-838:59:59")])
def test_the_longest_duration(scale: int, expected: str) -> None:
    nanoseconds = -(838 * 3600 + 59 * 60 + 59) * 10**9
    assert canonical(of_type("time", decimal=scale), nanoseconds) == expected


def test_a_decimal_of_more_digits_is_rounded_half_up_as_tidb_does() -> None:
    result = of_type("decimal", flen=5, decimal=1)
    assert [canonical(result, (unscaled, 2)) for unscaled in (124, 125, -125, -4, 9)] == ["1.2", "1.3", "-1.3", "0.0", "0.1"]


@pytest.mark.parametrize(
    ("type_", "more", "cell", "expected"),
    [
        ("int", {}, "", "an integer of 1, 2, 4 or 8 bytes"),
        ("int", {}, "010203", "an integer of 1, 2, 4 or 8 bytes"),
        ("tinyint", {}, "8000", "an integer of 8 bits"),
        ("tinyint", {"unsigned": True}, "0001", "an integer of 8 bits"),
        ("mediumint", {}, "00008000", "an integer of 24 bits"),
        ("double", {}, "00", "8 bytes of a double"),
        ("double", {}, memcomparable_float(math.inf).hex(), "a finite number"),
        ("double", {}, memcomparable_float(math.nan).hex(), "a finite number"),
        ("float", {}, memcomparable_float(1e300).hex(), "a float32"),
        ("decimal", {"flen": 6, "decimal": 4}, "06048b26", "3 bytes of a decimal"),
        ("decimal", {"flen": 6, "decimal": 4}, "06048b26ac00", "the end of the decimal"),
        ("decimal", {"flen": 6, "decimal": 4}, "", "precision and scale"),
        ("decimal", {"flen": 6, "decimal": 4}, "000080", "precision and scale"),
        ("decimal", {"flen": 6, "decimal": 4}, "04068b26ac", "precision and scale"),
        ("decimal", {"flen": 6, "decimal": 4}, "0604e426ac", "2 decimal digits"),
        ("decimal", {"flen": 3, "decimal": 2}, "06048b26ac", r"a decimal\(3, 2\)"),
        ("date", {}, "010000454d69a619", "a date without a time of day"),
        ("datetime", {}, "010000454d69a619", "a fraction of 0 digits"),
        ("datetime", {}, "ffffffffffffffff", "fields are in range"),
        ("time", {}, "01", "whole microseconds"),
        ("time", {"decimal": 3}, "e803", "a fraction of 3 digits"),
        ("time", {}, "ffffffffffffff7f", "below 839 hours"),
        ("year", {}, "01", "a year"),
        ("varchar", {"collation": "utf8mb4_bin"}, "61ff", "UTF-8"),
        ("char", {"flen": 1}, "6161", "at most 1 bytes"),
        ("enum", {"elems": ["a"]}, "02", "an index into the enum's 1 labels"),
        ("set", {"elems": ["a"]}, "02", "a mask of the set's 1 labels"),
        ("bit", {"flen": 3}, "08", r"a value of bit\(3\)"),
        ("json", {}, "", "the type code"),
        ("vector", {}, "01", "4 bytes"),
    ],
)
def test_cells_that_are_no_value_of_the_column(type_: str, more: dict[str, Any], cell: str, expected: str) -> None:
    with pytest.raises(Broken, match=expected):
        text(of_type(type_, **more), cell)


@pytest.mark.parametrize(
    ("encoded", "value"),
    [("0000000000000000f7", b""), ("0102030000000000fa", b"\1\2\3"), ("0102030405060708ff0000000000000000f7", bytes(range(1, 9)))],
)
def test_memcomparable_bytes(encoded: str, value: bytes) -> None:
    assert read_bytes(bytes.fromhex(encoded), 0) == (value, len(encoded) // 2)
    assert memcomparable_bytes(value) == bytes.fromhex(encoded)


@pytest.mark.parametrize(("encoded", "value"), [("bff0000000000000", 1.0), ("400fffffffffffff", -1.0), ("bffccccccccccccd", 1.8)])
def test_memcomparable_floats(encoded: str, value: float) -> None:
    assert read_float(bytes.fromhex(encoded), 0) == value


def test_a_decimal_knows_its_end() -> None:
    assert read_decimal(bytes.fromhex("06048b26acff"), 0) == ((119900, 4), 5)


@pytest.mark.parametrize(
    ("data", "flag", "value"),
    [
        (b"\0", 0, None),
        (b"\x02\x06abc", 2, b"abc"),
        (b"\x03" + bytes(8), 3, -(1 << 63)),
        (b"\x04" + bytes(7) + b"\1", 4, 1),
        (b"\x05" + memcomparable_float(-1.5), 5, -1.5),
        (b"\x06\x06\x04\x8b\x26\xac", 6, (119900, 4)),
        (b"\x07\x80" + bytes(7), 7, 0),
        (b"\x08" + varint(-(1 << 63)), 8, -(1 << 63)),
        (b"\x09" + uvarint((1 << 64) - 1), 9, (1 << 64) - 1),
        (b"\x0a\x04\x01", 10, b"\x04\x01"),
        (b"\x14\x01\0\0\0\0\0\x80\x3f", 20, b"\x01\0\0\0\0\0\x80\x3f"),
    ],
)
def test_datums_by_their_flag(data: bytes, flag: int, value: object) -> None:
    assert read_datum(data + b"more", 0) == (flag, value, len(data))


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\x0b", b"\xfa", b"\x02", b"\x02\x08abc", b"\x02\x01", b"\x03" + bytes(7), b"\x05", b"\x08" + b"\x80" * 10,
        b"\x09" + b"\xff" * 9 + b"\x02", b"\x08", b"\x0a", b"\x14\xff\xff\xff\xff",
    ],
    ids=lambda data: data.hex() or "empty",
)  # fmt: skip
def test_broken_datums_are_refused(data: bytes) -> None:
    with pytest.raises(Broken):
        read_datum(data, 0)


def test_a_datum_is_of_its_columns_type() -> None:
    assert plain_of_datum(of_type("int"), b"\x08\x02", 0, in_key=False) == (1, 2)
    assert plain_of_datum(of_type("int"), b"\0", 0, in_key=False) == (None, 1)
    for type_, data in (("int", b"\x09\x02"), ("varchar", b"\x08\x02"), ("double", b"\x03" + struct.pack(">Q", 1))):
        with pytest.raises(Broken, match="a value of kind"):
            plain_of_datum(of_type(type_), data, 0, in_key=False)
    with pytest.raises(Broken, match="a value of kind"):
        plain_of_datum(of_type("int", flag=NOT_NULL), b"\0", 0, in_key=True)
