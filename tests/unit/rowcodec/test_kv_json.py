"""Binary JSON and vectors: TiDB's text, and shapes that must not pass."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest

from sidecar.shared.rowcodec.kv_error import Broken
from sidecar.shared.rowcodec.kv_json import json_end, json_text, vector_text
from tests.support.kv_encoder import json_bytes

KEY_VALUE = bytes.fromhex("01 01000000 1c000000 13000000 0300 0c 16000000 6b6579 05 76616c7565")


def test_the_vector_of_tikvs_row_test() -> None:
    assert json_text(KEY_VALUE) == '{"key": "value"}'
    assert json_bytes({"key": "value"}) == KEY_VALUE


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (-5, "-5"),
        ((1 << 64) - 1, "18446744073709551615"),
        (1.0, "1.0"),
        (0.0, "0.0"),
        (1e14, "100000000000000.0"),
        (1e15, "1e15"),
        (1.25e-15, "0.00000000000000125"),
        (9e-16, "9e-16"),
        (-1.5e300, "-1.5e300"),
        ('a"\\\n\t\x01\u2028\u20ac', '"a\\"\\\\\\n\\t\\u0001\\u2028€"'),
        ([], "[]"),
        ({}, "{}"),
        ([1, "x", None, [True]], '[1, "x", null, [true]]'),
        ({"b": 1, "a": {"c": []}}, '{"a": {"c": []}, "b": 1}'),
    ],
)
def test_text_is_as_tidb_writes_it(value: Any, text: str) -> None:
    assert json_text(json_bytes(value)) == text
    assert json.loads(text) == value


def test_dates_and_opaque_values_are_texts() -> None:
    core = 2011 << 50 | 11 << 46 | 10 << 41 | 9 << 36 | 8 << 30 | 7 << 24 | 999_999 << 4
    assert json_text(b"\x0f" + struct.pack("<Q", core)) == '"2011-11-10 09:08:07.999999"'
    assert json_text(b"\x10" + struct.pack("<Q", core)) == '"2011-11-10 09:08:07.999999"'
    assert json_text(b"\x0e" + struct.pack("<Q", core)) == '"2011-11-10"'
    assert json_text(b"\x11" + struct.pack("<qI", -3_723_000_004_000, 6)) == '"-01:02:03.000004"'
    assert json_text(b"\x0d\xfd\x02ab") == '"base64:type253:YWI="'


@pytest.mark.parametrize("cut", range(len(KEY_VALUE)))
def test_every_shortened_value_is_refused(cut: int) -> None:
    with pytest.raises(Broken):
        json_text(KEY_VALUE[:cut])


@pytest.mark.parametrize(
    "data",
    [
        KEY_VALUE + b"\0",
        b"\x02",
        b"\x04\x03",
        b"\x0b" + struct.pack("<d", float("nan")),
        b"\x0c\x01\xff",
        b"\x0c" + b"\x80" * 11,
        b"\x03" + struct.pack("<II", 0xFFFFFFFF, 8),
        b"\x03" + struct.pack("<II", 1, 7),
        b"\x01" + json_bytes({"b": None, "c": None})[1:].replace(b"bc", b"cb"),
        b"\x01" + json_bytes({"b": None, "c": None})[1:].replace(b"bc", b"bb"),
        b"\x0f" + struct.pack("<Q", 13 << 46),
    ],
    ids=lambda data: data.hex()[:20],
)
def test_broken_values_are_refused(data: bytes) -> None:
    with pytest.raises(Broken):
        json_text(data)


def test_an_array_cannot_hold_itself() -> None:
    with pytest.raises(Broken):
        json_text(b"\x03" + struct.pack("<IIBI", 1, 13, 3, 0))


def test_elements_that_share_bytes_are_refused() -> None:
    """Doubled at each of thirty levels, a kilobyte would be a billion elements."""
    inner = json_bytes([])
    for _ in range(30):
        size = 8 + 10 + len(inner) - 1
        inner = b"\x03" + struct.pack("<II", 2, size) + 2 * (inner[:1] + struct.pack("<I", 18)) + inner[1:]
    with pytest.raises(Broken, match="an offset"):
        json_text(inner)


def test_nesting_ends_somewhere() -> None:
    value: list[Any] = []
    for _ in range(99):
        value = [value]
    assert json.loads(json_text(json_bytes(value))) == value
    with pytest.raises(Broken, match="nested"):
        json_text(json_bytes([[value]]))


def test_where_a_value_inside_other_bytes_ends() -> None:
    assert json_end(b"xx" + KEY_VALUE + b"yy", 2) == 2 + len(KEY_VALUE)


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ((), "[]"),
        ((1.0, 2.5, -0.125), "[1,2.5,-0.125]"),
        ((0.1, 16777216.0), "[0.1,16777216]"),
        ((1e-7, 3.4028234663852886e38), "[0.0000001,340282350000000000000000000000000000000]"),
    ],
)
def test_vectors(numbers: tuple[float, ...], text: str) -> None:
    assert vector_text(struct.pack(f"<I{len(numbers)}f", len(numbers), *numbers)) == text


@pytest.mark.parametrize(
    "data", [b"", b"\1\0\0", struct.pack("<If", 2, 1.0), struct.pack("<Iff", 1, 1.0, 1.0), struct.pack("<If", 1, float("inf"))]
)
def test_broken_vectors_are_refused(data: bytes) -> None:
    with pytest.raises(Broken):
        vector_text(data)
