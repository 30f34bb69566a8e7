"""What TiDB has and MariaDB has not, over the real protocol: TSOs, `tidb_snapshot` with GC behind it, ids of tables and partitions.

It knows the statements that the adapters send, by their text, and answers any other with error 1064. Tables are what a test says
from which TSO on; a test may also show SQL something else than the newest of them, as TiDB does amid a DDL.
"""

from __future__ import annotations

import json
import re
import socket
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sidecar.config import SourceSection
from sidecar.core.model import TableName

Rows = Sequence[Sequence[object]]
PING, QUIT, QUERY = 0x0E, 0x01, 0x03
_CAPABILITIES = 0x1 | 0x8 | 0x200 | 0x2000 | 0x8000 | 0x80000
_OF_TABLE = re.compile(r"TABLE_SCHEMA = '(\w+)' AND TABLE_NAME = '(\w+)'")


class Refused(Exception):
    def __init__(self, code: int, text: str) -> None:
        super().__init__(code, text)
        self.code, self.text = code, text


@dataclass(frozen=True)
class FakeTable:
    """`columns`: name to type as in COLUMN_TYPE; `NOT NULL` behind it counts. `indexes`: unique ones, name to id and columns."""

    id: int
    columns: Mapping[str, str] = field(default_factory=lambda: {"id": "bigint NOT NULL"})
    indexes: Mapping[str, tuple[int, tuple[str, ...]]] = field(default_factory=lambda: {"PRIMARY": (0, ("id",))})
    partitions: tuple[int, ...] = ()
    clustered: bool = True
    rows: tuple[tuple[str | None, ...], ...] = ()

    def type_of(self, column: str) -> str:
        return self.columns[column].removesuffix(" NOT NULL")


Tables = Mapping[TableName, FakeTable]


@dataclass
class _Connection:
    snapshot_ts: int = 0
    in_transaction: bool = False


