from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from sidecar.shared.model.nouns import Column, TableName, TableSchema
from spark_merge.codecs.encode.block import of_changes, versions
from spark_merge.port.contract import CHANGES
from spark_merge.port.keys import last_of_each_key

SCHEMA = TableSchema(TableName("s", "t"), (Column("id", "text"), Column("v", "text")), ("id",))


def changes(rows: list[tuple[int, str, str]]) -> pa.Table:
    """(commit_ts, op, key) each, in output order."""
    made = []
    for at, (ts, op, key) in enumerate(rows):
        before, after = [key, "old"] if op != "insert" else None, [key, str(at)] if op != "delete" else None
        made.append((1, ts, int(op != "delete"), at, "s", "t", op, f'["{key}"]', before, after))
    return pa.Table.from_pylist([dict(zip(CHANGES.names, row, strict=True)) for row in made], schema=CHANGES)


@given(st.lists(st.tuples(st.integers(1, 9), st.sampled_from(["insert", "update", "delete"]), st.sampled_from("abc"))))
def test_of_each_key_the_last_row_stays_in_its_place(rows: list[tuple[int, str, str]]) -> None:
    last = {key: at for at, (_, _, key) in enumerate(rows)}
    assert last_of_each_key(changes(rows))["ordinal"].to_pylist() == sorted(last.values())


def test_a_put_is_above_the_delete_of_its_key_at_one_commit_and_below_all_later_ones() -> None:
    """With TSOs as of today, and the last ones that twice fit."""
    for ts in (470649711073952175, (1 << 62) - 2):
        rows = changes([(ts, "delete", "a"), (ts, "insert", "a"), (ts + 1, "delete", "a")])
        (block,) = (of_changes(SCHEMA, 1, batch) for batch in rows.combine_chunks().to_batches())
        result = versions(block).to_pylist()
        assert result == [2 * ts, 2 * ts + 1, 2 * ts + 2]
