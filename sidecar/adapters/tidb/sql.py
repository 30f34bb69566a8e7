"""One session with TiDB (or a server that speaks its protocol): how it is set up, which errors pass, what they mean.

- A session reads the present: stale reads, old timestamps and snapshots that the cluster may have as defaults are switched
  off, because a chunk must be read inside its window; so are READ-COMMITTED, under which a SELECT reads later than its transaction's
  TSO, and `sql_select_limit`, which cuts information_schema too. A variable that this version does not have is no danger.
- Times are UTC, text is utf8mb4, and statements end by themselves after `statement_timeout_s`. TiDB does not end all of them, and does
  not see that nobody waits any more: what is given up is killed, by a connection of its own.
- Errors are told apart by code, and TiDB's 1105, which is any error without one, by the few texts that pass. `passes` are those that
  another attempt, on a fresh connection, can do without; all others end the command. Each becomes a SourceError with the way out.
- One thread uses a session; `interrupt` may come from another one and wakes it. A process that is told to stop wakes all who ask
  (`end_questions`): a database that does not answer must not hold it.
"""

from __future__ import annotations

import math
import re
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from io import RawIOBase
from threading import Event
from typing import Any, TypeVar

import pymysql
import stamina

from sidecar.config import SourceSection, Tls, read_secret
from sidecar.core.model import MARK_TABLE
from sidecar.errors import ConfigError, SourceError, SourceLost
from sidecar.resultset.packets import pieces, sent

T = TypeVar("T")
Row = tuple[Any, ...]

CONNECT_TIMEOUT_S = 10.0
ANSWER_GRACE_S = 10.0
"""The server ends a statement by itself; so much later it counts as lost."""

RETRY_WAIT_MAX_S = 2.0

KILL_TIMEOUT_S = 2.0
"""For each step of ending what was given up: its thread has CLOSE_WAIT_S of the source to end itself."""

_SELECT_ROWS_MAX = (1 << 64) - 1

_PACKET_BYTES_MAX = 1 << 30
"""The protocol's own limit of a value."""

_UNKNOWN_VARIABLE = 1193

_PASSING = frozenset(
    {
        0, 2002, 2003, 2006, 2013, 2055,  # the client has no connection any more
        1040, 1203, 1053, 1077, 1079, 1152, 1158, 1159, 1160, 1161, 1184, 1927,  # the server is full, stops, or dropped us
        1205, 1213, 1020, 1317,  # lock wait, deadlock, record changed, interrupted
        1969, 3024,  # the statement took too long (MariaDB, MySQL and TiDB)
        8002, 8005, 8022, 8027, 8028,  # TiDB: conflicts, schema behind
        8229, 8252, 8253, 9001, 9002, 9003, 9004, 9005, 9006, 9007, 9008, 9010, 9011, 9012, 9013,  # PD, TiKV, TiFlash
    }
)  # fmt: skip
"""Codes after which another attempt can succeed (pingcap/tidb pkg/errno/errcode.go). 0: PyMySQL's closed connection."""

_WITHOUT_A_CODE = 1105
_PASSING_TEXTS = re.compile(
    r"information schema is (out of date|changed)|\[(tikv|pd):\d+\]|(tikv|pd) server timeout"
    r"|region (is )?unavailable|not[ _]?leader|epoch[ _]?not[ _]?match|region[ _]?not[ _]?found|server[ _]?is[ _]?busy"
    r"|rpc error|context (deadline exceeded|canceled)|connection (refused|reset)|i/o timeout|broken pipe|\bEOF\b",
    re.IGNORECASE,
)
"""Of TiDB's 1105: schemas behind (pingcap/tidb dbutil, Retryable1105Msgs), and what the way to TiKV and PD says. All else that has no
code, a bad regular expression or JSON path, would be the same the next time."""

NO_RIGHT = frozenset({1044, 1142, 1143, 1227})
_NO_LOGIN = frozenset({1045, 1698, 1130})
NOT_THERE = frozenset({1049, 1051, 1054, 1146})
TOO_LONG = frozenset({1969, 3024})


