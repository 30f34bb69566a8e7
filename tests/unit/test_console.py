from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest

from sidecar.core.model import Column, TableName, TableSchema
from sidecar.errors import LogBroken, SinkError
from sidecar.storage import open_folder
from spark_merge.sinks.console import ConsoleSink
from tests.support.deliveries import ORDERS, SCHEMA, Batch, change, chunk, deliver, write_chunk

USERS = TableName("shop", "users")


def test_one_line_a_segment_with_rows_by_table(tmp_path: Path) -> None:
    log, out = open_folder(str(tmp_path)), io.StringIO()
    write_chunk(log, "c1", [("1", "a"), ("2", "b"), ("3", "c")])
    rows = [
        change(1, 10, after=["1", "x"]),
        chunk(1, 20, "c1", touched=["1"]),
        change(1, 10, after=["1", "x"], table=USERS),
    ]
    batch = Batch([1, 2], rows, {2: ((200, "shop", "orders", "drop table orders"),)})
    deliver(ConsoleSink(out), batch, log=log, schemas={ORDERS: SCHEMA, USERS: replace(SCHEMA, name=USERS)})
    assert out.getvalue().splitlines() == [
        "segment 1 up to 100  shop.orders: 1 live, 2 dumped, 1 dropped; shop.users: 1 live",
        "segment 2 up to 200  ddl: drop table orders",
    ]


def test_a_segment_without_rows_says_so(tmp_path: Path) -> None:
    out = io.StringIO()
    deliver(ConsoleSink(out), Batch([1]), log=open_folder(str(tmp_path)))
    assert out.getvalue() == "segment 1 up to 100  no rows\n"


def test_only_the_keys_of_a_chunk_are_read(tmp_path: Path) -> None:
    log, out = open_folder(str(tmp_path)), io.StringIO()
    write_chunk(log, "c1", [("1",)], TableSchema(ORDERS, (Column("id", "int"),), ("id",)))
    deliver(ConsoleSink(out), Batch([1], [chunk(1, 20, "c1")]), log=log)
    assert "1 dumped" in out.getvalue()


def test_a_chunk_that_is_gone_is_the_logs_fault(tmp_path: Path) -> None:
    with pytest.raises(LogBroken):
        deliver(ConsoleSink(io.StringIO()), Batch([1], [chunk(1, 20, "c1")]), log=open_folder(str(tmp_path)))


def test_it_remembers_in_memory_only_and_refuses_to_go_back(tmp_path: Path) -> None:
    sink = ConsoleSink(io.StringIO())
    assert sink.accepted() is None
    deliver(sink, Batch([4, 5]), log=open_folder(str(tmp_path)))
    assert sink.accepted() == 5
    with pytest.raises(SinkError, match="segment 5 came after 5"):
        deliver(sink, Batch([5]), log=open_folder(str(tmp_path)))
    assert ConsoleSink(io.StringIO()).accepted() is None
