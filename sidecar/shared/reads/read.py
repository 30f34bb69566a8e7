"""A chunk's SELECT, and its rows as canonical text (model.Kind) in Arrow columns.

- Every value is text as the server sends it, so that no driver's types come between (sidecar/shared/resultset).
- Columns get positions for names: an alias that is a column's name would hide it.
- A chunk ends where its text has become too large (ReadChunk.bytes_max), in the midst of what the server sends. Of a range it is then the
  rows up to the last one that was read. Of a list of keys nothing can be said then, for its rows come in any order: a beginning of the
  list is read again, by a SELECT of its own.
- A NULL in a NOT NULL column ends the read: a server gives it where it cannot tell a value, and nothing is guessed.
- SQL shows what a DDL makes of a table before its commit_ts in part (a column that is being dropped, a type that is being
  modified), and the feed has the DDL later still. Rows whose columns are not those of the schema in force
  are no chunk but a Misfit. Columns only go forward, so what they are after the SELECT they were in it, if the schema in force
  was reached before: that is looked at when the table's key is learned.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pymysql

from sidecar.shared.errors import SourceError
from sidecar.shared.log.absent import with_absent
from sidecar.shared.model.keyset import Key, NotAKey, ReadKey, between, evenly_between, one_of, order_by, thinned
from sidecar.shared.model.messages import Brackets, ReadChunk
from sidecar.shared.model.nouns import Column, CommitTs, TableName, TableSchema
from sidecar.shared.mysql.errors import TOO_LONG, code_of, passes
from sidecar.shared.mysql.flavour import Flavour
from sidecar.shared.mysql.key_ranges import end_key, rows_select
from sidecar.shared.mysql.retry import carried_out
from sidecar.shared.mysql.session import MysqlSession
from sidecar.shared.reads.tables import TableFacts, check_soft_delete, handle_read_key, has_columns_of, read_facts, read_key
from sidecar.shared.resultset.packets import read_up_to
from sidecar.shared.resultset.selects import key_select, spelt

T = TypeVar("T")

_MISFIT_CODES = frozenset({1049, 1051, 1054, 1146, 8028})
"""Unknown database, table, column; ErrInfoSchemaChanged, which TiDB gives a statement that a DDL overtook, when it came to stay."""

FILTERED = (
    "if a DDL did this, it must come by the feed: see that no event filter of the changefeed leaves it out, then start the dump again;"
    " or GRANT SELECT on the table to source.user"
)


class _Query(Protocol):
    """A question to the server that is tried again while its errors pass. Raises SourceError."""

    def __call__(self, action: Callable[[], T], /) -> T: ...


# ---- the SELECT -----------------------------------------------------------------------------------------------------


def chunk_select(schema: TableSchema, key: ReadKey, *, after: Key | None, upper: Key | None, where: str | None, rows_max: int) -> str:
    """The first `rows_max` rows with key in `(after, upper]`, all columns `as_sent`, and `_tidb_rowid` last if that is the key.

    Raises keyset.NotAKey.
    """
    columns = [*schema.columns, *(part.column for part in key.columns if key.by_rowid)]
    condition = between(key, after=after, upper=upper, where=where)
    return f"{rows_select(columns, schema.name, at_source=True)}{condition}{order_by(key)} LIMIT {rows_max}"


def keys_select(schema: TableSchema, key: ReadKey, keys: Sequence[Key], *, where: str | None) -> str:
    """The rows with these handle keys, all columns `as_sent`, and last whether `where` is true for the row: 1, else 0 or NULL.

    A row that `where` hides is there all the same, so its key is not absent. Raises keyset.NotAKey.
    """
    shown = f"({where}\n) IS TRUE" if where else "TRUE"
    selected = rows_select(schema.columns, schema.name, at_source=True, also=f", CAST({shown} AS CHAR)")
    return f"{selected} WHERE {one_of(key, keys)}"


def canonical(table: pa.Table, columns: Sequence[Column], *, where: str) -> pa.Table:
    """selects.spelt. Raises SourceError that begins with `where`."""
    for index, column in enumerate(columns):
        if table.column(index).null_count and not column.nullable:
            raise SourceError(
                f"{where}: the server gave NULL for column {column.name}, which is NOT NULL",
                hint="start the dump again; if it repeats, the server cannot tell a value: see its log",
            )
    return spelt(table, columns)


# ---- a chunk --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SelectedChunk:
    """`selected`: the SELECT's rows, of which `texts` makes those of the file; the rest as in ChunkFile and ChunkRead.
    `in_force`: the schemas that it was read by. `absent`: requested keys, of the columns `key`, that have no row."""

    selected: pa.Table
    columns: Sequence[Column]
    in_force: object
    last: Key | None
    read_tso: CommitTs | None
    exhausted: bool
    bounds: tuple[Key, ...]
    read_s: float
    key: tuple[str, ...] = ()
    absent: tuple[Key, ...] = ()
    keys_read: int = 0

    def texts(self, *, where: str) -> pa.Table:
        """The rows as `canonical`, behind the absent keys. Raises SourceError that begins with `where`."""
        return with_absent(canonical(self.selected, self.columns, where=where), self.key, self.absent)


@dataclass(frozen=True, slots=True)
class Misfit:
    """The table is not as the schema in force says. `schema_ts`: a TSO that was taken after this was seen, so that a DDL that did it is at
    or below; None: nobody could take one."""

    reason: str
    hint: str = FILTERED
    schema_ts: CommitTs | None = None


@dataclass(frozen=True, slots=True)
class _InForce:
    """The schemas between two DDLs, and what was learned of their tables' keys and statistics meanwhile."""

    schemas: Mapping[TableName, TableSchema]
    keys: dict[TableName, tuple[ReadKey, TableFacts]] = field(default_factory=dict)


