"""What a real MariaDB does to the SQL sink: it goes away, is locked, refuses, lacks a table, cannot hold a value. Nothing is lost or
altered, and each error says what the operator does."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pyarrow as pa
import pymysql
import pytest

from sidecar.shared.errors import SinkError
from sidecar.shared.log.storage import open_folder
from sidecar.shared.model.nouns import Column, CommitTs, Seq, TableName, TableSchema
from sidecar.shared.mysql import errors, setup
from sidecar.shared.mysql.errors import Warned, failure
from sidecar.shared.mysql.roles import Role
from sidecar.shared.mysql.session import MysqlSession
from sidecar.shared.process.background import Background
from sidecar.shared.process.kept_secrets import keep
from spark_merge.port.contract import Accepted, Owner
from spark_merge.sinks.kit.position import OutputState
from spark_merge.sinks.mysql import pool, server
from spark_merge.sinks.mysql.position import OwnedSlots, SqlBatch, Underway, position_of
from spark_merge.sinks.mysql.server import SqlServer
from spark_merge.sinks.mysql.server_table import read_table
from spark_merge.sinks.mysql.statements import Puts, SqlTexts, SqlWrite
from spark_merge.sinks.mysql.tables import target_table
from spark_merge.sinks.mysql.weights import Weights
from spark_merge.sinks.mysql.workers import SqlBlock, SqlJob, SqlWorker
from spark_merge.testing.histories import SEGMENTS, RandomHistory, change_of, rows_of_change, write_log
from spark_merge.testing.story import Story
from tests.support.eventually import PATIENCE_S
from tests.support.services.mariadb import MariaDb
from tests.support.services.mysql import PROGRAM
from tests.support.sql_place import fill, history_place, room
from tests.support.standing import check_a_worker_waits
from tests.support.watched import deliver_watched

pytestmark = pytest.mark.xdist_group("sql-target")

numbers = itertools.count(1000)


def server_of(db: MariaDb, user: str = MariaDb.user, password: str = MariaDb.password) -> SqlServer:
    server = SqlServer(((db.host, db.port),), user)
    keep(SqlServer.SECRET_KIND, str(server), password)
    return server


@pytest.fixture
def story(mariadb: MariaDb, tmp_path: Path) -> Story:
    return Story(tmp_path, history_place(mariadb, next(numbers), tables=12), seed=11)


@pytest.fixture
def target(mariadb: MariaDb) -> Iterator[MysqlSession]:
    session = MysqlSession(server_of(mariadb), Role.WRITE_TARGET)
    yield session
    session.close()


def delivering(story: Story) -> Background:
    return Background(lambda _: story.finish(segments_max=1), name="delivers")


def end_of(work: Background) -> None:
    work.close(120)
    work.check()


def test_a_target_that_is_killed_and_comes_back_is_waited_for(story: Story, mariadb: MariaDb) -> None:
    story.delivery(segments_max=1).deliver()
    mariadb.kill()
    work = delivering(story)
    mariadb.start()
    end_of(work)
    story.check_end()


def test_a_target_that_stays_away_is_reported_and_the_next_attempt_goes_on(
    story: Story, mariadb: MariaDb, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "RETRY_S", 0.2)
    story.delivery(segments_max=1).deliver()
    mariadb.kill()
    try:
        with pytest.raises(SinkError, match="error 2003") as error:
            story.finish()
        assert "reached" in error.value.hint
    finally:
        mariadb.start()
    story.finish()
    story.check_end()


def test_a_worker_whose_only_sink_has_no_database_waits_for_it(tmp_path: Path, mariadb: MariaDb) -> None:
    check_a_worker_waits(tmp_path, history_place(mariadb, next(numbers), tables=12), stop=mariadb.stop, start=mariadb.start)


def test_a_target_that_is_full_says_so_and_goes_on_when_there_is_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "RETRY_S", 0.2)
    with MariaDb(tmp_path / "target", settings=room(24)) as small:
        story = Story(tmp_path, history_place(small, next(numbers), tables=12), seed=11)
        for table in story.tables:
            small.execute(f"ALTER TABLE {table} ADD COLUMN wide VARCHAR(8000) CHARACTER SET latin1 DEFAULT (REPEAT('x', 8000))")
        story.delivery(segments_max=1).deliver()
        fill(small)
        with pytest.raises(SinkError, match="full") as error:
            story.finish()
        assert "make room" in error.value.hint
        small.stop()
        small._settings = {**small._settings, **room(100)}
        small.start()
        story.finish()
        story.check_end()


def test_a_lock_of_somebody_else_is_waited_for(story: Story, mariadb: MariaDb, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also beyond the server's own patience."""
    monkeypatch.setattr(setup, "LOCK_WAIT_S", 1)
    monkeypatch.setattr(pool.OF_PROCESS, "_idle", [])
    story.delivery(segments_max=1).deliver()
    holder = mariadb.connect(autocommit=False)
    for table in story.tables:
        holder.cursor().execute(f"SELECT * FROM {table} FOR UPDATE")
    waited = Event()

    def passes(error: BaseException, role: Role) -> bool:
        waited.set()
        return errors.passes(error, role)

    monkeypatch.setattr("sidecar.shared.mysql.retry.passes", passes)
    work = delivering(story)
    assert waited.wait(PATIENCE_S)
    holder.rollback()
    holder.close()
    end_of(work)
    story.check_end()


