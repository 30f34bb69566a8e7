"""Finished DDL jobs by their numbers: none is passed over while it runs, and an account without rights sees the newest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sidecar.adapters.tidb.seen_jobs import JobReader
from sidecar.shared.model.nouns import CommitTs, TableName, ts_at
from sidecar.shared.schema.ddl import Action
from sidecar.shared.schema.job_holes import MODE_UNKNOWN
from tests.support.holes import RecordedJob, every_job, tso
from tests.support.services.fake_tidb import FakeJob, FakeTidb, Refused

ORDERS = TableName("shop", "Orders")


@pytest.fixture
def tidb(tmp_path: Path) -> Iterator[FakeTidb]:
    with FakeTidb(tmp_path) as server:
        yield server


def look(tidb: FakeTidb, since_ts: int, low: int | None = None) -> tuple[list[int], int]:
    seen = JobReader(tidb.settings(), print).look(CommitTs(since_ts), low)
    assert seen is not None
    return [job.job_id for job in seen.jobs], seen.low


def test_recorded_jobs_come_with_those_that_have_no_schema_version(tidb: FakeTidb) -> None:
    tidb.job_list = every_job()
    tidb.now_ts = tso("flashback-cluster")
    numbers, _ = look(tidb, tso("write-after-rename-in"))
    assert numbers == [642]
    tidb.now_ts = tso("import-into-file")
    assert look(tidb, tso("import-into-refused"))[0] == [617, 618]


def test_a_job_that_ends_after_later_ones_is_read_by_the_next_look(tidb: FakeTidb) -> None:
    slow = FakeJob(10, ORDERS, Action.EXCHANGE_PARTITION, 100, 1500, 1510)
    tidb.job_list = [slow, *(FakeJob(number, ORDERS, Action.ADD_INDEX, 500, 500 + number, 600 + number) for number in range(11, 60))]
    numbers, low = look(tidb, 50)
    assert (numbers, low) == ([*range(11, 60)], 10)
    tidb.now_ts = 2000
    numbers, low = look(tidb, 50, low)
    assert 10 in numbers
    assert low > 10


def test_who_may_not_read_them_sees_the_newest_without_what_they_did(tidb: FakeTidb) -> None:
    def refuse(sql: str) -> None:
        if "FROM mysql.tidb_ddl" in sql:
            raise Refused(1142, "SELECT command denied to user")

    tidb.before = refuse
    exchange = "ALTER TABLE Parts EXCHANGE PARTITION p WITH TABLE `outside`.`Other`"
    tidb.ddl_kinds = [
        (73, "shop", "orders", "alter table mode", "skip", 10, None),
        (72, "shop", "orders", "alter table mode", "skip", 10, 5),
        (71, "shop", "parts", "exchange partition", exchange, 11, 4),
        (70, "", "", "flashback cluster", "FLASHBACK CLUSTER …", 0, 2),
        (69, "shop", "orders", "a kind of tomorrow", "…", 10, 5),
    ]
    reader = JobReader(tidb.settings(), print)
    seen = reader.look(ts_at(3000), None)
    assert seen is not None
    assert not seen.whole
    parts, mode = seen.jobs
    assert (mode.job_id, mode.action, mode.tables[0].info["id"], mode.tables[0].info["mode"]) == (
        72,
        Action.ALTER_TABLE_MODE,
        10,
        MODE_UNKNOWN,
    )
    assert (parts.tables, parts.involved) == ((), (("shop", "parts"), ("outside", "other")))
    assert (mode.start_ts, mode.commit_ts) == (ts_at(5000), ts_at(6000)), "of its second"
    reader.look(ts_at(3000), 72)
    assert sum("FROM mysql.tidb_ddl" in sql for sql in tidb.statements) == 1, "it is not queried in vain again"


def test_a_server_that_is_no_tidb_has_none(tidb: FakeTidb) -> None:
    tidb.version = "11.4.2-MariaDB"
    assert JobReader(tidb.settings(), print).look(CommitTs(1), None) is None


def test_older_jobs_are_read_no_more_once_a_look_has_passed_them(tidb: FakeTidb) -> None:
    jobs = [FakeJob(number, ORDERS, Action.ADD_INDEX, 10, 20, 30) for number in range(1, 200)]
    tidb.job_list = [*jobs, replace(jobs[0], number=200, synced_ts=700)]
    numbers, low = look(tidb, 600)
    assert numbers == [200]
    tidb.statements.clear()
    look(tidb, 600, low)
    assert sum("tidb_ddl_history WHERE job_id >=" in sql for sql in tidb.statements) == 1


def test_a_job_that_cannot_be_read_hides_no_other_and_is_noted_once(tidb: FakeTidb) -> None:
    unreadable = RecordedJob({"id": 11, "start_ts": 100, "type": 14, "state": 99, "binlog": {"SchemaVersion": 1, "FinishedTS": 600}}, 600)
    tidb.job_list = [FakeJob(number, ORDERS, Action.ADD_INDEX, 100, 500, 600) for number in (10, 12)] + [unreadable]
    notes: list[str] = []
    reader = JobReader(tidb.settings(), notes.append)
    for _ in range(2):
        tidb.now_ts = 700
        seen = reader.look(CommitTs(50), None)
        assert seen is not None
        assert [job.job_id for job in seen.jobs] == [10, 12]
    (note,) = notes
    assert "DDL job 11" in note


def test_a_job_under_way_that_cannot_be_read_is_read_again_when_it_has_ended(tidb: FakeTidb) -> None:
    tidb.jobs = {}
    running = RecordedJob({"id": 11, "start_ts": 100, "type": "no number", "state": 1, "binlog": {}}, None)
    tidb.job_list = [running, *(FakeJob(number, ORDERS, Action.ADD_INDEX, 100, 500, 600) for number in range(12, 60))]
    tidb.now_ts = 700
    numbers, low = look(tidb, 50)
    assert (numbers, low) == ([*range(12, 60)], 11)
