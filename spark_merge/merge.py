"""The merge rule, fast (design 6). The slow obvious twin is `rule.py`; a property test holds them equal.

For a window `(low_ts, high_ts]` and a chunk of table T read inside it, let K be the keys of old and new images of all
changes of T with `low_ts < commit_ts <= high_ts`. The chunk's survivors are its rows whose key is not in K. They come
out at high_ts: after every change <= high_ts, before every change > high_ts.

    touched    K of every chunk's window, by a join of changes and windows          (Spark, on keys only)
    survivors  the chunk's rows whose key is not in K                               (Arrow, in the task that writes them)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sidecar.core.model import TableSchema
from sidecar.storage import Folder


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
