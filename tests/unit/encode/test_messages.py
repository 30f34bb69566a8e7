"""A chunk's survivors as inserts."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from sidecar.shared.model.nouns import CommitTs, Seq
from spark_merge.codecs.encode.messages import changes_of
from spark_merge.codecs.encode.open_protocol import OpenProtocolEncoder
from spark_merge.port.contract import CHANGES, RANK_CHUNK, ChunkPiece, DueChunk, Survivors
from tests.support.deliveries import ORDERS, SCHEMA
from tests.unit.encode.open_tables import table

DUE = DueChunk(ORDERS, CommitTs(5), CommitTs(9), Seq(2), Seq(3), 0, "d1", "chunk.parquet", 3)


def piece(rows: list[tuple[str | None, ...]], ordinals: list[int]) -> ChunkPiece:
    columns = [pa.chunked_array([[row[place]] for row in rows], pa.string()) for place in range(2)]
    table = pa.table({"name": columns[1], "id": columns[0]})
    return ChunkPiece(DUE, Survivors(table, pa.array(ordinals, pa.int64()), 1))


def test_survivors_are_inserts_as_of_the_windows_end_in_the_order_of_the_schema() -> None:
    changes = changes_of(piece([("1", "a"), ("3", None)], [0, 2]), SCHEMA)
    assert changes.schema == CHANGES
    row = {"seq": 3, "commit_ts": 9, "rank": RANK_CHUNK, "schema": "shop", "table": "orders", "op": "insert", "before": None}
    assert changes.to_pylist() == [
        row | {"ordinal": 0, "key": '["1"]', "after": ["1", "a"]},
        row | {"ordinal": 2, "key": '["3"]', "after": ["3", None]},
    ]


def test_keys_that_the_source_does_not_have_are_deletes_with_the_key_alone() -> None:
    changes = changes_of(replace(piece([("1", None)], [4]), deletes=True), SCHEMA)
    [row] = changes.to_pylist()
    assert (row["op"], row["rank"], row["key"], row["before"], row["after"]) == ("delete", RANK_CHUNK, '["1"]', ["1", None], None)
    schema = table([("id", "int(11)"), ("name", "text")])
    [message] = OpenProtocolEncoder("new").rows(
        schema, changes_of(replace(piece([("1", None)], [4]), deletes=True), schema), None, keys_only=True
    )
    assert b"name" not in (message[1] or b"")
    assert (message[1] or b"")[8:].startswith(b'{"d":{"id":')


def test_no_survivors_are_no_inserts() -> None:
    changes = changes_of(piece([], []), SCHEMA)
    assert (changes.schema, changes.num_rows) == (CHANGES, 0)


def test_survivors_can_be_encoded() -> None:
    schema = table([("id", "int(11)"), ("name", "text")])
    [message] = OpenProtocolEncoder("new").rows(schema, changes_of(piece([("1", "a")], [0]), schema), None)
    assert (message[1] or b"")[8:].startswith(b'{"u":{"id":')
