"""Decimals as Avro and Connect have them: the unscaled integer in two's complement, the highest byte first, in as few bytes as hold it.
Columns at a time; source: the Avro specification, "Decimal", and goavro's toSignedBytes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spark_merge.codecs.encode.typed import DECIMAL_DIGITS_MAX

_INT64_DIGITS = 18
_DECIMAL128_DIGITS = 38


def decimal_bytes(texts: pa.Array, *, precision: int, scale: int) -> pa.Array:
    """pa.binary of canonical texts with `scale` digits behind the point; null where null. `precision` -1: not known. Raises pa.ArrowInvalid
    for a text that is no such decimal."""
    digits = precision if precision > 0 else DECIMAL_DIGITS_MAX
    if digits <= _INT64_DIGITS:
        numbers = pc.fill_null(_unscaled(texts, scale), 0).to_numpy(zero_copy_only=False)
        return shortest(numbers.astype(">i8").view(np.uint8).reshape(-1, 8), texts)
    kind = pa.decimal128(digits, scale) if digits <= _DECIMAL128_DIGITS else pa.decimal256(digits, scale)
    width, numbers = kind.byte_width, pc.fill_null(texts, "0").cast(kind)
    lowest_first = np.frombuffer(numbers.buffers()[1], np.uint8)[numbers.offset * width : (numbers.offset + len(numbers)) * width]
    return shortest(lowest_first.reshape(-1, width)[:, ::-1], texts)


def shortest(digits: npt.NDArray[np.uint8], nulls_of: pa.Array) -> pa.Array:
    """Each row of two's complement, the highest byte first, without the bytes that only repeat its sign. Null where `nulls_of` is."""
    width = digits.shape[1]
    sign = np.where(digits[:, :1] >> 7, 0xFF, 0).astype(np.uint8)
    repeats = (digits[:, :-1] == sign) & (digits[:, 1:] >> 7 == sign >> 7)
    first = np.logical_and.accumulate(repeats, axis=1).sum(axis=1)
    return binary_of(np.ascontiguousarray(digits)[np.arange(width) >= first[:, None]], width - first, nulls_of)


def binary_of(data: npt.NDArray[np.uint8], lengths: npt.NDArray[Any], nulls_of: pa.Array) -> pa.Array:
    """`data` cut into values of these lengths. Null where `nulls_of` is."""
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    values = pa.Array.from_buffers(pa.binary(), len(lengths), [None, pa.py_buffer(ends), pa.py_buffer(np.ascontiguousarray(data))])
    return values if nulls_of.null_count == 0 else pc.if_else(nulls_of.is_valid(), values, pa.scalar(None, pa.binary()))


def _unscaled(texts: pa.Array, scale: int) -> pa.Array:
    """pa.int64."""
    if not scale:
        return texts.cast(pa.int64())
    point = pc.subtract(pc.subtract(pc.binary_length(texts), pc.find_substring(texts, ".")), 1)
    if pc.any(pc.not_equal(point, scale)).as_py():
        raise pa.ArrowInvalid(f"a text has not {scale} digits behind its point")
    return pc.replace_substring(texts, ".", "", max_replacements=1).cast(pa.int64())
