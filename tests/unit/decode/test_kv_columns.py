"""Kernels of the columnar decoder: each text is the slow decoder's, and what it would refuse is marked, never given."""

from __future__ import annotations

import struct
from random import Random
from typing import Any

import numpy as np
import pytest

from sidecar.shared.columns.kv_columns import PADDING, byte_array, texts_of_cells
from sidecar.shared.rowcodec.kv_datum import canonical, plain_of_cell
from sidecar.shared.rowcodec.kv_error import Broken
from sidecar.shared.rowcodec.kv_table import KvColumn, kv_table
from tests.support.kv_encoder import Stored, column, decimal_bytes, info, memcomparable_float, minimal

KINDS: list[tuple[str, dict[str, Any]]] = [
    ("tinyint", {}), ("mediumint", {"unsigned": True}), ("bigint", {}), ("bigint", {"unsigned": True}), ("year", {}),
    ("enum", {"elems": ["a", "b"]}), ("set", {"elems": ["a", "b", "c"]}), ("bit", {"flen": 64}), ("bit", {"flen": 9}),
    ("date", {}), ("datetime", {}), ("datetime", {"decimal": 6}), ("timestamp", {"decimal": 3}), ("time", {}), ("time", {"decimal": 4}),
    ("float", {"decimal": -1}), ("double", {"decimal": -1}), ("decimal", {"flen": 10, "decimal": 2}),
    ("decimal", {"flen": 65, "decimal": 30}),
    ("decimal", {"flen": 5}), ("decimal", {"flen": 3, "decimal": 3}), ("char", {"flen": 5}), ("blob", {}),
    ("varchar", {"collation": "utf8mb4_bin"}), ("json", {}), ("vector", {}),
]  # fmt: skip


def of_type(type_: str, **more: Any) -> KvColumn:
    return kv_table(info([column(1, "a", type_, **more)]), schema="s").columns[0]


def random_cell(random: Random) -> bytes:
    """Of any kind, so that most are broken for a given column and some are not."""
    match random.randrange(9):
        case 0:
            return random.randbytes(random.choice([0, 1, 2, 3, 4, 8, 9]))
        case 1:
            return minimal(random.choice([0, 1, 2, 100, 255, 2020, 1 << 63]), signed=False)
        case 2:
            return memcomparable_float(random.choice([0.0, -0.0, 1.5, -1e300, 1e-7, 0.1, float("inf"), float("nan")]))
        case 3:
            precision = random.randint(1, 65)
            scale = random.randint(0, min(precision, 30))
            stored = Stored(random.choice([0, 1, -1, 10**precision - 1, random.randrange(10**precision)]), precision, scale)
            return decimal_bytes(stored)
        case 4:
            ymd = (random.randint(0, 10_000) * 13 + random.randint(0, 12)) << 5 | random.randint(0, 31)
            hms = random.choice([0, random.randint(0, 24) << 12 | random.randint(0, 60) << 6 | random.randint(0, 60)])
            return minimal((ymd << 17 | hms) << 24 | random.choice([0, 5, 120_000, 999_999, 1_000_000]), signed=False)
        case 5:
            return minimal(random.choice([1, -1]) * random.randrange(839 * 3600 * 10_000 + 9) * 100_000, signed=True)
        case 6:
            return random.choice(["", "text", "中文"]).encode()
        case 7:
            return struct.pack("<I2f", 2, random.random(), random.choice([1.0, float("inf")]))
        case _:
            return b"\x04" + bytes([random.randrange(4)])


@pytest.mark.parametrize(("type_", "more"), KINDS, ids=[f"{type_}{more}" for type_, more in KINDS])
def test_each_kernel_is_the_slow_decoder(type_: str, more: dict[str, Any]) -> None:
    random, result = Random(f"{type_}{more}"), of_type(type_, **more)
    cells = [random_cell(random) for _ in range(4000)]
    gaps = [random.randbytes(random.randrange(3)) for _ in cells]
    data = np.frombuffer(b"".join(part for pair in zip(gaps, cells, strict=True) for part in pair) + bytes(PADDING), np.uint8)
    sizes = np.asarray([[len(gap), len(cell)] for gap, cell in zip(gaps, cells, strict=True)])
    bounds = np.cumsum(sizes).reshape(-1, 2)
    texts, bad = texts_of_cells(result, data, bounds[:, 0], bounds[:, 1])
    texts.validate(full=True)
    assert (len(texts), texts.null_count) == (len(cells), 0)
    good = 0
    for cell, text, is_bad in zip(cells, texts.to_pylist(), bad.tolist(), strict=True):
        try:
            expected = canonical(result, plain_of_cell(result, cell))
        except Broken:
            assert is_bad, (cell.hex(), text)
            continue
        rounded = type_ == "decimal" and is_bad
        assert rounded or (text == expected and not is_bad), (cell.hex(), text, expected)
        good += not is_bad
    assert good > 20


def test_cells_are_taken_out_of_their_row_and_order() -> None:
    data = np.frombuffer(b"..ab.cde..f" + bytes(PADDING), np.uint8)
    assert byte_array(data, np.asarray([2, 5, 8, 10]), np.asarray([4, 8, 8, 11])).to_pylist() == [b"ab", b"cde", b"", b"f"]
    assert byte_array(data, np.asarray([], np.int64), np.asarray([], np.int64)).to_pylist() == []
