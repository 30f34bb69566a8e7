"""Canonical text of floats, columns at a time: `repr` of each number, without a call of Python for each."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_PLAIN_MIN, _PLAIN_MAX = 1e-4, 1e10
"""Below the first Python writes an exponent, from the second on Arrow does."""

_WHOLE_MAX = 1e15
"""Whole numbers below it are written with all their digits, and are exact as integers."""


def reprs(numbers: pa.Array | pa.ChunkedArray) -> pa.Array:
    """`repr` of each of these float64 numbers, null where null.

    Arrow's shortest text is six times as fast and has the same digits; it is Python's where neither writes an exponent, but that a whole
    number lacks the point. What is left (exponents, infinities, zeros with a sign) is Python's own.
    """
    if isinstance(numbers, pa.ChunkedArray):
        numbers = numbers.combine_chunks()
    texts = numbers.cast(pa.string())
    values = numbers.fill_null(0.5).to_numpy(zero_copy_only=False)
    sizes = np.abs(values)
    whole = (sizes < _WHOLE_MAX) & (np.trunc(values) == values) & ~((sizes == 0) & np.signbit(values))
    if whole.any():
        integers = pa.array(np.where(whole, values, 0).astype(np.int64)).cast(pa.string())
        texts = pc.if_else(pa.array(whole), pc.binary_join_element_wise(integers, ".0", ""), texts)
    other = ~(whole | ((sizes >= _PLAIN_MIN) & (sizes < _PLAIN_MAX)))
    if not other.any():
        return texts
    return pc.replace_with_mask(texts, pa.array(other), pa.array(map(repr, values[other].tolist()), pa.string(), size=int(other.sum())))
