"""The tables as TiCDC decodes them, and what their SELECTs are ordered by: both from information_schema alone.

- A table's schema is the one that `rowcodec.table_info` makes of TiDB's own TableInfo; a test holds them equal.
- The handle key is TiCDC's (indexes.py). Ids of tables and partitions are TiDB's; other servers tell none.
- TiDB keeps the rows of a table without a clustered primary key by `_tidb_rowid`, so they are read by it: a key of any type
  will do. Not in a partitioned table: after EXCHANGE PARTITION two rows of it may have one `_tidb_rowid`.
- All tables are read by a handful of queries, however many there are.
"""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import closing
from copy import copy
from dataclasses import dataclass, replace
from itertools import islice
from typing import TypeVar

import pymysql

from sidecar.adapters.tidb.ddl_jobs import ANY, MAKES_NAMES, not_loaded, under_way
from sidecar.adapters.tidb.definition import COLUMNS_REPORTED, definition, read_partitions, read_tables
from sidecar.adapters.tidb.indexes import grouped, handle_key, read_indexes
from sidecar.adapters.tidb.snapshot import as_of, present_ts
from sidecar.config import SourceSection
from sidecar.core.keyset import Key, KeyColumn, NotAKey, ReadKey, key_columns, one_of, quoted_table, rowid_key, spelled_keys, unreadable
from sidecar.core.model import Column, CommitTs, TableName, TableSchema
from sidecar.errors import FeedUnsuitable, RefusedRequest, SourceError, UnfitKeys
from sidecar.mysql.account import Account
from sidecar.mysql.collation import by_bytes
from sidecar.mysql.errors import NO_RIGHT, NOT_THERE, code_of
from sidecar.mysql.flavour import Flavour
from sidecar.mysql.retry import carried_out
from sidecar.mysql.roles import Role
from sidecar.mysql.session import MysqlSession, Row
from sidecar.ports import Caller, TableEstimate
from sidecar.rowcodec.type_cast import KINDS
from sidecar.sql.text import Shows, labels, shown

_KEY_HINT = "give each key as the columns' values in the key's order, as TiDB shows them"
T = TypeVar("T")
Schemas = Mapping[TableName, TableSchema]

LOADED_MAX_S = 45.0
"""TiDB's schema lease: a server loads by its clock within half of it, whatever it received. Longer a job waits only for a
transaction that holds a table as it was, and that says nothing of what servers know."""
LOADED_AGAIN_S = 0.2

ANSWER_MIN_S = 0.1
"""Of a caller who is about to go: no timeout may be 0, which is none."""

_SYSTEM = "('mysql', 'information_schema', 'performance_schema', 'sys', 'metrics_schema', 'inspection_schema')"
_SCOPE = f"LOWER(TABLE_SCHEMA) NOT IN {_SYSTEM}"

_SIZES = re.compile(r"\w+\((\d+)(?:,(\d+))?\)")
_JSON_CHECK = re.compile(r"json_valid\(`((?:[^`]|``)+)`\)")


EMPTY_REQUESTED_MAX = 1000
"""Tables without rows by the statistics in which a query looks for one, a millisecond each; for the others the statistics are used."""


@dataclass(frozen=True, slots=True)
class TableFacts:
    """What orders reads, and statistics. `clustered` None: the server does not say. `charsets`: a text column's character set
    and collation."""

    rows: int | None
    bytes: int | None
    clustered: bool | None
    partitioned: bool
    charsets: Mapping[str, tuple[str, str]]


