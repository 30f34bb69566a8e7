"""One session with a server: a connection that opens when it is needed, is set up for its role, and is ended when it is given up.

- After an error that passes it is closed (retry.py), and opens again with the next statement.
- TiDB does not end every statement at its timeout, and does not see that nobody waits any more: what is given up is killed, by a connection
  of its own. A write to a target is not: its transaction is rolled back, and its slot is fenced.
- Each statement reports progress to the watch of the work, with the time that it may take (process/progress.py).
- One thread uses a session; `interrupt` may come from another one and wakes it.
"""

from __future__ import annotations

import math
import socket
import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from io import RawIOBase
from typing import Any, Protocol

import pymysql
from pymysql.constants import CLIENT

from sidecar.shared.errors import TicdcDumpError
from sidecar.shared.mysql.errors import NamedServer, Warned, is_clients
from sidecar.shared.mysql.flavour import Flavour, flavour_of
from sidecar.shared.mysql.roles import Role
from sidecar.shared.mysql.setup import set_up
from sidecar.shared.process.patience import patience_s
from sidecar.shared.process.progress import may_take
from sidecar.shared.resultset.packets import pieces, sent

Row = tuple[Any, ...]

KILL_TIMEOUT_S = 2.0
"""For each step of ending what was given up: its thread has CLOSE_WAIT_S of the source to end itself."""

OPENING_ANSWERS = 5
"""Of a connection that opens: the greeting, the login, the character set, the version, the transactions' kind. The variables are one
more, or some more where the server lacks one."""

_PACKET_BYTES_MAX = 1 << 30
"""The protocol's own limit of a value."""

_UNSAFE = 1592
"""A note on the server's own binlog format, which says nothing of the rows."""


@dataclass(frozen=True, slots=True)
class Login:
    """What a connection needs. Short-lived: it holds the password. `read_s`, `write_s`: how long the client waits."""

    host: str
    port: int
    user: str
    password: str
    tls: ssl.SSLContext | None
    connect_s: float
    read_s: float
    write_s: float


class MysqlServer(NamedServer, Protocol):
    """A server of the source or of a sink. Its text names it in errors, without a password."""

    @property
    def statement_s(self) -> float:
        """How long the server lets a statement run, 0 for no limit."""

    def login(self) -> Login:
        """Raises ConfigError or SinkError for a password or a file of TLS that cannot be used."""


