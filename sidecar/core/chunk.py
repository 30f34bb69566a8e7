"""Chunks and the windows that they were read in, as they stand in a manifest once the window has closed (design 6)."""

from __future__ import annotations

from dataclasses import dataclass

from sidecar.core.model import CommitTs, Seq, TableName


@dataclass(frozen=True, slots=True)
class ChunkFile:
    """One chunk: rows of `table` with handle key in `(after, last]`, in canonical text, one Parquet column a column.

    `after` is None at the table's start. `read_tso` is the SELECT's own snapshot where the source told it.
    """

    table: TableName
    path: str
    rows: int
    bytes: int
    after: tuple[str, ...] | None
    last: tuple[str, ...] | None
    read_tso: CommitTs | None = None


@dataclass(frozen=True, slots=True)
class ClosedWindow:
    """`(low_ts, high_ts]` and the chunks read inside it. Changes of the window begin in segment `first_seq`."""

    dump_id: str
    low_ts: CommitTs
    high_ts: CommitTs
    first_seq: Seq
    chunks: tuple[ChunkFile, ...]
