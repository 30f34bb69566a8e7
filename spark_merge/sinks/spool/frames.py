"""A unit's rows as deliveries (proto/ticdc_dump/v1/delivery.proto), one after another in a file: four bytes of length, then itself.

    run    rows of one table, side by side in the order of the output
    frame  runs up to about FRAME_BYTES, with the columns of the tables that this file has not described yet

What a reader holds is one frame. All is done by columns but for the slice of a run: where tables alternate row by row, runs are many, so
those of a frame are taken out of Arrow together.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import TableName, TableSchema
from spark_merge.codecs.encode.runs import TableRun
from spark_merge.port.contract import ChunkPiece, Piece
from spark_merge.port.keys import key_text
from ticdc_dump.v1 import delivery_pb2 as pb

FRAME_BYTES = 1 << 20
"""About so much text in one delivery: what a call's overhead is lost in, and little to hold."""
FRAME_BYTES_MAX = 4 * FRAME_BYTES
"""Rows of a frame that turns out to be larger go into two: gRPC's own bound on what a client takes."""
ROW_BYTES_MAX = 60 << 20
"""One row that is larger fits into no message of the control service."""
FRAME_ROWS_MAX = 8_192
SHORT_ROWS = 32
"""Runs of so few are as large as the rows of their portion are on average: to ask Arrow for each one's bytes would cost more than all the
rest of it."""

_LENGTH = 4


