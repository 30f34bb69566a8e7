"""Row events of a TiDB-Binlog of one table to columns of canonical text, all rows at once: the fast decoder.

    values ─► images (which rows they are, old and new) ─► pairs (binlog_walk.py) ─► where each column is in each image
           ─► kernels of raw key-values (shared/columns/kv_columns.py) ─► one text array a column

What it does not vouch for goes to the slow decoder row by row, which gives texts or the error: rows of earlier layouts, broken ones, and
rare values. The result is the slow decoder's in every case (sidecar/shared/rowcodec/binlog_row.py).

Images are numbered row by row, the old one first. `at[c, i]` is where the flag of column c is in image i, or NULL_CELL, or ABSENT.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sidecar.shared.columns.kv import ABSENT, NULL_CELL, KvCells, cells_of, column_numbers, spread
from sidecar.shared.columns.kv_columns import (
    Bytes,
    KvTexts,
    Mask,
    Numbers,
    byte_array,
    floats_of_cells,
    numbers_of_key,
    texts_of_bytes,
    texts_of_decimals,
    texts_of_floats,
    texts_of_numbers,
    texts_one_by_one,
    words,
)
from sidecar.shared.model.nouns import TableSchema
from sidecar.shared.rowcodec.binlog_event import (
    DELETE,
    HEAD_BYTES,
    INSERT,
    KIND_AT,
    MAYBE_REPEATED,
    REPLACED,
    ROWID_ID,
    SCHEMA_VERSION_AT,
    SETTLED,
    SIZE_BYTES,
    UPDATE,
)
from sidecar.shared.rowcodec.binlog_row import DecodedBinlogRows, decode_logged
from sidecar.shared.rowcodec.kv_datum import DECIMAL, NIL, ROW_FLAGS, VARINT, read_datum
from sidecar.shared.rowcodec.kv_error import Broken
from sidecar.shared.rowcodec.kv_layout import kv_table_of
from sidecar.shared.rowcodec.kv_table import KvColumn, KvTable
from spark_merge.codecs.decode.binlog_walk import ByteRuns, PairTable, datum_ends, signed, varints, walk
from spark_merge.codecs.images import NO_IMAGE, Images

_SIGNED = ("int", "year", "time")
_GBK = ("gbk_bin", "gb18030_bin")
_ID_MAX = (1 << 31) - 1
"""Of a column; larger ones are left to the slow decoder."""

_NO_TEXTS = KvTexts(pa.array([], pa.string()), np.zeros(0, np.bool_))


class _Grid(NamedTuple):
    """Of shape (rows, 2): the old image and the new one. `split`: rows whose two images are one run."""

    there: Mask
    starts: Numbers
    stops: Numbers
    has_handle: Mask
    split: Mask
    slow: Mask


class _Places(NamedTuple):
    """Of shape (columns, images); `of_key`: texts by column number for the images with a handle; `slow` by image."""

    at: Numbers
    ends: Numbers
    of_key: dict[int, pa.Array]
    has_handle: Mask
    slow: Mask


def decode_events(schema: TableSchema, values: pa.BinaryArray) -> Images:
    """Raises MessageUnreadable for the first row that the slow decoder refuses, as it does."""
    table, cells = kv_table_of(schema), cells_of(values)
    grid = _grid(schema, cells)
    numbers = np.where(grid.there, np.cumsum(grid.there.ravel()).reshape(-1, 2) - 1, NO_IMAGE)
    places = _places(table, cells.data, grid, numbers)
    columns = [_column(table, number, cells.data, places) for number in range(len(table.columns))]
    row_of = np.repeat(np.arange(len(numbers)), grid.there.sum(axis=1))
    slow = np.unique(np.concatenate([np.flatnonzero(grid.slow), row_of[places.slow]]))
    if len(slow):
        decoded_binlog_rows = [decode_logged(schema, value) for value in values.take(pa.array(slow)).to_pylist()]
        columns = _with_slow_rows(columns, numbers[slow], decoded_binlog_rows)
    return Images(columns, numbers[:, 0].tolist(), numbers[:, 1].tolist())


# ---- images ---------------------------------------------------------------------------------------------------------


def _grid(schema: TableSchema, cells: KvCells) -> _Grid:
    data, count = cells.data, len(cells.starts)
    slow = cells.stops - cells.starts <= HEAD_BYTES
    head = np.where(slow, 0, cells.starts)
    letters = data[head + KIND_AT]
    kinds = letters & ~np.uint8(MAYBE_REPEATED)
    versions = words(data, ">i8")[np.where(slow, 0, head + SCHEMA_VERSION_AT)].astype(np.int64)
    settled = (letters == REPLACED) | (letters == SETTLED)
    begin = np.where(slow, 0, cells.starts + HEAD_BYTES)
    middle = _middles(data, begin, cells.stops, settled, slow)
    slow |= ~settled & ~np.isin(kinds, (INSERT, UPDATE, DELETE))
    if schema.former is not None:
        slow |= versions < schema.former.until
    has_old = (kinds == UPDATE) | (kinds == DELETE) | (settled & (middle > begin + SIZE_BYTES))
    there = np.column_stack((has_old, kinds != DELETE))
    starts = np.column_stack((np.where(settled, begin + SIZE_BYTES, begin), middle))
    stops = np.column_stack((np.where(settled, middle, cells.stops), cells.stops))
    has_handle = np.column_stack((np.zeros(count, np.bool_), (kinds == INSERT) | (kinds == REPLACED)))
    return _Grid(there, starts, stops, has_handle, kinds == UPDATE, slow)


def _middles(data: Bytes, begin: Numbers, stops: Numbers, settled: Mask, slow: Mask) -> Numbers:
    """Where the new rows begin, of rows with a size before them; of others where the row begins. Adds to `slow`."""
    middle = begin.copy()
    numbers = np.flatnonzero(settled & ~slow)
    if len(numbers):
        at = begin[numbers]
        short = at + SIZE_BYTES >= stops[numbers]
        sizes = words(data, ">u4")[np.where(short, 0, at)].astype(np.int64)
        middle[numbers] = at + SIZE_BYTES + sizes
        slow[numbers[short | (middle[numbers] >= stops[numbers])]] = True
    return middle


def _places(table: KvTable, data: Bytes, grid: _Grid, numbers: Numbers) -> _Places:
    """`numbers`: the image at each place of the grid."""
    count = int(grid.there.sum())
    slow = np.zeros(count, np.bool_)
    slow[numbers[grid.there & grid.slow[:, None]]] = True
    is_run = grid.there.copy()
    is_run[grid.split, 1] = False  # its pairs are the second half of those of the old one
    image, splits = numbers[is_run], np.repeat(grid.split[:, None], 2, axis=1)[is_run]
    has_handle, bad = grid.has_handle[is_run], slow[numbers[is_run]]
    starts, stops = grid.starts[is_run], grid.stops[is_run]
    of_key, starts = _handles(table, data, ByteRuns(starts, stops), has_handle, bad)
    pairs = walk(data, ByteRuns(starts, stops), bad)
    of_image, bad = _images_of_pairs(pairs, image, splits, bad)
    slow[image[bad]] = True
    slow[image[bad & splits] + 1] = True
    places = _Places(
        np.full((len(table.columns), count), ABSENT, np.int64), np.zeros((len(table.columns), count), np.int64), of_key,
        grid.has_handle[grid.there], slow,
    )  # fmt: skip
    _refuse_ids(pairs, of_image, slow)
    columns = column_numbers(table, np.maximum(pairs.id, 0), large=True)
    _refuse_decimals(pairs, of_image, columns, data, slow)
    known = (columns >= 0) & ~slow[of_image]
    column, target, at = columns[known], of_image[known], pairs.at[known]
    places.at[column, target] = np.where(data[at] == NIL, NULL_CELL, at)
    places.ends[column, target] = pairs.end[known]
    return places


def _images_of_pairs(pairs: PairTable, image: Numbers, splits: Mask, bad: Mask) -> tuple[Numbers, Mask]:
    """The image of each pair. The second half of an update's pairs is its new row's, of the same columns."""
    of_image = image[pairs.run]
    half = pairs.counts // 2
    bad = bad | (splits & (pairs.counts % 2 == 1))
    place = np.arange(len(pairs.run)) - (np.cumsum(pairs.counts) - pairs.counts)[pairs.run]
    is_new = splits[pairs.run] & (place >= half[pairs.run])
    others = pairs.id[np.flatnonzero(is_new) - half[pairs.run[is_new]]]
    bad[pairs.run[is_new][others != pairs.id[is_new]]] = True
    return of_image + is_new, bad


def _refuse_ids(pairs: PairTable, of_image: Numbers, slow: Mask) -> None:
    """Adds images to `slow` that may have an id twice or one that no column has. Ids mostly rise, up to a last -1."""
    slow[of_image[((pairs.id < 1) & (pairs.id != ROWID_ID)) | (pairs.id > _ID_MAX)]] = True
    follows = np.append(of_image[1:] == of_image[:-1], np.zeros(min(len(of_image), 1), np.bool_))  # another pair of the image
    odd = follows & ((pairs.id == ROWID_ID) | ((np.roll(pairs.id, -1) <= pairs.id) & (np.roll(pairs.id, -1) != ROWID_ID)))
    doubtful = np.flatnonzero(np.isin(of_image, np.unique(of_image[odd])))
    if len(doubtful):
        both = of_image[doubtful] << 32 | (np.clip(pairs.id[doubtful], ROWID_ID, _ID_MAX) - ROWID_ID)
        distinct, counts = np.unique(both, return_counts=True)
        slow[distinct[counts > 1] >> 32] = True


def _refuse_decimals(pairs: PairTable, of_image: Numbers, columns: Numbers, data: Bytes, slow: Mask) -> None:
    """Adds images to `slow` that have a broken decimal of a column that the table does not have: virtual ones, or amid a DDL."""
    for number in np.flatnonzero((columns < 0) & (data[pairs.at] == DECIMAL)).tolist():
        try:
            read_datum(data[pairs.at[number] : pairs.end[number]].tobytes(), 0)
        except Broken:
            slow[of_image[number]] = True


# ---- handles --------------------------------------------------------------------------------------------------------


def _handles(table: KvTable, data: Bytes, runs: ByteRuns, has_handle: Mask, bad: Mask) -> tuple[dict[int, pa.Array], Numbers]:
    """Texts of the columns that the handle holds, for runs with one, and where the pairs begin. Adds to `bad`."""
    starts, texts = runs.starts.copy(), dict[int, pa.Array]()
    numbers = np.flatnonzero(has_handle)
    at, stops = starts[numbers], runs.stops[numbers]
    wrong = bad[numbers].copy()
    at = np.where(wrong, 0, at)
    columns = [(table.columns[part.number], part.number if part.is_whole else None) for part in table.key_parts]
    for column, number in columns:
        ends = datum_ends(data, at, stops)
        wrong |= (ends >= stops) | ~np.isin(data[at], list(ROW_FLAGS[column.column.kind]))
        wrong |= table.new_collation and number is not None and column.collation in _GBK
        at, ends = np.where(wrong, 0, at), np.where(wrong, 1, ends)
        if number is not None:
            texts[number], unread = _readable(column, data, at, ends, wrong)
            wrong |= unread
        at = np.where(wrong, 0, ends)
    if not columns:
        unsigned_handles, sizes = varints(data, at + 1)
        wrong |= (data[at] != VARINT) | (sizes == 0) | (at + 1 + sizes >= stops)
        if table.int_handle is not None:
            column = table.columns[table.int_handle]
            handles = signed(unsigned_handles)
            handle_texts = texts_of_numbers(column, handles.view(np.uint64) if column.unsigned else handles)
            texts[table.int_handle] = handle_texts.texts
            wrong |= handle_texts.bad
        at = at + 1 + sizes
    bad[numbers[wrong]] = True
    starts[numbers] = np.where(wrong, starts[numbers], at)
    return texts, starts


def _readable(column: KvColumn, data: Bytes, at: Numbers, ends: Numbers, wrong: Mask) -> tuple[pa.Array, Mask]:
    """Texts where not `wrong`, and which of those are to be read slowly."""
    right = np.flatnonzero(~wrong)
    texts, unread = _texts_of_datums(column, data, at[right], ends[right]), np.zeros(len(wrong), np.bool_)
    unread[right[texts.bad]] = True
    return spread(texts.texts, ~wrong), unread


# ---- columns --------------------------------------------------------------------------------------------------------


def _column(table: KvTable, number: int, data: Bytes, places: _Places) -> pa.Array:
    """Adds to `places.slow`."""
    column, at = table.columns[number], places.at[number]
    present = at >= 0
    images = np.flatnonzero(present)
    texts_of_images = _texts_of_datums(column, data, at[images], places.ends[number][images])
    places.slow[images[texts_of_images.bad]] = True
    if len(images) == len(at):
        places.slow[places.has_handle] |= number in places.of_key
        return texts_of_images.texts
    texts, absent = spread(texts_of_images.texts, present), at == ABSENT
    if column.successor is not None:
        places.slow[absent] = True
    if number in places.of_key:
        places.slow[absent != places.has_handle] = True
        return pc.if_else(pa.array(absent & places.has_handle), spread(places.of_key[number], places.has_handle), texts)
    if column.column.name in table.schema.key:
        places.slow[absent] = True
    if column.absent is None or not absent.any():
        return texts
    return pc.if_else(pa.array(absent), pa.scalar(column.absent, pa.string()), texts)


def _texts_of_datums(column: KvColumn, data: Bytes, at: Numbers, ends: Numbers) -> KvTexts:
    """Values of row format 1, whole, none of them NULL; `at` are their flags."""
    if len(at) == 0:
        return _NO_TEXTS
    kind, flags = column.column.kind, data[at]
    wrong = ~np.isin(flags, list(ROW_FLAGS[kind]))
    match kind:
        case "float" | "double":
            texts = texts_of_floats(column, floats_of_cells(data, at + 1))
        case "decimal":
            texts = texts_of_decimals(column, data, at + 1, ends)
        case "text" | "binary":
            sizes = varints(data, at + 1)[1]
            texts = texts_of_bytes(column, byte_array(data, np.minimum(at + 1 + sizes, ends), ends))
        case "json" | "vector":
            texts = texts_one_by_one(column, byte_array(data, at + 1, ends))
        case _:
            numbers = varints(data, at + 1)[0]
            if kind in _SIGNED:
                numbers = signed(numbers)
            if kind == "time":
                numbers = np.where(flags == VARINT, numbers, numbers_of_key(column, data, np.minimum(at + 1, len(data) - 8)))
            texts = texts_of_numbers(column, numbers)
    return KvTexts(texts.texts, texts.bad | wrong)


def _with_slow_rows(columns: list[pa.Array], numbers: Numbers, decoded_binlog_rows: list[DecodedBinlogRows]) -> list[pa.Array]:
    """`numbers`: the images of the slow rows."""
    where, rows = numbers.ravel(), [row for pair in decoded_binlog_rows for row in pair]
    mask = np.zeros(len(columns[0]) if columns else 0, np.bool_)
    mask[where[where != NO_IMAGE]] = True
    slow_rows = [row for row, number in zip(rows, where.tolist(), strict=True) if number != NO_IMAGE and row is not None]
    return [
        pc.replace_with_mask(column, pa.array(mask), pa.array(texts, pa.string()))
        for column, texts in zip(columns, zip(*slow_rows, strict=True), strict=True)
    ]
