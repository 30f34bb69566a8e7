"""A connection to the target, and what its errors mean: which pass by themselves, and what the operator does about the others.

- Nothing is altered silently: strict mode, and a write that is answered with a warning has failed.
- Whoever is frozen within a transaction loses its connection after IDLE_S, so that a successor need not wait for it for ever.
- Errors are told apart by their code. The password is in no text: what the server says is told, what it was told is not.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from enum import Enum
from io import RawIOBase
from typing import Any, TypeVar

import pymysql
from pymysql.constants import CLIENT

from sidecar.errors import SinkError
from sidecar.process.progress import may_take
from sidecar.resultset.packets import pieces, sent
from spark_merge.sinks.options import option, whole_seconds
from spark_merge.sinks.server import CertifiedServer

T = TypeVar("T")
Values = Sequence[object]

IDLE_S = 60
"""After that the server ends a connection that says nothing, and what its transaction holds."""

OPENING_ANSWERS = 5
"""Of a connection that opens: the greeting, the login, and the statements of `_set_up`."""

LOCK_WAIT_S = 10
RETRY_S = 30.0
"""How long what passes is tried again here; then the loop of the sink does, and tells it."""

RETRY_FIRST_S, RETRY_MAX_S = 0.05, 2.0

SQL_MODE = "STRICT_ALL_TABLES,STRICT_TRANS_TABLES,NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES,NO_ENGINE_SUBSTITUTION"
"""Zero dates and a zero in an AUTO_INCREMENT column are values as others."""

DEADLOCK, LOCK_WAIT = 1213, 1205
_AWAY = frozenset({0, 2002, 2003, 2006, 2013, 2014, 2055, 1040, 1053, 1152, 1153, 1158, 1159, 1160, 1161, 1184, 1203, 1226, 1927, 4031})
_FULL = frozenset({1021, 1114})
_PASSING = _AWAY - {1153} | _FULL | {
    DEADLOCK, LOCK_WAIT, 1020, 1317, 1637, 1290, 1836,
    8002, 8005, 8022, 8027, 8028, 8229, 9001, 9002, 9003, 9004, 9005, 9006, 9007, 9008, 9010, 9011, 9012, 9013,
}  # fmt: skip
"""The client's lost connections, the server's own ends and limits, a disk or tablespace without room, conflicts; read-only servers that are
about to take over; TiDB's."""

NO_SCHEMA, NO_TABLE, NO_COLUMN = 1049, 1146, 1054
_NO_LOGIN = frozenset({1045, 1698, 1130, 1251, 1129})
_NO_RIGHT = frozenset({1044, 1142, 1143, 1227, 1370})
_UNSAFE = 1592
"""A note on the server's own binlog format, which says nothing of the rows."""


class SqlFlavour(Enum):
    TIDB = "TiDB"
    MARIADB = "MariaDB"
    MYSQL = "MySQL"


@dataclass(frozen=True, slots=True)
class SqlServer(CertifiedServer):
    """The times are TiCDC's, in seconds."""

    SECRET_KIND = "mysql"
    PASSWORD = "TICDC_DUMP_MYSQL_PASSWORD"

    connect_s: int = option("timeout", whole_seconds(), 120, "How long a connection may take to open.")
    read_s: int = option("read-timeout", whole_seconds(), 120, "How long the sink waits for an answer.")
    write_s: int = option("write-timeout", whole_seconds(), 120, "How long the sink waits until a statement is sent.")

    @property
    def answer_s(self) -> int:
        """The longest that a statement may take."""
        return self.write_s + self.read_s


class Warned(Exception):
    """A write that the server has carried out otherwise than told."""


class SqlSession:
    """Opens when it is needed; after an error that passes it is closed, and opens afresh. One thread at a time."""

    def __init__(self, server: SqlServer) -> None:
        self.server = server
        self._connection: pymysql.Connection[Any] | None = None
        self._flavour = SqlFlavour.MYSQL
        self._packet_max = 0

    @property
    def connected(self) -> bool:
        return self._connection is not None

    @property
    def flavour(self) -> SqlFlavour:
        self._open()
        return self._flavour

    @property
    def packet_max(self) -> int:
        """Bytes of the longest statement that the server takes."""
        self._open()
        return self._packet_max

    def rows(self, sql: str, values: Values | None = None) -> tuple[tuple[Any, ...], ...]:
        """Raises pymysql's errors, as all here."""
        with self._open().cursor() as cursor, self._answered():
            cursor.execute(sql, values)
            return tuple(cursor.fetchall())

    @contextmanager
    def packets(self, sql: str) -> Iterator[tuple[bytes, RawIOBase]]:
        """resultset.packets.PacketSession."""
        connection = self._open()
        with self._answered():
            stream = sent(connection, sql)
        try:
            with self._answered():
                begun = pieces(stream)
            yield begun
        except BaseException:
            self.close()
            raise

    def change(self, sql: str, values: Values | None = None) -> int:
        """How many rows it matched. Raises Warned where the server warns."""
        with self._open().cursor() as cursor, self._answered():
            matched: int = cursor.execute(sql, values)
            if cursor.warning_count:
                cursor.execute("SHOW WARNINGS")
                if told := [text for _, code, text in cursor.fetchall() if code != _UNSAFE]:
                    raise Warned("; ".join(dict.fromkeys(told)))
            return matched

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Committed at the end of the body, rolled back if that raises."""
        connection = self._open()
        with self._answered():
            connection.begin()
        try:
            yield
            with self._answered():
                connection.commit()
        except BaseException:
            self._undo()
            raise

    def close(self) -> None:
        """Never raises. A transaction that is open is rolled back by the server."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection._force_close()

    def _answered(self) -> AbstractContextManager[None]:
        """Around a statement."""
        return may_take(self.server.answer_s)

    def _undo(self) -> None:
        if self._connection is None:
            return
        try:
            with self._answered():
                self._connection.rollback()
        except (pymysql.err.MySQLError, OSError):
            self.close()

    def _open(self) -> pymysql.Connection[Any]:
        if self._connection is None:
            with may_take(self.server.connect_s + OPENING_ANSWERS * self.server.answer_s):
                self._connection = self._opened()
        return self._connection

    def _opened(self) -> pymysql.Connection[Any]:
        connection = _connected(self.server)
        try:
            self._flavour, self._packet_max = _set_up(connection)
        except BaseException:
            connection._force_close()
            raise
        return connection


