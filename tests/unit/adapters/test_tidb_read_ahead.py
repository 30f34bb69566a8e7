"""Which command what was read ahead may serve. What is read with a real server: tests/integration/test_tidb_source.py."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pytest

from sidecar.adapters.tidb.read import SelectedChunk
from sidecar.adapters.tidb.source import TidbSource, _Ahead
from sidecar.config import SourceSection
from sidecar.core.chunk import WrittenChunk
from sidecar.core.messages import Brackets, ReadChunk
from sidecar.core.model import Column, TableName, TableSchema

TABLE = TableName("shop", "orders")
SCHEMAS = {TABLE: TableSchema(TABLE, (Column("id", "int", nullable=False),), ("id",))}
FOLLOWS = ReadChunk("d" * 16, 1, 8, TABLE, ("100",), ("900",), 50, Brackets.WATERMARK, where="id > 5", follows=7)


@pytest.fixture
def source() -> Iterator[TidbSource]:
    tidb_source = TidbSource(
        SourceSection(host="127.0.0.1", user="root"), schemas=SCHEMAS, write_chunk=lambda *_: WrittenChunk(0), changefeed_id="cf"
    )
    yield tidb_source
    tidb_source.close()


def ahead(source: TidbSource) -> _Ahead:
    """Read behind chunk 7, up to now."""
    rows = pa.table({"id": pa.array([101], pa.int64())})
    chunk = SelectedChunk(rows, SCHEMAS[TABLE].columns, source._chunks._in_force, ("101",), None, False, (), 0.1)
    return _Ahead(7, replace(FOLLOWS, number=7, follows=None), chunk)


def test_what_was_read_ahead_serves_the_command_that_follows_there(source: TidbSource) -> None:
    result = ahead(source)
    assert source._served(FOLLOWS, result) is result.chunk
    assert source._served(replace(FOLLOWS, rows_max=70), result) is result.chunk, "how many rows were asked for is no part of the range"


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
def test_it_serves_no_other_window_range_or_dump(source: TidbSource, other: dict[str, object]) -> None:
    assert source._served(replace(FOLLOWS, **other), ahead(source)) is None  # type: ignore[arg-type]  # fields of it


def test_it_serves_nobody_once_the_schemas_are_others(source: TidbSource) -> None:
    result = ahead(source)
    source.follow(dict(SCHEMAS))
    assert source._served(FOLLOWS, result) is None


def test_what_could_not_be_read_ahead_serves_nobody(source: TidbSource) -> None:
    assert source._served(FOLLOWS, None) is None
    assert source._served(FOLLOWS, replace(ahead(source), chunk=None)) is None