class SourceFlavour(Enum):
    TIDB = "TiDB"
    MARIADB = "MariaDB"
    MYSQL = "MySQL"


@dataclass(frozen=True, slots=True)
class Account:
    """How to log in. Read once: the password's file may go away. `answer_max_s`: for whoever waits less than a statement may take."""

    host: str
    port: int
    user: str
    password: str
    tls: Tls
    statement_timeout_s: float
    retry_s: float
    answer_max_s: float = math.inf

    @classmethod
    def of(cls, settings: SourceSection) -> Account:
        """Raises ConfigError if the password's file cannot be read."""
        return cls(
            host=settings.host,
            port=settings.port,
            user=settings.user,
            password=read_secret(settings.password_file),
            tls=settings.tls,
            statement_timeout_s=settings.statement_timeout_s,
            retry_s=settings.retry_s,
        )

    def __str__(self) -> str:
        return f"{self.user}@{self.host}:{self.port}"


class TidbSession:
    """A connection that opens when it is needed. After an error that passes it is closed, and opens afresh when asked again."""

    def __init__(self, account: Account) -> None:
        self.account = account
        self._connection: pymysql.Connection[Any] | None = None
        self._opening: pymysql.Connection[Any] | None = None
        self._flavour = SourceFlavour.TIDB
        self._number = 0
        self._under_way = False
        self._interrupted = False

    @property
    def flavour(self) -> SourceFlavour:
        self._open()
        return self._flavour

    def rows(self, sql: str, values: Sequence[object] | None = None) -> tuple[Row, ...]:
        """All rows. `values` fill `%s`; without them `%` is itself. Raises pymysql's errors: see `carried_out`."""
        with self._asking() as connection, connection.cursor() as cursor:
            cursor.execute(sql, values)
            return tuple(cursor.fetchall())

    @contextmanager
    def packets(self, sql: str) -> Iterator[tuple[bytes, RawIOBase]]:
        """packets.PacketSession."""
        with self._asking() as connection:
            stream = sent(connection, sql)
            try:
                yield pieces(stream)
            except pymysql.err.MySQLError as error:
                self._under_way = _is_ours(error)
                self.close()
                raise
            except BaseException:
                self.close()
                raise

    def change(self, sql: str, values: Sequence[object]) -> int:
        """Carry out a write and return how many rows it changed."""
        with self._asking() as connection, connection.cursor() as cursor:
            return int(cursor.execute(sql, values))

    def close(self) -> None:
        """Without a word on this connection: the server may not be listening. A statement that it is still busy with is ended."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        connection._force_close()
        if self._under_way:
            self._under_way = False
            _kill(self.account, self._flavour, self._number)

    def interrupt(self) -> None:
        """For good: whoever waits for an answer hears that the connection is lost, and no other one is opened."""
        self._interrupted = True
        sock = getattr(self._opening or self._connection, "_sock", None)  # PyMySQL offers no way to wake a reader
        if sock is not None:
            try:
                socket.socket.shutdown(sock, socket.SHUT_RDWR)  # TLS's own would first make it plain, under whoever reads or writes
            except OSError:
                return  # it is closed already

    @contextmanager
    def _asking(self) -> Iterator[pymysql.Connection[Any]]:
        """The connection, with a statement under way until the server has ended it."""
        connection = self._open()
        self._under_way = True
        try:
            yield connection
        except pymysql.err.MySQLError as error:
            self._under_way = self._under_way and _is_ours(error)
            raise
        self._under_way = False

    def _open(self) -> pymysql.Connection[Any]:
        self._check_not_ended()
        if self._connection is None:
            connection = self._opening = _connection(self.account)
            try:
                connection.connect()
                self._check_not_ended()  # meanwhile, when there was no socket to wake anybody by
                self._flavour, self._number = _set_up(connection, self.account)
            except BaseException:
                connection._force_close()
                raise
            finally:
                self._opening = None
            self._connection = connection
        return self._connection

    def _check_not_ended(self) -> None:
        if self._interrupted:
            raise pymysql.err.OperationalError(2013, "the session was ended by us")


def _kill(account: Account, flavour: SourceFlavour, number: int) -> None:
    """End what connection `number` waits for. If that cannot be, nobody needs to hear it: who waited is told an error of his own, and the
    statement has its timeout."""
    with suppress(pymysql.err.MySQLError, ConfigError):
        connection = _connection(account, connect_s=KILL_TIMEOUT_S, answer_s=KILL_TIMEOUT_S)
        try:
            connection.connect()
            connection.query(f"KILL {'TIDB ' if flavour is SourceFlavour.TIDB else ''}QUERY {number}")
        finally:
            connection._force_close()


def _connection(account: Account, *, connect_s: float = CONNECT_TIMEOUT_S, answer_s: float = math.inf) -> pymysql.Connection[Any]:
    """Not connected yet."""
    timeout_s = min(account.statement_timeout_s + ANSWER_GRACE_S, account.answer_max_s, answer_s)
    tls = account.tls
    try:
        return pymysql.connect(
            host=account.host,
            port=account.port,
            user=account.user,
            password=account.password,
            charset="utf8mb4",
            autocommit=True,
            connect_timeout=max(int(min(connect_s, timeout_s)), 1),
            read_timeout=timeout_s,
            write_timeout=timeout_s,
            max_allowed_packet=_PACKET_BYTES_MAX,
            ssl_ca=tls.ca_file or None,
            ssl_cert=tls.cert_file or None,
            ssl_key=tls.key_file or None,
            ssl_verify_cert=bool(tls.ca_file) or None,
            ssl_verify_identity=bool(tls.ca_file) or None,
            ssl_disabled=not tls.ca_file,
            defer_connect=True,
        )
    except OSError as error:  # a file of TLS: what the network says comes as pymysql's own error
        raise ConfigError(
            f"source.tls cannot be used: {error}", hint="check the paths of source.tls and that this user may read them"
        ) from error


def _set_up(connection: pymysql.Connection[Any], account: Account) -> tuple[SourceFlavour, int]:
    """What the server is, and its number of this connection: the handshake has only half of TiDB's."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT VERSION(), CONNECTION_ID()")
        version, number = cursor.fetchone() or ("", 0)
        flavour = SourceFlavour.TIDB if "TiDB" in version else SourceFlavour.MARIADB if "MariaDB" in version else SourceFlavour.MYSQL
        for statement in setup_statements(flavour, statement_timeout_s=account.statement_timeout_s):
            try:
                cursor.execute(statement)
            except pymysql.err.MySQLError as error:
                if code_of(error) != _UNKNOWN_VARIABLE:
                    raise
    return flavour, int(number)