def _connected(server: SqlServer) -> pymysql.Connection[Any]:
    return pymysql.connect(
        host=server.host,
        port=server.port,
        user=server.user,
        password=server.password(),
        charset="utf8mb4",
        autocommit=True,
        client_flag=CLIENT.FOUND_ROWS,
        connect_timeout=server.connect_s,
        read_timeout=server.read_s,
        write_timeout=server.write_s,
        max_allowed_packet=1 << 30,
        ssl=server.tls_context() if server.tls else None,
        ssl_disabled=not server.tls,
    )


def _set_up(connection: pymysql.Connection[Any]) -> tuple[SqlFlavour, int]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT VERSION(), @@max_allowed_packet")
        version, packet_max = cursor.fetchone() or ("", 0)
        flavour = SqlFlavour.TIDB if "TiDB" in version else SqlFlavour.MARIADB if "MariaDB" in version else SqlFlavour.MYSQL
        cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        common = f"time_zone = '+00:00', sql_mode = '{SQL_MODE}', foreign_key_checks = 0, wait_timeout = {IDLE_S}"
        own = "tidb_txn_mode = 'pessimistic', allow_auto_random_explicit_insert = 1" if flavour is SqlFlavour.TIDB else "unique_checks = 1"
        cursor.execute(f"SET {common}, innodb_lock_wait_timeout = {LOCK_WAIT_S}, {own}")
    return flavour, int(packet_max)


# ---- errors ----------------------------------------------------------------------------------------------------------


def code_of(error: BaseException) -> int:
    """The server's or client's, -1 for an error without one."""
    code = error.args[0] if error.args else -1
    return code if isinstance(code, int) else -1


def passes(error: BaseException) -> bool:
    """Whether the same may go well on a fresh connection, without anybody changing anything."""
    return isinstance(error, pymysql.err.MySQLError) and code_of(error) in _PASSING


def retried(session: SqlSession, action: Callable[[int], T], *, doing: str, hint: str = "") -> T:
    """What `action` returns, again while its errors pass; it is given how often it was tried before, since what failed may have been
    done. Raises SinkError that says what was being done."""
    give_up, wait_s = time.monotonic() + RETRY_S, RETRY_FIRST_S
    for attempt in range(1 << 30):
        try:
            return action(attempt)
        except (pymysql.err.MySQLError, Warned) as error:
            if code_of(error) in _AWAY:
                session.close()
            if not passes(error) or time.monotonic() + wait_s > give_up:
                raise sink_error(error, session.server, doing, hint) from error
        time.sleep(wait_s)
        wait_s = min(wait_s * 2, RETRY_MAX_S)
    raise AssertionError("it is tried until it is given up")


def sink_error(error: BaseException, server: SqlServer, doing: str, hint: str = "") -> SinkError:
    code = code_of(error)
    text = error.args[1] if code >= 0 and len(error.args) > 1 else error
    told = f" (error {code})" if code >= 0 else ""
    return SinkError(f"{server}: {doing}: {text}{told}", hint=_hint(code, server) or hint or _UNKNOWN)


_UNKNOWN = "look the error up in the target's manual and remove its cause; the sink continues automatically"


def _hint(code: int, server: SqlServer) -> str:
    if code in _NO_LOGIN:
        return "check user, password and password-file of the sink's URI, and from which hosts the account may log in"
    if code in _NO_RIGHT:
        return f"give {server.user} its rights: deploy/SQL-SINK.md lists them"
    if code in (DEADLOCK, LOCK_WAIT):
        return "see who else writes to the target's tables and holds locks there; the sink continues automatically"
    if code in _FULL:
        return "make room at the target: its disk, or the tablespace, is full; the sink continues automatically"
    if code in _PASSING:
        return "see that the target is up, may be written to and can be reached; the sink continues automatically"
    return ""