class FakeTidb:
    """`with FakeTidb(folder) as tidb`. `history`: tables from a ts on. `shown`: what SQL shows at present, None: the newest of them.

    `jobs`: the DDL jobs under way by id, `finished_job` the last that is not. `before`: called with each statement before it is
    answered; it may raise Refused.
    """

    version = "8.0.11-TiDB-v8.5.0"

    def __init__(self, folder: Path) -> None:
        self.history: dict[int, Tables] = {0: {}}
        self.shown: Tables | None = None
        self.now_ts = 1000
        self.safe_ts = 0
        self.variables: dict[str, str] = {"new_collation_enabled": "True"}
        self.finished_job = 0
        self.jobs: dict[int, dict[str, object]] = {}
        self.statements: list[str] = []
        self.before: Callable[[str], None] = lambda sql: None
        self._folder = folder
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, name="fake-tidb", daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Also whoever is connected is dropped; nobody gets in any more."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._open:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def settings(self, **options: Any) -> SourceSection:
        port = self._listener.getsockname()[1]
        account: dict[str, Any] = {"host": "127.0.0.1", "port": port, "user": "root", "reader": "pymysql", "retry_s": 0.3}
        return SourceSection(**{**account, **options})

    def tables_at(self, ts: int) -> Tables:
        return self.history[max(since for since in self.history if since <= ts)]

    # ---- what is asked ----------------------------------------------------------------------------------------------

    def answer(self, sql: str, connection: _Connection) -> Rows | None:
        """Rows, None for a statement without any. Raises Refused."""
        self.statements.append(sql)
        self.before(sql)
        head = sql.split()[0].upper()
        if found := re.fullmatch(r"SET (?:@@)?tidb_snapshot = '(\d*)'", sql):
            connection.snapshot_ts = int(found[1] or 0)
            if connection.snapshot_ts and connection.snapshot_ts < self.safe_ts:
                raise Refused(8055, f"snapshot is older than GC safe point {self.safe_ts}")
            return None
        if head in ("SET", "ROLLBACK", "COMMIT") or sql.startswith("START TRANSACTION"):
            connection.in_transaction = head == "START"
            return None
        if sql == "SELECT VERSION()":
            return [(self.version,)]
        if sql == "SELECT @@tidb_current_ts":
            self.now_ts += connection.in_transaction
            return [(self.now_ts if connection.in_transaction else 0,)]
        if sql == "SELECT @@global.tidb_enable_fast_create_table":
            if "fast_create" not in self.variables:
                raise Refused(1193, "Unknown system variable 'tidb_enable_fast_create_table'")
            return [(self.variables["fast_create"],)]
        if "FROM mysql.tidb" in sql:
            return self._of_mysql(sql)
        tables = self.tables_at(connection.snapshot_ts) if connection.snapshot_ts else self._present()
        if view := re.search(r"FROM information_schema\.(\w+)", sql):
            one = _OF_TABLE.search(sql)
            wanted = {name: found for name, found in tables.items() if one is None or name == (one[1], one[2])}
            return _VIEWS[view[1]](wanted, sql)
        return self._of_rows(tables, sql)

    def _of_mysql(self, sql: str) -> Rows:
        if "tidb_ddl_history" in sql:
            return [(self.finished_job or None,)]
        if "tidb_ddl_job" in sql:
            return [(number, json.dumps(job)) for number, job in self.jobs.items()]
        found = re.search(r"VARIABLE_NAME = '(\w+)'", sql)
        assert found is not None, sql
        return [(self.variables[found[1]],)] if found[1] in self.variables else []

    def _present(self) -> Tables:
        return self.tables_at(self.now_ts) if self.shown is None else self.shown

    def _of_rows(self, tables: Tables, sql: str) -> Rows:
        found = re.search(r"FROM `(\w+)`\.`(\w+)`", sql)
        if found is None:
            raise Refused(1064, f"this fake does not know {sql}")
        table = tables.get(TableName(found[1], found[2]))
        if table is None:
            raise Refused(1146, f"Table '{found[1]}.{found[2]}' doesn't exist")
        names = re.findall(r"`t`\.`(\w+)`(?: [+*] \w+)? AS CHAR", sql) or re.findall(rf"`{found[2]}`\.`(\w+)`[^,]*? AS c\d+", sql)
        for name in names:
            if name not in table.columns:
                raise Refused(1054, f"Unknown column '{name}' in 'field list'")
        places = [list(table.columns).index(name) for name in names]
        return [tuple(row[place] for place in places) for row in table.rows]

    # ---- the protocol -----------------------------------------------------------------------------------------------

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._open.append(connection)
            threading.Thread(target=self._serve, args=(connection,), name="fake-tidb-session", daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        state = _Connection()
        with suppress(OSError, ConnectionError), connection, connection.makefile("rb") as stream:
            connection.sendall(_packets(0, _greeting(self.version)))
            _read(stream)
            connection.sendall(_packets(2, _OK))
            while True:
                command = _read(stream)
                if not command or command[0] == QUIT:
                    return
                connection.sendall(self._reply(command, state))

    def _reply(self, command: bytes, state: _Connection) -> bytes:
        if command[0] != QUERY:
            return _packets(1, _OK)
        try:
            rows = self.answer(command[1:].decode(), state)
        except Refused as refused:
            return _packets(1, b"\xff" + struct.pack("<H", refused.code) + b"#HY000" + refused.text.encode())
        if rows is None:
            return _packets(1, _OK)
        width = len(rows[0]) if rows else 1
        columns = [_column(f"c{number}") for number in range(width)]
        return _packets(1, _length(width), *columns, _EOF, *(b"".join(map(_value, row)) for row in rows), _EOF)


def _of_tables(tables: Tables, sql: str) -> Rows:
    if "TIDB_PK_TYPE" in sql:
        return [
            (*name, len(found.rows), 100, "CLUSTERED" if found.clustered else "NONCLUSTERED", "partitioned" if found.partitions else "")
            for name, found in tables.items()
        ]
    return [(*name, found.id)[: 3 if "TIDB_TABLE_ID" in sql else 2] for name, found in tables.items()]


def _of_columns(tables: Tables, sql: str) -> Rows:
    if "CHARACTER_SET_NAME IS NOT NULL" in sql:
        texts = ((name, column) for name, found in tables.items() for column in found.columns if "char" in found.columns[column])
        return [(*name, column, "utf8mb4", "utf8mb4_bin") for name, column in texts]
    return [
        (*name, column, "NO" if "NOT NULL" in text else "YES", re.match(r"\w+", text)[0], found.type_of(column), "")  # type: ignore[index]  # a type has a name
        for name, found in tables.items()
        for column, text in found.columns.items()
    ]


def _of_indexes(tables: Tables, sql: str) -> Rows:
    return [
        (*name, index, number, column)
        for name, found in tables.items()
        for index, (number, columns) in found.indexes.items()
        for column in columns
    ]


def _of_partitions(tables: Tables, sql: str) -> Rows:
    return [(*name, number) for name, found in tables.items() for number in found.partitions]


_VIEWS: Mapping[str, Callable[[Tables, str], Rows]] = {
    "tables": _of_tables,
    "columns": _of_columns,
    "tidb_indexes": _of_indexes,
    "partitions": _of_partitions,
}

_OK = b"\0\0\0" + struct.pack("<HH", 2, 0)
_EOF = b"\xfe" + struct.pack("<HH", 0, 2)


def _greeting(version: str) -> bytes:
    low, high = _CAPABILITIES & 0xFFFF, _CAPABILITIES >> 16
    salt = b"saltsalt", b"saltsaltsalt\0"
    head = b"\x0a" + version.encode() + b"\0" + struct.pack("<I", 1) + salt[0] + b"\0" + struct.pack("<HBHHB", low, 45, 2, high, 21)
    return head + bytes(10) + salt[1] + b"mysql_native_password\0"


def _column(name: str) -> bytes:
    texts = b"".join(map(_value, ("def", "", "", "", name, name)))
    return texts + b"\x0c" + struct.pack("<HIBHB", 45, 1 << 16, 0xFD, 0, 0) + b"\0\0"


def _value(value: object) -> bytes:
    if value is None:
        return b"\xfb"
    text = str(value).encode()
    return _length(len(text)) + text


def _length(number: int) -> bytes:
    return bytes([number]) if number < 0xFB else b"\xfc" + struct.pack("<H", number)


def _packets(first: int, *payloads: bytes) -> bytes:
    return b"".join(
        struct.pack("<I", len(payload))[:3] + bytes([(first + number) & 0xFF]) + payload for number, payload in enumerate(payloads)
    )


def _read(stream: Any) -> bytes:
    head = stream.read(4)
    return bytes(stream.read(int.from_bytes(head[:3], "little"))) if len(head) == 4 else b""