class FrameFile:
    """Frames of segment `seq` into `out`. `add` for each piece, in order, and `close` once; `bytes` is what was written."""

    def __init__(self, out: IO[bytes], seq: int) -> None:
        self.bytes = 0
        self._out, self._seq = out, seq
        self._runs: list[TableRun] = []
        self._held_bytes = self._held_rows = 0
        self._ids: dict[TableName, int] = {}

    def add(self, schema: TableSchema, piece: Piece, row_bytes: int = 0) -> None:
        """`row_bytes`: of its portion, where that knows it."""
        whole = TableRun(schema, piece)
        count = whole.rows
        if 0 < count <= SHORT_ROWS and row_bytes:
            self._hold(whole, count, row_bytes * count)
            return
        size = whole.nbytes if count else 0
        rows = max(1, min(FRAME_ROWS_MAX, count * FRAME_BYTES // max(size, 1)))
        for start in range(0, count, rows):
            run = whole.slice(start, rows)
            self._hold(run, run.rows, max(1, size * run.rows // count))

    def _hold(self, run: TableRun, rows: int, size: int) -> None:
        self._runs.append(run)
        self._held_rows += rows
        self._held_bytes += size
        if self._held_bytes >= FRAME_BYTES or self._held_rows >= FRAME_ROWS_MAX:
            self.close()

    def close(self) -> None:
        runs, self._runs = self._runs, []
        self._held_bytes = self._held_rows = 0
        if runs:
            self._write(runs)

    def _write(self, runs: Sequence[TableRun]) -> None:
        reported = dict(self._ids)
        data = self._delivery(runs).SerializeToString()
        rows = sum(run.rows for run in runs)
        if len(data) > FRAME_BYTES_MAX and rows > 1:
            self._ids = reported
            for half in _halves(runs, rows // 2):
                self._write(half)
            return
        if len(data) > ROW_BYTES_MAX:
            raise _too_large(runs[0], self._seq, len(data))
        self._out.write(len(data).to_bytes(_LENGTH, "big"))
        self._out.write(data)
        self.bytes += _LENGTH + len(data)

    def _delivery(self, runs: Sequence[TableRun]) -> pb.Delivery:
        delivery = pb.Delivery(seq=self._seq)
        for schema in {id(run.schema): run.schema for run in runs}.values():
            if schema.name not in self._ids:
                columns = table_columns(schema)
                self._ids[schema.name] = columns.id
                delivery.tables.append(columns)
        for of_chunks, side_by_side in groupby(runs, lambda run: isinstance(run.piece, ChunkPiece)):
            if of_chunks:
                for run in side_by_side:
                    assert isinstance(run.piece, ChunkPiece)
                    _add_chunk(delivery.rows.add(table=self._ids[run.schema.name]), run.piece)
            else:
                self._add_changes(delivery, list(side_by_side))
        return delivery

    def _add_changes(self, delivery: pb.Delivery, runs: Sequence[TableRun]) -> None:
        changes = pa.concat_tables([run.piece.select(["commit_ts", "ordinal", "before", "after"]) for run in runs])  # type: ignore[union-attr]  # no chunks here
        commit_tsos, ordinals = changes["commit_ts"].to_numpy().tolist(), changes["ordinal"].to_numpy().tolist()
        widths = np.repeat([len(run.schema.columns) for run in runs], [run.rows for run in runs])
        before, after = _Images(changes["before"], widths), _Images(changes["after"], widths)
        if misfits := np.flatnonzero(before.misfits | after.misfits | ~(before.there | after.there)).tolist():
            raise _misfit(runs, misfits[0], self._seq)
        ops = np.where(~after.there, pb.ROW_OP_DELETE, np.where(before.there, pb.ROW_OP_UPDATE, pb.ROW_OP_INSERT)).tolist()
        start = 0
        for run in runs:
            end = start + run.rows
            batch = delivery.rows.add(
                table=self._ids[run.schema.name],
                ops=ops[start:end],
                commit_tsos=commit_tsos[start:end],
                ordinals=ordinals[start:end],
            )
            before.tell(batch.before, start, end, len(run.schema.columns))
            after.tell(batch.after, start, end, len(run.schema.columns))
            start = end


def read_frames(file: IO[bytes], name: str) -> Iterator[pb.Delivery]:
    """One at a time. Raises SinkError for a file that is not whole."""
    while head := file.read(_LENGTH):
        size = int.from_bytes(head, "big")
        data = file.read(size) if len(head) == _LENGTH and size <= ROW_BYTES_MAX else b""
        if not data or len(data) != size:
            raise SinkError(f"{name} is not as it was written: a frame is cut", hint="restore it, or set the grpc: sink to a new folder")
        yield pb.Delivery.FromString(data)


def table_columns(schema: TableSchema) -> pb.TableColumns:
    types = {column.name: column.type_text for column in schema.definition.columns} if schema.definition is not None else {}
    columns = [
        pb.TableColumn(
            name=column.name,
            kind=column.kind,
            nullable=column.nullable,
            type=types.get(column.name, ""),
            length=column.length,
            scale=column.scale,
            elements=column.elements,
        )
        for column in schema.columns
    ]
    result = pb.TableColumns(schema=schema.name.schema, table=schema.name.table, columns=columns, key=schema.key)
    result.id = int.from_bytes(hashlib.sha256(result.SerializeToString(deterministic=True)).digest()[:8], "big")
    return result


class _Images:
    """One image of consecutive changes. `there`: whether a row has it; `misfits`: with another number of columns than `widths` says."""

    def __init__(self, images: pa.ChunkedArray, widths: npt.NDArray[np.int64]) -> None:
        whole = images.combine_chunks()
        lengths = pc.list_value_length(whole).fill_null(0).to_numpy(zero_copy_only=False)
        self.there = whole.is_valid().to_numpy(zero_copy_only=False)
        self.misfits = self.there & (lengths != widths)
        flat = whole.flatten()
        self._starts = np.concatenate([[0], np.cumsum(lengths)]).tolist()
        self._nulls = flat.is_null().to_numpy(zero_copy_only=False) if flat.null_count else None
        self._texts = flat.fill_null("").to_numpy(zero_copy_only=False).tolist()

    def tell(self, columns: Any, start: int, end: int, width: int) -> None:
        first, last = self._starts[start], self._starts[end]
        if first == last:
            return
        nulls = None if self._nulls is None or not self._nulls[first:last].any() else self._nulls
        for column in range(width):
            texts = columns.add(values=self._texts[first + column : last : width])
            if nulls is not None:
                texts.nulls.extend(np.flatnonzero(nulls[first + column : last : width]).tolist())


def _add_chunk(batch: pb.RowBatch, piece: ChunkPiece) -> None:
    due, survivors = piece.due, piece.survivors
    rows = survivors.rows.num_rows
    batch.ops.extend([pb.ROW_OP_DELETE if piece.deletes else pb.ROW_OP_INSERT] * rows)
    batch.commit_tsos.extend([due.high_ts] * rows)
    batch.ordinals.extend(survivors.ordinals.to_numpy(zero_copy_only=False).tolist())
    batch.dump_id, batch.low_tso = due.dump_id, due.low_ts
    images = batch.before if piece.deletes else batch.after
    for column in survivors.rows.columns:
        texts = images.add(values=column.fill_null("").to_numpy().tolist())
        if column.null_count:
            texts.nulls.extend(np.flatnonzero(column.is_null().to_numpy()).tolist())


def _halves(runs: Sequence[TableRun], rows: int) -> tuple[list[TableRun], list[TableRun]]:
    """The first `rows` rows, and the others."""
    first: list[TableRun] = []
    for at, run in enumerate(runs):
        if run.rows > rows:
            return [*first, *([run.slice(0, rows)] if rows else [])], [run.slice(rows, run.rows - rows), *runs[at + 1 :]]
        first.append(run)
        rows -= run.rows
    return first, []


def _too_large(run: TableRun, seq: int, size: int) -> SinkError:
    if isinstance(run.piece, ChunkPiece):
        rows, commit_ts = run.piece.survivors.rows, run.piece.due.high_ts
        key = f"a dump's, with key {key_text([rows.column(name) for name in run.schema.key])[0].as_py()[:200]}"
    else:
        commit_ts, key = run.piece["commit_ts"][0].as_py(), f"key {str(run.piece['key'][0].as_py())[:200]}"
    return SinkError(
        f"a row of {run.schema.name} in segment {seq}, {key}, commit_ts {commit_ts}, is {size:,} bytes of text, and a message to a"
        f" subscriber has {ROW_BYTES_MAX:,} at most",
        hint="leave the table out of the changefeed, or take its rows from a files sink and the grpc: sink out of `sinks`",
    )


def _misfit(runs: Sequence[TableRun], row: int, seq: int) -> SinkError:
    ends = np.cumsum([run.rows for run in runs])
    schema = runs[int(np.searchsorted(ends, row, side="right"))].schema
    return SinkError(
        f"a change of {schema.name} in segment {seq} has not the {len(schema.columns)} columns of its table, or no row at all",
        hint="check that the changefeed sends deleted rows whole (delete-only-output-handle-key-columns = false) and that the log is whole;"
        " then report this",
    )
