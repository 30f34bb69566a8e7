"""Chunks and the windows that they were read in, as they stand in a manifest once the window has closed."""

from __future__ import annotations

from dataclasses import dataclass

from sidecar.core.model import FIRST_SEQ, CommitTs, Seq, TableName


@dataclass(frozen=True, slots=True)
class ChunkFile:
    """One chunk: rows of `table` with handle key in `(after, last]`, in canonical text, one Parquet column a column.

    `after` is None at the table's start. `read_tso` is the SELECT's own snapshot where the source told it.

    `since_seq` is the first segment of the pass that the chunk belongs to: a dump that reads a table again begins another pass behind a DDL
    (plan.py), and a DDL ends its segment, so a table has no two passes of one dump with one `since_seq`. A pass reads disjoint key ranges,
    so a key is in one chunk of it at most. FIRST_SEQ where an earlier version wrote it.
    """

    table: TableName
    path: str
    rows: int
    bytes: int
    after: tuple[str, ...] | None
    last: tuple[str, ...] | None
    read_tso: CommitTs | None = None
    since_seq: Seq = FIRST_SEQ


@dataclass(frozen=True, slots=True)
class ClosedWindow:
    """`(low_ts, high_ts]` and the chunks read inside it. Changes of the window begin in segment `first_seq`."""

    dump_id: str
    low_ts: CommitTs
    high_ts: CommitTs
    first_seq: Seq
    chunks: tuple[ChunkFile, ...]
