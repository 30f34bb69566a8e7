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
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sidecar.shared.config import SourceSection
from sidecar.shared.model.nouns import TableName
from sidecar.shared.model.soft_delete import SOFT_DELETE_TIME
from sidecar.shared.mysql.collation import PADS
from tests.support.services import tidb_views

Rows = Sequence[Sequence[object]]
PING, QUIT, QUERY = 0x0E, 0x01, 0x03
FIRST_CONNECTION = (1 << 40) + 1
"""TiDB's numbers are longer than the handshake's 32 bits."""
_CAPABILITIES = 0x1 | 0x8 | 0x200 | 0x2000 | 0x8000 | 0x80000
_ASSIGNMENT = re.compile(r"(\w+) = ('[^']*'|[^,]+)")
_OF_TABLE = re.compile(r"TABLE_SCHEMA = '(\w+)' AND TABLE_NAME = '(\w+)'")


class Refused(Exception):
    def __init__(self, code: int, text: str) -> None:
        super().__init__(code, text)
        self.code, self.text = code, text


@dataclass(frozen=True)
class FakeTable:
    """`columns`: name to type as in COLUMN_TYPE; `NOT NULL` behind it counts. `indexes`: unique ones, name to id and columns. `counted`:
    how many rows the statistics have; None: as many as there are. `info`: a TableInfo, of which all but id and rows is reported instead.
    `options`: what SHOW CREATE TABLE has behind the columns, TiDB's own in its comments."""

    id: int
    columns: Mapping[str, str] = field(default_factory=lambda: {"id": "bigint NOT NULL"})
    indexes: Mapping[str, tuple[int, tuple[str, ...]]] = field(default_factory=lambda: {"PRIMARY": (0, ("id",))})
    partitions: tuple[int, ...] = ()
    clustered: bool = True
    rows: tuple[tuple[str | None, ...], ...] = ()
    counted: int | None = None
    info: Mapping[str, Any] | None = None
    options: str = ""

    def type_of(self, column: str) -> str:
        return self.columns[column].removesuffix(" NOT NULL")


@dataclass(frozen=True)
class FakeJob:
    """A DDL job: submitted, done at its commit_ts, synced (None: not yet). The history gives `synced_ts` for FinishedTS, as TiDB does."""

    number: int
    table: TableName
    action: int
    start_ts: int
    done_ts: int
    synced_ts: int | None
    query: str = "ALTER TABLE …"

    def meta(self, ts: int) -> str:
        state = 1 if ts < self.done_ts else 4 if not self.is_synced(ts) else 6
        info = {"id": 10, "name": {"O": self.table.table, "L": self.table.table.lower()}}
        binlog = {"SchemaVersion": 7, "TableInfo": info, "FinishedTS": self.synced_ts if state == 6 else 0}
        names = {"schema_name": self.table.schema.lower(), "table_name": self.table.table.lower()}
        job = {"id": self.number, "type": self.action, "state": state, "start_ts": self.start_ts, "query": self.query, "binlog": binlog}
        return json.dumps(job | names | {"schema_id": 1, "table_id": 10})

    def is_synced(self, ts: int) -> bool:
        return self.synced_ts is not None and ts >= self.synced_ts


Tables = Mapping[TableName, FakeTable]


@dataclass
class _Connection:
    number: int
    snapshot_ts: int = 0
    schemas_ts: int = 0
    in_transaction: bool = False
    variables: dict[str, str] = field(default_factory=dict)


