"""The recorded schema changes at a real MariaDB, each once whatever dies when; and those that look alike when they are done twice."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from threading import Thread
from time import monotonic
from typing import Any

import pymysql
import pytest

from sidecar.adapters.tidb.schema import TidbSchemas
from sidecar.shared.errors import OwnershipLost, SinkError, UnsupportedDdl
from sidecar.shared.log.manifest import DdlRecord
from sidecar.shared.model.nouns import Column, ColumnDefinition, CommitTs, TableDefinition, TableName, TableSchema, ts_at
from sidecar.shared.mysql.flavour import Flavour
from sidecar.shared.mysql.roles import Role
from sidecar.shared.rowcodec.kv_layout import kv_table_of
from spark_merge.ddl.routes import Routes, routes_of
from spark_merge.port.contract import Head
from spark_merge.sinks.kit.position import PositionKeeper
from spark_merge.sinks.memory.positions import MemoryPositions
from spark_merge.sinks.mysql.create import make_tables
from spark_merge.sinks.mysql.ddl import DdlRunner, DdlSettings, Decided, Intent, MemoryDdlPosition
from spark_merge.sinks.mysql.ddl_picture import pictures
from spark_merge.sinks.mysql.position import Tasks, Underway
from spark_merge.sinks.mysql.sink import NotedDdls
from tests.lanes import LANE
from tests.support.eventually import PATIENCE_S
from tests.support.services.mariadb import MariaDb
from tests.support.services.mysql import PROGRAM
from tests.support.sql_target import OneConnection, definitions, head_of, recorded_heads

pytestmark = [pytest.mark.xdist_group("sql-target"), pytest.mark.recordings]

DIALECT = Flavour.MYSQL if PROGRAM else Flavour.MARIADB

ROUTES = routes_of("shop.*=>copied.*, warehouse.*=>warehouse_copy.*")
DATABASES = ("copied", "warehouse_copy", "app", "side")
STEPS = ("before the intent", "after the intent", "after the statement", "before done", "after done")
_DDL = re.compile(r"(CREATE|ALTER|DROP|TRUNCATE|RENAME)\b", re.IGNORECASE)


class Died(Exception):
    pass


class Deaths(MemoryDdlPosition):
    """A position, and connections, of a worker that dies once in each DDL: `at` a step."""

    def __init__(self, server: MariaDb, at: str = "") -> None:
        super().__init__()
        self._server = server
        self._at = at
        self._died: set[tuple[int, int]] = set()
        self.statements: list[str] = []

    def note_intent(self, intent: Intent) -> None:
        self._die("before the intent", intent)
        super().note_intent(intent)
        self._die("after the intent", intent)

    def note_done(self, intent: Intent) -> None:
        self._die("before done", intent)
        super().note_done(intent)
        self._die("after done", intent)

    def connect(self) -> OneConnection:
        connection = OneConnection(self._server, role=Role.ALTER_TARGET)
        plain = connection.rows

        def rows(sql: str, values: Any = None) -> tuple[tuple[Any, ...], ...]:
            answer = plain(sql, values)
            if _DDL.match(sql):
                self.statements.append(sql)
                noted = self.intent()
                assert noted is not None
                assert noted.statement == sql
                self._die("after the statement", noted)
            return answer

        connection.rows = rows  # type: ignore[method-assign]
        return connection

    def _die(self, step: str, intent: Intent) -> None:
        if step == self._at and (intent.seq, intent.number) not in self._died:
            self._died.add((intent.seq, intent.number))
            raise Died(step)


def runner(position: Deaths, routes: Routes | None = None, decided: Mapping[CommitTs, Decided] | None = None) -> DdlRunner:
    return DdlRunner(position.connect, position, DdlSettings("log-1", routes or Routes(), decided or {}, skip_views=True))


def carry_out(position: Deaths, head: Head, routes: Routes | None = None) -> None:
    """By one worker after another, until one gets through."""
    while True:
        try:
            return runner(position, routes).carry_out(head)
        except Died:
            pass


@pytest.fixture
def target(mariadb: MariaDb) -> Iterator[MariaDb]:
    yield mariadb
    mariadb.execute("SET foreign_key_checks = 0", *(f"DROP DATABASE IF EXISTS {database}" for database in DATABASES))


# ---- the recorded history ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("at", ["", *STEPS] if LANE.whole else ["", "after the intent", "after the statement"])
@pytest.mark.parametrize("name", ["ddl", "ddl-new"] if LANE.whole else ["ddl"])
def test_the_recorded_changes_end_in_the_sources_tables_whatever_step_a_worker_dies_at(target: MariaDb, name: str, at: str) -> None:
    heads = recorded_heads(name)
    session = OneConnection(target)
    make_tables(session, heads[0].schemas.values(), ROUTES)
    session.close()
    position = Deaths(target, at)
    for head in heads:
        carry_out(position, head, ROUTES)
        runner(position, ROUTES).carry_out(head)  # the segment was not accepted: again
    again = [one for one, count in Counter(position.statements).items() if count > 1]
    assert all("truncate" in one.lower() for one in again)
    assert len(set(position.statements)) == len(heads) - 1, "each once, and no view"
    schemas = TidbSchemas(target.settings()).tables()
    for table, schema in heads[-1].next_schemas.items():
        assert (schemas[ROUTES.target(table)].columns, schemas[ROUTES.target(table)].key) == (schema.columns, schema.key), table
    assert {table for table in schemas if table.schema in DATABASES} == {ROUTES.target(table) for table in heads[-1].next_schemas}


def test_both_architectures_histories_leave_the_tables_that_are_made_from_the_end(target: MariaDb) -> None:
    heads = recorded_heads("ddl-new")
    session = OneConnection(target)
    make_tables(session, heads[0].schemas.values(), ROUTES)
    position = Deaths(target)
    for head in heads:
        carry_out(position, head, ROUTES)
    grown = definitions(target, "copied", "warehouse_copy")
    target.execute("DROP DATABASE copied")
    make_tables(session, heads[-1].next_schemas.values(), ROUTES)
    session.close()
    made = definitions(target, "copied", "warehouse_copy")
    assert grown.keys() == made.keys()
    assert {table for table in made if sorted(grown[table].splitlines()) != sorted(made[table].splitlines())} == set()


# ---- DDLs that look alike when they are done twice --------------------------------------------------------------------


def ddl(query: str, *, table: str = "t", seq: int = 0, ts: int = 0) -> Head:
    return head_of(seq, [DdlRecord(CommitTs(ts or ts_at(1_700_000_000_000, seq + 1)), "app", table, query)], {}, {})


def texts(server: MariaDb, table: str) -> list[str]:
    return [str(row[0]) for row in server.execute(f"SELECT v FROM app.{table} ORDER BY v")]


@pytest.fixture
def two_tables(target: MariaDb) -> MariaDb:
    target.execute(
        "CREATE DATABASE app",
        *(f"CREATE TABLE app.{one} (id int primary key, v varchar(20))" for one in ("a", "b")),
        "INSERT INTO app.a VALUES (1, 'of a')",
        "INSERT INTO app.b VALUES (1, 'of b')",
    )
    return target


@pytest.mark.parametrize("at", STEPS)
def test_names_that_are_swapped_are_swapped_once(two_tables: MariaDb, at: str) -> None:
    position = Deaths(two_tables, at)
    carry_out(position, ddl("RENAME TABLE `a` TO `tmp`, `b` TO `a`, `tmp` TO `b`"))
    assert (texts(two_tables, "a"), texts(two_tables, "b")) == (["of b"], ["of a"])
    assert len(position.statements) == 1


@pytest.mark.parametrize("at", STEPS)
def test_a_partition_is_exchanged_once(two_tables: MariaDb, at: str) -> None:
    two_tables.execute(
        "CREATE TABLE app.parted (id int primary key, v varchar(20)) PARTITION BY RANGE (id) (PARTITION p1 VALUES LESS THAN (9), PARTITION"
        " P2 VALUES LESS THAN MAXVALUE)",
        "INSERT INTO app.parted VALUES (2, 'of p1')",
    )
    position = Deaths(two_tables, at)
    carry_out(position, ddl("alter table parted exchange partition p1 with table a", table="parted"))
    assert (texts(two_tables, "a"), texts(two_tables, "parted")) == (["of p1"], ["of a"])
    assert len(position.statements) == 1


@pytest.mark.parametrize("at", STEPS)
def test_a_table_that_is_dropped_and_made_again_under_its_name(two_tables: MariaDb, at: str) -> None:
    position = Deaths(two_tables, at)
    for seq, query in enumerate(("DROP TABLE `a`", "CREATE TABLE a (id bigint primary key, v text)", "TRUNCATE a", "TRUNCATE a")):
        carry_out(position, ddl(query, table="a", seq=seq))
        if query.startswith("CREATE"):
            two_tables.execute("INSERT INTO app.a VALUES (1, 'new')")
    assert texts(two_tables, "a") == []
    assert len(set(position.statements)) == 3


@pytest.mark.parametrize("at", STEPS)
def test_a_swap_that_ticdc_reports_as_two_renames_is_one(two_tables: MariaDb, at: str) -> None:
    ts = ts_at(1_700_000_000_000)
    records = [DdlRecord(ts, "app", to, f"RENAME TABLE `app`.`{one}` TO `app`.`{to}`;") for one, to in (("a", "b"), ("b", "a"))]
    columns = (Column("id", "int"), Column("v", "text"))
    tables = {(name := TableName("app", one)): TableSchema(name, columns, ("id",)) for one in ("a", "b")}
    position = Deaths(two_tables, at)
    carry_out(position, head_of(0, records, tables, tables))
    runner(position).carry_out(head_of(0, records, tables, tables))
    assert (texts(two_tables, "a"), texts(two_tables, "b")) == (["of b"], ["of a"])
    assert len(position.statements) == 1


def test_several_ddls_of_one_segment_go_on_where_a_worker_died(two_tables: MariaDb) -> None:
    ts = ts_at(1_700_000_000_000)
    records = [DdlRecord(ts, "app", one, f"ALTER TABLE app.{one} RENAME TO app.{one}2") for one in ("a", "b")]
    position = Deaths(two_tables, "after the statement")
    carry_out(position, head_of(4, records, {}, {}))
    assert (texts(two_tables, "a2"), texts(two_tables, "b2")) == (["of a"], ["of b"])
    assert len(position.statements) == 2


def test_of_a_drop_of_two_tables_each_is_reported_by_itself(two_tables: MariaDb) -> None:
    position = Deaths(two_tables)
    for seq, table in enumerate(("a", "b")):
        carry_out(position, ddl("drop table a, b", table=table, seq=seq))
    assert position.statements == ["DROP TABLE `app`.`a`", "DROP TABLE `app`.`b`"]
    carry_out(position, ddl("drop table a, b", table="b", seq=2))
    assert len(position.statements) == 2, "what is not there needs no drop"


# ---- what cannot be decided, and what the operator decides --------------------------------------------------------------


def without_ids(target: MariaDb) -> Callable[[], OneConnection]:
    """An account without PROCESS."""
    target.execute("DROP USER IF EXISTS plain@'%'", "CREATE USER plain@'%' IDENTIFIED BY 'x'", "GRANT ALL ON app.* TO plain@'%'")
    return lambda: OneConnection(target, user="plain", password="x")


def test_a_swap_of_equal_tables_that_has_no_ids_stops_with_both_pictures(two_tables: MariaDb) -> None:
    position = MemoryDdlPosition()
    swap = ddl("RENAME TABLE a TO tmp, b TO a, tmp TO b")
    at = swap.ddls[0].commit_ts
    settings = DdlSettings("log-1")
    connect = without_ids(two_tables)
    DdlRunner(connect, position, settings).carry_out(swap)
    noted = position.intent()
    assert noted is not None
    assert noted.done
    position.note_intent(Intent(noted.seq, noted.number, noted.statement, noted.since, noted.before))  # died before it was noted as done
    with pytest.raises(SinkError, match=r"(?s)is not known. Before it:\n  app\.a: ids None, CREATE TABLE .*now:.*ddl-done.*ddl-again"):
        DdlRunner(connect, position, settings).carry_out(swap)
    assert texts(two_tables, "a") == ["of b"]
    DdlRunner(connect, position, DdlSettings("log-1", decided={at: "done"})).carry_out(swap)
    assert texts(two_tables, "a") == ["of b"]
    DdlRunner(connect, position, DdlSettings("log-1", decided={at: "again"})).carry_out(swap)
    assert texts(two_tables, "a") == ["of a"]


def test_a_table_that_is_there_before_create_is_refused(two_tables: MariaDb) -> None:
    position = Deaths(two_tables)
    for query in ("create table a (id int)", "create table if not exists a (id int)"):
        with pytest.raises(SinkError, match=r"app\.a is at the target already"):
            carry_out(position, ddl(query, table="a"))
    assert position.statements == []


def test_what_the_target_refuses_is_reported_with_the_statement_and_is_not_under_way(two_tables: MariaDb) -> None:
    position = Deaths(two_tables)
    head = ddl("alter table a add column v int", table="a")
    for _ in range(2):
        with pytest.raises(
            SinkError, match=r"segment 0, DDL at commit_ts \d+, 'alter table a add column v int': the target answered .*1060"
        ):
            carry_out(position, head)
    noted = position.intent()
    assert noted is not None
    assert (noted.done, noted.seq, noted.number) == (True, 0, -1)


# what the target rejects, what somebody does there then for another reason, what removes the cause, what shows the DDL
REJECTED: dict[str, tuple[str, str, str]] = {
    "alter table a add unique u (v)": ("ALTER TABLE app.a ADD COLUMN w INT", "DELETE FROM app.a WHERE id = 2", "ADD UNIQUE|UNIQUE KEY `u`"),
    "alter table a modify v varchar(3)": ("ALTER TABLE app.a COMMENT 'x'", "UPDATE app.a SET v = 'of'", "varchar\\(3\\)"),
    "alter table a add column w int, drop column x": ("ALTER TABLE app.a ADD KEY (v)", "ALTER TABLE app.a ADD COLUMN x INT", "`w` int"),
    "create index i on a (w)": ("ALTER TABLE app.a ALTER v SET DEFAULT 'x'", "ALTER TABLE app.a ADD COLUMN w INT", "KEY `i`"),
}


@pytest.mark.parametrize("at", ["", "before done", "after done"])
@pytest.mark.parametrize("query", REJECTED)
def test_what_somebody_changes_after_a_rejection_is_no_trace_of_the_ddl(two_tables: MariaDb, query: str, at: str) -> None:
    """Whatever the worker dies at that learned of the rejection; the next one tries again before anybody has changed anything."""
    otherwise, cause, trace = REJECTED[query]
    two_tables.execute("INSERT INTO app.a VALUES (2, 'of a')")
    position = Deaths(two_tables, at)
    for _ in range(2):
        with pytest.raises(SinkError, match="the target answered"):
            carry_out(position, ddl(query, table="a"))
    two_tables.execute(otherwise)
    with pytest.raises(SinkError, match="the target answered"):
        carry_out(position, ddl(query, table="a"))
    two_tables.execute(cause)
    carry_out(position, ddl(query, table="a"))
    assert re.search(trace, definitions(two_tables, "app")[TableName("app", "a")])
    noted = position.intent()
    assert noted is not None
    assert (noted.done, noted.number) == (True, 0)


def test_a_table_that_somebody_makes_after_a_rejection_is_not_the_ddls(two_tables: MariaDb) -> None:
    position = Deaths(two_tables)
    head = ddl("create table c (id int, id int)", table="c")
    with pytest.raises(SinkError, match="the target answered"):
        carry_out(position, head)
    two_tables.execute("CREATE TABLE app.c (x int)")
    with pytest.raises(SinkError, match=r"app\.c is at the target already"):
        carry_out(position, head)


def test_what_a_segment_has_before_a_rejected_ddl_is_not_done_again(two_tables: MariaDb) -> None:
    ts = ts_at(1_700_000_000_000)
    records = [
        DdlRecord(ts, "app", "a", "TRUNCATE TABLE app.a"),
        DdlRecord(CommitTs(ts + 1), "app", "b", "ALTER TABLE app.b ADD KEY (x)"),
        DdlRecord(CommitTs(ts + 2), "app", "b", "TRUNCATE TABLE app.b"),
    ]
    position = Deaths(two_tables)
    for _ in range(2):
        with pytest.raises(SinkError, match="ADD KEY"):
            carry_out(position, head_of(4, records, {}, {}))
    two_tables.execute("INSERT INTO app.a VALUES (3, 'later')", "ALTER TABLE app.b ADD COLUMN x INT")
    carry_out(position, head_of(4, records, {}, {}))
    assert (texts(two_tables, "a"), texts(two_tables, "b")) == (["later"], [])


@pytest.mark.parametrize("reached", [False, True])
def test_a_statement_whose_answer_is_lost_is_under_way(two_tables: MariaDb, *, reached: bool) -> None:
    """Whether the server has carried it out, the tables show."""
    position = Deaths(two_tables)

    def lost() -> OneConnection:
        connection = position.connect()
        plain = connection.rows

        def rows(sql: str, values: Any = None) -> tuple[tuple[Any, ...], ...]:
            answer = plain(sql, values) if reached or not _DDL.match(sql) else ()
            if _DDL.match(sql):
                raise pymysql.err.OperationalError(2013, "Lost connection to MySQL server during query")
            return answer

        connection.rows = rows  # type: ignore[method-assign]
        return connection

    head = ddl("alter table a add column w int", table="a")
    with pytest.raises(SinkError, match="2013"):
        DdlRunner(lost, position, DdlSettings("log-1")).carry_out(head)
    noted = position.intent()
    assert noted is not None
    assert (noted.done, noted.number) == (False, 0)
    carry_out(position, head)
    assert len(position.statements) == 1
    assert "`w`" in definitions(two_tables, "app")[TableName("app", "a")]


def test_an_exchange_that_is_rejected_without_ids_is_known_to_be_none(two_tables: MariaDb) -> None:
    two_tables.execute(
        "CREATE TABLE app.parted (id int primary key, v varchar(20)) PARTITION BY RANGE (id) (PARTITION p1 VALUES LESS THAN (9))",
        "ALTER TABLE app.a ADD COLUMN w INT",
    )
    position, connect = MemoryDdlPosition(), without_ids(two_tables)
    head = ddl("alter table parted exchange partition p1 with table a", table="parted")
    for _ in range(2):
        with pytest.raises(SinkError, match="the target answered"):
            DdlRunner(connect, position, DdlSettings("log-1")).carry_out(head)
    two_tables.execute("ALTER TABLE app.a DROP COLUMN w")
    DdlRunner(connect, position, DdlSettings("log-1")).carry_out(head)
    assert texts(two_tables, "parted") == ["of a"]


def test_what_is_not_understood_stops_before_anything_is_noted(two_tables: MariaDb) -> None:
    position = Deaths(two_tables)
    with pytest.raises(UnsupportedDdl, match=r"recover table s.*what comes back"):
        carry_out(position, ddl("recover table s"))
    assert position.noted is None


def test_what_an_alter_leaves_has_the_columns_of_the_log(two_tables: MariaDb) -> None:
    columns = (Column("id", "int", nullable=False), Column("w", "text"))
    after = {TableName("app", "a"): TableSchema(TableName("app", "a"), columns, ("id",))}
    head = head_of(0, [DdlRecord(ts_at(1_700_000_000_000), "app", "a", "alter table a comment 'x'")], {}, after)
    with pytest.raises(SinkError, match=r"after it app\.a has no column w"):
        carry_out(Deaths(two_tables), head)


# ---- a former worker ---------------------------------------------------------------------------------------------------


def test_a_previous_worker_that_slept_before_its_statement_carries_out_nothing(two_tables: MariaDb) -> None:
    position = Deaths(two_tables)
    head = ddl("RENAME TABLE a TO tmp, b TO a, tmp TO b")

    class Sleeps(MemoryDdlPosition):
        def note_intent(self, intent: Intent) -> None:
            position.note_intent(intent)
            carry_out(position, head)  # by the worker after it, while this one sleeps

    with pytest.raises(SinkError, match="the target answered"):
        DdlRunner(lambda: OneConnection(two_tables), Sleeps(), DdlSettings("log-1")).carry_out(head)
    assert texts(two_tables, "a") == ["of b"]
    assert len(position.statements) == 1


def test_a_worker_that_was_replaced_before_it_held_the_lock_carries_out_nothing(two_tables: MariaDb) -> None:
    """It has read the intent of a worker that died, and is frozen until another one has carried the DDL out and rows have come."""
    store = MemoryPositions[Underway, Tasks]()
    died, frozen, later = (PositionKeeper[Underway, Tasks](store, log_id="log-1", remedy="") for _ in range(3))
    head, settings = ddl("TRUNCATE TABLE a", table="a"), DdlSettings("log-1")

    def unable() -> OneConnection:
        connection = OneConnection(two_tables)
        connection.rows = partial(_without_ddl, connection.rows)  # type: ignore[method-assign]
        return connection

    def overtaken() -> OneConnection:
        later.open(None)
        DdlRunner(partial(OneConnection, two_tables), NotedDdls(later), settings).carry_out(head)
        two_tables.execute("INSERT INTO app.a VALUES (2, 'later')")
        return OneConnection(two_tables)

    died.open(None)
    with pytest.raises(Died):
        DdlRunner(unable, NotedDdls(died), settings).carry_out(head)
    frozen.open(None)
    with pytest.raises(OwnershipLost):
        DdlRunner(overtaken, NotedDdls(frozen), settings).carry_out(head)
    assert texts(two_tables, "a") == ["later"]


def _without_ddl(plain: Callable[..., tuple[tuple[Any, ...], ...]], sql: str, values: Any = None) -> tuple[tuple[Any, ...], ...]:
    if _DDL.match(sql):
        raise Died(sql)
    return plain(sql, values)


def test_a_statement_of_a_previous_worker_that_still_runs_is_waited_for(two_tables: MariaDb) -> None:
    reader, previous = OneConnection(two_tables, autocommit=False), OneConnection(two_tables)
    before = pictures(previous, DIALECT, [TableName("app", "a")])
    reader.rows("SELECT * FROM app.a")  # its transaction holds the table's definition
    previous.rows("SELECT GET_LOCK('log-1', 0)")
    running = Thread(target=previous.rows, args=("ALTER TABLE app.a ADD COLUMN w int",))
    running.start()
    give_up = monotonic() + 60
    while not two_tables.execute("SELECT 1 FROM information_schema.processlist WHERE INFO LIKE 'ALTER TABLE app.a%'"):
        assert monotonic() < give_up
    position = Deaths(two_tables)
    head = ddl("alter table a add column w int", table="a")
    position.noted = Intent(0, 0, "ALTER TABLE app.a ADD COLUMN w int", "", before).as_json()
    with pytest.raises(SinkError, match=r"connection \d+ of the target, .* is still at a DDL: ALTER TABLE app\.a"):
        carry_out(position, head)
    reader.close()
    running.join(PATIENCE_S)
    assert not running.is_alive()
    carry_out(position, head)
    assert position.statements == [], "it was done meanwhile"
    previous.close()


# ---- values ------------------------------------------------------------------------------------------------------------


def test_a_new_columns_current_timestamp_is_the_moment_of_the_ddl(two_tables: MariaDb) -> None:
    head = ddl("alter table a add column at datetime(3) default current_timestamp(3)", table="a", ts=ts_at(1_700_000_000_777))
    carry_out(Deaths(two_tables), head)
    assert str(two_tables.execute("SELECT at FROM app.a")[0][0]) == "2023-11-14 22:13:20"


def test_a_new_table_without_a_charset_has_that_of_the_log(two_tables: MariaDb) -> None:
    name = TableName("app", "new")
    definition = TableDefinition((ColumnDefinition("v", "varchar(5)"),), charset="latin1", collation="latin1_bin")
    after = {name: TableSchema(name, (), (), definition=definition)}
    records = [DdlRecord(ts_at(1_700_000_000_000), "app", "new", "create table new (v varchar(5))")]
    carry_out(Deaths(two_tables), head_of(0, records, {}, after))
    assert "latin1_bin" in definitions(two_tables, "app")[name]


@pytest.mark.parametrize("name", ["ddl", "ddl-new"])
def test_a_recorded_column_with_current_timestamp_has_the_sources_value_in_rows_that_were_there(target: MariaDb, name: str) -> None:
    (head,) = [one for one in recorded_heads(name) if "current_timestamp" in one.ddls[0].query.lower()]
    table = TableName("shop", "event_log")
    truth = {column.column.name: column.absent for column in kv_table_of(head.next_schemas[table]).columns}["extra"]
    assert truth is not None
    session = OneConnection(target)
    make_tables(session, [head.schemas[table]], ROUTES)
    session.rows("INSERT INTO copied.event_log (id, kind, at) VALUES (1, 1, '2026-01-01')")
    session.close()
    carry_out(Deaths(target), head, ROUTES)
    ((result,),) = target.execute("SELECT CAST(extra AS CHAR) FROM copied.event_log")
    assert result == truth
