"""Bytes of row images (MySQL's formats, written out by hand) to values."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any

import pytest

from tests.tools.rig.row_image import Value, reader
from tests.unit.rig.shapes import column, table


def value_of(column_type: str, raw: bytes, **mapped: Any) -> Value:
    t = table(column("v", column_type), primary=())
    (value,), at = reader(t, [SimpleNamespace(**mapped)])(b"\0" + raw, 0)
    assert at == 1 + len(raw)
    return value


CASES: list[tuple[str, bytes, dict[str, Any], Value]] = [
    ("tinyint", b"\x80", {}, -128),
    ("mediumint", b"\xff\xff\xff", {}, -1),
    ("mediumint unsigned", b"\xff\xff\xff", {}, 16777215),
    ("bigint unsigned", b"\xff" * 8, {}, 2**64 - 1),
    ("float", struct.pack("<f", 90.6122), {}, 90.6122),
    ("float", struct.pack("<f", 3.4028234663852886e38), {}, 3.4028235e38),
    ("double", struct.pack("<d", 5e-324), {}, 5e-324),
    ("decimal(10,2)", bytes.fromhex("8000 04D2 0C".replace(" ", "")), {"precision": 10, "decimals": 2}, "1234.12"),
    ("decimal(14,4)", bytes.fromhex("810DFB38D204D2"), {"precision": 14, "decimals": 4}, "1234567890.1234"),
    ("decimal(14,4)", bytes.fromhex("7EF204C72DFB2D"), {"precision": 14, "decimals": 4}, "-1234567890.1234"),
    ("decimal(20,0)", bytes.fromhex("80" + "00000000" * 2), {"precision": 20, "decimals": 0}, "0"),
    ("year", b"\0", {}, 0),
    ("year", b"\xff", {}, 2155),
    ("bit(12)", b"\x0e\x4f", {"bytes": 2}, 3663),
    ("set('a','b')", b"\x03", {"size": 1}, 3),
    ("date", b"\0\0\0", {}, "0000-00-00"),
    ("date", (2030 << 9 | 2 << 5 | 4).to_bytes(3, "little"), {}, "2030-02-04"),
    ("time", b"\x80\0\0", {"fsp": 0}, "00:00:00"),
    ("time(1)", b"\x7f\xff\xff\xf6", {"fsp": 1}, "-00:00:00.1"),
    ("time(6)", (0x800000000000 - 1).to_bytes(6, "big"), {"fsp": 6}, "-00:00:00.000001"),
    ("datetime", bytes(5).replace(b"\0", b"\x80", 1), {"fsp": 0}, "0000-00-00 00:00:00"),
    ("datetime(3)", (1 << 39 | (2026 * 13 + 11) << 22 | 21 << 17 | 23 << 12 | 59 << 6 | 58).to_bytes(5, "big") + (1230).to_bytes(2, "big"),
     {"fsp": 3}, "2026-11-21 23:59:58.123"),
    ("timestamp(3)", bytes(6), {"fsp": 3}, "0000-00-00 00:00:00.000"),
    ("timestamp", (2**31 - 1).to_bytes(4, "big"), {"fsp": 0}, "2038-01-19 03:14:07"),
    ("binary(4)", b"\x01\x07", {"max_length": 4}, b"\x07\0\0\0"),
    ("varchar(99)", b"\x02\0ab", {"max_length": 396}, b"ab"),
    ("mediumblob", b"\x01\0\0z", {"length_size": 3}, b"z"),
]  # fmt: skip


@pytest.mark.parametrize(("column_type", "raw", "mapped", "value"), CASES, ids=[f"{case[0]} {case[3]!r}"[:40] for case in CASES])
def test_a_value_is_read_exactly(column_type: str, raw: bytes, mapped: dict[str, Any], value: Value) -> None:
    assert value_of(column_type, raw, **mapped) == value


def test_nulls_take_no_bytes() -> None:
    t = table(*(column(f"c{number}", "tinyint") for number in range(9)), primary=())
    read = reader(t, [SimpleNamespace()] * 9)
    assert read(b"\xfe\x01\x05rest", 0) == ((5, *[None] * 8), 3)


def test_a_row_of_another_width_is_refused() -> None:
    with pytest.raises(ValueError, match=r"shop.t has 1 columns, its rows in the binlog 2"):
        reader(table(column("v", "int"), primary=()), [SimpleNamespace()] * 2)
