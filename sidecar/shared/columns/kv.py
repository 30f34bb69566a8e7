"""Rows of key-values of one table to columns of canonical text, all rows at once: the fast decoder.

    values ─► where each column's cell is, in each row (_Places) ─► kernels (kv_columns.py) ─► one text array a column
    keys   ─► handle columns (kv_handles.py)                    ─┘

It reads row format 2, small and large, with and without a checksum over its bytes, of any mix of layouts. Rows that it
does not vouch for (format 1, checksums over columns, broken ones, rare values, successors) go to the slow decoder one by one, which
gives their texts or the error: the result is the slow decoder's in every case (sidecar/shared/rowcodec/kv_row.py).

`places.starts[c, r]` is where column c's cell begins in `data`, or NULL_CELL, or ABSENT.
"""

from __future__ import annotations

from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sidecar.shared.columns.kv_columns import PADDING, Bytes, KvTexts, Mask, Numbers, texts_of_cells, words
from sidecar.shared.columns.kv_handles import Handles, read_handles
from sidecar.shared.rowcodec.kv_checksum import OVER_HANDLE, OVER_KEY
from sidecar.shared.rowcodec.kv_row import FLAG_CHECKSUM, FLAG_LARGE, FORMAT_2, HEAD_BYTES, decode_row
from sidecar.shared.rowcodec.kv_table import KvTable

ABSENT, NULL_CELL = -1, -2

_CHECKSUM_BYTES = 5
_SMALL_IDS = 256


class KvCells(NamedTuple):
    """The rows of a pa.BinaryArray: row r is `data[starts[r]:stops[r]]`. `data` is padded."""

    data: Bytes
    starts: Numbers
    stops: Numbers


class _Places(NamedTuple):
    """Of shape (columns, rows). `slow`: rows that are left to the slow decoder."""

    starts: Numbers
    stops: Numbers
    slow: Mask


def decode_rows(table: KvTable, keys: pa.BinaryArray, values: pa.BinaryArray, *, at_rest: bool = False) -> pa.RecordBatch:
    """One pa.string column for each of `table.columns`, in order, NULL where NULL. `keys` and `values` are as long
    and not chunked, with at most 1 GiB of values; `at_rest` as for the slow decoder.

    Raises MessageUnreadable for the first row that the slow decoder refuses, as it does.
    """
    if len(keys) == 0:
        return pa.RecordBatch.from_pylist([], schema=pa.schema([(name, pa.string()) for name in table.schema.column_names()]))
    key_cells, value_cells = cells_of(keys), cells_of(values)
    handles = read_handles(table, key_cells.data, key_cells.starts, key_cells.stops)
    places = _places(table, value_cells, handles, key_cells)
    columns = [_column(table, number, value_cells.data, places, handles) for number in range(len(table.columns))]
    slow = np.flatnonzero(places.slow)
    if len(slow):
        columns = _with_slow_rows(table, columns, places.slow, slow, keys, values, at_rest=at_rest)
    return pa.RecordBatch.from_arrays(columns, names=list(table.schema.column_names()))


def cells_of(array: pa.BinaryArray) -> KvCells:
    """Null is an empty cell, which no row is."""
    if array.null_count:
        array = array.fill_null(b"")
    _, offsets_buffer, data_buffer = array.buffers()
    if len(array) == 0 or offsets_buffer is None:
        return KvCells(np.zeros(PADDING, np.uint8), np.zeros(0, np.int64), np.zeros(0, np.int64))
    offsets = np.frombuffer(offsets_buffer, np.int32)[array.offset : array.offset + len(array) + 1].astype(np.int64)
    first, last = int(offsets[0]), int(offsets[-1])
    data = np.zeros(last - first + PADDING, np.uint8)
    if data_buffer is not None:
        data[: last - first] = np.frombuffer(data_buffer, np.uint8)[first:last]
    return KvCells(data, offsets[:-1] - first, offsets[1:] - first)


