"""The text of floats in columns is Python's own, for every number."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.shared.log.float_texts import reprs

NUMBERS = (
    st.floats(allow_nan=False)
    | st.integers(-(10**18), 10**18).map(float)
    | st.tuples(st.integers(-(10**9), 10**9), st.integers(-20, 20)).map(lambda parts: parts[0] * 10.0 ** parts[1])
    | st.sampled_from([0.0, -0.0, 1e-4, 9.999999999999999e-5, 9_999_999_999.999998, 1e10, 1e15, 999_999_999_999_999.0, 1e16, 5e-324])
)


@given(st.lists(st.none() | NUMBERS))
def test_every_number_is_spelt_as_python_does(values: list[float | None]) -> None:
    expected = [None if value is None else repr(value) for value in values]
    assert reprs(pa.array(values, pa.float64())).to_pylist() == expected


@pytest.mark.parametrize("chunks", [[], [[1.5], [], [None, 2.0]]])
def test_a_column_in_pieces_is_one(chunks: list[list[float | None]]) -> None:
    result = reprs(pa.chunked_array(chunks, pa.float64()))
    assert result.to_pylist() == [None if value is None else repr(value) for chunk in chunks for value in chunk]
