"""When DDLs were done, found in what TiDB keeps of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sidecar.adapters.tidb import ddl_history
from sidecar.adapters.tidb.ddl_history import DdlHistory
from sidecar.shared.errors import SourceError, SourceLost
from sidecar.shared.model.nouns import CommitTs, TableName, ts_at
from sidecar.shared.schema.ddl import Action
from tests.support.services.fake_tidb import FakeJob, FakeTidb, Refused

ORDERS = TableName("shop", "Orders")
JOB = FakeJob(70, ORDERS, Action.MODIFY_COLUMN, start_ts=200, done_ts=333, synced_ts=390)


@pytest.fixture
def tidb(tmp_path: Path) -> Iterator[FakeTidb]:
    with FakeTidb(tmp_path) as server:
        yield server


def history_of(tidb: FakeTidb) -> DdlHistory:
    return DdlHistory(tidb.settings(), lambda ddl: ddl.schema != "other")


def finished(history: DdlHistory, after_ts: int) -> list[tuple[int, int | None]]:
    return [(ddl.number, ddl.commit_ts) for ddl in history.since(CommitTs(after_ts))[0]]


def test_a_ddl_is_reported_once_with_the_tso_at_which_it_was_done_and_not_the_one_in_the_history(tidb: FakeTidb) -> None:
    tidb.job_list = [JOB, FakeJob(71, ORDERS, Action.DROP_COLUMN, 300, 900, None)]
    history = history_of(tidb)
    (first, second), upto_ts = history.since(CommitTs(250))
    assert (first.number, first.commit_ts, first.kind, first.tables) == (70, 333, "modify column", (TableName("shop", "Orders"),))
    assert (second.number, second.commit_ts) == (71, 900), "done, and not synced yet"
    assert upto_ts == 1001
    assert finished(history, upto_ts) == []
    tidb.job_list = [
        *tidb.job_list[:1],
        replace(tidb.job_list[1], synced_ts=1005),
        FakeJob(72, ORDERS, Action.ADD_COLUMN, 1002, 1004, 1006),
    ]
    tidb.now_ts = 2000
    assert finished(history, 1001) == [(72, 1004)]


def test_what_an_outage_kept_from_being_reported_is_reported_by_the_next_look(tidb: FakeTidb) -> None:
    tidb.job_list = [JOB, FakeJob(71, ORDERS, Action.DROP_COLUMN, 300, 900, None)]
    history, away = history_of(tidb), True

    def refuse(sql: str) -> None:
        if away and "job_id = 71" in sql:
            raise Refused(9001, "PD server timeout")

    tidb.before = refuse
    with pytest.raises(SourceLost):
        history.since(CommitTs(250))
    away = False
    assert finished(history, 250) == [(70, 333), (71, 900)]


@pytest.mark.parametrize(("after_ts", "expected"), [(332, [(70, 333)]), (333, []), (350, []), (400, [])])
def test_what_was_done_up_to_the_tso_is_left_out(tidb: FakeTidb, after_ts: int, expected: list[tuple[int, int]]) -> None:
    tidb.job_list = [JOB]
    assert finished(history_of(tidb), after_ts) == expected


def test_one_that_runs_is_reported_when_it_is_done_however_many_came_after_it(tidb: FakeTidb) -> None:
    slow = FakeJob(10, ORDERS, Action.MODIFY_COLUMN, 100, 1500, 1510)
    tidb.job_list = [slow, *(FakeJob(number, ORDERS, Action.ADD_INDEX, 500, 500 + number, 600 + number) for number in range(11, 60))]
    history = history_of(tidb)
    assert len(finished(history, 400)) == 49
    tidb.now_ts = 2000
    assert finished(history, 1001) == [(10, 1500)]


def test_a_long_history_is_read_in_pages_from_its_end_and_not_to_its_beginning(tidb: FakeTidb, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ddl_history, "PAGE", 3)
    monkeypatch.setattr(ddl_history, "OLD_S", 0)
    begun = {number: ts_at(number * 1000) for number in range(1, 40)}
    tidb.job_list = [FakeJob(number, ORDERS, Action.ADD_COLUMN, ts, ts + 5, ts + 9) for number, ts in begun.items()]
    tidb.now_ts = ts_at(40_000)
    assert finished(history_of(tidb), begun[33]) == [(number, begun[number] + 5) for number in range(33, 40)]
    assert sum("LIMIT 3" in sql for sql in tidb.statements) == 3


@pytest.mark.parametrize("schema", ["mysql", "other"])
def test_the_systems_own_and_those_that_nobody_wants_are_left_out_and_not_searched_for(tidb: FakeTidb, schema: str) -> None:
    tidb.job_list = [replace(JOB, table=TableName(schema, "x"))]
    assert finished(history_of(tidb), 250) == []
    assert not any("job_id = " in sql for sql in tidb.statements)


def test_who_may_not_read_them_gets_which_there_were_without_their_commit_ts(tidb: FakeTidb) -> None:
    def refuse(sql: str) -> None:
        if "FROM mysql.tidb_ddl" in sql:
            raise Refused(1142, "SELECT command denied to user")

    tidb.before = refuse
    tidb.ddl_kinds = [
        (70, "shop", "orders", "modify column", "ALTER TABLE orders …", 10, None),
        (71, "mysql", "user", "add column", "…", 11, None),
    ]
    history = history_of(tidb)
    ((finished_ddl,), _) = history.since(CommitTs(250))
    assert (finished_ddl.number, finished_ddl.commit_ts, finished_ddl.tables, finished_ddl.kind) == (
        70,
        None,
        (TableName("shop", "orders"),),
        "modify column",
    )
    history.since(CommitTs(260))
    assert sum("FROM mysql.tidb_ddl" in sql for sql in tidb.statements) == 1, "it is not asked for in vain again"


def test_a_server_that_is_no_tidb_is_refused_with_the_way_out(tidb: FakeTidb) -> None:
    tidb.version = "11.4.2-MariaDB"
    with pytest.raises(SourceError, match="is no TiDB"):
        history_of(tidb).since(CommitTs(1))
