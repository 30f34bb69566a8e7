"""What nobody waits for any more is ended at TiDB, which does not see that its client has gone."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pymysql
import pytest

from sidecar.shared.errors import SourceError
from sidecar.shared.mysql.account import Account
from sidecar.shared.mysql.retry import carried_out
from sidecar.shared.mysql.roles import Role
from sidecar.shared.mysql.session import MysqlSession
from sidecar.shared.resultset.packets import read_packets
from tests.support.eventually import PATIENCE_S
from tests.support.services.fake_tidb import FIRST_CONNECTION, FakeTidb, Refused

SLOW = "SELECT c FROM `shop`.`slow`"
KILL = f"KILL TIDB QUERY {FIRST_CONNECTION}"


@pytest.fixture
def tidb(tmp_path: Path) -> Iterator[FakeTidb]:
    with FakeTidb(tmp_path) as fake:
        yield fake


def slow(tidb: FakeTidb) -> tuple[threading.Event, threading.Event]:
    """The slow statement has come; let it go on. A KILL lets it go on too."""
    came, go = threading.Event(), threading.Event()

    def before(sql: str) -> None:
        if sql == SLOW:
            came.set()
            assert go.wait(PATIENCE_S), "nobody ended it"
        if sql.startswith("KILL"):
            go.set()

    tidb.before = before
    return came, go


@pytest.mark.parametrize("how", ["rows", "packets"])
def test_a_statement_that_is_interrupted_is_killed_by_another_connection(tidb: FakeTidb, how: str) -> None:
    came, go = slow(tidb)
    session = MysqlSession(Account.of(tidb.settings()), Role.READ_SOURCE)
    read = (lambda: read_packets(session, SLOW, 1)) if how == "packets" else (lambda: session.rows(SLOW))
    errors: list[Exception] = []

    def reader() -> None:
        try:
            carried_out(session, read, doing="reading", stopped=lambda: True)
        except SourceError as error:
            errors.append(error)

    thread = threading.Thread(target=reader)
    thread.start()
    assert came.wait(PATIENCE_S)
    session.interrupt()
    thread.join(PATIENCE_S)
    assert go.is_set()
    assert KILL in tidb.statements
    assert len(errors) == 1


@pytest.mark.parametrize("role", Role)
def test_only_a_write_to_a_target_is_not_killed_when_it_is_given_up(tidb: FakeTidb, role: Role) -> None:
    """Its transaction is rolled back with its connection."""
    came, go = slow(tidb)
    session = MysqlSession(Account.of(tidb.settings()), role)
    with ThreadPoolExecutor() as pool:
        call = pool.submit(session.rows, SLOW)
        assert came.wait(PATIENCE_S)
        session.interrupt()
        assert isinstance(call.exception(PATIENCE_S), pymysql.err.OperationalError)
    session.close()
    go.set()
    assert (KILL in tidb.statements) is not role.writes_target


def test_a_transaction_whose_connection_is_gone_is_not_committed_on_another_one(tidb: FakeTidb) -> None:
    session = MysqlSession(Account.of(tidb.settings()), Role.WRITE_TARGET)

    def write() -> None:
        with session.transaction():
            session.close()
            session.rows("SELECT @@tidb_current_ts")

    with pytest.raises(pymysql.err.MySQLError):
        write()
    assert "COMMIT" not in tidb.statements


def test_a_statement_whose_answer_does_not_come_in_time_is_killed_before_it_is_sent_again(
    tidb: FakeTidb, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sidecar.shared.mysql.account.ANSWER_GRACE_S", 0.0)
    slow(tidb)
    session = MysqlSession(Account.of(tidb.settings(statement_timeout_s=3.0)), Role.READ_SOURCE)
    with pytest.raises(pymysql.err.OperationalError, match="2013"):
        session.rows(SLOW)
    session.close()
    assert tidb.statements[-1] == KILL


@pytest.mark.parametrize("refused", [None, Refused(1317, "interrupted"), Refused(3024, "too long")])
def test_what_the_server_has_ended_is_not_killed(tidb: FakeTidb, refused: Refused | None) -> None:
    def before(sql: str) -> None:
        if refused is not None and sql == "SELECT @@tidb_current_ts":
            raise refused

    tidb.before = before
    session = MysqlSession(Account.of(tidb.settings()), Role.READ_SOURCE)
    with nullcontext() if refused is None else pytest.raises(pymysql.err.MySQLError, match=str(refused.code)):
        session.rows("SELECT @@tidb_current_ts")
    session.close()
    assert not any(sql.startswith("KILL") for sql in tidb.statements)


def test_where_the_server_is_gone_nobody_gets_an_error_that_there_is_nothing_to_kill(tidb: FakeTidb) -> None:
    came, go = slow(tidb)
    session = MysqlSession(Account.of(tidb.settings()), Role.READ_SOURCE)
    errors: list[type[Exception]] = []

    def reader() -> None:
        try:
            session.rows(SLOW)
        except pymysql.err.MySQLError as error:
            session.close()
            errors.append(type(error))

    thread = threading.Thread(target=reader)
    thread.start()
    assert came.wait(PATIENCE_S)
    tidb.close()
    thread.join(PATIENCE_S)
    go.set()
    assert errors == [pymysql.err.OperationalError]


def test_a_session_that_is_interrupted_while_it_connects_asks_nothing(tidb: FakeTidb, monkeypatch: pytest.MonkeyPatch) -> None:
    session, connect = MysqlSession(Account.of(tidb.settings()), Role.READ_SOURCE), socket.create_connection

    def connected(*place: Any, **options: Any) -> socket.socket:
        session.interrupt()
        return connect(*place, **options)

    monkeypatch.setattr(socket, "create_connection", connected)
    with pytest.raises(pymysql.err.OperationalError, match="ended by us"):
        session.rows("SELECT @@tidb_current_ts")
    assert "SELECT @@tidb_current_ts" not in tidb.statements


def test_an_interrupt_does_not_make_a_connection_plain_under_who_uses_it(tidb: FakeTidb) -> None:
    """As ssl.SSLSocket.shutdown does, after which what is sent next is sent without TLS, and who reads hears a ValueError."""

    class Encrypted(socket.socket):
        plain = False

        def shutdown(self, how: int) -> None:
            self.plain = True
            super().shutdown(how)

    session, connection = MysqlSession(Account.of(tidb.settings()), Role.READ_SOURCE), pymysql.connect(host="-", defer_connect=True)
    ours, theirs = socket.socketpair()
    with Encrypted(fileno=ours.detach()) as encrypted, theirs:
        connection._sock, session._connection = encrypted, connection
        session.interrupt()
        assert theirs.recv(1) == b""
        assert not encrypted.plain
