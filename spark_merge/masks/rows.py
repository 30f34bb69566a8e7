"""Rows as a sink's target has them: pieces of a portion, and rows of the source that are compared with the target's. A column at a time.

A hash is made once for each value that a piece has. Measured, on one core, of rows of ten columns with one hash: 0.5 million rows of a dump
a second where each value is another one, 17 million where a hundred values repeat; of updates, which have two images, 0.19 and 1.4 million.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from sidecar.shared.errors import SinkError
from spark_merge.codecs.encode.split import RAW_KEY_VALUES
from spark_merge.masks.rules import ColumnMask, MaskKind
from spark_merge.masks.salt import hashed
from spark_merge.masks.tables import MaskedTable
from spark_merge.port.contract import CHANGES, TEXTS, ChunkPiece, Piece, Survivors
from spark_merge.port.pieces import bounded


def masked_pieces(table: MaskedTable, piece: Piece, salt: bytes, *, codec: str) -> Iterator[Piece]:
    """`codec`: of the messages in RAW_CHANGES, which have the values as TiCDC wrote them: they are dropped. The key of a raw key-value has
    the table and the handle key alone, and stays. Raises SinkError for an image that does not fit the schema."""
    if isinstance(piece, ChunkPiece):
        rows, ordinals, dropped = piece.survivors
        survivors = Survivors(masked_rows(table, rows, salt, keys_only=piece.deletes), ordinals, dropped)
        yield from bounded(replace(piece, survivors=survivors))
        return
    kept = [name for name in piece.column_names if name in CHANGES.names or (name == "message_key" and codec == RAW_KEY_VALUES)]
    changes = piece.select(kept)
    for name in ("before", "after"):
        images = _masked_images(table, changes[name].combine_chunks(), salt)
        changes = changes.set_column(kept.index(name), CHANGES.field(name), images)
    yield from bounded(changes)


def masked_rows(table: MaskedTable, rows: pa.Table, salt: bytes, *, keys_only: bool = False) -> pa.Table:
    """Canonical text by column, in the order of `table.source`, to that of `table.schema`. `keys_only`: of the rows no more is known than
    the handle key."""
    columns = {name: _masked(rows.column(name), None if keys_only else table.masks.get(name), salt) for name in table.schema.column_names()}
    return pa.table(columns)


def _masked(texts: Any, mask: ColumnMask | None, salt: bytes) -> Any:
    """pa.string in and out, an Array or a ChunkedArray."""
    if mask is None:
        return texts
    if mask.kind is MaskKind.CONSTANT:
        return pa.repeat(pa.scalar(mask.text, pa.string()), len(texts))
    whole = texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
    encoded = whole.dictionary_encode()
    return pa.array([hashed(salt, text) for text in encoded.dictionary.to_pylist()], pa.string()).take(encoded.indices)


def _masked_images(table: MaskedTable, images: Any, salt: bytes) -> pa.Array:
    """A list of texts for each row, null where there is no image."""
    width, offsets, there = len(table.source.columns), images.offsets.to_numpy(), images.is_valid().to_numpy(zero_copy_only=False)
    if (wrong := np.flatnonzero(there & (np.diff(offsets) != width))).size:
        raise SinkError(
            f"a row of {table.source.name} has {len(images[int(wrong[0])])} columns, its schema has {width}",
            hint="the log's schemas file does not fit its data: check that the log is whole, then report this",
        )
    starts = offsets[:-1][there]
    places = {name: place for place, name in enumerate(table.source.column_names())}
    shown = table.schema.column_names()
    columns = [_masked(images.values.take(pa.array(starts + places[name])), table.masks.get(name), salt) for name in shown]
    rows = len(starts)
    in_rows = np.arange(len(shown) * rows).reshape(len(shown), rows).T.ravel()
    ends = np.concatenate([[0], np.cumsum(np.where(there, len(shown), 0))])
    mask = np.append(~there, False)
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32(), mask=mask), pa.concat_arrays(columns).take(pa.array(in_rows)), type=TEXTS)