def test_a_previous_worker_that_sleeps_in_a_transaction_loses_it(story: Story, mariadb: MariaDb, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its connection is ended by the server, and its successor comes through."""
    monkeypatch.setattr(setup, "IDLE_S", 1)
    sink = story.place.sink()
    batch, work = story.begin(sink)
    sleeper = MysqlSession(server_of(mariadb), Role.WRITE_TARGET)
    task, owner = batch.stages[0][0].id, work[0].writer.slots  # type: ignore[attr-defined]  # ours
    with pytest.raises(pymysql.err.MySQLError), sleeper.transaction():  # noqa: PT012  # it sleeps within
        assert owner.advance(sleeper, task, 0, known=0, done=1)
        story.finish()
        sleeper.rows("SELECT 1")
    story.check_end()


def test_who_may_not_log_in_is_reported_without_the_password(story: Story, mariadb: MariaDb) -> None:
    bad = MysqlSession(server_of(mariadb, "nobody", "hunter2"), Role.WRITE_TARGET)
    with pytest.raises(SinkError, match="Access denied") as error:
        position_of(bad, "x", log_id="l").look()
    assert "hunter2" not in str(error.value)
    assert "password" in error.value.hint


def test_a_user_who_may_not_write_gets_an_error_that_names_the_rights(story: Story, mariadb: MariaDb) -> None:
    mariadb.execute("DROP USER IF EXISTS poor@'%'", "CREATE USER poor@'%' IDENTIFIED BY 'x'")
    poor = MysqlSession(server_of(mariadb, "poor", "x"), Role.WRITE_TARGET)
    with pytest.raises(SinkError, match="denied") as error:
        position_of(poor, "not_there", log_id="l").open(None)
    assert "rights" in error.value.hint


def test_a_table_that_is_missing_is_named_and_goes_on_when_it_is_there(story: Story, mariadb: MariaDb) -> None:
    table = next(iter(sorted(story.tables)))
    mariadb.execute(f"DROP TABLE {table}")
    with pytest.raises(SinkError, match=f"table {table} is not at the target") as error:
        story.finish()
    assert "create-tables" in error.value.hint
    mariadb.execute(f"CREATE TABLE {table} (id VARCHAR(20), part INT, v VARCHAR(20), PRIMARY KEY (id, part))")
    story.finish()
    story.check_end()


def test_a_column_that_is_missing_is_named(story: Story, mariadb: MariaDb) -> None:
    table = next(iter(sorted(story.tables)))
    mariadb.execute(f"ALTER TABLE {table} DROP COLUMN v")
    with pytest.raises(SinkError, match=f"table {table} at the target has no column v"):
        story.finish()


@pytest.mark.parametrize(
    ("made", "problem"),
    [
        (
            "v VARCHAR(20) CHARACTER SET ascii",
            r"column v of s\.t\d+ is varchar\(20\) CHARACTER SET ascii at the target, .*'é' would be rejected",
        ),
        ("v VARCHAR(20) CHECK (v <> 'µ')", r"row \[.*\] of s\.t\d+, for s\.t\d+: .*v"),
    ],
)
def test_a_value_that_does_not_fit_stops_before_the_first_row_or_with_table_key_and_column(
    story: Story, mariadb: MariaDb, made: str, problem: str
) -> None:
    """A µ: nothing is altered on its way. What the target's types show is noticed before; a CHECK is not."""
    for table in story.tables:
        mariadb.execute(f"ALTER TABLE {table} MODIFY COLUMN {made}")
    with pytest.raises(SinkError, match=problem) as error:
        story.finish()
    assert "column" in error.value.hint
    for table in story.tables:
        assert mariadb.execute(f"SELECT COUNT(*) FROM {table} WHERE v LIKE '%?%'") == ((0,),)


def test_what_a_write_is_warned_of_is_an_error(target: MysqlSession, mariadb: MariaDb) -> None:
    mariadb.execute("DROP TABLE IF EXISTS s.warned", "CREATE DATABASE IF NOT EXISTS s", "CREATE TABLE s.warned (d DECIMAL(5, 1))")
    with pytest.raises(Warned, match="d"):
        target.change("INSERT INTO s.warned VALUES (1.25)")


def test_a_deadlock_is_done_again(target: MysqlSession, mariadb: MariaDb, monkeypatch: pytest.MonkeyPatch) -> None:
    times: list[int] = []
    advance = OwnedSlots.advance

    def deadlocked(self: OwnedSlots, *args: Any, **kwargs: Any) -> bool:
        times.append(1)
        if len(times) < 3:
            raise pymysql.err.OperationalError(1213, "Deadlock found")
        return advance(self, *args, **kwargs)

    monkeypatch.setattr(OwnedSlots, "advance", deadlocked)
    mariadb.execute("DROP DATABASE IF EXISTS locked")
    keeper = position_of(target, "locked", log_id="l")
    slots = OwnedSlots("locked", keeper.open(None).owner)
    keeper.change(Underway(SqlBatch(Seq(0), 1, "")), payload=[("a", 1)])
    worker = SqlWorker(MysqlSession(server_of(mariadb), Role.WRITE_TARGET), SqlJob(slots, "a", 10, batched=True), 0, known=0)
    worker.offer(SqlBlock([], 1))
    worker.drain()
    worker.close()
    assert len(times) == 3
    assert slots.done(target, "a") == [1]
    mariadb.execute("DROP DATABASE locked")


@pytest.mark.parametrize("ends", [True, False])
def test_a_row_beyond_max_allowed_packet_is_named_with_its_bytes_and_nothing_of_its_transaction_stays(
    target: MysqlSession, mariadb: MariaDb, monkeypatch: pytest.MonkeyPatch, ends: bool
) -> None:
    """Also of a transaction that is too long to be held, whose rows before it have gone to the target."""
    mariadb.execute("DROP DATABASE IF EXISTS large", "CREATE DATABASE large", "CREATE TABLE large.t (id INT PRIMARY KEY, v LONGTEXT)")
    monkeypatch.setattr(MysqlSession, "packet_max", 400)
    schema = TableSchema(TableName("large", "t"), (Column("id", "int"), Column("v", "text")), ("id",))
    table = read_table(target, schema.name)
    assert table is not None
    texts = SqlTexts(schema, target_table(schema, schema.name, table, target.flavour))
    columns = [["1", "2"], ["x", "y" * 900]]
    writes = [
        SqlWrite(number, texts, f"[{number}]", where, values)
        for number, (where, values) in enumerate(zip(texts.keys(columns[:1]), texts.rows(columns), strict=True))
    ]
    keeper = position_of(target, "large", log_id="l")
    slots = OwnedSlots("large", keeper.open(None).owner)
    keeper.change(Underway(SqlBatch(Seq(0), 1, "")), payload=[("a", 1)])
    worker = SqlWorker(MysqlSession(server_of(mariadb), Role.WRITE_TARGET), SqlJob(slots, "a", 10, batched=False), 0, known=0)
    blocks = [SqlBlock(writes, 2)] if ends else [SqlBlock(writes[:1], 1, ends=False), SqlBlock(writes[1:], 2)]

    def write() -> None:
        for block in blocks:
            worker.offer(block)
        worker.drain()

    with pytest.raises(SinkError, match=r"row \[1\] of large\.t, for large\.t: .*a statement of 9\d\d bytes") as error:
        write()
    worker.close()
    assert "max_allowed_packet" in error.value.hint
    assert mariadb.execute("SELECT COUNT(*) FROM large.t") == ((0,),)
    mariadb.execute("DROP DATABASE large")


@pytest.mark.parametrize("committed", [True, False])
def test_a_commit_whose_answer_is_lost_took_place_once_or_does_so_again(
    target: MysqlSession, mariadb: MariaDb, monkeypatch: pytest.MonkeyPatch, committed: bool
) -> None:
    """Of each swap: the first opening, the next one, a batch that begins, its acceptance."""
    commit, lose = pymysql.Connection.commit, [False]

    def lost(connection: Any) -> None:
        if not lose[0] or committed:
            commit(connection)
        if lose[0]:
            lose[0] = False
            raise pymysql.err.OperationalError(2013, "Lost connection to MySQL server during query")

    monkeypatch.setattr(pymysql.Connection, "commit", lost)
    mariadb.execute("DROP DATABASE IF EXISTS lost")
    owners = []
    for _ in range(2):
        lose[0] = True
        keeper = position_of(target, "lost", log_id="l")
        owners.append(keeper.open(None).owner)
    assert owners == ([Owner(0, 2), Owner(0, 4)] if committed else [Owner(0, 1), Owner(0, 2)])
    slots, underway = OwnedSlots("lost", owners[-1]), Underway(SqlBatch(Seq(0), 2, "keys"))
    lose[0] = True
    keeper.change(underway, payload=[("a", 2)])
    assert (keeper.stored(), slots.done(target, "a")) == (OutputState("l", owners[-1], None, underway), [0, 0])
    lose[0] = True
    keeper.accept(Accepted(Seq(0)), first=Seq(0))
    assert (keeper.stored(), slots.done(target, "a")) == (OutputState("l", owners[-1], Accepted(Seq(0))), None)
    assert lose == [False]
    mariadb.execute("DROP DATABASE lost")


def test_a_unique_key_that_came_amid_a_batch_makes_all_of_it_due_again(target: MysqlSession, mariadb: MariaDb) -> None:
    """Which worker has a row hangs on the keys, so what each has done says nothing any more."""
    mariadb.execute("DROP DATABASE IF EXISTS changed")
    keeper = position_of(target, "changed", log_id="l")
    slots = OwnedSlots("changed", keeper.open(None).owner)
    keeper.change(Underway(SqlBatch(Seq(0), 2, "one key")), payload=[("a", 2)])
    assert slots.advance(target, "a", 1, known=0, done=7)
    keeper.change(Underway(SqlBatch(Seq(0), 2, "one key")))
    assert slots.done(target, "a") == [0, 7]
    keeper.change(Underway(SqlBatch(Seq(0), 2, "two keys")), payload=[("a", 2)])
    assert slots.done(target, "a") == [0, 0]
    mariadb.execute("DROP DATABASE changed")


TEXTS = ["a", "A", "ä", "æ", "ae", "ß", "ss", "s", "é", "e", "é", "😀", "🎉", "a\xad", "İ", "i", "ﬁ", "fi", "Ω", "ω", "-", "中", "国"]


@pytest.mark.parametrize(
    "collation",
    [
        "utf8mb4_general_ci",
        "utf8mb4_unicode_ci",
        f"utf8mb4_{'0900' if PROGRAM else 'uca1400'}_ai_ci",
        "latin1_swedish_ci",
        "gbk_chinese_ci",
    ],
)
def test_texts_weigh_alike_exactly_where_the_target_takes_them_for_one(target: MysqlSession, collation: str) -> None:
    charset = collation.partition("_")[0]
    there = f"SELECT CONVERT(CONVERT(%s USING {charset}) USING utf8mb4) = BINARY %s"
    texts = [text for text in TEXTS if target.rows(there, (text, text))[0][0]]
    weights = Weights(target)(collation, texts)
    for one, other in itertools.combinations(texts, 2):
        sql = f"SELECT CONVERT(%s USING {charset}) COLLATE {collation} = CONVERT(%s USING {charset})"
        assert (weights[one] == weights[other]) == bool(target.rows(sql, (one, other))[0][0]), (one, other)


def test_unique_keys_are_read_with_their_prefixes_and_expressions(target: MysqlSession, mariadb: MariaDb) -> None:
    mariadb.execute(
        "CREATE DATABASE IF NOT EXISTS s", "DROP TABLE IF EXISTS s.keyed",
        "CREATE TABLE s.keyed (a INT PRIMARY KEY, b VARCHAR(20), c INT AS (a + 1), UNIQUE (b(3), a), UNIQUE (c), KEY (b))",
    )  # fmt: skip
    table = read_table(target, TableName("s", "keyed"))
    assert table is not None
    assert set(table.indexes) == {(("a", None),), (("b", 3), ("a", None)), (("c", None),)}
    assert [column.generated for column in table.columns] == [False, False, True]
    assert read_table(target, TableName("s", "not_there")) is None


def test_a_connection_is_kept_warm_for_the_next(mariadb: MariaDb) -> None:
    server, idle = server_of(mariadb), pool.IdleSessions()
    one = idle.borrowed(server)
    one.rows("SELECT 1")
    idle.given_back([one])
    assert idle.borrowed(server) is one
    one.close()


def test_a_target_that_is_slow_with_each_row_is_no_hang(mariadb: MariaDb, tmp_path: Path) -> None:
    """All rows are one piece of one task, whose workers are threads: only their statements are progress."""
    limit_s, each_s, table = 4.0, 0.15, TableName("s", "t0")
    changes = [change_of(table, CommitTs(1 + number), "INSERT", new=(f"{number}", "0", "x"), old=None) for number in range(80)]
    rows = [row for number, change in enumerate(changes) for row in rows_of_change(0, number, change)]
    history = RandomHistory([changes, *([] for _ in range(1, SEGMENTS))], rows, [[] for _ in range(SEGMENTS)], {})
    log = open_folder(str(tmp_path / "log"))
    write_log(log, history)
    place = history_place(mariadb, next(numbers), tables=1, max_txn_row="1", worker_count="2")
    mariadb.execute(f"CREATE TRIGGER s.slow BEFORE INSERT ON {table} FOR EACH ROW DO SLEEP({each_s})")
    result = deliver_watched(log, place.uri, hang_s=limit_s)
    assert result.returncode == 0, result.stderr
    assert float(result.stdout) > limit_s
    assert len(place.rows()[table]) == len(changes)


def test_a_dumps_delete_removes_the_row_of_exactly_its_text(target: MysqlSession) -> None:
    """The target's collation takes `ABC` for `abc`, whose row is there at the source."""
    database = f"exact{next(numbers)}"
    name = TableName(database, "t")
    target.change(f"CREATE DATABASE {database}")
    try:
        target.change(f"CREATE TABLE {name} (k varchar(9) CHARACTER SET latin1 COLLATE latin1_swedish_ci, n int, PRIMARY KEY (k, n))")
        target.change(f"INSERT INTO {name} VALUES ('abc', 1), ('d''e', 1), ('f', 2)")
        schema = TableSchema(name, (Column("k", "text"), Column("n", "int")), ("k", "n"))
        table = read_table(target, name)
        assert table is not None
        texts = SqlTexts(schema, target_table(schema, name, table, target.flavour))
        keys = pa.table({"k": ["ABC", "d'e", "f"], "n": ["1", "1", "1"]})
        for sql in Puts(0, texts, keys, deletes=True).statements(known=0, batched=True):
            target.change(sql)
        assert target.rows(f"SELECT k, n FROM {name} ORDER BY k") == (("abc", 1), ("f", 2))
    finally:
        target.change(f"DROP DATABASE {database}")


def test_a_json_that_is_too_deep_for_mariadbs_check_is_named_and_fits_a_longtext(mariadb: MariaDb, target: MysqlSession) -> None:
    deep = "[" * 32 + "]" * 32
    mariadb.execute("CREATE DATABASE deep", "CREATE TABLE deep.t (j JSON)")
    try:
        target.change("REPLACE INTO deep.t VALUES (%s)", (deep[1:-1],))
        if not PROGRAM:  # MySQL takes 100 levels, as TiDB
            with pytest.raises(pymysql.err.MySQLError) as caught:
                target.change("REPLACE INTO deep.t VALUES (%s)", (deep,))
            assert "MODIFY the column there to LONGTEXT" in failure(caught.value, target.server, target.role, "writing").hint
        mariadb.execute("ALTER TABLE deep.t MODIFY j LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin")
        target.change("REPLACE INTO deep.t VALUES (%s)", (deep,))
    finally:
        mariadb.execute("DROP DATABASE deep")
