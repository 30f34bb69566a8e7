"""Where the datums of row events are, in all of them at once: a step reads one pair of every row that has one left.

    column id (a varint behind its flag), value (a flag, and what it says)

Nothing here raises for what the bytes hold: a run that is broken or rare is `slow`, and the slow decoder has the last word on it
(sidecar/shared/rowcodec/binlog_row.py). `data` is padded (kv_columns.PADDING).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sidecar.shared.columns.kv_columns import PADDING, Bytes, Mask, Numbers, decimal_sizes, words
from sidecar.shared.rowcodec.kv_datum import COMPACT_BYTES, DECIMAL, DURATION, FLOAT, INT, JSON, NIL, UINT, UVARINT, VARINT, VECTOR
from sidecar.shared.rowcodec.kv_error import Broken
from sidecar.shared.rowcodec.kv_json import json_end

_MORE = np.uint64(0x8080808080808080)
_SEVEN = np.uint64(0x7F7F7F7F7F7F7F7F)
_ONE = np.uint64(1)
_FULL_WORD, _LAST_BYTE_MAX = 8, 1


def _sizes() -> Numbers:
    sizes = np.full(256, -1, np.int64)
    sizes[NIL] = 0
    sizes[[INT, UINT, FLOAT, DURATION]] = 8
    return sizes


_FIXED = _sizes()
"""Bytes behind the flag; -1 where they tell their size themselves, or the flag is none of a row's."""


class ByteRuns(NamedTuple):
    """Pairs, or handles and pairs: run r is `data[starts[r]:stops[r]]`."""

    starts: Numbers
    stops: Numbers


class PairTable(NamedTuple):
    """Pairs of all runs, ordered by run and then as they stand. `at` is a value's flag, `end` its end. `counts`: by run."""

    run: Numbers
    id: Numbers
    at: Numbers
    end: Numbers
    counts: Numbers


def varints(data: Bytes, at: Numbers) -> tuple[Numbers, Numbers]:
    """Numbers of variable length as uint64, and how many bytes they have; 0 for what is none."""
    word = words(data, "<u8")[np.minimum(at, len(data) - PADDING)]
    ends = ~word & _MORE
    lowest = ends & (~ends + _ONE)
    sizes = (np.bitwise_count(lowest - _ONE).astype(np.int64) + 1) >> 3
    long = ends == 0
    kept = np.where(long, _SEVEN, (lowest - _ONE) & _SEVEN)
    word = _packed(word & kept)
    if long.any():
        numbers = np.flatnonzero(long)
        beyond = np.minimum(at[numbers] + _FULL_WORD, len(data) - 2)
        ninth, tenth = data[beyond].astype(np.uint64), data[beyond + 1].astype(np.uint64)
        ends_at_ninth = ninth < 0x80
        high = np.where(ends_at_ninth, np.uint64(0), tenth << np.uint64(63))
        word[numbers] |= (ninth & np.uint64(0x7F)) << np.uint64(56) | high
        sizes[numbers] = np.where(ends_at_ninth, 9, np.where(tenth <= _LAST_BYTE_MAX, 10, 0))
    return word, sizes


def _packed(word: Numbers) -> Numbers:
    """Eight groups of seven bits, lowest first, as one number: neighbours are joined, then pairs of them, then the halves."""
    for low, high, shift in (
        (0x007F007F007F007F, 0x7F007F007F007F00, 1),
        (0x00003FFF00003FFF, 0x3FFF00003FFF0000, 2),
        (0x000000000FFFFFFF, 0x0FFFFFFF00000000, 4),
    ):
        word = (word & np.uint64(low)) | ((word & np.uint64(high)) >> np.uint64(shift))
    return word


def signed(numbers: Numbers) -> Numbers:
    """Go's zig-zag."""
    return ((numbers >> _ONE) ^ (~(numbers & _ONE) + _ONE)).view(np.int64)


def datum_ends(data: Bytes, at: Numbers, stops: Numbers) -> Numbers:
    """Where the datums with their flags at `at` end; beyond `stops` for those that are broken or unknown."""
    flags = data[at]
    ends = at + 1 + _FIXED[flags]
    beyond = stops + 1
    for flag, end_of in _ENDS.items():
        numbers = np.flatnonzero(flags == flag)
        if len(numbers):
            ends[numbers] = end_of(data, at[numbers] + 1, stops[numbers])
    unknown = ends <= at
    return np.where(unknown, beyond, ends) if unknown.any() else ends


