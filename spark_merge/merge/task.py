"""What a task does: `read → decode → merge →` the sink's writer. One function of segments and chunks, Arrow in, the writer out; no session.

    unit ─► portions: each table's pieces in output order ─► writer ─► outcome

- A window's keys are made by the task that has its chunks, once for all of them, out of the segments that the window reaches back to.
- A segment is decoded with the schemas of its own manifest, and only those tables of it that the task asks for.
- Memory: of a segment as many tables are held at once as have ROWS_MAX rows and LIVE_BYTES_MAX bytes together; one that has more is
  streamed by row groups (`segments.in_order`). A writer receives pieces that are bounded in bytes (port/pieces.py).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sidecar.shared.errors import LogBroken
from sidecar.shared.log import storage
from sidecar.shared.log.layout import WAY_OUT
from sidecar.shared.log.storage import Folder, bare, log_error
from sidecar.shared.model.nouns import CommitTs, Seq, TableName, TableSchema
from sidecar.shared.process.progress import progressed
from spark_merge.codecs.encode.block import schema_of
from spark_merge.log.cache import DecodedRows
from spark_merge.log.segments import Segments, SegmentSource
from spark_merge.merge.survivors import survivors, touched
from spark_merge.port.contract import (
    ChunkPiece,
    DueChunk,
    Outcome,
    Piece,
    Portion,
    Task,
    Unit,
    Writer,
)
from spark_merge.port.foreign import noting
from spark_merge.port.pieces import bounded, size_of


def run(task: Task, writer: Writer, source: SegmentSource, cache: DecodedRows | None = None) -> Outcome:
    """May run twice at once, on any machine. `cache`: that of all tasks of this process, if they share one. Raises what reading, decoding
    and the writer raise."""
    segments = _segments(task, source, cache)
    at = [f"task {task.id}"]
    with noting(lambda: ", ".join(at)):
        outcome = writer(task, _tracked(_portions(task, _Reader(source.log, segments)), at))
    return replace(outcome, guessed=segments.zone.guessed) if segments.zone.guessed else outcome


def _tracked(portions: Iterator[Portion], at: list[str]) -> Iterator[Portion]:
    for portion in portions:
        at[1:] = [f"table {portion.schema.name}", f"segment {portion.unit.seq}"]
        yield portion


def needed(task: Task) -> set[Seq]:
    """The segments that it reads: those of its units, and those that its windows reach back to."""
    seqs = {unit.seq for unit in task.units}
    for unit in task.units:
        for chunk in unit.chunks:
            seqs.update(Seq(seq) for seq in range(chunk.first_seq, chunk.seq))
    return seqs


def portions(task: Task, source: SegmentSource, cache: DecodedRows | None = None) -> Iterator[Portion]:
    return _portions(task, _Reader(source.log, _segments(task, source, cache)))


def _segments(task: Task, source: SegmentSource, cache: DecodedRows | None) -> Segments:
    return Segments(source, raw=task.raw, cache=cache, in_turn=[unit.seq for unit in task.units if unit.live])


def _portions(task: Task, reader: _Reader) -> Iterator[Portion]:
    for unit in task.units:
        for portion in _by_table(unit, reader) if task.order == "table" else _as_committed(unit, reader):
            progressed()
            yield replace(portion, pieces=_with_progress(portion.pieces))


def _with_progress(pieces: Iterator[Piece]) -> Iterator[Piece]:
    for piece in pieces:
        progressed()
        yield piece


def _bounded(pieces: Iterator[Piece]) -> Iterator[Piece]:
    for piece in pieces:
        yield from bounded(piece)


def _by_table(unit: Unit, reader: _Reader) -> Iterator[Portion]:
    chunks: defaultdict[TableName, list[DueChunk]] = defaultdict(list)
    for chunk in unit.chunks:
        chunks[chunk.table].append(chunk)
    part = reader.segments.part(unit.seq, unit.within, unit.between)
    live = reader.segments.tables(part).keys() if unit.live else set[TableName]()
    for table in sorted(live | chunks.keys()):
        changes = reader.segments.changes(part, table) if unit.live else iter(())
        yield Portion(unit, schema_of(reader.segments.head(unit.seq).schemas, table), _bounded(_merged(changes, chunks[table], reader)))


def _as_committed(unit: Unit, reader: _Reader) -> Iterator[Portion]:
    changes = reader.segments.changes(reader.segments.part(unit.seq, unit.within, unit.between), None) if unit.live else iter(())
    for piece in _bounded(_merged(changes, unit.chunks, reader)):
        row_bytes = 0 if isinstance(piece, ChunkPiece) else size_of(piece) // piece.num_rows
        for table, rows in _runs(piece):
            yield Portion(unit, schema_of(reader.segments.head(unit.seq).schemas, table), iter([rows]), row_bytes)


def _runs(piece: Piece) -> Iterator[tuple[TableName, Piece]]:
    """`piece` cut where the table changes."""
    if isinstance(piece, ChunkPiece):
        yield piece.due.table, piece
        return
    names = pc.binary_join_element_wise(piece["schema"], piece["table"], "\0").combine_chunks().dictionary_encode()
    codes = names.indices.to_numpy(zero_copy_only=False)
    edges = [0, *(np.flatnonzero(np.diff(codes)) + 1).tolist(), piece.num_rows]
    for start, end in pairwise(edges):
        yield TableName(*names.dictionary[codes[start]].as_py().split("\0")), piece.slice(start, end - start)


def _merged(changes: Iterator[pa.Table], chunks: Sequence[DueChunk], reader: _Reader) -> Iterator[Piece]:
    """Changes with the chunks between them: a chunk after every change <= its high_ts, before every later one."""
    due = sorted(chunks, key=lambda chunk: (chunk.high_ts, chunk.number), reverse=True)
    for rows in changes:
        commit_ts, start = rows["commit_ts"].to_numpy(), 0
        while due and due[-1].high_ts < commit_ts[-1]:
            end = int(np.searchsorted(commit_ts, due[-1].high_ts, side="right"))
            if end > start:
                yield rows.slice(start, end - start)
            start = end
            yield from reader.open(due.pop())
        yield rows.slice(start)
    while due:
        yield from reader.open(due.pop())


def open_chunk(log: Folder, schema: TableSchema, due: DueChunk, keys: pa.Array) -> Iterator[ChunkPiece]:
    """`merge.survivors`: of each part of the file its deletes and its rows, if it has any. Raises LogBroken for a chunk file that is gone
    or unreadable, LogUnreachable."""
    try:
        for part in survivors(log.opened_for(bare), schema, due.path, keys):
            for kept_part, deletes in ((part.absent, True), (part.rows, False)):
                if kept_part.rows.num_rows or kept_part.dropped:
                    yield ChunkPiece(due, kept_part, deletes)
    except (storage.Absent, storage.Refused, pa.ArrowException, UnicodeDecodeError) as error:
        raise LogBroken(f"chunk {due.path} of {due.table} cannot be read from {log}: {error!r}", hint=WAY_OUT) from error
    except storage.StorageError as error:
        raise log_error(f"chunk {due.path} of {due.table} in {log}", "", error) from error


class _Reader:
    """Chunks with what the log says of their windows, beside the segments' own rows."""

    def __init__(self, log: Folder, segments: Segments) -> None:
        self._log, self.segments = log, segments
        self._keys: dict[tuple[TableName, CommitTs, CommitTs], pa.Array] = {}

    def open(self, due: DueChunk) -> Iterator[ChunkPiece]:
        return open_chunk(self._log, schema_of(self.segments.head(due.seq).schemas, due.table), due, self._touched(due))

    def _touched(self, due: DueChunk) -> pa.Array:
        window = (due.table, due.low_ts, due.high_ts)
        if window not in self._keys:
            parts: list[pa.Array] = [pa.array([], pa.string())]
            for seq in map(Seq, range(due.first_seq, due.seq + 1)):
                manifest = self.segments.head(seq).manifest
                if manifest.after_ts < due.high_ts and due.low_ts < manifest.upto_ts:
                    parts += [touched(changes, due.low_ts, due.high_ts) for changes in self.segments.decoded(seq, due.table)]
            self._keys[window] = pc.unique(pa.concat_arrays(parts))
        return self._keys[window]
