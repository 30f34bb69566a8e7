"""The tables as they were at a TSO, and the TSO of the present, from a TiDB that keeps time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sidecar.adapters.tidb.schema import TidbSchemas
from sidecar.core.model import Column, CommitTs, TableName, TableSchema
from sidecar.errors import SourceError, SourceLost
from tests.support.services.fake_tidb import FakeTable, FakeTidb, Refused

ORDERS, LEDGER = TableName("shop", "orders"), TableName("shop", "ledger")
ID = Column("id", "int", nullable=False)


@pytest.fixture
def tidb(tmp_path: Path) -> Iterator[FakeTidb]:
    with FakeTidb(tmp_path) as server:
        server.history = {
            0: {ORDERS: FakeTable(10)},
            500: {ORDERS: FakeTable(10, {"id": "bigint NOT NULL", "note": "varchar(20)"}), LEDGER: FakeTable(20, partitions=(22, 21))},
        }
        yield server


def test_the_tables_of_a_tso_are_those_of_that_moment(tidb: FakeTidb) -> None:
    schemas = TidbSchemas(tidb.settings())
    assert schemas.tables(CommitTs(499)) == {ORDERS: TableSchema(ORDERS, (ID,), ("id",), 10, (10,))}
    at_500 = schemas.tables(CommitTs(500))
    assert at_500[ORDERS].columns == (ID, Column("note", "text"))
    assert at_500 == schemas.tables()


def test_names_are_those_of_tikv_though_a_server_has_not_loaded_them_yet(tidb: FakeTidb) -> None:
    tidb.shown = {ORDERS: FakeTable(10)}
    assert TidbSchemas(tidb.settings()).names() == {ORDERS, LEDGER}


def test_a_partitioned_table_has_its_own_id_and_those_of_its_partitions_in_their_order(tidb: FakeTidb) -> None:
    found = TidbSchemas(tidb.settings()).tables()[LEDGER]
    assert (found.table_id, found.physical_ids) == (20, (22, 21))


def test_what_is_asked_after_a_snapshot_is_of_the_present_again(tidb: FakeTidb) -> None:
    schemas = TidbSchemas(tidb.settings())
    schemas.tables(CommitTs(1))
    assert LEDGER in schemas.tables()


def test_a_tso_of_the_present_is_above_all_earlier_ones_and_leaves_no_transaction(tidb: FakeTidb) -> None:
    schemas = TidbSchemas(tidb.settings())
    assert [schemas.now_ts(), schemas.now_ts()] == [1001, 1002]
    assert tidb.statements[-1] == "ROLLBACK"


@pytest.mark.parametrize("code", [8055, 9006])
def test_a_time_that_is_garbage_collected_is_told_at_once_with_the_way_out(tidb: FakeTidb, code: int) -> None:
    asked = []

    def refuse(sql: str) -> None:
        if "FROM information_schema" in sql:
            asked.append(sql)
            raise Refused(code, "GC life time is shorter than transaction duration")

    tidb.before = refuse
    with pytest.raises(SourceError, match=r"at TSO 499 is garbage-collected \(error \d+\)[^$]*tidb_gc_life_time") as caught:
        TidbSchemas(tidb.settings(retry_s=30)).tables(CommitTs(499))
    assert len(asked) == 1
    assert not caught.value.retryable


def test_an_outage_while_a_snapshot_is_read_is_one_that_passes(tidb: FakeTidb) -> None:
    def refuse(sql: str) -> None:
        if "tidb_snapshot = '4" in sql:
            raise Refused(9001, "PD server timeout")

    tidb.before = refuse
    with pytest.raises(SourceLost, match="as of TSO 499 failed"):
        TidbSchemas(tidb.settings()).tables(CommitTs(499))
