"""Writes to the rig's tables from several sessions at a steady rate: what a busy source does, seeded.

Inserts, updates (also of the key), deletes, replaces, transactions of several rows over several tables, hot keys, and
deleted keys that come back. A session whose write loses (duplicate key, deadlock, connection gone with the server) continues
with its next one; every other error stops the workload and is raised by `stop`.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from types import TracebackType
from typing import Any, Protocol, Self

import pymysql

from sidecar.shared.model.nouns import TableName
from tests.tools.rig.binlog import MySqlAddress
from tests.tools.rig.columns import Table, read_tables
from tests.tools.rig.tables import SCHEMA, TABLES, RigTable, random_value

_DUPLICATE, _DEADLOCK, _LOCK_TIMEOUT = 1062, 1213, 1205
_LOST = frozenset((2002, 2003, 2006, 2013, 1053, 1927, 4031))
_RECONNECT_EVERY_S = 0.2

BURST_S_MAX = 1.0
"""How much of what a slow or absent server has cost is made up for."""

_STATEMENTS = ("insert", "update", "delete", "replace", "update key")
_WEIGHTS = (30, 40, 12, 10, 8)
_TRANSACTION_SHARE = 0.15
_HOT_SHARE, _HOT_KEYS = 0.3, 5


@dataclass(slots=True)
class WorkloadCounts:
    """What was committed: statements by kind, rows they changed, and what went wrong by error code."""

    statements: Counter[str] = field(default_factory=Counter)
    rows: int = 0
    errors: Counter[int] = field(default_factory=Counter)


class StatementMaker(Protocol):
    """Makes the statements of one session: kind, SQL and arguments."""

    def statement(self) -> tuple[str, str, list[Any]]: ...


class Writer:
    """Makes statements for one session. Not shared between threads."""

    def __init__(self, tables: dict[TableName, Table], numbers: Random) -> None:
        self._numbers = numbers
        self._tables = [(rig, tables[TableName(SCHEMA, rig.name)]) for rig in TABLES]

    def statement(self) -> tuple[str, str, list[Any]]:
        """Kind, SQL and arguments."""
        rig, table = self._numbers.choice(self._tables)
        (kind,) = self._numbers.choices(_STATEMENTS, _WEIGHTS)
        name, where = f"{SCHEMA}.{rig.name}", " and ".join(f"{column} = %s" for column in rig.key_columns)
        key = self._key(rig)
        if kind == "delete":
            return kind, f"delete from {name} where {where}", key
        if kind == "update key":
            assignments = ", ".join(f"{column} = %s" for column in rig.key_columns)
            return kind, f"update {name} set {assignments} where {where}", [*self._key(rig), *key]
        others = [column for column in table.columns if column.name not in rig.key_columns]
        if kind == "update":
            changed = self._numbers.sample(others, self._numbers.randint(1, len(others)))
            assignments = ", ".join(f"{column.name} = %s" for column in changed)
            return kind, f"update {name} set {assignments} where {where}", [*(self._value(c) for c in changed), *key]
        columns = [*rig.key_columns, *(column.name for column in others)]
        marks = ", ".join(["%s"] * len(columns))
        return kind, f"{kind} into {name} ({', '.join(columns)}) values ({marks})", [*key, *(self._value(c) for c in others)]

    def rows(self, rig: RigTable, table: Table, count: int) -> tuple[str, list[list[Any]]]:
        """An INSERT IGNORE and its rows, of `count` different keys."""
        others = [column for column in table.columns if column.name not in rig.key_columns]
        columns = [*rig.key_columns, *(column.name for column in others)]
        sql = f"insert ignore into {SCHEMA}.{rig.name} ({', '.join(columns)}) values ({', '.join(['%s'] * len(columns))})"
        keys = self._numbers.sample(range(rig.keys), min(count, rig.keys))
        return sql, [[*rig.key(number), *(self._value(column) for column in others)] for number in keys]

    def _key(self, rig: RigTable) -> list[Any]:
        hot = self._numbers.random() < _HOT_SHARE
        return list(rig.key(self._numbers.randrange(_HOT_KEYS if hot else rig.keys)))

    def _value(self, column: Any) -> Any:
        if column.name == "email":
            return f"User{self._numbers.randrange(2000)}@example.com"
        return random_value(column, self._numbers)


def connect(source: MySqlAddress) -> pymysql.Connection[Any]:
    """A session in UTC that may write zero dates."""
    connection = source.connect()
    with connection.cursor() as cursor:
        cursor.execute("set session sql_mode = '', session time_zone = '+00:00', session innodb_lock_wait_timeout = 5")
    return connection


def fill(source: MySqlAddress, *, rows: int, seed: int) -> None:
    """Put up to `rows` rows into each table."""
    connection = connect(source)
    try:
        with connection.cursor() as cursor:
            tables = read_tables(cursor)
            writer = Writer(tables, Random(seed))
            for rig in TABLES:
                cursor.executemany(*writer.rows(rig, tables[TableName(SCHEMA, rig.name)], rows))
    finally:
        connection.close()


class Workload:
    """`with Workload(source, writes_per_s=500) as workload`. `counts` may be read at any time. `writes_per_s` is in statements;
    `maker` makes them for each session (default: one row of the rig's tables each)."""

    def __init__(
        self,
        source: MySqlAddress,
        *,
        writes_per_s: float = 500,
        sessions: int = 4,
        seed: int = 1,
        maker: Callable[[Random], StatementMaker] | None = None,
    ) -> None:
        self.counts = WorkloadCounts()
        self._source = source
        self._every_s = sessions / writes_per_s
        self._stopping = threading.Event()
        self._written = threading.Condition()
        self._error: BaseException | None = None
        connection = source.connect()
        with connection.cursor() as cursor:
            tables = read_tables(cursor)
        connection.close()
        self._maker = maker or (lambda numbers: Writer(tables, numbers))
        self._threads = [
            threading.Thread(target=self._run, args=(Random(f"{seed} {number}"),), name=f"workload-{number}", daemon=True)
            for number in range(sessions)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def await_rows(self, rows: int, *, timeout_s: float) -> None:
        """Wait until so many more rows than now are written. Raises TimeoutError."""
        with self._written:
            wanted = self.counts.rows + rows
            if not self._written.wait_for(lambda: self.counts.rows >= wanted, timeout_s):
                raise TimeoutError(f"{wanted - self.counts.rows} of {rows} rows were not written in {timeout_s} s: {self.counts}")

    def stop(self) -> WorkloadCounts:
        """When it returns, everything that was written is committed. Raises what stopped a session."""
        self._stopping.set()
        for thread in self._threads:
            thread.join()
        if self._error is not None:
            raise self._error
        return self.counts

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def _run(self, numbers: Random) -> None:
        try:
            writer = self._maker(numbers)
            while not self._stopping.is_set():
                try:
                    self._session(writer, numbers)
                except pymysql.err.MySQLError as error:
                    if error.args[0] not in _LOST:
                        raise
                    self._count_error(error)
                    self._stopping.wait(_RECONNECT_EVERY_S)
        except BaseException as error:  # noqa: BLE001  (handed to the thread that stops it)
            self._error = error

    def _session(self, writer: StatementMaker, numbers: Random) -> None:
        connection = connect(self._source)
        try:
            due_s = time.monotonic()
            while not self._stopping.wait(max(0.0, due_s - time.monotonic())):
                size = numbers.randint(2, 8) if numbers.random() < _TRANSACTION_SHARE else 1
                if self._write(connection, [writer.statement() for _ in range(size)]):
                    due_s = max(due_s + size * self._every_s, time.monotonic() - BURST_S_MAX)
        finally:
            connection.close()

    def _write(self, connection: pymysql.Connection[Any], statements: list[tuple[str, str, list[Any]]]) -> bool:
        """One transaction; False if it lost."""
        done: Counter[str] = Counter()
        rows = 0
        try:
            with connection.cursor() as cursor:
                if len(statements) > 1:
                    cursor.execute("begin")
                for kind, sql, arguments in statements:
                    rows += cursor.execute(sql, arguments)
                    done[kind] += 1
                connection.commit()
        except (pymysql.err.IntegrityError, pymysql.err.OperationalError) as error:
            if error.args[0] not in (_DUPLICATE, _DEADLOCK, _LOCK_TIMEOUT):
                raise
            connection.rollback()
            self._count_error(error)
            return False
        with self._written:
            self.counts.statements.update(done)
            self.counts.rows += rows
            self._written.notify_all()
        return True

    def _count_error(self, error: pymysql.err.MySQLError) -> None:
        with self._written:
            self.counts.errors[error.args[0]] += 1
