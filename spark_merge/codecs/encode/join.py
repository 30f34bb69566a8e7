"""One change of a key at a commit_ts, as Debezium has them: the inverse of split.py.

The rule: of all changes of a key at one commit_ts there is one, from the row before the first of them to the row after the last. So a
delete and an insert, which TiCDC sends of an update of a unique value, or where rows exchange their keys, are one update. Readers that keep
the version with the greatest position (`source.pos`, `source.ts_ns`) then never meet two of one position.

A transaction of the table has to be here whole, as by_table.py gives it; one of more than HELD_ROWS_MAX rows or HELD_BYTES_MAX,
of all tables, comes in parts, and a key that is in two of them has a change in each, in order and of one position.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_merge.port.contract import CHANGES, RANK_DELETE, RANK_PUT


def joined(changes: pa.Table) -> pa.Table:
    """`changes` (contract.CHANGES, in order) with one row for each key and commit_ts, in the place of its first."""
    if not {"delete", "insert"} <= set(pc.unique(changes["op"]).to_pylist()):
        return changes
    keys = changes["key"].combine_chunks().dictionary_encode().indices.to_numpy()
    order = np.lexsort([keys, changes["commit_ts"].to_numpy()])  # stable: the changes of a key stay in their order
    commit_ts = changes["commit_ts"].to_numpy()[order]
    starts = np.flatnonzero(np.concatenate([[True], (np.diff(keys[order]) != 0) | (np.diff(commit_ts) != 0)]))
    if len(starts) == changes.num_rows:
        return changes
    first, last = order[starts], order[np.append(starts[1:], changes.num_rows) - 1]
    in_order = np.argsort(first)
    return _ends(changes.take(pa.array(first[in_order])), changes["after"].take(pa.array(last[in_order])))


def _ends(rows: pa.Table, after: pa.ChunkedArray) -> pa.Table:
    """`rows` with these images after them. A key that is not there before nor after has no change."""
    is_new, is_gone = pc.is_null(rows["before"]), pc.is_null(after)
    op = pc.if_else(is_gone, "delete", pc.if_else(is_new, "insert", "update"))
    rank = pc.if_else(is_gone, pa.scalar(RANK_DELETE, pa.int32()), pa.scalar(RANK_PUT, pa.int32()))
    for name, column in {"op": op, "rank": rank, "after": after}.items():
        rows = rows.set_column(rows.schema.get_field_index(name), CHANGES.field(name), column)
    return rows.filter(pc.invert(pc.and_(is_new, is_gone)))
