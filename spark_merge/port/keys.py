"""A row's key as a text and as a number, and which row of a key is the last one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def key_text(columns: Sequence[Any]) -> Any:
    """One text per row that is equal exactly for equal keys: a JSON array of the key columns' canonical text.

    `columns`: the key's columns in key order, each a pa.Array or ChunkedArray of strings without nulls. Control
    characters are left as they are: the text is an identity, and nobody parses it.
    """
    escaped = [pc.replace_substring(pc.replace_substring(column, "\\", "\\\\"), '"', '\\"') for column in columns]
    quoted = pc.binary_join_element_wise(*escaped, '","') if len(escaped) > 1 else escaped[0]
    return pc.binary_join_element_wise('["', quoted, '"]', "")


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
    result = np.zeros(len(codes), bool)
    result[last] = True
    return result
