"""Which command what was read ahead may serve. What is read with a real server: tests/integration/test_tidb_source.py."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from sidecar.adapters.tidb.read_queue import Reads
from sidecar.shared.config import SourceSection
from sidecar.shared.model.chunk import WrittenChunk
from sidecar.shared.model.messages import Brackets, ReadChunk
from sidecar.shared.model.nouns import Column, TableName, TableSchema
from sidecar.shared.mysql.account import Account
from sidecar.shared.mysql.roles import Role
from sidecar.shared.mysql.session import MysqlSession
from sidecar.shared.reads.read import ChunkReader, SelectedChunk
from sidecar.shared.reads.reader import TableReader, _Ahead
from sidecar.shared.reads.sql_reads import SqlReadSession

TABLE = TableName("shop", "orders")
SCHEMAS = {TABLE: TableSchema(TABLE, (Column("id", "int", nullable=False),), ("id",))}
FOLLOWS = ReadChunk("d" * 16, 1, 8, TABLE, ("100",), ("900",), 50, Brackets.WATERMARK, where="id > 5", follows=7)


@pytest.fixture
def chunks() -> ChunkReader:
    return ChunkReader(SCHEMAS)


@pytest.fixture
def reader(chunks: ChunkReader) -> TableReader:
    session = SqlReadSession(MysqlSession(Account.of(SourceSection(host="127.0.0.1", user="root")), Role.READ_SOURCE), chunks)
    return TableReader(session, Reads(), write_chunk=lambda *_: WrittenChunk(0), report=lambda _: None, stopped=lambda: False)


def ahead(chunks: ChunkReader) -> _Ahead:
    """Read behind chunk 7, up to now."""
    rows = pa.table({"id": pa.array([101], pa.int64())})
    chunk = SelectedChunk(rows, SCHEMAS[TABLE].columns, chunks._in_force, ("101",), None, False, (), 0.1)
    return _Ahead(7, replace(FOLLOWS, number=7, follows=None), chunk)


def test_what_was_read_ahead_serves_the_command_that_follows_there(reader: TableReader, chunks: ChunkReader) -> None:
    result = ahead(chunks)
    assert reader._served(FOLLOWS, result) is result.chunk
    assert reader._served(replace(FOLLOWS, rows_max=70), result) is result.chunk, "how many rows were asked for is no part of the range"


@pytest.mark.parametrize(
    "other",
    [
        {"follows": 6},
        {"follows": None},
        {"after": ("200",)},
        {"upper": ("800",)},
        {"where": None},
        {"epoch": 2},
        {"dump_id": "e" * 16},
        {"table": TableName("shop", "items")},
        {"brackets": Brackets.SNAPSHOT},
    ],
    ids=str,
)
def test_it_serves_no_other_window_range_or_dump(reader: TableReader, chunks: ChunkReader, other: dict[str, object]) -> None:
    assert reader._served(replace(FOLLOWS, **other), ahead(chunks)) is None  # type: ignore[arg-type]  # fields of it


def test_it_serves_nobody_once_the_schemas_are_others(reader: TableReader, chunks: ChunkReader) -> None:
    result = ahead(chunks)
    chunks.follow(dict(SCHEMAS))
    assert reader._served(FOLLOWS, result) is None


def test_what_could_not_be_read_ahead_serves_nobody(reader: TableReader, chunks: ChunkReader) -> None:
    assert reader._served(FOLLOWS, None) is None
    assert reader._served(FOLLOWS, replace(ahead(chunks), chunk=None)) is None
