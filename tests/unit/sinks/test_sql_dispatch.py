"""What is held and handed to a worker at a SQL target is bounded in bytes, and the rows are the same in the same order."""

from __future__ import annotations

from collections import defaultdict
from typing import cast

import pyarrow as pa
import pytest

from sidecar.shared.model.nouns import Column, Seq, TableName, TableSchema
from sidecar.shared.mysql.flavour import Flavour
from spark_merge.port.contract import CHANGES
from spark_merge.sinks.mysql import writer
from spark_merge.sinks.mysql.position import SqlBatch
from spark_merge.sinks.mysql.server_table import ServerColumn, ServerTable
from spark_merge.sinks.mysql.statements import SqlWrite
from spark_merge.sinks.mysql.tables import target_table
from spark_merge.sinks.mysql.weights import Weights
from spark_merge.sinks.mysql.workers import SqlBlock, Workers
from spark_merge.sinks.mysql.writer import Dispatch

NAME = TableName("s", "t")
SCHEMA = TableSchema(NAME, (Column("a", "int"), Column("v", "text")), ("a",))
RESULT = ServerTable((ServerColumn("a", "int", None, False), ServerColumn("v", "text", None, False)), ((("a", None),),))


class Given:
    """What workers were given; `rows`: the numbers of the rows of each."""

    def __init__(self) -> None:
        self.blocks: list[SqlBlock] = []
        self.rows: defaultdict[int, list[int]] = defaultdict(list)

    def offer(self, worker: int, block: SqlBlock) -> None:
        self.blocks.append(block)
        self.rows[worker] += [write.number for write in cast(list[SqlWrite], block.writes)]

    def drain(self) -> None:
        """Nothing waits."""


def given(commits: list[int], *, workers: int = 1, by_bytes: bool = True) -> Given:
    """A commit of so many rows each, of 100 bytes and more."""
    rows = [(ts, n) for ts, count in enumerate(commits) for n in range(count)]
    changes = [
        {"seq": 0, "commit_ts": ts, "rank": 1, "ordinal": at, "op": "insert", "key": f"{at}", "before": None, "after": [str(at), "x" * 100]}
        for at, (ts, _) in enumerate(rows)
    ]
    result = Given()
    tables = {NAME: target_table(SCHEMA, NAME, RESULT, Flavour.MARIADB)}
    dispatch = Dispatch(cast(Workers, result), workers, cast(Weights, {}), tables, by_bytes)
    dispatch.take(SCHEMA, pa.Table.from_pylist(changes, CHANGES))
    dispatch.end()
    return result


def blocks_of(commits: list[int]) -> list[SqlBlock]:
    return given(commits).blocks


def test_large_values_are_handed_on_earlier_and_a_large_commit_passes_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    commits = [1, 60, 3, 200, 2]
    whole = [write.number for block in blocks_of(commits) for write in cast(list[SqlWrite], block.writes)]
    monkeypatch.setattr(writer, "HANDED_BYTES", 500)
    monkeypatch.setattr(writer, "COMMIT_BYTES_MAX", 2_000)
    blocks = blocks_of(commits)
    assert [write.number for block in blocks for write in cast(list[SqlWrite], block.writes)] == whole == list(range(sum(commits)))
    assert max(block.bytes for block in blocks) <= 2_200
    ends = [at for at, block in enumerate(blocks) if block.ends]
    assert len(blocks) > len(ends) > 3, "blocks within a commit end none"


def test_a_batch_that_0_4_had_begun_goes_on_with_the_workers_that_have_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker's slot is a number of a row: what another worker had below it would be left out."""
    commits, before = [1, 60, 3, 200, 2], SqlBatch(Seq(1), 3, "keys")
    then = given(commits, workers=3, by_bytes=False).rows
    monkeypatch.setattr(writer, "COMMIT_BYTES_MAX", 2_000)
    assert given(commits, workers=3, by_bytes=before.by_bytes).rows == then
    assert given(commits, workers=3, by_bytes=SqlBatch(Seq(1), 3, "keys", sink="").by_bytes).rows != then
