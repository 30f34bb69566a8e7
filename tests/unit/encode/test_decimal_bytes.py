"""Decimals in two's complement, held equal to Python's integers."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from spark_merge.codecs.encode.decimal_bytes import decimal_bytes

_EDGES = [sign * ((1 << bits) + step) for bits in range(0, 121, 4) for step in (-1, 0, 1) for sign in (1, -1)]


def _slowly(number: int) -> bytes:
    size = next(size for size in range(1, 40) if -(1 << 8 * size - 1) <= number < 1 << 8 * size - 1)
    return number.to_bytes(size, "big", signed=True)


@pytest.mark.parametrize(("precision", "scale"), [(38, 0), (38, 4), (65, 0), (65, 30), (-1, 2)])
def test_numbers_at_the_limits_of_bytes(precision: int, scale: int) -> None:
    largest = 10 ** (precision if precision > 0 else 65) - 1
    numbers = [number for number in [*_EDGES, 0, largest, -largest] if abs(number) <= largest]
    texts = [f"{Decimal((number < 0, tuple(map(int, str(abs(number)))), -scale)):f}" for number in numbers]
    array = pa.array([None, *texts, None], pa.string()).slice(1)
    assert decimal_bytes(array, precision=precision, scale=scale).to_pylist() == [*map(_slowly, numbers), None]


def test_no_rows_and_no_decimals() -> None:
    assert decimal_bytes(pa.array([], pa.string()), precision=10, scale=2).to_pylist() == []
    assert decimal_bytes(pa.array(["-1.28", "0.00"]), precision=10, scale=2).to_pylist() == [b"\x80", b"\x00"]
    for text in ("x", "1.234"):
        with pytest.raises(pa.ArrowInvalid):
            decimal_bytes(pa.array([text]), precision=10, scale=2)