class ChunkReader:
    """Carries out ReadChunk up to the file. Any number of threads, each with its session; `follow` from any: a read goes by what
    was in force when it began, and leaves nothing that it learned to what comes after."""

    def __init__(self, schemas: Mapping[TableName, TableSchema]) -> None:
        self._in_force = _InForce(schemas)

    def follow(self, schemas: Mapping[TableName, TableSchema]) -> None:
        self._in_force = _InForce(schemas)

    def serves(self, chunk: SelectedChunk) -> bool:
        """Whether the schemas are still those that it was read by."""
        return chunk.in_force is self._in_force

    def read(self, session: MysqlSession, command: ReadChunk, *, stopped: Callable[[], bool]) -> SelectedChunk | Misfit:
        """Raises SourceError."""
        in_force = self._in_force
        doing = f"reading chunk {command.number} of {command.table}"
        schema = in_force.schemas.get(command.table)
        if schema is None:
            raise SourceError(f"{doing}: its schema is not known", hint="leave it out of the dump: the changefeed does not carry it")

        def query(action: Callable[[], T]) -> T:
            return carried_out(session, action, doing=doing, stopped=stopped)

        try:
            known = in_force.keys.get(command.table)
            learned = known or query(lambda: _learn(session, schema))
            if isinstance(learned, Misfit):
                return replace(learned, reason=f"{doing}: {learned.reason}")
            fitted = known is not None or query(lambda: has_columns_of(session, schema))
            if fitted:
                in_force.keys[command.table] = learned
            read = _Read(session, command, schema, in_force, query, doing)
            chunk = read.keys(handle_read_key(schema, learned[1])) if command.keys else read.range(*learned)
            # checked after the SELECT, whose own error says more: a missing right hides columns too
            return chunk if fitted else Misfit(f"{doing}: {_changed(schema)}")
        except SourceError as error:
            if isinstance(error.__cause__, UnicodeDecodeError) and not query(lambda: has_columns_of(session, schema)):
                return Misfit(error.message)
            if not isinstance(error.__cause__, pymysql.err.MySQLError) or code_of(error.__cause__) not in _MISFIT_CODES:
                raise
            if command.where is not None and query(lambda: has_columns_of(session, schema)):
                raise  # the table is as the schema says: the predicate is wrong
            return Misfit(error.message)


