"""The merge rule, fast. The slow obvious twin is `rule.py`; a property test holds them equal.

For a window `(low_ts, high_ts]` and a chunk of table T read inside it, let K be the keys of old and new images of all
changes of T with `low_ts < commit_ts <= high_ts`. The chunk's survivors are its rows whose key is not in K. They come
out at high_ts: after every change <= high_ts, before every change > high_ts.

    touched    K, of any part of the changes that cover the window
    survivors  the chunk's rows whose key is not in K

Arrow in, Arrow out; no session, no sink.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sidecar.core.model import CommitTs, TableSchema
from sidecar.log import storage
from sidecar.log.storage import Folder
from spark_merge.contract import Survivors
from spark_merge.read import whole_pages


def key_text(columns: Sequence[Any]) -> Any:
    """One text per row that is equal exactly for equal keys: a JSON array of the key columns' canonical text.

    `columns`: the key's columns in key order, each a pa.Array or ChunkedArray of strings without nulls. Control
    characters are left as they are: the text is an identity, not meant to be parsed.
    """
    escaped = [pc.replace_substring(pc.replace_substring(column, "\\", "\\\\"), '"', '\\"') for column in columns]
    quoted = pc.binary_join_element_wise(*escaped, '","') if len(escaped) > 1 else escaped[0]
    return pc.binary_join_element_wise('["', quoted, '"]', "")


def touched(changes: pa.Table, low_ts: CommitTs, high_ts: CommitTs) -> pa.Array:
    """The keys, each once, of changes of one table with `low_ts < commit_ts <= high_ts`. `changes`: commit_ts and key of CHANGES."""
    in_window = pc.and_(pc.greater(changes["commit_ts"], low_ts), pc.less_equal(changes["commit_ts"], high_ts))
    return pc.unique(changes["key"].filter(in_window).combine_chunks())


def survivors(log: Folder, schema: TableSchema, path: str, keys: pa.Array) -> Survivors:
    """Open the chunk file `path` of the log and leave out the rows whose key is in `keys`."""
    with storage.open_to_read(log, path) as file:
        table = whole_pages(file).read(columns=list(schema.column_names()))
    if set(table.column_names) != set(schema.column_names()) or any(kind != pa.string() for kind in table.schema.types):
        raise pa.ArrowInvalid(f"it has other columns than {', '.join(schema.column_names())}")
    ordinals = pa.array(np.arange(table.num_rows, dtype=np.int64))
    if len(keys) == 0 or table.num_rows == 0:
        return Survivors(table, ordinals, 0)
    keep = pc.invert(pc.is_in(key_text([table.column(name) for name in schema.key]), value_set=keys))
    kept = table.filter(keep)
    return Survivors(kept, ordinals.filter(keep.combine_chunks()), table.num_rows - kept.num_rows)
