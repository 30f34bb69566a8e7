"""The tables as TiCDC decodes them, and what their SELECTs are ordered by: both from information_schema alone.

- A table's schema is the one that `rowcodec.table_info` makes of TiDB's own TableInfo; a test holds them equal.
- The handle key is TiCDC's (indexes.py). Ids of tables and partitions are TiDB's; other servers tell none.
- TiDB keeps the rows of a table without a clustered primary key by `_tidb_rowid`, so they are read by it: a key of any type
  will do. Not in a partitioned table: after EXCHANGE PARTITION two rows of it may have one `_tidb_rowid`.
- All tables are read by a handful of queries, however many there are. Only of one that has the column of softly deleted rows SHOW CREATE
  TABLE shows whether it is such a table (model/soft_delete.py).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from sidecar.shared.errors import FeedUnsuitable, SourceError
from sidecar.shared.model.keyset import KeyColumn, ReadKey, key_columns, quoted_table, rowid_key, unreadable
from sidecar.shared.model.nouns import Column, TableName, TableSchema
from sidecar.shared.model.soft_delete import SOFT_DELETE_TIME, is_softly_deleted
from sidecar.shared.mysql.collation import by_bytes
from sidecar.shared.mysql.flavour import Flavour
from sidecar.shared.mysql.session import MysqlSession, Row
from sidecar.shared.reads.definition import COLUMNS_REPORTED, definition, read_partitions, read_tables
from sidecar.shared.reads.indexes import grouped, handle_key, read_indexes
from sidecar.shared.rowcodec.type_cast import KINDS
from sidecar.shared.sql.text import Shows, labels, shown

_SIZES = re.compile(r"\w+\((\d+)(?:,(\d+))?\)")
_JSON_CHECK = re.compile(r"json_valid\(`((?:[^`]|``)+)`\)")
_TEXTS = re.compile(r"'(?:[^']|'')*'")
_SOFT_DELETE = re.compile(r"/\*T!\[softdelete\] SOFTDELETE=")

_SYSTEM = "('mysql', 'information_schema', 'performance_schema', 'sys', 'metrics_schema', 'inspection_schema')"
_SCOPE = f"LOWER(TABLE_SCHEMA) NOT IN {_SYSTEM}"


@dataclass(frozen=True, slots=True)
class TableFacts:
    """What orders reads, and statistics. `clustered` None: the server does not say. `charsets`: a text column's character set
    and collation."""

    rows: int | None
    bytes: int | None
    clustered: bool | None
    partitioned: bool
    charsets: Mapping[str, tuple[str, str]]


# ---- what orders the SELECTs ----------------------------------------------------------------------------------------


def read_key(schema: TableSchema, facts: TableFacts, flavour: Flavour) -> ReadKey:
    """Raises SourceError for a table that cannot be read in pieces, with the reason and the way out."""
    if not schema.key:
        raise SourceError(
            f"{schema.name} has neither a primary key nor a unique key of NOT NULL columns: TiCDC does not replicate it",
            hint="give it such a key, or leave it out of the dump",
        )
    if flavour is Flavour.TIDB and facts.clustered is False and not facts.partitioned:
        return rowid_key(schema.name)
    if reason := unreadable(key_columns(schema)):
        raise SourceError(
            f"{schema.name} cannot be read in pieces: {reason}",
            hint="give it a primary key of other columns (with TiDB also: PRIMARY KEY … NONCLUSTERED), or leave it out of the dump",
        )
    return handle_read_key(schema, facts)


def handle_read_key(schema: TableSchema, facts: TableFacts) -> ReadKey:
    """The handle key, whatever the SELECTs of the table are ordered by."""
    return ReadKey(schema.name, tuple(KeyColumn(column, *facts.charsets.get(column.name, ("", ""))) for column in key_columns(schema)))


def check_soft_delete(session: MysqlSession, schema: TableSchema) -> None:
    """Whether the column of softly deleted rows is NULL in each row that is read. Raises SourceError where it is not, pymysql's errors."""
    if not is_softly_deleted(schema.columns):
        return
    ((_, text, *_),) = session.rows(f"SHOW CREATE TABLE {quoted_table(schema.name)}")
    if not _SOFT_DELETE.search(_TEXTS.sub("", text)):
        raise SourceError(
            f"{schema.name} has a column {SOFT_DELETE_TIME}, and its rows are not deleted softly: no SELECT may name the column",
            hint="leave the table out of the dump, or ALTER TABLE … SOFTDELETE=RETENTION … (SHOW CREATE TABLE shows it)",
        )