# ---- layouts --------------------------------------------------------------------------------------------------------


def _places(table: KvTable, rows: KvCells, handles: Handles, keys: KvCells) -> _Places:
    shape = (len(table.columns), len(rows.starts))
    places = _Places(np.full(shape, ABSENT, np.int64), np.zeros(shape, np.int64), handles.bad.copy())
    sizes = rows.stops - rows.starts
    heads = words(rows.data, "<u2")[rows.starts]
    flags = heads >> 8
    readable = (sizes >= HEAD_BYTES) & (heads & 0xFF == FORMAT_2) & (flags <= FLAG_LARGE | FLAG_CHECKSUM) & ~places.slow
    for large in (False, True):
        numbers = np.flatnonzero(readable & ((flags & FLAG_LARGE != 0) == large))
        if len(numbers):
            _place_cells(table, rows, numbers, places, large=large)
    places.slow[~readable] = True
    _refuse_bad_checksums(rows, keys, handles, np.flatnonzero((flags & FLAG_CHECKSUM != 0) & ~places.slow), places.slow)
    for number in handles.texts:
        places.slow[places.starts[number] != ABSENT] = True  # both the key and the row hold the column: rare, and compared
    if table.lost_key is not None:
        places.slow[:] = True
    for number, column in enumerate(table.columns):
        if column.successor is not None:
            places.slow[places.starts[number] == ABSENT] = True  # amid MODIFY COLUMN: rare
    places.starts[:, places.slow] = NULL_CELL
    return places


def _place_cells(table: KvTable, rows: KvCells, numbers: Numbers, places: _Places, *, large: bool) -> None:
    """Rows `numbers`, all of ids and offsets of one width."""
    id_bytes, offset_bytes = (4, 4) if large else (1, 2)
    head = rows.starts[numbers]
    present, nulls = (words(rows.data, "<u2")[head + at].astype(np.int64) for at in (2, 4))
    count = present + nulls
    data_at = head + HEAD_BYTES + id_bytes * count + offset_bytes * present
    fits = data_at <= rows.stops[numbers]
    if not fits.all():
        places.slow[numbers[~fits]] = True
        numbers, head, present, count, data_at = (item[fits] for item in (numbers, head, present, count, data_at))
    first = np.cumsum(count) - count
    row = np.repeat(np.arange(len(numbers)), count)
    place = np.arange(len(row)) - first[row]
    ids = words(rows.data, "<u4" if large else "u1")[head[row] + HEAD_BYTES + id_bytes * place].astype(np.int64)
    is_present = place < present[row]
    slow = places.slow[numbers]
    before = np.where((place == 0) | (place == present[row]), 0, np.roll(ids, 1))
    slow[row[ids <= before]] = True

    offsets_at = head + HEAD_BYTES + id_bytes * count
    cell_row, cell_place = row[is_present], place[is_present]
    ends = words(rows.data, "<u4" if large else "<u2")[offsets_at[cell_row] + offset_bytes * cell_place].astype(np.int64)
    begins = np.where(cell_place == 0, 0, np.roll(ends, 1))
    slow[cell_row[ends < begins]] = True
    last = np.zeros(len(numbers), np.int64)
    is_last = cell_place == present[cell_row] - 1
    last[cell_row[is_last]] = ends[is_last]
    has_checksum = rows.data[head + 1] & FLAG_CHECKSUM != 0
    slow |= data_at + last + np.where(has_checksum, _CHECKSUM_BYTES, 0) != rows.stops[numbers]

    columns = column_numbers(table, ids, large=large)
    known = columns >= 0
    slow[_both_null_and_not(row, ids, is_present)] = True
    places.slow[numbers] = slow
    at_null = known & ~is_present
    places.starts[columns[at_null], numbers[row[at_null]]] = NULL_CELL
    known_cells = known[is_present]
    column, target = columns[is_present][known_cells], numbers[cell_row[known_cells]]
    places.starts[column, target] = (data_at[cell_row] + begins)[known_cells]
    places.stops[column, target] = (data_at[cell_row] + ends)[known_cells]