class TidbSchemas:
    """`SchemaSource`. Each call has a connection of its own, so any thread may ask."""

    def __init__(self, settings: SourceSection) -> None:
        self._account = Account.of(settings)
        self._caller: Caller | None = None
        self._done_since_s: Mapping[str, float] = {}

    def asked_by(self, caller: Caller) -> TidbSchemas:
        """As the port. Raises SourceLost when the caller goes."""
        schemas = copy(self)
        schemas._caller = caller
        return schemas

    def tables(self, at_ts: CommitTs | None = None, *, shown: Callable[[Schemas], bool] = lambda _: False) -> Schemas:
        """As the port, or as they were at `at_ts`: a DDL with that commit_ts is in them. Servers that may not have loaded it are waited
        for, unless the answer alone shows that this one has (`shown`). Raises FeedUnsuitable for a column type that this version does
        not know, SourceError also for a time that is garbage-collected or where the source keeps none."""
        if at_ts is None:
            return self._ask("reading the tables' schemas", read_schemas)

        def once(session: MysqlSession) -> tuple[Sequence[str], Schemas]:
            behind = not_loaded(session)
            return behind, as_of(session, at_ts, read_schemas)

        return self._when_loaded(f"reading the tables' schemas as of TSO {at_ts}", once, shown)

    def names(self) -> Mapping[TableName, int]:
        """The same tables, and views, with their ids at the moment of the call, for little. As of a TSO where there is one, when all
        servers have loaded what was made before it. Raises SourceError."""

        def once(session: MysqlSession) -> tuple[Sequence[str], Mapping[TableName, int]]:
            now_ts = present_ts(session)
            if now_ts is None:
                return (), _with_views(session)
            behind = not_loaded(session, kinds=MAKES_NAMES)
            return behind, as_of(session, now_ts, _with_views)

        return self._when_loaded("reading the tables' names", once, lambda _: False)

    def _when_loaded(self, doing: str, once: Callable[[MysqlSession], tuple[Sequence[str], T]], shown: Callable[[T], bool]) -> T:
        """What `once` returns, called again in a session of its own while it names DDLs that servers may be behind with. Each DDL counts
        for LOADED_MAX_S since any query first saw it, so that one that stays done holds up one query and not all."""
        began_s = requested_s = time.monotonic()
        while True:
            behind, result = self._ask(doing, once)
            known = self._done_since_s
            self._done_since_s = {ddl: began_s if ddl == ANY else known.get(ddl, requested_s) for ddl in behind}
            if all(requested_s - since_s >= LOADED_MAX_S for since_s in self._done_since_s.values()) or shown(result):
                return result
            time.sleep(LOADED_AGAIN_S)  # no event reports that a server has loaded
            requested_s = time.monotonic()

    def changing(self, table_ids: Collection[int], at_ts: CommitTs) -> frozenset[int]:
        """Those of them that a DDL of their own was changing at that TSO. Raises SourceError."""
        return self._ask("reading the DDL jobs", lambda session: under_way(session, table_ids, at_ts))

    def now_ts(self) -> CommitTs | None:
        """A TSO of the source, above every commit that was answered before; None if it keeps no such time. Raises SourceError."""
        return self._ask("asking for a TSO", present_ts)

    def estimates(self, tables: Sequence[TableName]) -> Sequence[TableEstimate]:
        """As the port. Raises SourceError."""

        def question(session: MysqlSession) -> tuple[Schemas, Mapping[TableName, TableFacts], Flavour]:
            return read_schemas(session), _with_statistics(session, read_facts(session), tables), session.flavour

        schemas, facts, flavour = self._ask("reading the tables' statistics", question)
        return [_estimate(table, schemas.get(table), facts.get(table), flavour) for table in tables]

    def key_predicate(self, table: TableName, keys: Sequence[Key]) -> str:
        """A predicate that is true for the rows with these handle keys (canonical text). Raises RefusedRequest, SourceError."""
        return self._by_key(table, lambda key: one_of(key, keys))

    def keys(self, table: TableName, keys: Sequence[Key]) -> tuple[Key, ...]:
        """As the port. Raises SourceError."""
        results, unfit = self._by_key(table, lambda key: spelled_keys(key, keys))
        if unfit:
            raise UnfitKeys(f"--keys of {table}: {next(iter(unfit.values()))}", hint=_KEY_HINT, keys=tuple(unfit))
        return results

    def _by_key(self, table: TableName, answer: Callable[[ReadKey], T]) -> T:
        schemas, facts = self._ask(
            f"reading the schema of {table}", lambda session: (read_schemas(session, table), read_facts(session, table))
        )
        if table not in schemas or not schemas[table].key:
            raise RefusedRequest(f"{table} does not exist or has no key by which TiCDC replicates it", hint="check the table's name")
        try:
            return answer(handle_read_key(schemas[table], facts[table]))
        except NotAKey as error:
            raise RefusedRequest(f"--keys of {table}: {error}", hint=_KEY_HINT) from error

    def _ask(self, doing: str, question: Callable[[MysqlSession], T]) -> T:
        if self._caller is None:
            with closing(MysqlSession(self._account, Role.READ_SOURCE)) as session:
                return carried_out(session, lambda: question(session), doing=doing)
        with closing(MysqlSession(_within(self._account, max(self._caller.left_s(), ANSWER_MIN_S)), Role.READ_SOURCE)) as session:
            if not self._caller.when_gone(session.interrupt):
                session.interrupt()
            return carried_out(session, lambda: question(session), doing=doing, stopped=self._caller.gone)


