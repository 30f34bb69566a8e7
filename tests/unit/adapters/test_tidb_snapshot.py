"""The tables as they were at a TSO, and the TSO of the present, from a TiDB that keeps time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest

from sidecar.adapters.tidb import schema
from sidecar.adapters.tidb.schema import TidbSchemas
from sidecar.shared.errors import SourceError, SourceLost
from sidecar.shared.model.nouns import Column, CommitTs, TableName, TableSchema, ts_at
from sidecar.shared.reads.snapshot import duration_s
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
    at_499 = schemas.tables(CommitTs(499))
    assert {name: table.undefined() for name, table in at_499.items()} == {ORDERS: TableSchema(ORDERS, (ID,), ("id",), 10, (10,))}
    at_500 = schemas.tables(CommitTs(500))
    assert at_500[ORDERS].columns == (ID, Column("note", "text"))
    assert at_500 == schemas.tables()


def test_names_are_those_of_a_tso_whatever_sql_shows_at_present(tidb: FakeTidb) -> None:
    tidb.shown = {ORDERS: FakeTable(10)}
    assert TidbSchemas(tidb.settings()).names().keys() == {ORDERS, LEDGER}


QUESTIONS: Mapping[str, Callable[[TidbSchemas], object]] = {
    "the tables of a TSO": lambda schemas: set(schemas.tables(CommitTs(500))),
    "the names of now": lambda schemas: set(schemas.names()),
}


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "LOADED_AGAIN_S", 0.01)


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize("question", QUESTIONS)
def test_a_server_that_is_behind_is_not_believed_and_queried_again_with_a_set_of_its_own(tidb: FakeTidb, question: str) -> None:
    tidb.loaded_ts = 499
    requests: list[str] = []

    def load(sql: str) -> None:
        requests.append(sql)
        if sum("ddl_jobs" in one for one in requests) == 3:
            tidb.loaded_ts = None

    tidb.before = load
    assert QUESTIONS[question](TidbSchemas(tidb.settings())) == {ORDERS, LEDGER}
    sets = sum(sql.startswith("SET @@tidb_snapshot = '") for sql in requests)
    assert sets == sum("ddl_jobs" in sql for sql in requests) == 3


@pytest.mark.usefixtures("hurried")
def test_an_answer_that_shows_what_was_requested_is_enough_though_other_servers_are_behind(tidb: FakeTidb) -> None:
    tidb.loaded_ts, tidb.now_ts = 500, 2000
    tidb.history[900] = tidb.history[500]
    schemas = TidbSchemas(tidb.settings()).tables(CommitTs(500), shown=lambda tables: LEDGER in tables)
    assert set(schemas) == {ORDERS, LEDGER}
    assert sum("ddl_jobs" in sql for sql in tidb.statements) == 1


@pytest.mark.usefixtures("hurried")
def test_who_may_not_look_waits_as_long_as_servers_take_to_load(tidb: FakeTidb, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "LOADED_MAX_S", 0.05)

    def refuse(sql: str) -> None:
        if "ddl_jobs" in sql:
            raise Refused(1142, "SELECT command denied")

    tidb.before = refuse
    assert TidbSchemas(tidb.settings()).names().keys() == {ORDERS, LEDGER}
    assert sum("ddl_jobs" in sql for sql in tidb.statements) > 1


def test_names_do_not_wait_for_a_ddl_that_makes_none(tidb: FakeTidb) -> None:
    tidb.loaded_ts, tidb.done_kind = 999, "modify column"
    tidb.history[1000] = tidb.history[500]
    assert TidbSchemas(tidb.settings()).names().keys() == {ORDERS, LEDGER}
    assert sum("ddl_jobs" in sql for sql in tidb.statements) == 1


@pytest.mark.usefixtures("hurried")
def test_a_transaction_that_keeps_a_ddl_from_being_synced_holds_nobody_for_longer_than_servers_take_to_load(
    tidb: FakeTidb, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "LOADED_MAX_S", 0.05)
    tidb.history[900] = tidb.history[500]
    tidb.loaded_ts = 899
    assert set(TidbSchemas(tidb.settings()).tables(CommitTs(900))) == {ORDERS, LEDGER}


def test_a_ddl_that_stays_done_holds_one_question_and_not_all_that_follow(tidb: FakeTidb, monkeypatch: pytest.MonkeyPatch) -> None:
    """A transaction that nobody ends keeps it so for hours, and each question holds the live changes."""
    now_s = 0.0

    def sleep(seconds: float) -> None:
        nonlocal now_s
        now_s += seconds

    monkeypatch.setattr(schema, "time", SimpleNamespace(monotonic=lambda: now_s, sleep=sleep))
    tidb.history[900] = tidb.history[500]
    tidb.loaded_ts = 899
    schemas, waited_s = TidbSchemas(tidb.settings()), []
    for newer in (None, None, 950, None):
        if newer is not None:
            tidb.history[newer] = tidb.history[500]
        before_s = now_s
        schemas.tables(CommitTs(900))
        waited_s.append(now_s - before_s)
    most_s = schema.LOADED_MAX_S + schema.LOADED_AGAIN_S
    assert schema.LOADED_MAX_S <= waited_s[0] <= most_s
    assert waited_s[1] == 0.0
    assert schema.LOADED_MAX_S <= waited_s[2] <= most_s, "of another one nobody knows"
    assert waited_s[3] == 0.0


def test_each_question_about_a_tso_has_a_set_of_its_own(tidb: FakeTidb) -> None:
    """The schemas that a SET has fixed stay as they are, also when the server has caught up."""
    schemas = TidbSchemas(tidb.settings())
    for _ in range(2):
        schemas.tables(CommitTs(500))
    assert sum(sql == "SET @@tidb_snapshot = '500'" for sql in tidb.statements) == 2


def test_a_partitioned_table_has_its_own_id_and_those_of_its_partitions_in_their_order(tidb: FakeTidb) -> None:
    result = TidbSchemas(tidb.settings()).tables()[LEDGER]
    assert (result.table_id, result.physical_ids) == (20, (22, 21))


def test_what_is_read_after_a_snapshot_is_of_the_present_again(tidb: FakeTidb) -> None:
    schemas = TidbSchemas(tidb.settings())
    schemas.tables(CommitTs(1))
    assert LEDGER in schemas.tables()


def test_a_tso_of_the_present_is_above_all_earlier_ones_and_leaves_no_transaction(tidb: FakeTidb) -> None:
    schemas = TidbSchemas(tidb.settings())
    assert [schemas.now_ts(), schemas.now_ts()] == [1001, 1002]
    assert tidb.statements[-1] == "ROLLBACK"


@pytest.mark.parametrize("code", [8055, 9006])
def test_a_time_that_is_garbage_collected_is_reported_at_once_with_the_way_out(tidb: FakeTidb, code: int) -> None:
    requests = []

    def refuse(sql: str) -> None:
        if "FROM information_schema" in sql and "ddl_jobs" not in sql:
            requests.append(sql)
            raise Refused(code, "GC life time is shorter than transaction duration")

    tidb.before = refuse
    with pytest.raises(SourceError, match=r"at TSO 499 is garbage-collected \(error \d+\)[^$]*tidb_gc_life_time") as caught:
        TidbSchemas(tidb.settings(retry_s=30)).tables(CommitTs(499))
    assert len(requests) == 1
    assert not caught.value.retryable


def test_an_outage_while_a_snapshot_is_read_is_one_that_passes(tidb: FakeTidb) -> None:
    def refuse(sql: str) -> None:
        if "tidb_snapshot = '4" in sql:
            raise Refused(9001, "PD server timeout")

    tidb.before = refuse
    with pytest.raises(SourceLost, match="as of TSO 499 failed"):
        TidbSchemas(tidb.settings()).tables(CommitTs(499))


def test_a_table_is_amid_a_ddl_from_its_begin_to_its_end_which_older_versions_report_in_seconds(tidb: FakeTidb) -> None:
    tidb.ddl_jobs = [(1, 90, 99), (2, 90, 100), (3, 90, None), (4, 101, None), (5, 90, "100.4"), (6, 90, "100.6")]
    schemas = TidbSchemas(tidb.settings())
    assert schemas.changing(range(1, 7), ts_at(100_500)) == {2, 3, 6}
    assert schemas.changing((), ts_at(100_500)) == frozenset()


@pytest.mark.parametrize(("text", "seconds"), [("10m0s", 600), ("24h0m0s", 86400), ("1h30m", 5400), ("90s", 90), ("10m", 600)])
def test_durations_are_gos(text: str, seconds: float) -> None:
    assert duration_s(text) == seconds
