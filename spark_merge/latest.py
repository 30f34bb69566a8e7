"""For targets that keep of each key the row with the greatest version: which rows of a run count, and what their version is.

One number is both parts of `(commit_ts, rank)`: at one commit_ts a put wins over the delete of the key that it takes over (two rows of one
transaction, which may be in different tasks), and a row that is written again has the version that it had.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_merge.encode.block import Block


def last_of_each_key(changes: pa.Table) -> pa.Table:
    """`changes`: CHANGES of one table in output order; of them, in that order, the rows that no later one of the same key follows."""
    return changes.take(last_places(changes["key"].combine_chunks())) if changes.num_rows else changes


def last_places(keys: pa.Array) -> pa.Array:
    """The last place of each key, in order of place; at least one key."""
    codes: Any = pc.dictionary_encode(keys).indices.to_numpy()
    last = np.zeros(codes.max() + 1, np.int64)
    last[codes] = np.arange(len(codes))  # of a code that comes again the last place stays
    return pa.array(np.sort(last))


def key_codes(keys: pa.Table) -> Any:
    """A number for each row, int64, equal where the rows are."""
    codes: Any = np.zeros(keys.num_rows, np.int64)
    for column in keys.columns:
        encoded = column.combine_chunks().dictionary_encode()
        codes = codes * max(len(encoded.dictionary), 1) + encoded.indices.to_numpy()
        codes = np.unique(codes, return_inverse=True)[1]
    return codes


def are_last(codes: Any, *, ranks: Any, commit_ts: Any) -> Any:
    """Which rows no other one of the same code comes after, by (commit_ts, rank) and then by place."""
    order = np.lexsort((ranks, commit_ts))  # stable
    last = np.zeros(codes.max() + 1 if len(codes) else 0, np.int64)
    last[codes[order]] = order  # of a code that comes again the last place stays
    found = np.zeros(len(codes), bool)
    found[last] = True
    return found


def versions(block: Block) -> pa.Array:
    """Of each row, int64: 2 x commit_ts, and one more for a put. Twice a TSO has 63 bits until the year 2527."""
    puts = pc.cast(pc.not_equal(block.op, "delete"), pa.int64())
    return pc.add(pc.multiply(block.commit_ts, 2), puts)
