"""Keys of rows of one table, all at once: do they belong to the table, and what do their handles tell.

The rules are those of sidecar/shared/rowcodec/kv_key.py, which has the last word on the keys that are `bad` here: broken ones, and
common handles so short that they are padded.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from sidecar.shared.columns.kv_columns import (
    Bytes,
    KvTexts,
    Mask,
    Numbers,
    byte_array,
    decimal_sizes,
    floats_of_cells,
    numbers_of_key,
    texts_of_bytes,
    texts_of_decimals,
    texts_of_floats,
    texts_of_numbers,
    words,
)
from sidecar.shared.rowcodec.kv_key import HANDLE_AT, INT_HANDLE_BYTES, KEYSPACE_BYTES
from sidecar.shared.rowcodec.kv_table import KvColumn, KvTable

_SIGN_BIT = 1 << 63
_ROW_MARK = int.from_bytes(b"_r", "big")
_GROUP = 8
_NUMBER_FLAGS = {"int": 3, "year": 3, "time": 7, "float": 5, "double": 5}
_UINT_FLAG, _BYTES_FLAG, _DECIMAL_FLAG = 4, 1, 6


class Handles(NamedTuple):
    """`texts`: by column number, of the columns that the handle alone holds; they mean nothing for `bad` keys.

    `bare_at` and `handle_at` are where key r begins without its keyspace, and where its handle begins.
    """

    texts: dict[int, pa.Array]
    bad: Mask
    bare_at: Numbers
    handle_at: Numbers


def read_handles(table: KvTable, data: Bytes, starts: Numbers, stops: Numbers) -> Handles:
    """`data` is padded (kv_columns.PADDING)."""
    has_keyspace = (stops - starts > KEYSPACE_BYTES) & (data[starts] == ord("x"))
    bare_at = starts + np.where(has_keyspace, KEYSPACE_BYTES, 0)
    handle_at = bare_at + HANDLE_AT
    bad = handle_at + INT_HANDLE_BYTES > stops
    readable = np.where(bad, 0, bare_at)
    if len(starts) and not bad.all():
        ids = np.asarray([table_id + _SIGN_BIT for table_id in table.physical_ids], np.uint64)
        bad |= (data[readable] != ord("t")) | (words(data, ">u2")[readable + 9] != _ROW_MARK)
        bad |= ~np.isin(words(data, ">u8")[readable + 1].astype(np.uint64), ids)
    elif len(starts):
        return Handles({}, bad, bare_at, handle_at)
    at = np.where(bad, 0, handle_at)
    if table.key_parts:
        return Handles(_common_handles(table, data, at, stops, bad), bad, bare_at, handle_at)
    bad |= stops - handle_at != INT_HANDLE_BYTES
    if table.int_handle is None:
        return Handles({}, bad, bare_at, handle_at)
    column = table.columns[table.int_handle]
    handles = words(data, ">u8")[at].astype(np.uint64) ^ np.uint64(_SIGN_BIT)
    texts = texts_of_numbers(column, handles if column.unsigned else handles.view(np.int64))
    return Handles({table.int_handle: texts.texts}, bad | texts.bad, bare_at, handle_at)


def _common_handles(table: KvTable, data: Bytes, at: Numbers, stops: Numbers, bad: Mask) -> dict[int, pa.Array]:
    """Adds to `bad`. A bad key's place stays at 0, where nothing is out of bounds."""
    texts: dict[int, pa.Array] = {}
    at = at.copy()
    for part in table.key_parts:
        column = table.columns[part.number]
        result, ends = _part(table, column, data, at, stops, is_whole=part.is_whole)
        bad |= result.bad | (ends > stops)
        if part.is_whole:
            texts[part.number] = result.texts
        at = np.where(bad, 0, ends)
    bad |= at != stops
    return texts


def _part(table: KvTable, column: KvColumn, data: Bytes, at: Numbers, stops: Numbers, *, is_whole: bool) -> tuple[KvTexts, Numbers]:
    """One column of the handle and where it ends."""
    kind, flags = column.column.kind, data[at]
    if kind in ("text", "binary"):
        texts, ends = _bytes_part(column, data, at + 1, stops, is_whole=is_whole)
        bad = (flags != _BYTES_FLAG) | (table.new_collation and is_whole and column.collation in ("gbk_bin", "gb18030_bin"))
        return KvTexts(texts.texts, texts.bad | bad), ends
    if kind == "decimal":
        sizes = decimal_sizes(data, at + 1)
        bad = (flags != _DECIMAL_FLAG) | (sizes == 0) | (at + 1 + sizes > stops)
        starts = np.where(bad, 0, at + 1)
        texts = _decimals(column, data, starts, sizes, bad)
        return KvTexts(texts.texts, texts.bad | bad), at + 1 + sizes
    bad = (flags != _NUMBER_FLAGS.get(kind, _UINT_FLAG)) | (at + 9 > stops)
    starts = np.where(bad, 0, at + 1)
    if kind in ("float", "double"):
        texts = texts_of_floats(column, floats_of_cells(data, starts))
    else:
        texts = texts_of_numbers(column, numbers_of_key(column, data, starts))
    return KvTexts(texts.texts, texts.bad | bad), at + 9


def _decimals(column: KvColumn, data: Bytes, starts: Numbers, sizes: Numbers, bad: Mask) -> KvTexts:
    """`bad` cells are shown as empty ones, which no decimal is."""
    return texts_of_decimals(column, data, starts, np.where(bad, starts, starts + sizes))


def _bytes_part(column: KvColumn, data: Bytes, at: Numbers, stops: Numbers, *, is_whole: bool) -> tuple[KvTexts, Numbers]:
    """Groups of eight bytes and a marker, walked for all keys at once; the last group's marker holds its padding."""
    count = len(at)
    ends, lengths = at.copy(), np.zeros(count, np.int64)
    bad = np.zeros(count, np.bool_)
    going = np.arange(count)
    while len(going):
        group = ends[going]
        short = group + _GROUP + 1 > stops[going]
        bad[going[short]] = True
        going, group = going[~short], group[~short]
        padding = 0xFF - data[group + _GROUP].astype(np.int64)
        tail = words(data, ">u8")[group].astype(np.uint64) & _low_bits(padding)
        wrong = (padding > _GROUP) | (tail != 0)
        bad[going[wrong]] = True
        ends[going] = group + _GROUP + 1
        lengths[going] += np.where(wrong, 0, _GROUP - padding)
        going = going[(padding == 0) & ~wrong]
    if not is_whole:
        return KvTexts(None, bad), ends
    lengths[bad] = 0
    stops_out = np.cumsum(lengths)
    starts_out = stops_out - lengths
    row = np.repeat(np.arange(count), lengths)
    place = np.arange(len(row)) - starts_out[row]
    content = data[at[row] + place + place // _GROUP]
    texts = texts_of_bytes(column, byte_array(content, starts_out, stops_out))
    return KvTexts(texts.texts, texts.bad | bad), ends


def _low_bits(padding: Numbers) -> Numbers:
    """A mask of the last `padding` bytes of eight."""
    bits = np.clip(8 * padding, 0, 64).astype(np.uint64)
    return np.where(bits == 64, np.uint64((1 << 64) - 1), (np.uint64(1) << (bits & np.uint64(63))) - np.uint64(1))
