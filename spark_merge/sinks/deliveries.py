"""What a sink's task makes of its deliveries: files' worth of them, and in each the change rows and chunks in order.

    batches (DELIVERY_SCHEMA)  →  by_file: (seq, table), pieces  →  piece: a run of change rows, or one chunk

The stream is read once and never held: at any time one batch, or one chunk's rows, is in memory, and the keys of chunks
whose rows have not come yet.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sidecar.core.model import TableName, TableSchema
from sidecar.errors import LogBroken, SinkError
from sidecar.storage import Folder
from spark_merge.contract import RANK_CHUNK
from spark_merge.merge import Survivors, survivors


class FileOf(NamedTuple):
    """What one output file is of."""

    seq: int
    table: TableName
    part: int = 0


@dataclass(frozen=True, slots=True)
class Chunk:
    """A chunk row. `touched`: pa.string, the keys touched in the chunk's window."""

    commit_ts: int
    dump_id: str
    path: str
    touched: pa.Array


Piece: TypeAlias = "pa.RecordBatch | Chunk"
"""A RecordBatch holds change rows only, at least one."""

_Touched: TypeAlias = "defaultdict[str, list[pa.Array]]"
"""By the chunk's path."""


@dataclass(slots=True)
class Counts:
    """Rows of one file so far."""

    from_log: int = 0
    from_dump: int = 0
    dropped: int = 0


def by_file(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[FileOf, Iterator[Piece]]]:
    """The pieces of each file, which may span batches. They are read in place: finish one file before the next.

    Raises SinkError if the rows of one file do not come together: its second part would replace the first.
    """
    seen: set[FileOf] = set()
    for file, runs in groupby(_runs(batches), key=lambda run: run[0]):
        if file in seen:
            raise SinkError(
                f"rows of {file.table} in segment {file.seq} came in two parts", hint="report this: deliveries must be clustered by table"
            )
        seen.add(file)
        touched: _Touched = defaultdict(list)
        yield file, (piece for _, rows in runs for piece in _pieces(rows, touched))


def open_chunk(log: object, schema: TableSchema, chunk: Chunk) -> Survivors:
    """`merge.survivors` with the errors of a chunk file as the log's. Raises LogBroken."""
    assert isinstance(log, Folder)
    try:
        return survivors(log, schema, chunk.path, chunk.touched)
    except (OSError, pa.ArrowException) as error:
        raise LogBroken(
            f"chunk {chunk.path} of {schema.name} cannot be read from {log}: {error!r}",
            hint="restore the file from a backup, or start a new log folder and dump again",
        ) from error


def delivered(file: FileOf, path: str, counts: Counts) -> pa.RecordBatch:
    """One row of DELIVERED_SCHEMA."""
    row: dict[str, Any] = {"seq": file.seq, "schema": file.table.schema, "table": file.table.table, "path": path}
    row |= {"from_log": counts.from_log, "from_dump": counts.from_dump, "dropped": counts.dropped}
    return pa.RecordBatch.from_pylist([row], schema=_DELIVERED)


_DELIVERED = pa.schema(
    [
        ("seq", pa.int64()),
        ("schema", pa.string()),
        ("table", pa.string()),
        ("path", pa.string()),
        ("from_log", pa.int64()),
        ("from_dump", pa.int64()),
        ("dropped", pa.int64()),
    ]
)


def _runs(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[FileOf, pa.RecordBatch]]:
    """Each batch cut where seq, schema, table or part changes."""
    for batch in batches:
        columns = [batch.column(name) for name in ("seq", "schema", "table", "part")]
        changed = np.zeros(max(batch.num_rows - 1, 0), bool)
        for column in columns:
            changed |= pc.not_equal(column.slice(1), column.slice(0, max(len(column) - 1, 0))).to_numpy(zero_copy_only=False)
        for start, end in _spans(np.flatnonzero(changed) + 1, batch.num_rows):
            seq, schema, table, part = (column[start].as_py() for column in columns)
            yield FileOf(seq, TableName(schema, table), part), batch.slice(start, end - start)


def _pieces(rows: pa.RecordBatch, touched: _Touched) -> Iterator[Piece]:
    is_change = rows.column("chunk").is_null().to_numpy(zero_copy_only=False)
    others = np.flatnonzero(~is_change)
    for start, end in _spans(np.union1d(others, others + 1), rows.num_rows):
        if is_change[start]:
            yield rows.slice(start, end - start)
        else:
            yield from _chunk(rows, start, touched)


def _chunk(rows: pa.RecordBatch, at: int, touched: _Touched) -> Iterator[Chunk]:
    """A key row is kept in `touched` until its chunk comes."""
    found = rows.column("chunk")[at]
    path, keys = found["path"].as_py(), found["touched"].values
    if keys is not None:
        touched[path].append(keys)
    if rows.column("rank")[at].as_py() == RANK_CHUNK:
        every = pa.chunked_array(touched.pop(path, []), pa.string()).combine_chunks()
        yield Chunk(rows.column("commit_ts")[at].as_py(), found["dump_id"].as_py(), path, every)


def _spans(cuts: Any, count: int) -> Iterator[tuple[int, int]]:
    """(start, end) of the stretches of `range(count)` between the cuts; none for no rows."""
    edges = np.unique(np.concatenate(([0], cuts, [count]))).astype(int)
    return pairwise(edges.tolist())