class FakeTidb:
    """`with FakeTidb(folder) as tidb`. `history`: tables from a ts on. `shown`: what SQL shows at present, None: the newest of them.

    `jobs`: the DDL jobs under way by id, `finished_job` the last that is not. `loaded_ts`: a SET of tidb_snapshot takes no newer
    schemas than these, as where the server is behind; what is newer is `done` in ddl_jobs and not synced. `ddl_jobs`: table id, begin
    and end of all jobs, in Unix seconds. `job_list`: jobs as mysql.tidb_ddl_job and mysql.tidb_ddl_history have them in time;
    `ddl_kinds`: what information_schema says of them. `own_tables`: what any query of such a table of mysql's returns, by its name.
    `before`: called with each statement before it is answered; it may raise Refused.
    `defaults`: of session variables; those `unknown` it does not have. Of all it heeds `tidb_snapshot`, `sql_select_limit` and
    `tidb_translate_softdelete_sql` alone.
    `settings_shown`: what SHOW CONFIG returns; None: the account may not see it. `plan`: what any EXPLAIN returns. It knows no WHERE and no
    LIMIT, and turns rows round for any DESC.
    """

    version = "8.0.11-TiDB-v8.5.0"

    def __init__(self, folder: Path) -> None:
        self.history: dict[int, Tables] = {0: {}}
        self.shown: Tables | None = None
        self.now_ts = 1000
        self.safe_ts = 0
        self.loaded_ts: int | None = None
        self.done_kind = "create table"
        self.ddl_jobs: Rows = []
        self.ddl_kinds: Rows = []
        self.own_tables: dict[str, Rows] = {}
        self.job_list: Sequence[FakeJob | Any] = ()
        self.variables: dict[str, str] = {"new_collation_enabled": "True"}
        self.finished_job = 0
        self.jobs: dict[int, dict[str, object]] = {}
        self.statements: list[str] = []
        self.settings_shown: Rows | None = []
        self.defaults: dict[str, str] = {}
        self.unknown: frozenset[str] = frozenset()
        self.plan: Rows = []
        self.before: Callable[[str], None] = lambda sql: None
        self._folder = folder
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._numbers = count(FIRST_CONNECTION)

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, name="fake-tidb", daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Open connections are dropped too; no new one gets in."""
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

    # ---- requests ---------------------------------------------------------------------------------------------------

    def answer(self, sql: str, connection: _Connection) -> Rows | int | None:
        """Rows, how many were changed, None for a statement without any. Raises Refused."""
        self.statements.append(sql)
        self.before(sql)
        head = sql.split()[0].upper()
        for name, value in _ASSIGNMENT.findall(sql) if head == "SET" else ():
            if name in self.unknown:
                raise Refused(1193, f"Unknown system variable '{name}'")
            connection.variables[name] = value.strip("'")
        if match := re.fullmatch(r"SET .*\btidb_snapshot = '(\d*)'.*", sql):
            connection.snapshot_ts = int(match[1] or 0)
            connection.schemas_ts = connection.snapshot_ts if self.loaded_ts is None else min(connection.snapshot_ts, self.loaded_ts)
            if connection.snapshot_ts and connection.snapshot_ts < self.safe_ts:
                raise Refused(8055, f"snapshot is older than GC safe point {self.safe_ts}")
            return None
        if head in ("SET", "ROLLBACK", "COMMIT", "KILL") or sql.startswith("START TRANSACTION"):
            connection.in_transaction = head == "START"
            return None
        if "changefeed_dump" in sql and sql.endswith(("WHERE changefeed_id = ''", "WHERE FALSE")):
            return 0  # whether marks can be written
        if sql == f"SELECT {PADS}":
            return [(int(self.variables.get("new_collation_enabled") == "True"),)]
        if sql == "SELECT VERSION()":
            return [(self.version,)]
        if sql == "SELECT VERSION(), CONNECTION_ID(), @@max_allowed_packet":
            return [(self.version, connection.number, 1 << 26)]
        if sql == "SELECT @@tidb_current_ts":
            self.now_ts += connection.in_transaction
            return [(self.now_ts if connection.in_transaction else 0,)]
        if match := re.fullmatch(r"SELECT @@(\w+)", sql):
            return [(connection.variables[match[1]],)]
        if sql == "SELECT @@global.tidb_enable_fast_create_table":
            if "fast_create" not in self.variables:
                raise Refused(1193, "Unknown system variable 'tidb_enable_fast_create_table'")
            return [(self.variables["fast_create"],)]
        if sql.startswith("SHOW CONFIG"):
            if self.settings_shown is None:
                raise Refused(1227, "Access denied; you need (at least one of) the CONFIG privilege(s) for this operation")
            return self.settings_shown
        if match := re.search(r"FROM mysql\.(tidb_import_jobs|tidb_restore_registry|tidb_pitr_id_map)", sql):
            if match[1] not in self.own_tables:
                raise Refused(1146, f"Table 'mysql.{match[1]}' doesn't exist")
            return self.own_tables[match[1]]
        if "FROM mysql.tidb" in sql:
            return self._of_mysql(sql, connection.snapshot_ts or self.now_ts)
        if "FROM information_schema.ddl_jobs" in sql:
            return self.ddl_jobs if "START_TIME" in sql else self.ddl_kinds if "QUERY" in sql else self._of_done(sql)
        tables = self.tables_at(connection.schemas_ts) if connection.snapshot_ts else self._present()
        if head == "EXPLAIN":
            return self.plan
        if match := re.fullmatch(r"SHOW CREATE TABLE `(\w+)`\.`(\w+)`", sql):
            return [(match[2], f"CREATE TABLE `{match[2]}` () {tables[TableName(*match.groups())].options}")]
        if view := re.search(r"FROM information_schema\.(\w+)", sql):
            one = _OF_TABLE.search(sql)
            wanted = {name: table for name, table in tables.items() if one is None or name == (one[1], one[2])}
            return _VIEWS[view[1]](wanted, sql)
        return self._of_rows(tables, sql, softly=connection.variables.get("tidb_translate_softdelete_sql") == "1")

    def _of_done(self, sql: str) -> Rows:
        loaded_ts = self.now_ts if self.loaded_ts is None else self.loaded_ts
        if "LIKE 'create table%'" in sql and not self.done_kind.startswith(("create", "rename")):
            return []
        return [(ts, self.done_kind, "shop", "orders") for ts in self.history if loaded_ts < ts <= self.now_ts]

    def _of_mysql(self, sql: str, ts: int) -> Rows:
        one = re.search(r"job_id = (\d+)", sql)
        jobs = [job for job in self.job_list if job.start_ts <= ts and (one is None or job.number == int(one[1]))]
        if match := re.search(r"job_id >= (\d+) AND job_id < (\d+) ORDER BY job_id DESC LIMIT (\d+)", sql):
            low, below, most = map(int, match.groups())
            page = [job for job in jobs if job.is_synced(ts) and low <= job.number < below]
            return [(job.number, job.meta(ts)) for job in sorted(page, key=lambda job: -job.number)[:most]]
        if one is not None:
            jobs = [job for job in jobs if job.is_synced(ts) == ("tidb_ddl_history" in sql)]
            return [(job.meta(ts) if sql.startswith("SELECT job_meta") else job.number,) for job in jobs]
        if match := re.search(r"job_id > (\d+) ORDER BY job_id LIMIT (\d+)", sql):
            above, most = map(int, match.groups())
            page = [job for job in jobs if job.is_synced(ts) and job.number > above]
            return [(job.number, job.meta(ts)) for job in sorted(page, key=lambda job: job.number)[:most]]
        if self.job_list:
            return [(job.number, job.meta(ts)) for job in jobs if not job.is_synced(ts)]
        if "tidb_ddl_history" in sql:
            return [(self.finished_job or None,)]
        if "tidb_ddl_job" in sql:
            return [(number, json.dumps(job)) for number, job in self.jobs.items()]
        match = re.search(r"VARIABLE_NAME = '(\w+)'", sql)
        assert match is not None, sql
        return [(self.variables[match[1]],)] if match[1] in self.variables else []

    def _present(self) -> Tables:
        return self.tables_at(self.now_ts) if self.shown is None else self.shown

    def _of_rows(self, tables: Tables, sql: str, *, softly: bool) -> Rows:
        match = re.search(r"FROM `(\w+)`\.`(\w+)`", sql)
        if match is None:
            raise Refused(1064, f"this fake does not know {sql}")
        table = tables.get(TableName(match[1], match[2]))
        if table is None:
            raise Refused(1146, f"Table '{match[1]}.{match[2]}' doesn't exist")
        names = re.findall(r"(?:NULL|`t`\.`(\w+)`[^,]*?) AS c\d+", sql)
        for name in filter(None, names):
            if name not in table.columns:
                raise Refused(1054, f"Unknown column '{name}' in 'field list'")
        if softly and SOFT_DELETE_TIME in sql:
            raise Refused(1105, f"{SOFT_DELETE_TIME} in a statement while tidb_translate_softdelete_sql is on")
        columns = list(table.columns)
        places = [columns.index(name) if name else None for name in names]
        hidden = columns.index(SOFT_DELETE_TIME) if softly and SOFT_DELETE_TIME in columns else None
        shown = [row for row in table.rows if hidden is None or row[hidden] is None]
        rows = [tuple(None if place is None else row[place] for place in places) for row in shown]
        return rows[::-1] if " DESC" in sql else rows

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
        snapshot_ts = int(self.defaults.get("tidb_snapshot", 0))
        state = _Connection(next(self._numbers), snapshot_ts, snapshot_ts, variables=dict(self.defaults))
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
            rows = self.answer(sql := command[1:].decode(), state)
        except Refused as refused:
            return _packets(1, b"\xff" + struct.pack("<H", refused.code) + b"#HY000" + refused.text.encode())
        if rows is None or isinstance(rows, int):
            return _packets(1, _OK[:1] + _length(rows or 0) + _OK[2:])
        if sql.startswith("SELECT"):
            rows = rows[: int(state.variables.get("sql_select_limit", len(rows)))]
        width = len(rows[0]) if rows else 1
        columns = [_column(f"c{number}") for number in range(width)]
        return _packets(1, _length(width), *columns, _EOF, *(b"".join(map(_value, row)) for row in rows), _EOF)


def _of_tables(tables: Tables, sql: str) -> Rows:
    if "TABLE_COLLATION" in sql:
        return [(*name, *(tidb_views.table(table.info) if table.info else ("CLUSTERED", "utf8mb4_bin"))) for name, table in tables.items()]
    if "TIDB_PK_TYPE" in sql:
        return [
            (
                *name,
                len(table.rows) if table.counted is None else table.counted,
                100,
                "CLUSTERED" if table.clustered else "NONCLUSTERED",
                "partitioned" if table.partitions else "",
            )
            for name, table in tables.items()
        ]
    return [(*name, table.id)[: 3 if "TIDB_TABLE_ID" in sql else 2] for name, table in tables.items()]


def _of_columns(tables: Tables, sql: str) -> Rows:
    if "CHARACTER_SET_NAME IS NOT NULL" in sql:
        texts = ((name, column) for name, table in tables.items() for column in table.columns if "char" in table.columns[column])
        return [(*name, column, "utf8mb4", "utf8mb4_bin") for name, column in texts]
    return [(*name, *row) for name, table in tables.items() for row in _columns_of(table)]


def _columns_of(table: FakeTable) -> Rows:
    if table.info is not None:
        return tidb_views.columns(table.info)
    return [
        (column, "NO" if "NOT NULL" in text else "YES", re.match(r"\w+", text)[0], table.type_of(column), "", None, None, None, "")  # type: ignore[index]  # a type has a name
        for column, text in table.columns.items()
    ]


def _of_indexes(tables: Tables, sql: str) -> Rows:
    return [(*name, *row) for name, table in tables.items() for row in _indexes_of(table)]


def _indexes_of(table: FakeTable) -> Rows:
    if table.info is not None:
        return tidb_views.indexes(table.info)
    return [(index, number, column, None, None, 0) for index, (number, columns) in table.indexes.items() for column in columns]


def _of_partitions(tables: Tables, sql: str) -> Rows:
    return [(*name, *row) for name, table in tables.items() for row in _partitions_of(table)]


def _partitions_of(table: FakeTable) -> Rows:
    if table.info is not None:
        return tidb_views.partitions(table.info)
    return [(number, f"p{place}", "HASH", "`id`", "") for place, number in enumerate(table.partitions)]


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