def read_facts(session: MysqlSession, table: TableName | None = None) -> dict[TableName, TableFacts]:
    """Of every table, or of one. Raises pymysql's errors."""
    scope, values = _scope(table)
    pk_type = "TIDB_PK_TYPE" if session.flavour is Flavour.TIDB else "NULL"
    charsets: dict[TableName, dict[str, tuple[str, str]]] = defaultdict(dict)
    table_rows = session.rows(
        "SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, CHARACTER_SET_NAME, COLLATION_NAME FROM information_schema.columns"
        f" WHERE CHARACTER_SET_NAME IS NOT NULL AND {scope}",
        values,
    )
    for schema_name, table_name, column, charset, collation in table_rows:
        charsets[TableName(schema_name, table_name)][column] = (charset, collation)
    table_rows = session.rows(
        f"SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_ROWS, DATA_LENGTH, {pk_type}, CREATE_OPTIONS FROM information_schema.tables WHERE {scope}",
        values,
    )
    return {
        (name := TableName(schema_name, table_name)): TableFacts(
            rows=None if rows is None else int(rows),
            bytes=None if length is None else int(length),
            clustered=None if pk is None else pk == "CLUSTERED",
            partitioned="partitioned" in (options or "").lower(),
            charsets=charsets.get(name, {}),
        )
        for schema_name, table_name, rows, length, pk, options in table_rows
    }


# ---- schemas --------------------------------------------------------------------------------------------------------


def read_schemas(session: MysqlSession, table: TableName | None = None) -> dict[TableName, TableSchema]:
    """Of every table, or of one. Raises FeedUnsuitable, pymysql's errors."""
    scope, values = _scope(table)
    tables = read_ids(session, table)
    columns = _columns(session, scope, values)
    indexes = read_indexes(session, scope, values)
    partitions = read_partitions(session, scope, values)
    facts = read_tables(session, scope, values)
    json_columns = _json_columns(session, scope, values) if session.flavour is Flavour.MARIADB else frozenset()
    new_collation = not by_bytes(session, session.flavour)
    schemas = {}
    for name, number in tables.items():
        in_feed = _in_feed(name, columns[name], json_columns, shows=_shows(session))
        ids, partitioning = partitions.get(name, ((), ""))
        keys = indexes.get(name, ())
        in_json = {row[0] for row in columns[name] if (name, row[0]) in json_columns}
        about = facts.get(name, (False, ""))
        of_table = definition(columns[name], keys, about, partitioning, flavour=session.flavour, json_columns=in_json)
        schemas[name] = TableSchema(
            name,
            in_feed,
            handle_key(in_feed, keys),
            number,
            ids or ((number,) if number else ()),
            definition=replace(of_table, new_collation=new_collation),
        )
    return schemas


def with_views(session: MysqlSession) -> dict[TableName, int]:
    return read_ids(session, types="('BASE TABLE', 'VIEW')")


def read_ids(session: MysqlSession, table: TableName | None = None, *, types: str = "('BASE TABLE')") -> dict[TableName, int]:
    """Of every table, or of one; 0 where the server has none. Raises pymysql's errors."""
    scope, values = _scope(table)
    table_id = "TIDB_TABLE_ID" if session.flavour is Flavour.TIDB else "0"
    rows = session.rows(
        f"SELECT TABLE_SCHEMA, TABLE_NAME, {table_id} FROM information_schema.tables WHERE TABLE_TYPE IN {types} AND {scope}", values
    )
    return {TableName(schema_name, table_name): int(number) for schema_name, table_name, number in rows}


