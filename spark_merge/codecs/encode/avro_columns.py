"""Arrow columns to Avro's binary form, a column at a time: a value is no Python object.

    int, long        zigzag, then seven bits a byte, the lowest first         float, double   four or eight bytes, little-endian
    boolean          one byte                                                 string, bytes   the length as a long, then the bytes
    union with null  the branch as a long, then the value                     record          its fields one after another
    array            a block: its count and its items; then an empty block

A column is made into **parts**: binary arrays of one length, without nulls, whose bytes one after another are each row's. `record` joins
the parts of all fields at once, so a text is copied once. Source: the Avro specification, "Binary encoding".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc


class Branches(NamedTuple):
    """Of a union with null: the first bytes of a null and of a value."""

    null: bytes
    value: bytes


NULL_FIRST, NULL_LAST = Branches(b"\x00", b"\x02"), Branches(b"\x02", b"\x00")

Part: TypeAlias = "bytes | pa.Array"
"""The same bytes in all rows, or those of each row."""

AvroWriter: TypeAlias = "Callable[[pa.Array, Branches | None], list[Part]]"
"""A column and its union, None where it is of none and has no nulls."""

_Numbers: TypeAlias = npt.NDArray[np.int64]
_Bytes: TypeAlias = npt.NDArray[np.uint8]

_LIMITS = np.array([1 << 7 * count for count in range(1, 10)], np.uint64)
"""A number below the first needs one byte, below the next two."""

_BOOLEANS = pa.array([b"\x00", b"\x01"], pa.binary())
_EMPTY, _END = b"", b"\x00"


def longs(values: pa.Array, union: Branches | None = None) -> list[Part]:
    """Of int and long. Raises pa.ArrowInvalid for an unsigned number from 2^63 on."""
    return [_varints(_numbers(values.cast(pa.int64())), values, union)]


def booleans(values: pa.Array, union: Branches | None = None) -> list[Part]:
    return [*_branch(values, union), pc.fill_null(_BOOLEANS.take(values.cast(pa.int8())), _EMPTY)]


def floats(values: pa.Array, union: Branches | None = None) -> list[Part]:
    """Of pa.float32 or pa.float64, as wide as they are."""
    width = values.type.bit_width // 8
    numbers = pc.fill_null(values, 0.0).to_numpy(zero_copy_only=False).astype(f"<f{width}")
    fixed = pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), len(values), [None, pa.py_buffer(numbers.tobytes())])
    return [*_branch(values, union), _where_valid(values, fixed.cast(pa.binary()))]


def texts(values: pa.Array, union: Branches | None = None) -> list[Part]:
    """Of strings and bytes."""
    data = values.cast(pa.binary())
    return [_varints(_numbers(pc.binary_length(data).cast(pa.int64())), values, union), pc.fill_null(data, _EMPTY)]


def arrays(values: pa.Array, items: AvroWriter, union: Branches | None = None) -> list[Part]:
    """Of pa.list_, whose items have no nulls."""
    counts = _numbers(pc.list_value_length(values).cast(pa.int64()))
    blocks = pc.if_else(pa.array(counts > 0), _varints(counts, values, None), _EMPTY)
    flat = values.flatten()
    joined = [_runs(record(items(flat, None)), counts)] if len(flat) else []
    return [*_branch(values, union), blocks, *joined, _where_valid(values, _END)]


def nested(is_present: pa.Array, fields: Sequence[Part], union: Branches) -> list[Part]:
    """A record in a union with null, of the parts `fields`, which may hold anything where it is null."""
    return [pc.if_else(is_present, union.value, union.null), *(pc.if_else(is_present, part, _EMPTY) for part in fields)]


def record(parts: Sequence[Part]) -> pa.Array:
    """Of each row its bytes, pa.binary. One of `parts` is an array."""
    merged: list[Part] = []
    for part in parts:
        if isinstance(part, bytes) and merged and isinstance(merged[-1], bytes):
            merged[-1] += part
        else:
            merged.append(part)
    return pc.binary_join_element_wise(*merged, _EMPTY)


def long_bytes(number: int) -> bytes:
    """Of one long, or of a union's branch."""
    return bytes(_varints(np.array([number], np.int64), pa.array([number]), None)[0].as_py())


def text_bytes(text: str) -> bytes:
    """Of one string."""
    data = text.encode()
    return long_bytes(len(data)) + data


def _numbers(values: pa.Array) -> _Numbers:
    numbers: _Numbers = pc.fill_null(values, 0).to_numpy(zero_copy_only=False)
    return numbers


def _varints(numbers: _Numbers, values: pa.Array, union: Branches | None) -> pa.Array:
    """Of each of `numbers` its bytes behind its branch; where `values` is null, the branch of null alone."""
    zigzag: Any = ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)
    sizes = 1 + np.searchsorted(_LIMITS, zigzag, side="right")
    first = 0
    if union is not None:
        is_null = values.is_null().to_numpy(zero_copy_only=False)
        sizes, first = np.where(is_null, 0, sizes), 1
    offsets = np.zeros(len(numbers) + 1, np.int64)
    np.cumsum(sizes + first, out=offsets[1:])
    data: _Bytes = np.empty(int(offsets[-1]), np.uint8)
    if union is not None:
        data[offsets[:-1]] = np.where(is_null, union.null[0], union.value[0])
    places = offsets[:-1] + first
    for number in range(int(sizes.max(initial=0))):
        rows = np.flatnonzero(sizes > number)
        more = np.where(sizes[rows] > number + 1, 0x80, 0)
        data[places[rows] + number] = ((zigzag[rows] >> np.uint64(7 * number)) & np.uint64(0x7F)) | more.astype(np.uint64)
    return pa.Array.from_buffers(pa.binary(), len(numbers), [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data)])


def _branch(values: pa.Array, union: Branches | None) -> list[Part]:
    if union is None:
        return []
    return [union.value if not values.null_count else pc.if_else(values.is_valid(), union.value, union.null)]


def _where_valid(values: pa.Array, part: Part) -> Part:
    return part if not values.null_count else pc.if_else(values.is_valid(), part, _EMPTY)


def _runs(items: pa.Array, counts: _Numbers) -> pa.Array:
    """So many items each, joined."""
    _, ends, data = items.buffers()
    offsets = np.frombuffer(ends, np.int32)[items.offset : items.offset + len(items) + 1]
    edges = offsets[np.concatenate([[0], np.cumsum(counts)])]
    return pa.Array.from_buffers(pa.binary(), len(counts), [None, pa.py_buffer(edges.astype(np.int32)), data])
