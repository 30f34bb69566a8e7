"""`newest`: of each key its greatest version, and no deleted one."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from sidecar.shared.model.nouns import Column, TableName, TableSchema
from spark_merge.port.contract import RANK_CHUNK, RANK_DELETE, RANK_PUT
from spark_merge.port.readable import Reading, RowsRead, Versions, newest

SCHEMA = TableSchema(TableName("shop", "t"), (Column("v", "text"), Column("id", "int", nullable=False)), ("id",))


class Part:
    def __init__(self, *found: RowsRead) -> None:
        self._result = found

    def __call__(self) -> Iterator[RowsRead]:
        yield from self._result


def rows(*value: tuple[str | None, str]) -> pa.Table:
    return pa.table({"v": pa.array([v for v, _ in value], pa.string()), "id": pa.array([key for _, key in value], pa.string())})


def versions(*value: tuple[int, int, bool]) -> Versions:
    commit_ts, rank, deleted = zip(*value, strict=True)
    return Versions(pa.array(commit_ts, pa.int64()), pa.array(rank, pa.int32()), pa.array(deleted, pa.bool_()))


def test_of_each_key_the_greatest_version_is_there_across_parts_and_a_deleted_key_is_not() -> None:
    first = RowsRead(
        rows(("a", "1"), ("b", "2"), (None, "3")), versions((10, RANK_PUT, False), (12, RANK_PUT, False), (9, RANK_DELETE, True))
    )
    second = RowsRead(
        rows(("c", "1"), (None, "2"), ("d", "3")), versions((10, RANK_CHUNK, False), (13, RANK_DELETE, True), (9, RANK_PUT, False))
    )
    result = newest(Reading(None, True, (Part(first), Part(second))), SCHEMA)
    assert sorted(result.to_pylist(), key=lambda row: row["id"]) == [{"v": "c", "id": "1"}, {"v": "d", "id": "3"}]


def test_rows_without_versions_are_all_there_and_nothing_is_an_empty_table() -> None:
    there = rows(("a", "1"), (None, "2"))
    assert newest(Reading(None, True, (Part(RowsRead(there)),)), SCHEMA).equals(there)
    assert newest(Reading(None, True, ()), SCHEMA).num_rows == 0
