"""A block: consecutive output rows of one segment and table, columnar, in canonical text.

The one form that every encoder takes. It comes from change rows (`of_changes`) or from a chunk's survivors (`of_chunk`),
and both are column work: nothing here touches a single row in Python.

An image is a struct of the table's columns; a null struct is "no such image", a null field is SQL's NULL. Every row has
at least one image, and it holds every column of the schema: anything else does not fit and stops (P6).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import TableName, TableSchema
from spark_merge.port.contract import ChunkPiece, Counts, DumpPass, Piece, Portion, Rows


@dataclass(frozen=True, slots=True)
class Block:
    """`ordinal`, `commit_ts`: pa.int64; `op`: pa.string; `before`, `after`: structs of pa.string fields in schema order.
    `dump_pass` is None for rows of the log."""

    schema: TableSchema
    seq: int
    ordinal: pa.Array
    commit_ts: pa.Array
    op: pa.Array
    before: pa.StructArray
    after: pa.StructArray
    dump_pass: DumpPass | None

    @property
    def dump_id(self) -> str | None:
        return None if self.dump_pass is None else self.dump_pass.dump_id

    @property
    def rows(self) -> int:
        return len(self.ordinal)

    @property
    def deletes(self) -> bool:
        """Whether it is of a dump's keys that the source does not have."""
        return self.dump_pass is not None and self.rows > 0 and self.op[0].as_py() == "delete"

    @property
    def origin(self) -> Literal["log", "dump"]:
        return "log" if self.dump_pass is None else "dump"


def schema_of(schemas: Mapping[TableName, TableSchema], table: TableName) -> TableSchema:
    """The table's schema. Raises SinkError for rows of a table that the batch's schemas do not name."""
    try:
        return schemas[table]
    except KeyError:
        raise SinkError(
            f"there are rows of {table}, but no schema of it",
            hint="the log's schemas file does not fit its data: check that the log is whole, then report this",
        ) from None


def blocks(schema: TableSchema, seq: int, piece: Piece) -> Iterator[Block]:
    """All rows of a piece of segment `seq`. Raises as `of_changes`."""
    if isinstance(piece, ChunkPiece):
        yield of_chunk(schema, seq, piece)
    else:
        for rows in piece.combine_chunks().to_batches():
            yield of_changes(schema, seq, rows)


def counted_blocks(portion: Portion, counts: Counts) -> Iterator[Block]:
    """As `blocks` of all its pieces; what they are is counted while they are read."""
    place = (portion.unit.seq, portion.schema.name)
    counts.setdefault(place, Rows())
    for piece in portion.pieces:
        counts[place] = counts[place].plus(Rows.of(piece))
        yield from blocks(portion.schema, portion.unit.seq, piece)


def halved(changes: pa.Table, *, rows_max: int, bytes_max: int) -> Iterator[pa.Table]:
    """In order, in parts of so many rows and bytes at most, but at least a row; nothing of no rows."""
    rows = changes.num_rows
    if rows <= 1 or (rows <= rows_max and changes.nbytes <= bytes_max):
        if rows:
            yield changes
        return
    yield from halved(changes.slice(0, rows // 2), rows_max=rows_max, bytes_max=bytes_max)
    yield from halved(changes.slice(rows // 2), rows_max=rows_max, bytes_max=bytes_max)


def of_changes(schema: TableSchema, seq: int, rows: pa.RecordBatch) -> Block:
    """Change rows of one table (CHANGES). Raises SinkError if an image has not the schema's number of columns."""
    before, after = _images(schema, rows.column("before")), _images(schema, rows.column("after"))
    if before.null_count and after.null_count and pc.any(pc.and_(before.is_null(), after.is_null())).as_py():
        raise SinkError(
            f"a change of {schema.name} in segment {seq} has neither an old nor a new image",
            hint="check that the changefeed sends deleted rows whole (delete-only-output-handle-key-columns = false)",
        )
    return Block(schema, seq, rows.column("ordinal"), rows.column("commit_ts"), rows.column("op"), before, after, None)


def of_chunk(schema: TableSchema, seq: int, piece: ChunkPiece) -> Block:
    """A chunk's survivors as of the window's high_ts: inserts, or deletes whose old images have the handle key alone."""
    rows, ordinals, _ = piece.survivors
    images = pa.StructArray.from_arrays([one_array(column) for column in rows.columns], names=list(schema.column_names()))
    none = pa.nulls(len(images), images.type)
    return Block(
        schema=schema,
        seq=seq,
        ordinal=one_array(ordinals),
        commit_ts=pa.repeat(pa.scalar(piece.due.high_ts, pa.int64()), len(images)),
        op=pa.repeat("delete" if piece.deletes else "insert", len(images)),
        before=images if piece.deletes else none,
        after=none if piece.deletes else images,
        dump_pass=piece.due.dump_pass,
    )


def image_columns(block: Block) -> list[pa.Array]:
    """Each column's text in the row as it is after the change, for a delete as it was before."""
    after = [block.after.field(i) for i in range(block.after.type.num_fields)]
    if block.after.null_count == 0:
        return after
    has_after = block.after.is_valid()
    return [pc.if_else(has_after, column, block.before.field(i)) for i, column in enumerate(after)]


def _images(schema: TableSchema, images: Any) -> pa.StructArray:
    """list<string> per row to a struct of columns. All columns are taken at once, one behind the other, and cut: a call for each costs more
    than a few rows do."""
    width, rows, offsets = len(schema.columns), len(images), images.offsets.to_numpy()
    absent = images.is_null().to_numpy(zero_copy_only=False) if images.null_count else np.zeros(rows, bool)
    if (wrong := np.flatnonzero(~absent & (np.diff(offsets) != width))).size:
        raise SinkError(
            f"a row of {schema.name} has {len(images[int(wrong[0])])} columns, its schema has {width}",
            hint="the log's schemas file does not fit its data: check that the log is whole, then report this",
        )
    places = (offsets[:-1] + np.arange(width)[:, None]).ravel()
    values = images.values.take(pa.array(places, mask=np.tile(absent, width) if images.null_count else None))
    columns = [values.slice(j * rows, rows) for j in range(width)]
    mask = images.is_null() if images.null_count else None
    return pa.StructArray.from_arrays(columns, names=list(schema.column_names()), mask=mask)


def one_array(column: Any) -> pa.Array:
    if not isinstance(column, pa.ChunkedArray):
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()  # which copies, even one


def versions(block: Block) -> pa.Array:
    """Of each row, int64: 2 x commit_ts, and one more for a put. Twice a TSO has 63 bits until the year 2527."""
    puts = pc.cast(pc.not_equal(block.op, "delete"), pa.int64())
    return pc.add(pc.multiply(block.commit_ts, 2), puts)
