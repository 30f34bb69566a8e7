"""Chunks and the windows that they were read in, as they stand in a manifest once the window has closed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from sidecar.shared.model.nouns import FIRST_SEQ, CommitTs, Seq, TableName

ABSENT = "absent "
"""A boolean column of a chunk's file, true for a key that the source does not have: of such a row only the handle key's columns count, the
others are null. No column of TiDB's has this name, for a name does not end with a blank. Only files with such rows have the column."""


class WrittenChunk(NamedTuple):
    """A chunk's file as written: its size, and `sha256` and `rows_sum` as of ChunkFile."""

    bytes: int
    sha256: str = ""
    rows_sum: str = ""


@dataclass(frozen=True, slots=True)
class ChunkFile:
    """One chunk: rows of `table` with handle key in `(after, last]`, in canonical text, one Parquet column a column.

    `after` is None at the table's start. `read_tso` is the SELECT's own snapshot where the source reports it.

    `since_seq` is the first segment of the pass that the chunk belongs to: a dump that reads a table again begins another pass behind a DDL
    (core/plan.py), and a DDL ends its segment, so a table has no two passes of one dump with one `since_seq`. A pass reads disjoint key
    ranges, so a key is in one chunk of it at most. FIRST_SEQ where an earlier version wrote it.

    `absent`: the first `absent` rows of the file are keys that the dump requested and the source does not have. They become deletes.
    The file has the column ABSENT then.

    `sha256`: of the file, in hex. `rows_sum`: the sum of the hashes of its rows, whatever their order (shared/log/row_sums.py), in hex.
    Each is empty where it was not computed.
    """

    table: TableName
    path: str
    rows: int
    bytes: int
    after: tuple[str, ...] | None
    last: tuple[str, ...] | None
    read_tso: CommitTs | None = None
    since_seq: Seq = FIRST_SEQ
    absent: int = 0
    sha256: str = ""
    rows_sum: str = ""


@dataclass(frozen=True, slots=True)
class ClosedWindow:
    """`(low_ts, high_ts]` and the chunks read inside it. Changes of the window begin in segment `first_seq`. `sinks`: the names of those
    that receive the chunks; empty: all."""

    dump_id: str
    low_ts: CommitTs
    high_ts: CommitTs
    first_seq: Seq
    chunks: tuple[ChunkFile, ...]
    sinks: tuple[str, ...] = ()
