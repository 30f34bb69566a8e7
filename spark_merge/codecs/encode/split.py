"""Updates that TiCDC sends as two rows: one that changes a value of a unique key is a delete and an insert of one commit_ts.

One that moves the handle key comes as two rows already (decode/rows.py). Where TiCDC is set not to split (output-raw-change-event), its own
message stays one.

Source: pingcap/tiflow cdc/model/sink.go, `TrySplitAndSortUpdateEvent`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sidecar.shared.model.nouns import TableSchema
from spark_merge.port.contract import CHANGES, RANK_DELETE, RANK_PUT, TEXTS

RAW_KEY_VALUES = "kv"
"""The codec of a log whose messages are TiKV's own keys and values."""

_PLACE_IN_A_TRANSACTION = {"delete": 0, "update": 1, "insert": 2}


def image_column(changes: pa.Table, number: int) -> pa.Array:
    """Of each row after the change, of a delete before it."""
    image = pc.coalesce(changes["after"], changes["before"]).combine_chunks()
    return pc.list_element(image, number)


def split(changes: pa.Table, schema: TableSchema) -> pa.Table:
    """With updates of unique values as two rows. A transaction of the table that has one is in the order delete, update, insert: so it has
    to be here whole (by_table.py)."""
    moved = _moved(changes, schema)
    return split_at(changes, moved) if moved.any() else changes


def split_at(changes: pa.Table, moved: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> pa.Table:
    """These updates as two rows, and their transactions in the order delete, update, insert."""
    stay, old = changes.filter(pa.array(~moved)), changes.filter(pa.array(moved))
    nothing = pa.nulls(old.num_rows, TEXTS)
    rows = pa.concat_tables([
        stay,
        _with(old, op="delete", rank=RANK_DELETE, after=nothing),
        _with(old, op="insert", rank=RANK_PUT, before=nothing),
    ])  # fmt: skip
    commit_ts, ordinal = rows["commit_ts"].to_numpy(), rows["ordinal"].to_numpy()
    place = np.array([_PLACE_IN_A_TRANSACTION[op] for op in rows["op"].to_pylist()])
    is_split = np.isin(commit_ts, old["commit_ts"].to_numpy())
    order = np.lexsort([ordinal, np.where(is_split, place, rows["rank"].to_numpy()), commit_ts])
    return rows.take(pa.array(order))


def _moved(changes: pa.Table, schema: TableSchema) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """The updates that change a unique value."""
    is_moved = np.zeros(changes.num_rows, np.bool_)
    updates = pc.equal(changes["op"], "update").combine_chunks()
    if not pc.any(updates).as_py():
        return is_moved
    before, after = (changes[name].combine_chunks() for name in ("before", "after"))
    for number in _unique_columns(schema):
        old, new = pc.list_element(before, number), pc.list_element(after, number)
        other = pc.or_(pc.xor(old.is_null(), new.is_null()), pc.fill_null(pc.not_equal(old, new), False))
        is_moved |= pc.and_(updates, other).to_numpy(zero_copy_only=False)
    return is_moved


def _unique_columns(schema: TableSchema) -> Iterator[int]:
    names = {
        part.column.lower() for index in (schema.definition.indexes if schema.definition else ()) if index.unique for part in index.parts
    }
    yield from (number for number, column in enumerate(schema.columns) if column.name.lower() in names)


def _with(rows: pa.Table, *, op: str, rank: int, **images: pa.Array) -> pa.Table:
    fixed = {"op": pa.repeat(pa.scalar(op, pa.string()), rows.num_rows), "rank": pa.repeat(pa.scalar(rank, pa.int32()), rows.num_rows)}
    for name, column in {**fixed, **images}.items():
        rows = rows.set_column(CHANGES.names.index(name), CHANGES.field(name), column)
    return rows