class MysqlSession:
    """Methods raise pymysql's errors: see `retry.carried_out`. A session sends nothing before its first statement."""

    def __init__(self, server: MysqlServer, role: Role) -> None:
        self.server, self.role = server, role
        self._connection: pymysql.Connection[Any] | None = None
        self._opening: pymysql.Connection[Any] | None = None
        self._flavour = Flavour.TIDB
        self._answer_s = 0.0
        self._packet_max = 0
        self._number = 0
        self._under_way = False
        self._interrupted = False

    @property
    def connected(self) -> bool:
        return self._connection is not None

    @property
    def flavour(self) -> Flavour:
        self._open()
        return self._flavour

    @property
    def packet_max(self) -> int:
        """Bytes of the longest statement that the server takes."""
        self._open()
        return self._packet_max

    def rows(self, sql: str, values: Sequence[object] | None = None) -> tuple[Row, ...]:
        """All rows. `values` fill `%s`; without them `%` is itself."""
        with self._statement() as connection, connection.cursor() as cursor:
            cursor.execute(sql, values)
            return tuple(cursor.fetchall())

    @contextmanager
    def packets(self, sql: str) -> Iterator[tuple[bytes, RawIOBase]]:
        """packets.PacketSession. The caller reports the progress of what it reads."""
        try:
            with self._under() as connection:
                with may_take(self._answer_s):
                    begun = pieces(sent(connection, sql))
                yield begun
        except BaseException:
            self.close()
            raise

    def change(self, sql: str, values: Sequence[object] | None = None) -> int:
        """Carry out a write and return how many rows it changed (at the source) or matched (at a target). Raises Warned where a target
        warns."""
        with self._statement() as connection, connection.cursor() as cursor:
            rows = int(cursor.execute(sql, values))
            if cursor.warning_count and self.role.writes_target:
                cursor.execute("SHOW WARNINGS")
                if texts := [text for _, code, text in cursor.fetchall() if code != _UNSAFE]:
                    raise Warned("; ".join(dict.fromkeys(texts)))
            return rows

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Committed at the end of the body, rolled back if that raises."""
        with self._statement() as connection:
            connection.begin()
        try:
            yield
            with may_take(self._answer_s):
                connection.commit()  # of this connection: a later one would have nothing to commit, and no error
        except BaseException:
            self._roll_back()
            raise

    def close(self) -> None:
        """Never raises, and sends nothing on this connection: the server may not be listening. A transaction that is open is rolled back
        by the server, a statement that it is still busy with is ended."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        connection._force_close()
        if self._under_way:
            self._under_way = False
            if not self.role.writes_target:
                _kill(self.server, self._flavour, self._number)

    def interrupt(self) -> None:
        """For good: a thread that waits for an answer gets "connection lost", and no other connection is opened."""
        self._interrupted = True
        sock = getattr(self._opening or self._connection, "_sock", None)  # PyMySQL offers no way to wake a reader
        if sock is not None:
            try:
                socket.socket.shutdown(sock, socket.SHUT_RDWR)  # TLS's own would first make it plain, under the thread that reads or writes
            except OSError:
                return  # it is closed already

    @contextmanager
    def _statement(self) -> Iterator[pymysql.Connection[Any]]:
        with self._under() as connection, may_take(self._answer_s):
            yield connection

    @contextmanager
    def _under(self) -> Iterator[pymysql.Connection[Any]]:
        """The connection, with a statement under way until the server has ended it."""
        connection = self._open()
        self._under_way = True
        try:
            yield connection
        except pymysql.err.MySQLError as error:
            self._under_way = self._under_way and is_clients(error)
            raise
        except Warned:
            self._under_way = False
            raise
        self._under_way = False

    def _roll_back(self) -> None:
        if self._connection is None:
            return
        try:
            with may_take(self._answer_s):
                self._connection.rollback()
        except (pymysql.err.MySQLError, OSError):
            self.close()

    def _open(self) -> pymysql.Connection[Any]:
        self._check_not_ended()
        if self._connection is None:
            login = self.server.login()
            self._answer_s = login.write_s + login.read_s
            connection = self._opening = _connection(login, self.role)
            try:
                with may_take(login.connect_s + OPENING_ANSWERS * self._answer_s):
                    connection.connect()
                    self._check_not_ended()  # meanwhile, when there was no socket to wake anybody by
                    self._set_up(connection)
            except BaseException:
                connection._force_close()
                raise
            finally:
                self._opening = None
            self._connection = connection
        return self._connection

    def _set_up(self, connection: pymysql.Connection[Any]) -> None:
        """Query the number of the connection: the handshake has only half of TiDB's."""
        with connection.cursor() as cursor:
            cursor.execute("SELECT VERSION(), CONNECTION_ID(), @@max_allowed_packet")
            version, number, packet_max = cursor.fetchone() or ("", 0, 0)
            self._flavour, self._number, self._packet_max = flavour_of(str(version)), int(number), int(packet_max)
            set_up(cursor, self.role, self._flavour, statement_s=self.server.statement_s)

    def _check_not_ended(self) -> None:
        if self._interrupted:
            raise pymysql.err.OperationalError(2013, "the session was ended by us")


def _kill(server: MysqlServer, flavour: Flavour, number: int) -> None:
    """End what connection `number` waits for. A failure needs no report: the caller has an error of its own, and the statement has its
    timeout."""
    with suppress(pymysql.err.MySQLError, TicdcDumpError):
        login = server.login()
        waits = {name: min(getattr(login, name), KILL_TIMEOUT_S) for name in ("connect_s", "read_s", "write_s")}
        connection = _connection(replace(login, **waits), Role.READ_SOURCE)
        try:
            connection.connect()
            connection.query(f"KILL {'TIDB ' if flavour is Flavour.TIDB else ''}QUERY {number}")
        finally:
            connection._force_close()


def _connection(login: Login, role: Role) -> pymysql.Connection[Any]:
    """Not connected yet. A slot or a position counts as written if the UPDATE matched it, a mark only if the UPDATE changed its row."""
    return pymysql.connect(
        host=login.host,
        port=login.port,
        user=login.user,
        password=login.password,
        charset="utf8mb4",
        autocommit=True,
        client_flag=0 if role.at_source else CLIENT.FOUND_ROWS,
        connect_timeout=max(math.floor(patience_s(login.connect_s)), 1),
        read_timeout=login.read_s,
        write_timeout=login.write_s,
        max_allowed_packet=_PACKET_BYTES_MAX,
        ssl=login.tls,
        ssl_disabled=login.tls is None,
        defer_connect=True,
    )