def setup_statements(flavour: SourceFlavour, *, statement_timeout_s: float) -> tuple[str, ...]:
    """What a session of ours sets. Strict: nothing that does not fit is cut; zero dates are legal."""
    common = (
        "SET NAMES utf8mb4",
        "SET time_zone = '+00:00'",
        "SET sql_mode = 'STRICT_TRANS_TABLES'",
        f"SET sql_select_limit = {_SELECT_ROWS_MAX}",
    )
    match flavour:
        case SourceFlavour.TIDB:
            present = (
                "SET tidb_snapshot = ''",
                "SET tidb_low_resolution_tso = OFF",
                "SET tidb_read_staleness = 0",
                "SET tidb_enable_external_ts_read = OFF",
                "SET transaction_isolation = 'REPEATABLE-READ'",
            )
            return (*common, *present, f"SET max_execution_time = {int(statement_timeout_s * 1000)}")
        case SourceFlavour.MARIADB:
            return (*common, f"SET max_statement_time = {statement_timeout_s}")
        case SourceFlavour.MYSQL:
            return (*common, f"SET max_execution_time = {int(statement_timeout_s * 1000)}")


# ---- errors ---------------------------------------------------------------------------------------------------------


_asked: set[TidbSession] = set()
_ending = Event()


def end_questions() -> None:
    """For a process that is told to stop: whoever waits for an answer in `carried_out`, in any thread, hears that the connection is lost,
    and nothing is asked any more."""
    _ending.set()
    for session in tuple(_asked):
        session.interrupt()


