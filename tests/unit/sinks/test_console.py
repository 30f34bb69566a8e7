from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest

from sidecar.shared.errors import LogBroken
from sidecar.shared.log.manifest import DdlRecord
from sidecar.shared.log.storage import open_folder
from sidecar.shared.model.nouns import CommitTs, TableName
from spark_merge.sinks.console.sink import ConsoleSink
from spark_merge.testing.places import accepted
from tests.support.deliveries import ORDERS, SCHEMA, Segments, change, chunk, deliver, write_chunk

USERS = TableName("shop", "users")


def test_one_line_a_segment_with_rows_by_table(tmp_path: Path) -> None:
    log, out = open_folder(str(tmp_path)), io.StringIO()
    write_chunk(log, "c1", [("1", "a"), ("2", "b"), ("3", "c")])
    rows = [
        change(1, 10, after=["1", "x"]),
        chunk(1, 20, "c1", touched=["1"]),
        change(1, 10, after=["1", "x"], table=USERS),
    ]
    batch = Segments([1, 2], rows, {2: (DdlRecord(CommitTs(200), "shop", "orders", "drop table orders"),)})
    deliver(ConsoleSink(out), batch, log=log, schemas={ORDERS: SCHEMA, USERS: replace(SCHEMA, name=USERS)})
    assert out.getvalue().splitlines() == [
        "segment 1 up to 100  shop.orders: 1 live, 2 dumped, 1 dropped; shop.users: 1 live",
        "segment 2 up to 200  ddl: drop table orders",
    ]


def test_a_segment_without_rows_says_so(tmp_path: Path) -> None:
    out = io.StringIO()
    deliver(ConsoleSink(out), Segments([1]), log=open_folder(str(tmp_path)))
    assert out.getvalue() == "segment 1 up to 100  no rows\n"


def test_a_chunk_that_is_gone_is_the_logs_fault(tmp_path: Path) -> None:
    with pytest.raises(LogBroken):
        deliver(ConsoleSink(io.StringIO()), Segments([1], [chunk(1, 20, "c1")]), log=open_folder(str(tmp_path)))


def test_it_remembers_in_memory_only(tmp_path: Path) -> None:
    sink = ConsoleSink(io.StringIO())
    assert sink.look() is None
    deliver(sink, Segments([4, 5]), log=open_folder(str(tmp_path)))
    assert accepted(sink) == 5
    assert ConsoleSink(io.StringIO()).look() is None
