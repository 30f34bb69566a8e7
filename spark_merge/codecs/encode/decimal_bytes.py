"""Decimals as Avro and Connect have them: the unscaled integer in two's complement, the highest byte first, in as few bytes as hold it.
Columns at a time; source: the Avro specification, "Decimal", and goavro's toSignedBytes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_WIDE_DIGITS = 38
"""More than this need 256 bits."""

_DIGITS_MAX = 76


def decimal_bytes(texts: pa.Array, *, precision: int, scale: int) -> pa.Array:
    """pa.binary of canonical texts with `scale` digits behind the point; null where null. `precision` -1: not known. Raises pa.ArrowInvalid
    for a text that is no such decimal."""
    wide = not 0 < precision <= _WIDE_DIGITS
    kind = pa.decimal256(_DIGITS_MAX, scale) if wide else pa.decimal128(_WIDE_DIGITS, scale)
    width = kind.byte_width
    numbers: Any = pc.fill_null(texts, "0").cast(kind)
    data = np.frombuffer(numbers.buffers()[1], np.uint8)[numbers.offset * width : (numbers.offset + len(numbers)) * width]
    highest_first = data.reshape(len(numbers), width)[:, ::-1]
    return pc.if_else(texts.is_valid(), _shortest(highest_first), pa.scalar(None, pa.binary()))


def _shortest(numbers: np.ndarray[Any, np.dtype[np.uint8]]) -> pa.Array:
    """Of each row the last bytes, from the first on that says more than the sign of what is behind it. The last always counts."""
    count, width = numbers.shape
    sign = np.where(numbers[:, :1] >> 7, 0xFF, 0)
    says_nothing = (numbers[:, :-1] == sign) & (numbers[:, 1:] >> 7 == sign & 1)
    dropped = np.cumprod(says_nothing, axis=1).sum(axis=1)
    kept = np.arange(width) >= dropped[:, None]
    offsets = np.zeros(count + 1, np.int32)
    np.cumsum(width - dropped, out=offsets[1:])
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(numbers[kept].tobytes())])