def carried_out(session: TidbSession, action: Callable[[], T], *, doing: str, stopped: Callable[[], bool] = lambda: False) -> T:
    """What `action` returns, tried again on a fresh connection while its errors pass, for `retry_s`, and not after `stopped`.

    `action` must be harmless to repeat. Raises SourceError that says what was being done (`doing`) and the way out.
    """
    account = session.account

    def again(error: Exception) -> bool:
        return passes(error) and not stopped() and not _ending.is_set()

    _asked.add(session)
    if _ending.is_set():
        session.interrupt()
    try:
        for attempt in stamina.retry_context(again, attempts=None, timeout=account.retry_s, wait_max=RETRY_WAIT_MAX_S):
            with attempt:
                try:
                    return action()
                except pymysql.err.MySQLError as error:
                    if passes(error):
                        session.close()
                    raise
    except (pymysql.err.MySQLError, UnicodeDecodeError) as error:
        raise source_error(error, account, doing) from error
    finally:
        _asked.discard(session)
    raise AssertionError("an attempt returns or raises")


def passes(error: Exception) -> bool:
    """Whether another attempt on a fresh connection can succeed without anybody changing anything."""
    if not isinstance(error, pymysql.err.MySQLError):
        return False
    code = code_of(error)
    return code in _PASSING or (code == _WITHOUT_A_CODE and _PASSING_TEXTS.search(str(error.args[-1])) is not None)


def _is_ours(error: pymysql.err.MySQLError) -> bool:
    """The client's own, not the server's answer: what was asked may go on there."""
    return code_of(error) < 1000 or 2000 <= code_of(error) < 3000


def is_away(error: SourceError) -> bool:
    """Whether the server was not to be had for all of `retry_s`, so that the same may be asked later. A statement that took too long
    each time would do so again."""
    return isinstance(error, SourceLost) and isinstance(error.__cause__, Exception) and code_of(error.__cause__) not in TOO_LONG


def code_of(error: Exception) -> int:
    """The server's or client's error code, -1 for an error without one."""
    code = error.args[0] if error.args else -1
    return code if isinstance(code, int) else -1


def source_error(error: Exception, account: Account, doing: str) -> SourceError:
    code = code_of(error)
    text = error.args[1] if code >= 0 and len(error.args) > 1 else error
    kind = SourceLost if passes(error) else SourceError
    return kind(f"{account}: {doing} failed: {text} (error {code})", hint=_hint(error, code, account))


def _hint(error: Exception, code: int, account: Account) -> str:
    if code in NO_RIGHT:
        return (
            f"give the account its rights: GRANT SELECT ON `schema`.* TO '{account.user}'@'%' for each dumped schema, and no more; "
            f"GRANT INSERT, UPDATE ON {MARK_TABLE} TO '{account.user}'@'%'"
        )
    if code in _NO_LOGIN:
        return "check source.user and source.password_file, and from which hosts the account may log in"
    if code in NOT_THERE:
        return (
            f"if it is {MARK_TABLE} that is missing, create it as README.md shows; else a DDL changed the table: see that no event "
            "filter of the changefeed leaves DDLs out"
        )
    if code in TOO_LONG:
        return "raise source.statement_timeout_s and restart the sidecar, or dumpresume with smaller chunks (--chunk-rows)"
    if isinstance(error, UnicodeDecodeError):
        return "a text column holds bytes that are no text of its character set: repair the row, or leave the table out of the dump"
    if passes(error):
        return f"it was tried for {account.retry_s:g} s: see that TiDB is up and reachable; a dump waits for it and continues automatically"
    return "this error is not one that passes: look it up in TiDB's error codes, remove its cause, then dumpresume"
