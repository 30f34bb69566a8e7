"""A chunk is bounded in bytes: whatever the bound, the chunks of a table have each row once, and each key that has none is absent once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from sidecar.shared.model.keyset import Key, KeyColumn, ReadKey
from sidecar.shared.model.messages import Brackets, ReadChunk
from sidecar.shared.model.nouns import Column, TableName, TableSchema
from sidecar.shared.mysql.flavour import Flavour
from sidecar.shared.reads import read
from sidecar.shared.reads.read import ChunkReader, SelectedChunk
from sidecar.shared.reads.tables import TableFacts

TABLE = TableName("app", "t")
SCHEMA = TableSchema(TABLE, (Column("k", "text", nullable=False), Column("v", "text")), ("k",))
KEY = ReadKey(TABLE, (KeyColumn(SCHEMA.columns[0]),))


class Server:
    """Sends rows one by one. A SELECT's text is the rows themselves."""

    flavour = Flavour.MARIADB

    def __init__(self, rows: dict[str, str], monkeypatch: pytest.MonkeyPatch, *, facts: TableFacts | None = None) -> None:
        self.rows, self.sent, self.limits = rows, [list[tuple[str, ...]]()], list[int]()
        facts = facts or TableFacts(None, None, None, partitioned=False, charsets={})
        monkeypatch.setattr(read, "_learn", lambda *_: (KEY, facts))
        monkeypatch.setattr(read, "handle_read_key", lambda *_: KEY)
        monkeypatch.setattr(read, "has_columns_of", lambda *_: True)
        monkeypatch.setattr(read, "carried_out", lambda _, action, **__: action())
        monkeypatch.setattr(read, "chunk_select", self._range)
        monkeypatch.setattr(read, "keys_select", self._keys)
        monkeypatch.setattr(read, "read_up_to", self._read)

    def _range(self, *_: object, after: Key | None, rows_max: int, **__: object) -> object:
        self.limits.append(rows_max)
        return [(k, v) for k, v in sorted(self.rows.items()) if after is None or k > after[0]][:rows_max]

    def _keys(self, _schema: object, _key: object, keys: Sequence[Key], **_: object) -> object:
        results = [(k, self.rows[k], "1") for (k,) in keys if k in self.rows]
        Random(len(results)).shuffle(results)
        return results

    def _read(self, _: object, rows: list[tuple[str, ...]], columns: int, *, bytes_max: int | None) -> tuple[pa.Table, bool]:
        size, count = 0, 0
        while count < len(rows) and (bytes_max is None or size <= bytes_max):
            size, count = size + sum(map(len, rows[count])), count + 1
        texts = zip(*rows[:count], strict=True) if count else [[]] * columns
        self.sent.append(rows[:count])
        whole = bytes_max is None or size <= bytes_max
        return pa.table([pa.array(column, pa.string()) for column in texts], names=[f"c{at}" for at in range(columns)]), whole


def command(*, bytes_max: int, **given: Any) -> ReadChunk:
    return replace(ReadChunk("0123456789abcdef", 1, 1, TABLE, None, None, 5, Brackets.WATERMARK, bytes_max=bytes_max), **given)


def chunks(server: Server, first: ReadChunk, following: Callable[[ReadChunk, SelectedChunk], ReadChunk]) -> list[SelectedChunk]:
    reader, results, wanted = ChunkReader({TABLE: SCHEMA}), list[SelectedChunk](), first
    while True:
        chunk = reader.read(server, wanted, stopped=lambda: False)  # type: ignore[arg-type]  # a session's part that is used
        assert isinstance(chunk, SelectedChunk)
        results.append(chunk)
        if chunk.exhausted:
            return results
        wanted = following(wanted, chunk)


@pytest.fixture(params=range(8))
def random(request: pytest.FixtureRequest) -> Random:
    return Random(request.param)


def table(random: Random) -> dict[str, str]:
    return {f"{number:02d}": "x" * random.choice([0, 3, 40, 500]) for number in random.sample(range(60), random.randrange(1, 40))}


@pytest.mark.parametrize("bound", [0, 10, 200, 1 << 20])
def test_the_chunks_of_a_range_have_each_row_once(random: Random, bound: int, monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(rows := table(random), monkeypatch)
    results = chunks(server, command(bytes_max=bound), lambda last, chunk: replace(last, after=chunk.last))
    assert [tuple(row.values()) for chunk in results for row in chunk.selected.to_pylist()] == sorted(rows.items())
    for chunk in results:
        sizes = [len(row["c0"]) + len(row["c1"]) for row in chunk.selected.to_pylist()]
        assert len(sizes) <= 5
        assert sum(sizes[:-1]) <= bound


@pytest.mark.parametrize("bound", [0, 10, 200, 1 << 20])
def test_of_keys_that_a_chunk_did_not_come_to_nothing_is_said(random: Random, bound: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Called absent, a row that is there would be deleted in every sink."""
    server = Server(rows := table(random), monkeypatch)
    keys = tuple((f"{number:02d}",) for number in random.sample(range(60), 30))
    results = chunks(server, command(bytes_max=bound, keys=keys), lambda last, chunk: replace(last, keys=last.keys[chunk.keys_read :]))
    assert [key for chunk in results for key in chunk.absent] == [key for key in keys if key[0] not in rows]
    assert sorted(row["c0"] for chunk in results for row in chunk.selected.to_pylist()) == sorted(k for (k,) in keys if k in rows)
    assert sum(chunk.keys_read for chunk in results) == len(keys)
    if bound == 0:
        assert all(chunk.selected.num_rows <= 1 for chunk in results)


@pytest.mark.parametrize(
    ("rows", "size", "limit"), [(None, None, 5), (0, 0, 5), (10, 0, 5), (1000, 1000, 5), (10, 1000, 2), (10, 1 << 40, 1), (1, 1 << 40, 1)]
)
def test_the_first_select_asks_for_as_many_rows_as_fit_by_the_statistics(
    rows: int | None, size: int | None, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the first: statistics of another time may not hold the whole table up."""
    server = Server(table(Random(3)), monkeypatch, facts=TableFacts(rows, size, None, partitioned=False, charsets={}))
    chunks(server, command(bytes_max=200), lambda last, chunk: replace(last, after=chunk.last))
    assert server.limits[0] == limit + 1
    assert set(server.limits[1:]) <= {6}