def has_columns_of(session: MysqlSession, schema: TableSchema) -> bool:
    """Whether SQL shows exactly the columns of `schema` at this moment, besides those that it omits, whatever these are like. One
    query. Raises pymysql's errors."""
    scope, values = _scope(schema.name)
    json_columns: frozenset[tuple[TableName, str]] = frozenset()
    if session.flavour is Flavour.MARIADB:
        json_columns = frozenset((schema.name, column.name) for column in schema.columns if column.kind == "json")
    try:
        shows = _shows(session)
        every = _in_feed(schema.name, _columns(session, scope, values)[schema.name], json_columns, shows=shows)
        omitted = {one.name for one in schema.omitted}
        there = tuple(one for one in every if one.name not in omitted)
        as_shown = tuple(replace(one, elements=labels(shown(one.elements, shows), shows)) for one in schema.columns)
        return there == as_shown and len(every) == len(there) + len(omitted)
    except FeedUnsuitable:
        return False  # of a type that the schema cannot have


def _columns(session: MysqlSession, scope: str, values: tuple[str, ...] | None) -> dict[TableName, list[Row]]:
    return grouped(
        session.rows(
            f"SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, IS_NULLABLE, DATA_TYPE, COLUMN_TYPE, EXTRA, {COLUMNS_REPORTED}"
            f" FROM information_schema.columns WHERE {scope} ORDER BY TABLE_SCHEMA, TABLE_NAME, ORDINAL_POSITION",
            values,
        )
    )


def _shows(session: MysqlSession) -> Shows:
    return Shows.TIDB if session.flavour is Flavour.TIDB else Shows.MYSQL


def _in_feed(table: TableName, rows: Iterable[Row], json_columns: frozenset[tuple[TableName, str]], *, shows: Shows) -> tuple[Column, ...]:
    return tuple(_column(table, row, json_columns, shows) for row in rows if "VIRTUAL" not in row[4].upper())


def _scope(table: TableName | None) -> tuple[str, tuple[str, ...] | None]:
    if table is None:
        return _SCOPE, None
    return "TABLE_SCHEMA = %s AND TABLE_NAME = %s", tuple(table)


def _column(table: TableName, row: Row, json_columns: frozenset[tuple[TableName, str]], shows: Shows) -> Column:
    name, nullable, data_type, column_type = row[:4]
    kind = KINDS.get(data_type.lower())
    if kind is None:
        raise FeedUnsuitable(
            f"table {table}, column {name}: type {column_type} is unknown",
            hint="leave the table out by the changefeed's filter, or run a ticdc-dump that knows this type",
        )
    if kind == "int" and "unsigned" in column_type.lower():
        kind = "uint"
    if kind == "text" and (table, name) in json_columns:
        kind = "json"
    first, second = _sizes(column_type)
    fixed_length = kind in ("bit", "decimal") or data_type.lower() == "binary"
    return Column(
        name=name,
        kind=kind,
        nullable=nullable.upper() == "YES",
        length=first if fixed_length else -1,
        scale=second if kind == "decimal" else first if kind in ("time", "datetime", "timestamp") else 0,
        elements=labels(column_type, shows) if kind in ("enum", "set") else (),
    )


def _sizes(column_type: str) -> tuple[int, int]:
    """20 and 4 of `decimal(20,4)`; 0 for what is not there."""
    match = _SIZES.match(column_type)
    return (int(match[1]), int(match[2] or 0)) if match else (0, 0)


def _json_columns(session: MysqlSession, scope: str, values: tuple[str, ...] | None) -> frozenset[tuple[TableName, str]]:
    """MariaDB's JSON is LONGTEXT with a check of its own."""
    rows = session.rows(
        f"SELECT CONSTRAINT_SCHEMA, TABLE_NAME, CHECK_CLAUSE FROM information_schema.check_constraints"
        f" WHERE {scope.replace('TABLE_SCHEMA', 'CONSTRAINT_SCHEMA')}",
        values,
    )
    checks = [(TableName(schema, table), _JSON_CHECK.fullmatch(clause)) for schema, table, clause in rows]
    return frozenset((table, match[1].replace("``", "`")) for table, match in checks if match)