def _varint_ends(data: Bytes, at: Numbers, stops: Numbers) -> Numbers:
    sizes = varints(data, at)[1]
    return np.where(sizes == 0, stops + 1, at + sizes)


def _bytes_ends(data: Bytes, at: Numbers, stops: Numbers) -> Numbers:
    numbers, sizes = varints(data, at)
    lengths = signed(numbers)
    bad = (sizes == 0) | (lengths < 0) | (lengths > len(data))
    return np.where(bad, stops + 1, at + sizes + np.where(bad, 0, lengths))


def _decimal_ends(data: Bytes, at: Numbers, stops: Numbers) -> Numbers:
    sizes = decimal_sizes(data, at)
    ends: Numbers = np.where(sizes == 0, stops + 1, at + sizes)
    return ends


def _json_ends(data: Bytes, at: Numbers, stops: Numbers) -> Numbers:
    whole = data.data
    return np.fromiter((_json_end(whole, *place) for place in zip(at.tolist(), stops.tolist(), strict=True)), np.int64, len(at))


def _json_end(whole: memoryview, at: int, stop: int) -> int:
    try:
        return at + json_end(bytes(whole[at:stop]), 0)
    except Broken:
        return stop + 1


def _vector_ends(data: Bytes, at: Numbers, stops: Numbers) -> Numbers:
    del stops
    dimensions: Numbers = words(data, "<u4")[at].astype(np.int64)
    ends: Numbers = at + 4 + 4 * dimensions
    return ends


_ENDS = {
    VARINT: _varint_ends, UVARINT: _varint_ends, COMPACT_BYTES: _bytes_ends, DECIMAL: _decimal_ends, JSON: _json_ends,
    VECTOR: _vector_ends,
}  # fmt: skip


def walk(data: Bytes, runs: ByteRuns, slow: Mask) -> PairTable:
    """Adds to `slow` the runs that do not hold pairs to their last byte; those that are slow already are not read. A row without columns is
    one zero byte."""
    empty = (runs.stops - runs.starts == 1) & (data[np.where(slow, 0, runs.starts)] == NIL)
    going = np.flatnonzero(~slow & ~empty)
    at, counts = runs.starts[going], np.zeros(len(slow), np.int64)
    steps: list[tuple[Numbers, Numbers, Numbers, Numbers]] = []
    while len(going):
        stops = runs.stops[going]
        ids, id_bytes = varints(data, at + 1)
        value_at = at + 1 + id_bytes
        broken = (data[at] != VARINT) | (id_bytes == 0) | (value_at >= stops)
        ends = datum_ends(data, np.where(broken, at, value_at), stops)
        broken |= ends > stops
        if broken.any():
            slow[going[broken]] = True
            whole = ~broken
            going, ids, value_at, ends, stops = going[whole], ids[whole], value_at[whole], ends[whole], stops[whole]
        steps.append((going, signed(ids), value_at, ends))
        counts[going] += 1
        more = ends < stops
        going, at = (going, ends) if more.all() else (going[more], ends[more])
    return _in_order(steps, counts, slow)


def _in_order(steps: list[tuple[Numbers, Numbers, Numbers, Numbers]], counts: Numbers, slow: Mask) -> PairTable:
    """Pairs of runs that are not slow."""
    counts = np.where(slow, 0, counts)
    firsts = np.cumsum(counts) - counts
    total = int(counts.sum())
    run, ids, at, ends = (np.empty(total, np.int64) for _ in range(4))
    for step, (going, step_ids, step_at, step_ends) in enumerate(steps):
        if slow.any():
            kept = ~slow[going]
            going, step_ids, step_at, step_ends = going[kept], step_ids[kept], step_at[kept], step_ends[kept]
        place = firsts[going] + step
        run[place], ids[place], at[place], ends[place] = going, step_ids, step_at, step_ends
    return PairTable(run, ids, at, ends, counts)