def _within(account: Account, left_s: float) -> Account:
    statement_s, retry_s = min(account.statement_timeout_s, left_s), min(account.retry_s, left_s)
    return replace(account, statement_timeout_s=statement_s, retry_s=retry_s, answer_max_s=left_s)


def _estimate(table: TableName, schema: TableSchema | None, facts: TableFacts | None, flavour: Flavour) -> TableEstimate:
    if schema is None or facts is None:
        return TableEstimate(table, None, None, "", refused=f"{table} does not exist: check the name, or create it first")
    try:
        key = read_key(schema, facts, flavour)
    except SourceError as error:
        return TableEstimate(table, facts.rows, facts.bytes, "", refused=str(error))
    return TableEstimate(table, facts.rows, facts.bytes, _in_words(key, facts, flavour))


def _with_statistics(
    session: MysqlSession, facts: Mapping[TableName, TableFacts], tables: Iterable[TableName]
) -> Mapping[TableName, TableFacts]:
    """TiDB says 0 rows of a table that it has not analyzed since it was filled. So it says nothing of one that has a row, or that this
    user may not read."""
    empty = islice((table for table in tables if table in facts and facts[table].rows == 0), EMPTY_REQUESTED_MAX)
    unknown = [table for table in empty if _may_have_rows(session, table)]
    return {**facts, **{table: replace(facts[table], rows=None, bytes=None) for table in unknown}}


def _may_have_rows(session: MysqlSession, table: TableName) -> bool:
    try:
        return bool(session.rows(f"SELECT 1 FROM {quoted_table(table)} LIMIT 1"))
    except pymysql.err.MySQLError as error:
        if code_of(error) not in NO_RIGHT | NOT_THERE:
            raise
        return True


def _in_words(key: ReadKey, facts: TableFacts, flavour: Flavour) -> str:
    if key.by_rowid:
        return key.columns[0].column.name
    names = ", ".join(part.column.name for part in key.columns)
    return f"clustered primary key ({names})" if facts.clustered and flavour is Flavour.TIDB else f"key ({names})"


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


def read_facts(session: MysqlSession, table: TableName | None = None) -> dict[TableName, TableFacts]:
    """Of every table, or of one. Raises pymysql's errors."""
    scope, values = _scope(table)
    pk_type = "TIDB_PK_TYPE" if session.flavour is Flavour.TIDB else "NULL"
    charsets: dict[TableName, dict[str, tuple[str, str]]] = defaultdict(dict)
    results = session.rows(
        "SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, CHARACTER_SET_NAME, COLLATION_NAME FROM information_schema.columns"
        f" WHERE CHARACTER_SET_NAME IS NOT NULL AND {scope}",
        values,
    )
    for schema_name, table_name, column, charset, collation in results:
        charsets[TableName(schema_name, table_name)][column] = (charset, collation)
    results = session.rows(
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
        for schema_name, table_name, rows, length, pk, options in results
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
        reported = definition(columns[name], keys, about, partitioning, flavour=session.flavour, json_columns=in_json)
        schemas[name] = TableSchema(
            name,
            in_feed,
            handle_key(in_feed, keys),
            number,
            ids or ((number,) if number else ()),
            definition=replace(reported, new_collation=new_collation),
        )
    return schemas


def _with_views(session: MysqlSession) -> dict[TableName, int]:
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
    """Whether SQL shows exactly the columns of `schema` at this moment. One query. Raises pymysql's errors."""
    scope, values = _scope(schema.name)
    json_columns: frozenset[tuple[TableName, str]] = frozenset()
    if session.flavour is Flavour.MARIADB:
        json_columns = frozenset((schema.name, column.name) for column in schema.columns if column.kind == "json")
    try:
        there = _in_feed(schema.name, _columns(session, scope, values)[schema.name], json_columns, shows=_shows(session))
        shows = _shows(session)
        return there == tuple(replace(one, elements=labels(shown(one.elements, shows), shows)) for one in schema.columns)
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
    results = [(TableName(schema, table), _JSON_CHECK.fullmatch(clause)) for schema, table, clause in rows]
    return frozenset((table, match[1].replace("``", "`")) for table, match in results if match)
