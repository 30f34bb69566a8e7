"""What comes as it was committed, table by table."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pyarrow as pa
import pytest

from sidecar.shared.model.nouns import Column, Seq, TableName, TableSchema
from spark_merge.codecs.encode import by_table as encoding
from spark_merge.codecs.encode.by_table import by_table
from spark_merge.port.contract import CHANGES, ChunkPiece, DueChunk, Piece, Portion, Survivors, Unit

UNIT = Unit(Seq(1), live=True)
SCHEMAS = [TableSchema(TableName("s", f"t{number}"), (Column("id", "int"),), ("id",)) for number in range(3)]


def portion(table: int, commit_ts: Sequence[int]) -> Portion:
    rows = [
        {
            "seq": 1,
            "commit_ts": ts,
            "rank": 1,
            "ordinal": 0,
            "schema": "s",
            "table": f"t{table}",
            "op": "insert",
            "key": "[]",
            "after": ["1"],
        }
        for ts in commit_ts
    ]
    return Portion(UNIT, SCHEMAS[table], iter([pa.Table.from_pylist(rows, CHANGES)]))


def chunk(table: int) -> Portion:
    due = DueChunk(SCHEMAS[table].name, 1, 5, Seq(1), Seq(1), 0, "d", "p", 1)  # type: ignore[arg-type]  # TSOs
    return Portion(UNIT, SCHEMAS[table], iter([ChunkPiece(due, Survivors(pa.table({"id": ["1"]}), pa.array([0]), 0))]))


def block_values(portions: list[Portion]) -> list[dict[str, list[int]] | str]:
    return [
        "chunk" if isinstance(results[0][1], ChunkPiece) else {schema.name.table: stamps(rows) for schema, rows in results}
        for results in by_table(portions)
    ]


def stamps(rows: Piece) -> list[int]:
    assert isinstance(rows, pa.Table)
    results: list[int] = rows["commit_ts"].to_pylist()
    return results


def test_each_table_comes_once_between_chunks() -> None:
    portions = [portion(0, [1, 2]), portion(1, [2]), portion(0, [2, 3]), chunk(1), portion(1, [6]), portion(0, [6])]
    assert block_values(portions) == [{"t0": [1, 2, 2, 3], "t1": [2]}, "chunk", {"t1": [6], "t0": [6]}]


def test_it_is_cut_between_transactions_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "ROWS_MAX", 2)
    assert block_values([portion(0, [1]), portion(1, [1]), portion(0, [1]), portion(1, [2])]) == [{"t0": [1, 1], "t1": [1]}, {"t1": [2]}]


def test_a_transaction_beyond_the_bound_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "ROWS_MAX", 2)
    monkeypatch.setattr(encoding, "HELD_ROWS_MAX", 3)
    assert block_values([portion(0, [1]), portion(1, [1]), portion(0, [1]), portion(1, [1])]) == [{"t0": [1, 1], "t1": [1]}, {"t1": [1]}]


def test_a_transaction_of_many_bytes_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "BYTES_MAX", 1)
    monkeypatch.setattr(encoding, "HELD_BYTES_MAX", 2)
    assert block_values([portion(0, [1]), portion(1, [1])]) == [{"t0": [1]}, {"t1": [1]}]


@pytest.mark.parametrize("seed", range(5))
def test_whatever_comes_nothing_is_lost_and_no_table_goes_back(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = Random(seed)
    monkeypatch.setattr(encoding, "ROWS_MAX", rng.choice([1, 5, 1000]))
    rows = [(ts, rng.randrange(3)) for ts in sorted(rng.randrange(40) for _ in range(100))]
    results = block_values([portion(table, [ts]) for ts, table in rows])
    for table in range(3):
        assert [ts for one in results for ts in one.get(f"t{table}", [])] == [ts for ts, at in rows if at == table]  # type: ignore[union-attr]  # no chunks
    last = 0
    for one in results:
        there = sorted(ts for some in one.values() for ts in some)  # type: ignore[union-attr]  # no chunks
        assert there[0] > last or last == 0
        last = there[-1]