def column_numbers(table: KvTable, ids: Numbers, *, large: bool) -> Numbers:
    """The column's number of each id, -1 where the table has no such column."""
    own = np.asarray([column.id for column in table.columns], np.int64)
    if not large:
        numbers = np.full(_SMALL_IDS, -1, np.int64)
        numbers[own[own < _SMALL_IDS]] = np.flatnonzero(own < _SMALL_IDS)
        return numbers[ids]
    order = np.argsort(own)
    nearest = order[np.minimum(np.searchsorted(own[order], ids), len(own) - 1)]
    return np.where(own[nearest] == ids, nearest, -1)


def _both_null_and_not(row: Numbers, ids: Numbers, is_present: Mask) -> Numbers:
    """Rows with an id in both lists. Ids rise in each list, so that only rows whose lists overlap can have one."""
    if is_present.all():
        return row[:0]
    place = row << 32 | ids
    both = np.intersect1d(place[is_present], place[~is_present])
    return both >> 32


def _refuse_bad_checksums(rows: KvCells, keys: KvCells, handles: Handles, numbers: Numbers, slow: Mask) -> None:
    """Checksums over bytes are verified here; over columns, and those that fail, in the slow decoder."""
    data, key_data = rows.data.data, keys.data.data
    for number in numbers.tolist():
        stop = int(rows.stops[number])
        header = stop - _CHECKSUM_BYTES
        version = data[header]
        crc = crc32(data[rows.starts[number] : header + 1])
        part = handles.handle_at if version == OVER_HANDLE else handles.bare_at
        if version not in (OVER_KEY, OVER_HANDLE) or crc32(key_data[part[number] : keys.stops[number]], crc) != int.from_bytes(
            data[header + 1 : stop], "little"
        ):
            slow[number] = True


# ---- columns --------------------------------------------------------------------------------------------------------


def _column(table: KvTable, number: int, data: Bytes, places: _Places, handles: Handles) -> pa.Array:
    column, starts = table.columns[number], places.starts[number]
    present = starts >= 0
    rows = np.flatnonzero(present)
    kv_texts = KvTexts(pa.array([], pa.string()), np.zeros(0, np.bool_))
    if len(rows):
        kv_texts = texts_of_cells(column, data, starts[rows], places.stops[number][rows])
        places.slow[rows[kv_texts.bad]] = True
    if len(rows) == len(starts):
        return kv_texts.texts
    absent = starts == ABSENT
    if number in handles.texts:
        of_key = handles.texts[number]
        return of_key if absent.all() else pc.if_else(pa.array(absent), of_key, spread(kv_texts.texts, present))
    if any(part.number == number for part in table.key_parts):
        places.slow[absent] = True
    texts = spread(kv_texts.texts, present)
    if column.absent is None or not absent.any():
        return texts
    return pc.if_else(pa.array(absent), pa.scalar(column.absent, pa.string()), texts)


def spread(texts: pa.Array, present: Mask) -> pa.Array:
    """One entry a row, null where there is no cell."""
    return texts.take(pa.array(np.cumsum(present) - 1, mask=~present))


def _with_slow_rows(
    table: KvTable, columns: list[pa.Array], is_slow: Mask, slow: Numbers, keys: pa.Array, values: pa.Array, *, at_rest: bool
) -> list[pa.Array]:
    picked: Any = zip(keys.take(pa.array(slow)).to_pylist(), values.take(pa.array(slow)).to_pylist(), strict=True)
    rows = [decode_row(table, key or b"", value or b"", at_rest=at_rest) for key, value in picked]
    where = pa.array(is_slow)
    return [
        pc.replace_with_mask(column, where, pa.array(texts, pa.string()))
        for column, texts in zip(columns, zip(*rows, strict=True), strict=True)
    ]