@dataclass(frozen=True, slots=True)
class _Read:
    """One command on one session. `doing`: how an error begins. All raise SourceError."""

    session: MysqlSession
    command: ReadChunk
    schema: TableSchema
    in_force: _InForce
    query: _Query
    doing: str

    def range(self, key: ReadKey, facts: TableFacts) -> SelectedChunk | Misfit:
        command, schema, rows_max = self.command, self.schema, _rows_max(facts, self.command)
        try:  # one row more than requested shows whether any is left
            sql = chunk_select(schema, key, after=command.after, upper=command.upper, where=command.where, rows_max=rows_max + 1)
        except NotAKey as error:
            raise SourceError(f"{self.doing}: {error}", hint="the table's key has changed: restart the dump") from error
        selected = self._selected(sql, len(schema.columns) + key.by_rowid)
        if isinstance(selected, Misfit):
            return selected
        table, whole, read_tso, read_s = selected
        rows = table.slice(0, rows_max)
        last = _last_key(key, schema, rows, where=self.doing) if rows.num_rows else command.after
        exhausted = whole and table.num_rows <= rows_max
        bounds: tuple[Key, ...] = ()
        if command.bounds_max > 0 and not exhausted and last is not None:
            pieces = _pieces(facts, command)
            bounds = self.query(lambda: bounds_above(self.session, key, last, upper=command.upper, count=pieces))
        return SelectedChunk(rows, schema.columns, self.in_force, last, read_tso, exhausted, bounds, read_s)

    def keys(self, key: ReadKey) -> SelectedChunk | Misfit:
        """`key`: the handle key. The server may find the row of `a` for `A`, which another list of keys may ask for: only rows with exactly
        these keys are of the chunk."""
        command, schema, first_keys = self.command, self.schema, self.command.keys
        while True:
            selected = self._selected(self._keys_sql(key, first_keys), len(schema.columns) + 1, bounded=len(first_keys) > 1)
            if isinstance(selected, Misfit):
                return selected
            table, whole, read_tso, read_s = selected
            if whole:
                break
            first_keys = first_keys[: max(1, min(len(first_keys), table.num_rows) // 2)]
        texts = canonical(table, schema.columns, where=self.doing)
        there = list(zip(*(texts.column(name).to_pylist() for name in schema.key), strict=True))
        wanted, keys = set(first_keys), set(there)
        requested_for = pc.and_(pa.array([one in wanted for one in there], pa.bool_()), pc.equal(table.column(len(schema.columns)), "1"))
        absent = tuple(one for one in first_keys if one not in keys)
        rows, exhausted = table.filter(requested_for), len(first_keys) == len(command.keys)
        return SelectedChunk(
            rows, schema.columns, self.in_force, None, read_tso, exhausted, (), read_s, schema.key, absent, keys_read=len(first_keys)
        )

    def _keys_sql(self, key: ReadKey, keys: Sequence[Key]) -> str:
        try:
            return keys_select(self.schema, key, keys, where=self.command.where)
        except NotAKey as error:
            raise SourceError(f"{self.doing}: {error}", hint="the table's key has changed: start a dump of its present keys") from error

    def _selected(self, sql: str, columns: int, *, bounded: bool = True) -> _Selected | Misfit:
        """As `_select`, of a table that is as the schema in force says."""
        brackets, flavour = self.command.brackets, self.query(lambda: self.session.flavour)
        if brackets is Brackets.SNAPSHOT and flavour is not Flavour.TIDB:
            what = f"{flavour.value} has no timestamp of a snapshot"
            raise SourceError(f"{self.doing}: {what}", hint="dump with --brackets watermark")
        bytes_max = self.command.bytes_max if bounded else None
        selected = self.query(lambda: _select(self.session, sql, columns, brackets, bytes_max))
        if not self.query(lambda: has_columns_of(self.session, self.schema)):
            return Misfit(f"{self.doing}: {_changed(self.schema)}")
        return selected


class _Selected(NamedTuple):
    """`whole`: these are all rows of the SELECT. `read_tso`: their snapshot's TSO if that is the bracket."""

    rows: pa.Table
    whole: bool
    read_tso: CommitTs | None
    read_s: float


def _select(session: MysqlSession, sql: str, columns: int, brackets: Brackets, bytes_max: int | None) -> _Selected:
    if brackets is Brackets.WATERMARK:
        started_s = time.monotonic()
        return _Selected(*read_up_to(session, sql, columns, bytes_max=bytes_max), None, time.monotonic() - started_s)
    session.rows("START TRANSACTION WITH CONSISTENT SNAPSHOT")
    try:
        read_tso = CommitTs(int(session.rows("SELECT @@tidb_current_ts")[0][0]))
        started_s = time.monotonic()
        table, whole = read_up_to(session, sql, columns, bytes_max=bytes_max)
        read_s = time.monotonic() - started_s
        if whole:  # else the connection is closed, and the transaction with it
            session.rows("ROLLBACK")
    except BaseException:
        session.close()  # the transaction must not be the next chunk's
        raise
    return _Selected(table, whole, read_tso, read_s)


def _learn(session: MysqlSession, schema: TableSchema) -> tuple[ReadKey, TableFacts] | Misfit:
    facts = read_facts(session, schema.name).get(schema.name)
    if facts is None:
        return Misfit(f"{schema.name} does not exist, or this account may not see it")
    check_soft_delete(session, schema)
    return read_key(schema, facts, session.flavour), facts


def _changed(schema: TableSchema) -> str:
    return f"the columns of {schema.name} are not those after the feed's DDLs ({', '.join(schema.column_names())})"


def _last_key(key: ReadKey, schema: TableSchema, rows: pa.Table, *, where: str) -> Key:
    """Of the SELECT's last row. `_tidb_rowid` comes after the schema's columns. Raises SourceError that begins with `where`."""
    last = rows.slice(rows.num_rows - 1)
    if key.by_rowid:
        return (str(last.column(len(schema.columns))[0].as_py()),)
    texts = canonical(last, schema.columns, where=where)
    return tuple(str(texts.column(part.column.name)[0].as_py()) for part in key.columns)


def _rows_max(facts: TableFacts, command: ReadChunk) -> int:
    """The rows to ask for. At a table's beginning nobody has seen any, so the statistics say how many fit, if there are any: only there, as
    they may be of another time. What they say wrongly costs a small first chunk, or one that is ended as it comes."""
    if command.after is not None or not facts.rows or not facts.bytes:
        return command.rows_max
    return max(1, min(command.rows_max, command.bytes_max * facts.rows // facts.bytes))


def _pieces(facts: TableFacts, command: ReadChunk) -> int:
    """Into how many pieces the rest is worth cutting: none smaller than a chunk, by the table's statistics if it has any."""
    return min(command.bounds_max, max(1, facts.rows // command.rows_max)) if facts.rows else command.bounds_max


def bounds_above(session: MysqlSession, key: ReadKey, last: Key, *, upper: Key | None, count: int) -> tuple[Key, ...]:
    """At most `count` keys above `last`, rising, the last one being the highest that there is up to `upper`; empty if none is.

    TiDB returns a row of each region. Elsewhere, and where it cannot, integers are cut evenly and other keys not at all: finding them
    would cost a scan. Raises pymysql's errors.
    """
    highest = end_key(session, key, last=True, after=last, upper=upper)
    if highest is None:
        return ()
    if count > 1 and session.flavour is Flavour.TIDB:
        sample = f" TABLESAMPLE REGIONS(){between(key, after=last, upper=highest)}{order_by(key)}"
        try:
            cuts = [row for row in session.rows(key_select(key, sample)) if row != highest]
            return (*thinned(cuts, count=count - 1), highest)
        except pymysql.err.MySQLError as error:
            if passes(error, session.role) and code_of(error) not in TOO_LONG:
                raise
    return evenly_between(key, last, highest, count=count)
