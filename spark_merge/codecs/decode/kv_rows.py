"""Rows of raw key-values as the log keeps them (sidecar/shared/codecs/kv.py): the key, and size of the new value, new value, old value.

- All new values of a block are decoded together, and all old ones, by the layout in the table's schema (`TableSchema.layout`).
- An old value is read with the schema of its row's commit_ts, as TiCDC reads it, and as a row at rest: shared/rowcodec/kv_row.py.
- Values are cut out of the block's own bytes: as an array of three pieces a row, of which every third is taken.
- A few rows are decoded one by one: a column's fixed cost is that of thirty rows. A block that is refused is read again so, to name the
  row.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sidecar.shared.columns.kv import decode_rows
from sidecar.shared.columns.zone import ServerZone
from sidecar.shared.errors import MessageUnreadable
from sidecar.shared.model.nouns import TableSchema
from sidecar.shared.rowcodec.kv_layout import kv_table_of
from sidecar.shared.rowcodec.kv_row import decode_row
from sidecar.shared.rowcodec.kv_table import KvTable
from spark_merge.codecs.images import NO_IMAGE, Images, RowUnusable, unreadable

_SIZE_BYTES = 4

_SLOW_ROWS_MAX = 24
"""Up to here the slow decoder is the quicker one (measured with tables of 2 to 48 columns)."""

_Numbers = npt.NDArray[np.int64]


def read(keys: pa.Array, values: pa.Array, schema: TableSchema, zone: ServerZone) -> Images:  # noqa: ARG001 - key-values are in UTC
    """Raises RowUnusable for a row that the slow decoder refuses, FeedUnsuitable for a schema without a layout."""
    table = kv_table_of(schema)
    keys, values = _whole(keys), _whole(values)
    new, old = parted(values)
    after_rows, before_rows = (np.flatnonzero(_sizes(images)) for images in (new, old))
    parts = ((new, after_rows, False), (old, before_rows, True))
    decoded = [_decoded(table, keys, images, rows, is_old=is_old) for images, rows, is_old in parts if len(rows)]
    columns = [pa.concat_arrays(arrays) for arrays in zip(*decoded, strict=True)]
    before, after = np.full(len(values), NO_IMAGE, np.int64), np.full(len(values), NO_IMAGE, np.int64)
    after[after_rows] = np.arange(len(after_rows))
    before[before_rows] = len(after_rows) + np.arange(len(before_rows))
    return Images(columns, before.tolist(), after.tolist())


def _whole(column: pa.Array) -> pa.BinaryArray:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def parted(values: pa.BinaryArray) -> tuple[pa.BinaryArray, pa.BinaryArray]:
    """New and old of each row, which may be empty. Raises RowUnusable."""
    _, offsets_buffer, data = values.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32)[values.offset : values.offset + len(values) + 1].astype(np.int64)
    starts, stops = offsets[:-1], offsets[1:]
    events = starts + _SIZE_BYTES
    if values.null_count or (short := np.flatnonzero(events >= stops)).size:
        row = int(short[0]) if not values.null_count else values.is_null().index(True).as_py()
        raise unreadable(row, "the logged value is no pair of images: it is too short to hold one")
    bytes_of = np.frombuffer(data, np.uint8)
    sizes = np.zeros(len(values), np.int64)
    for byte in range(_SIZE_BYTES):
        sizes = sizes << 8 | bytes_of[starts + byte]
    olds = events + sizes
    if (long := np.flatnonzero(olds > stops)).size:
        raise unreadable(int(long[0]), "the logged value is no pair of images: its new value is longer than all of it")
    edges = np.empty(3 * len(values) + 1, np.int32)
    edges[0:-1:3], edges[1::3], edges[2::3], edges[-1] = starts, events, olds, offsets[-1]
    pieces = pa.Array.from_buffers(pa.binary(), 3 * len(values), [None, pa.py_buffer(edges), data])
    return pieces.take(pa.array(np.arange(1, 3 * len(values), 3))), pieces.take(pa.array(np.arange(2, 3 * len(values), 3)))


def _sizes(images: pa.BinaryArray) -> _Numbers:
    return np.diff(np.frombuffer(images.buffers()[1], np.int32)[images.offset : images.offset + len(images) + 1]).astype(np.int64)


def _decoded(table: KvTable, keys: pa.BinaryArray, images: pa.BinaryArray, rows: _Numbers, *, is_old: bool) -> list[pa.Array]:
    """The columns of these rows' images."""
    if len(rows) <= _SLOW_ROWS_MAX:
        return _one_by_one(table, keys, images, rows, is_old=is_old)
    picked = pa.array(rows)
    try:
        return list(decode_rows(table, keys.take(picked), images.take(picked), at_rest=is_old).columns)
    except MessageUnreadable:
        return _one_by_one(table, keys, images, rows, is_old=is_old)


def _one_by_one(table: KvTable, keys: pa.BinaryArray, images: pa.BinaryArray, rows: _Numbers, *, is_old: bool) -> list[pa.Array]:
    decoded = []
    for row in rows.tolist():
        try:
            decoded.append(decode_row(table, keys[row].as_py(), images[row].as_py(), at_rest=is_old))
        except MessageUnreadable as error:
            image = "old value" if is_old else "new value"
            raise RowUnusable(row, f"{image}: {error.message}", kind=MessageUnreadable, hint=error.hint) from error
    return [pa.array(texts, pa.string()) for texts in zip(*decoded, strict=True)]
