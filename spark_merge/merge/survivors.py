"""The merge rule, fast. The slow obvious twin is `rule.py`; a property test holds them equal.

For a window `(low_ts, high_ts]` and a chunk of table T read inside it, let K be the keys of old and new images of all
changes of T with `low_ts < commit_ts <= high_ts`. The chunk's survivors are its rows whose key is not in K. They come
out at high_ts: after every change <= high_ts, before every change > high_ts.

A chunk that was read by keys has those, too, for which the source had no row: each that is not in K is a delete at high_ts. The SELECT saw
all keys of the chunk at one moment of the window, and no change of the window has the key: so there was no row from low_ts to high_ts.

    touched    K, of any part of the changes that cover the window
    survivors  the chunk's rows, and its keys without a row, whose key is not in K

Arrow in, Arrow out; no session, no sink.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sidecar.shared.log import storage
from sidecar.shared.log.absent import parted
from sidecar.shared.log.storage import Folder
from sidecar.shared.model.chunk import ABSENT
from sidecar.shared.model.nouns import CommitTs, TableSchema
from spark_merge.log.read import batches_of, whole_pages
from spark_merge.port.contract import Survivors
from spark_merge.port.keys import key_text


def touched(changes: pa.Table, low_ts: CommitTs, high_ts: CommitTs) -> pa.Array:
    """The keys, each once, of changes of one table with `low_ts < commit_ts <= high_ts`. `changes`: commit_ts and key of CHANGES."""
    in_window = pc.and_(pc.greater(changes["commit_ts"], low_ts), pc.less_equal(changes["commit_ts"], high_ts))
    return pc.unique(changes["key"].filter(in_window).combine_chunks())


class ChunkSurvivors(NamedTuple):
    """`absent`: keys that the dump requested and the source did not have, the other columns null. `rows`: of the source."""

    absent: Survivors
    rows: Survivors


def survivors(log: Folder, schema: TableSchema, path: str, keys: pa.Array) -> Iterator[ChunkSurvivors]:
    """Open the chunk file `path` of the log and omit what has a key in `keys`. A part of the file at a time, at least one, absent keys
    first; a file of a release before 0.5 can have parts of any size in one piece, others are bounded when they are written."""
    with storage.open_to_read(log, path) as file:
        parquet = whole_pages(file)
        kinds = {field.name: field.type for field in parquet.schema_arrow}
        if any(kinds.get(name) != pa.string() for name in schema.column_names()):
            raise pa.ArrowInvalid(f"it has other columns than {', '.join(schema.column_names())}")
        rows_before = False
        for first, table in batches_of(parquet, columns=[*schema.column_names(), *({ABSENT} & kinds.keys())]):
            absent, rows = parted(table)
            if absent.num_rows and rows_before:
                raise pa.ArrowInvalid("keys that are absent stand behind rows")
            rows_before = rows_before or rows.num_rows > 0
            yield ChunkSurvivors(
                _untouched(schema, absent, keys, first=first), _untouched(schema, rows, keys, first=first + absent.num_rows)
            )


def _untouched(schema: TableSchema, rows: pa.Table, keys: pa.Array, *, first: int) -> Survivors:
    """`first`: the place in the chunk of the first of the rows."""
    ordinals = pa.array(np.arange(first, first + rows.num_rows, dtype=np.int64))
    if len(keys) == 0 or rows.num_rows == 0:
        return Survivors(rows, ordinals, 0)
    keep = pc.invert(pc.is_in(key_text([rows.column(name) for name in schema.key]), value_set=keys))
    kept = rows.filter(keep)
    return Survivors(kept, ordinals.filter(keep.combine_chunks()), rows.num_rows - kept.num_rows)
