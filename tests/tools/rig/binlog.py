"""MariaDB's binlog as transactions, from any GTID on, for ever.

The library python-mysql-replication frames the events; rows are read by `row_image.py`. A table's description comes from
information_schema when the binlog first maps it, must have the mapped columns by name, and is kept in a file: rows written
before a schema change can be read again after it. What cannot be read raises: nothing is skipped.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Generator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pymysql
from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.event import FormatDescriptionEvent, MariadbGtidEvent, QueryEvent, XidEvent
from pymysqlreplication.row_event import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent

from sidecar.shared.model.nouns import TableName
from tests.tools.rig.changes import Change
from tests.tools.rig.columns import Table, TableColumn, read_tables
from tests.tools.rig.heartbeat import HEARTBEAT_TABLE
from tests.tools.rig.row_image import Image, reader

_EVENTS = [FormatDescriptionEvent, MariadbGtidEvent, QueryEvent, XidEvent, WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent]
_SERVER_ID = 4711
_STANDALONE = 1
"""Flag of a GTID whose transaction is one event without an end: a DDL."""

logging.getLogger("pymysqlreplication").setLevel(logging.ERROR)


@dataclass(frozen=True, slots=True)
class MySqlAddress:
    host: str
    port: int
    user: str
    password: str

    def connect(self) -> pymysql.Connection[Any]:
        return pymysql.connect(**asdict(self), charset="utf8mb4", autocommit=True, ssl_disabled=True)


@dataclass(frozen=True, slots=True)
class Ddl:
    """`schema` and `table` are what it changes (`table` empty for a schema's); `action` TiDB's model.ActionType."""

    schema: str
    table: str
    query: str
    action: int


@dataclass(slots=True)
class Transaction:
    """`heartbeat_ms`: the time of a heartbeat, else None."""

    gtid: str
    rows: list[Change] = field(default_factory=list)
    ddl: Ddl | None = None
    heartbeat_ms: int | None = None


def transactions(
    source: MySqlAddress, *, after_gtid: str, tables: KnownTables, in_scope: Callable[[TableName], bool]
) -> Generator[Transaction]:
    """Every transaction after `after_gtid` in order, waiting for more at the end. Raises pymysql.err.MySQLError when the
    connection is lost; reading on from the last whole transaction's GTID misses and repeats nothing."""
    stream = BinLogStreamReader(
        connection_settings={**asdict(source), "charset": "utf8mb4", "ssl_disabled": True},
        server_id=_SERVER_ID,
        is_mariadb=True,
        auto_position=after_gtid,
        blocking=True,
        only_events=_EVENTS,
        enable_logging=False,
        freeze_schema=True,  # a table's number changes with its shape, so each is mapped once in a binlog file
        pymysql_wrapper=_connects_once(),
    )
    try:
        current: Transaction | None = None
        is_standalone = False
        mapped: dict[int, _Known] = {}
        while (event := stream.fetchone()) is not None:
            if isinstance(event, FormatDescriptionEvent):  # a new file: numbers are given again after a restart
                stream.table_map.clear()
                mapped.clear()
                continue
            if isinstance(event, MariadbGtidEvent):
                current = Transaction(event.gtid)
                is_standalone = bool(event.flags & _STANDALONE)
                continue
            assert current is not None, f"{event} stands before any GTID"
            if isinstance(event, XidEvent):
                yield current
                current = None
            elif isinstance(event, QueryEvent):
                if is_standalone or event.query.strip().upper() in ("COMMIT", "ROLLBACK"):
                    current.ddl = ddl_of(event.query, event.schema.decode()) if is_standalone else None
                    yield current
                    current = None
            elif in_scope(name := TableName(event.schema, event.table)) or name == HEARTBEAT_TABLE:
                if event.table_id not in mapped:
                    mapped[event.table_id] = tables.at(name, event.columns)
                _read_rows(event, current, mapped[event.table_id])
    finally:
        stream.close()


def _connects_once() -> Callable[..., pymysql.Connection[Any]]:
    """The library would reconnect automatically, at the position where it began. It has one connection for the stream and one to ask."""
    left = iter(("stream", "questions"))

    def connect(**options: Any) -> pymysql.Connection[Any]:
        if next(left, None) is None:
            raise ConnectionError("MariaDB has closed the stream")
        return pymysql.connect(**options)

    return connect


def _read_rows(event: Any, into: Transaction, known: _Known) -> None:
    data = event.packet.read(event.event_size - event.packet.read_bytes)
    at, is_update = 0, isinstance(event, UpdateRowsEvent)
    while at < len(data):
        image, at = known.read(data, at)
        if is_update:
            after, at = known.read(data, at)
            into.rows.append(Change(known.table, image, after))
        elif isinstance(event, WriteRowsEvent):
            into.rows.append(Change(known.table, None, image))
        else:
            into.rows.append(Change(known.table, image, None))
    if known.table.name == HEARTBEAT_TABLE:
        beat = into.rows.pop().after
        assert beat is not None
        assert isinstance(beat[1], int)
        into.heartbeat_ms = beat[1]


# ---- what the tables were like ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Known:
    table: Table
    read: Callable[[bytes, int], tuple[Image, int]]


class KnownTables:
    """Every shape that a table has had in the binlog. `path` is the file that keeps them; new ones come from `source`."""

    def __init__(self, source: MySqlAddress, path: Path) -> None:
        self._source = source
        self._path = path
        self._known: dict[tuple[object, ...], _Known] = {}
        self._stored: dict[str, Table] = {}
        for line in path.read_bytes().split(b"\n")[:-1] if path.exists() else ():
            result = json.loads(line)
            self._stored[result["shape"]] = _table_from_json(result["table"])

    def at(self, name: TableName, columns: list[Any]) -> _Known:
        """The table as it was when the binlog mapped it with `columns`."""
        shape = (name, *((column.name, column.type, *_sizes(column)) for column in columns))
        known = self._known.get(shape)
        if known is None:
            table = self._stored.get(repr(shape)) or self._ask(name, [column.name for column in columns], repr(shape))
            known = self._known[shape] = _Known(table, reader(table, columns))
        return known

    def _ask(self, name: TableName, columns: list[str], shape: str) -> Table:
        connection = self._source.connect()
        try:
            with connection.cursor() as cursor:
                tables = read_tables(cursor, only=name)
        finally:
            connection.close()
        if name not in tables or [column.name for column in tables[name].columns] != columns:
            raise RuntimeError(f"{name} was changed before its rows in the binlog were read; they have the columns {columns}")
        with self._path.open("ab") as file:
            file.write(json.dumps({"shape": shape, "table": asdict(tables[name])}).encode() + b"\n")
        return tables[name]


def _sizes(column: Any) -> tuple[object, ...]:
    return tuple(getattr(column, name, None) for name in ("max_length", "length_size", "size", "fsp", "precision", "decimals", "bits"))


def _table_from_json(value: dict[str, Any]) -> Table:
    columns = tuple(TableColumn(**(column | {"labels": tuple(column["labels"])})) for column in value["columns"])
    return Table(TableName(*value["name"]), columns, tuple(value["handle"]), tuple(value["unique"]), tuple(value["primary"]))


# ---- DDL ----------------------------------------------------------------------------------------------------------------

_NAME = r"(?:(?:`(?P<{0}q>[^`]+)`|(?P<{0}>\w+)))"
_TABLE = rf"(?:{_NAME.format('s')}\s*\.\s*)?{_NAME.format('t')}"
_DDLS = (
    (rf"create\s+(?:database|schema)\s+(?:if\s+not\s+exists\s+)?{_NAME.format('s')}", 1),
    (rf"drop\s+(?:database|schema)\s+(?:if\s+exists\s+)?{_NAME.format('s')}", 2),
    (rf"create\s+(?:or\s+replace\s+)?table\s+(?:if\s+not\s+exists\s+)?{_TABLE}", 3),
    (rf"drop\s+table\s+(?:if\s+exists\s+)?{_TABLE}", 4),
    (rf"create\s+(?:unique\s+)?index\s+(?:if\s+not\s+exists\s+)?\S+\s+on\s+{_TABLE}", 7),
    (rf"drop\s+index\s+(?:if\s+exists\s+)?\S+\s+on\s+{_TABLE}", 8),
    (rf"truncate\s+(?:table\s+)?{_TABLE}", 11),
    (rf"rename\s+table\s+{_TABLE}", 14),
    (rf"alter\s+table\s+(?:if\s+exists\s+)?{_TABLE}\s+add\s+(?:unique\s+)?(?:index|key)\b", 7),
    (rf"alter\s+table\s+(?:if\s+exists\s+)?{_TABLE}\s+drop\s+(?:index|key)\b", 8),
    (rf"alter\s+table\s+(?:if\s+exists\s+)?{_TABLE}\s+add\b", 5),
    (rf"alter\s+table\s+(?:if\s+exists\s+)?{_TABLE}\s+drop\b", 6),
    (rf"alter\s+table\s+(?:if\s+exists\s+)?{_TABLE}\s+rename\s+(?:to|as)?\b(?!\s*(?:column|index|key))", 14),
    (rf"alter\s+table\s+(?:if\s+exists\s+)?{_TABLE}", 12),
)
_PATTERNS = tuple((re.compile(rf"\s*(?:/\*.*?\*/\s*)*{pattern}", re.IGNORECASE | re.DOTALL), action) for pattern, action in _DDLS)


def ddl_of(query: str, schema: str) -> Ddl | None:
    """None for what changes no table: accounts, events, statistics. `schema`: the session's."""
    for pattern, action in _PATTERNS:
        match = pattern.match(query)
        if match is not None:
            names = match.groupdict()
            table = names.get("t") or names.get("tq") or ""
            return Ddl(names["s"] or names["sq"] or schema, table, query, action)
    return None
