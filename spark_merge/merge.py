"""The merge rule, fast (design 6). The slow obvious twin is `rule.py`; a property test holds them equal.

For a window `(low_ts, high_ts]` and a chunk of table T read inside it, let K be the keys of old and new images of all
changes of T with `low_ts < commit_ts <= high_ts`. The chunk's survivors are its rows whose key is not in K. They come
out at high_ts: after every change <= high_ts, before every change > high_ts.

    key_rows   K of every chunk's window, a piece for each batch of changes         (Arrow, in the task that decodes them)
    survivors  the chunk's rows whose key is not in K                               (Arrow, in the task that writes them)

Between the two, Spark brings a chunk and its keys to one task, ordered. Which keys a window has is decided in one place, by the
changes' own task, so a batch is one Spark job without a join.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sidecar.core.model import CommitTs, Seq, TableName, TableSchema
from sidecar.storage import Folder
from spark_merge.contract import CHANGES, DELIVERIES, RANK_CHUNK, RANK_KEYS, TEXTS

_KEYS_MAX = 20_000
"""Keys in one row: what Spark moves in one piece."""


@dataclass(frozen=True, slots=True)
class DueChunk:
    """A chunk whose window closed in segment `seq`; `number` is its place among the segment's chunks."""

    table: TableName
    low_ts: CommitTs
    high_ts: CommitTs
    seq: Seq
    number: int
    dump_id: str
    path: str


@dataclass(frozen=True, slots=True)
class Survivors:
    """`rows`: the table's columns as canonical text (pa.string), in schema order, in the chunk's order.
    `ordinals`: each row's number in the chunk, from 0 (pa.int64). `dropped`: rows whose key was touched in the window."""

    rows: pa.Table
    ordinals: pa.Array
    dropped: int


def key_text(columns: list[Any]) -> Any:
    """One text per row that is equal exactly for equal keys: a JSON array of the key columns' canonical text.

    `columns`: the key's columns in key order, each a pa.Array or ChunkedArray of strings without nulls. Control
    characters are left as they are: the text is an identity, not meant to be parsed.
    """
    escaped = [pc.replace_substring(pc.replace_substring(column, "\\", "\\\\"), '"', '\\"') for column in columns]
    quoted = pc.binary_join_element_wise(*escaped, '","') if len(escaped) > 1 else escaped[0]
    return pc.binary_join_element_wise('["', quoted, '"]', "")


def survivors(log: Folder, schema: TableSchema, path: str, touched: pa.Array) -> Survivors:
    """Open the chunk file `path` of the log and leave out the rows whose key is in `touched`."""
    table = pq.read_table(log.path(path), filesystem=log.fs(), columns=list(schema.column_names()))
    ordinals = pa.array(range(table.num_rows), pa.int64())
    if len(touched) == 0 or table.num_rows == 0:
        return Survivors(table, ordinals, 0)
    keep = pc.invert(pc.is_in(key_text([table.column(name) for name in schema.key]), value_set=touched))
    kept = table.filter(keep)
    return Survivors(kept, ordinals.filter(keep.combine_chunks()), table.num_rows - kept.num_rows)


def chunk_rows(due: Sequence[DueChunk]) -> pa.Table:
    """The chunks themselves, as DELIVERY_SCHEMA."""
    return _rows(due, RANK_CHUNK, pa.array([[]] * len(due), TEXTS))


def key_rows(changes: pa.Table, due: Iterable[DueChunk]) -> Iterator[pa.Table]:
    """What `changes` add to K of each chunk's window, as DELIVERY_SCHEMA: rows that come before the chunk's own, in its file.

    `changes`: contract.CHANGES, any part of those that cover the windows.
    """
    for table, of_table in groupby(sorted(due, key=_window), key=lambda chunk: chunk.table):
        is_table = pc.and_(pc.equal(changes["schema"], table.schema), pc.equal(changes["table"], table.table))
        rows = changes.select(["commit_ts", "key"]).filter(is_table)
        for (_, low_ts, high_ts), chunks in groupby(of_table, key=_window):
            in_window = pc.and_(pc.greater(rows["commit_ts"], low_ts), pc.less_equal(rows["commit_ts"], high_ts))
            keys = pc.unique(rows["key"].filter(in_window))
            if len(keys):
                lists = pa.concat_arrays([_one_list(keys.slice(start, _KEYS_MAX)) for start in range(0, len(keys), _KEYS_MAX)])
                yield from (_rows([chunk] * len(lists), RANK_KEYS, lists) for chunk in chunks)


def _window(chunk: DueChunk) -> tuple[TableName, CommitTs, CommitTs]:
    return chunk.table, chunk.low_ts, chunk.high_ts


def _one_list(keys: pa.Array) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array([0, len(keys)], pa.int32()), keys, type=TEXTS)


def _rows(due: Sequence[DueChunk], rank: int, touched: pa.Array) -> pa.Table:
    columns = {
        "seq": [chunk.seq for chunk in due],
        "commit_ts": [chunk.high_ts for chunk in due],
        "rank": [rank] * len(due),
        "ordinal": [chunk.number for chunk in due],
        "schema": [chunk.table.schema for chunk in due],
        "table": [chunk.table.table for chunk in due],
    }
    dump_ids, paths = pa.array([chunk.dump_id for chunk in due], pa.string()), pa.array([chunk.path for chunk in due], pa.string())
    chunks = pa.StructArray.from_arrays([dump_ids, paths, touched], fields=list(DELIVERIES.field("chunk").type))
    of_changes = [pa.array(columns.get(field.name, [None] * len(due)), field.type) for field in CHANGES]
    return pa.table([*of_changes, chunks], schema=DELIVERIES)
