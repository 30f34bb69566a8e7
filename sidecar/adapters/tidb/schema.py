"""`SchemaSource` over SQL: the tables now or at a TSO, their names, statistics and keys, as a caller who may go asks for them.

What a table is, and what its SELECTs are ordered by, sidecar/shared/reads/tables.py reads.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import closing
from copy import copy
from dataclasses import replace
from itertools import islice
from typing import TypeVar

import pymysql

from sidecar.ports import Bracketing, Caller, TableEstimate
from sidecar.shared.config import SourceSection
from sidecar.shared.errors import RefusedRequest, SourceError, UnfitKeys, with_hint
from sidecar.shared.model.keyset import (
    Key,
    NotAKey,
    ReadKey,
    one_of,
    quoted_table,
    spelled_keys,
)
from sidecar.shared.model.nouns import MARK_TABLE, CommitTs, TableName, TableSchema, physical_ms
from sidecar.shared.mysql.account import Account
from sidecar.shared.mysql.errors import NO_RIGHT, NOT_THERE, code_of, passes
from sidecar.shared.mysql.flavour import Flavour
from sidecar.shared.mysql.retry import carried_out
from sidecar.shared.mysql.roles import Role
from sidecar.shared.mysql.session import MysqlSession
from sidecar.shared.reads.ddl_jobs import ANY, MAKES_NAMES, not_loaded, of_table, under_way
from sidecar.shared.reads.row import KeyOf, RowImage, read_row
from sidecar.shared.reads.snapshot import as_of, present_ts
from sidecar.shared.reads.tables import TableFacts, handle_read_key, read_facts, read_key, read_schemas, with_views
from sidecar.shared.ticdc.changefeed import Changefeed
from sidecar.shared.ticdc.suitability import no_marks

_NO_SNAPSHOTS = with_hint("the source is no TiDB: it keeps no version of a row", "let the changefeed carry the watermark table")
_KEY_HINT = "give each key as the columns' values in the key's order, as TiDB shows them"
T = TypeVar("T")
Schemas = Mapping[TableName, TableSchema]

LOADED_MAX_S = 45.0
"""TiDB's schema lease: a server loads by its clock within half of it, whatever it received. Longer a job waits only for a
transaction that holds a table as it was, and that says nothing of what servers know."""
LOADED_AGAIN_S = 0.2

ANSWER_MIN_S = 0.1
"""Of a caller who is about to go: no timeout may be 0, which is none."""


EMPTY_REQUESTED_MAX = 1000
"""Tables without rows by the statistics in which a query looks for one, a millisecond each; for the others the statistics are used."""


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

    def row(self, table: TableName, at_ts: CommitTs, columns: Collection[str], key_of: KeyOf) -> RowImage | None:
        """The row with this key, of `columns`, as it was at `at_ts`, when all servers have loaded what the table was then; None: there was
        none. Any thread. Raises SourceError also for a time that is garbage-collected or where the source keeps none, and what `key_of`
        does."""

        def once(session: MysqlSession) -> tuple[Sequence[str], None]:
            now_ts = present_ts(session)
            is_young = now_ts is not None and physical_ms(now_ts) < physical_ms(at_ts) + LOADED_MAX_S * 1000
            return not_loaded(session, kinds=f"({MAKES_NAMES} OR {of_table(table)})") if is_young else (), None

        doing = f"reading a row of {table} as of TSO {at_ts}"
        copy(self)._when_loaded(doing, once, lambda _: False)
        return self._ask(doing, lambda session: as_of(session, at_ts, lambda then: read_row(then, table, columns, key_of)))

    def names(self) -> Mapping[TableName, int]:
        """The same tables, and views, with their ids at the moment of the call, for little. As of a TSO where there is one, when all
        servers have loaded what was made before it. Raises SourceError."""

        def once(session: MysqlSession) -> tuple[Sequence[str], Mapping[TableName, int]]:
            now_ts = present_ts(session)
            if now_ts is None:
                return (), with_views(session)
            behind = not_loaded(session, kinds=MAKES_NAMES)
            return behind, as_of(session, now_ts, with_views)

        return self._when_loaded("reading the tables' names", once, lambda _: False)

    def _when_loaded(self, doing: str, once: Callable[[MysqlSession], tuple[Sequence[str], T]], shown: Callable[[T], bool]) -> T:
        """What `once` returns, called again in a session of its own while it names DDLs that servers may be behind with. Each DDL counts
        for LOADED_MAX_S since any query first saw it, so that one that stays done holds up one query and not all."""
        began_s = requested_s = time.monotonic()
        while True:
            behind, answer = self._ask(doing, once)
            known = self._done_since_s
            self._done_since_s = {ddl: began_s if ddl == ANY else known.get(ddl, requested_s) for ddl in behind}
            if all(requested_s - since_s >= LOADED_MAX_S for since_s in self._done_since_s.values()) or shown(answer):
                return answer
            time.sleep(LOADED_AGAIN_S)  # no event reports that a server has loaded
            requested_s = time.monotonic()

    def changing(self, table_ids: Collection[int], at_ts: CommitTs) -> frozenset[int]:
        """Those of them that a DDL of their own was changing at that TSO. Raises SourceError."""
        return self._ask("reading the DDL jobs", lambda session: under_way(session, table_ids, at_ts))

    def now_ts(self) -> CommitTs | None:
        """A TSO of the source, above every commit that was answered before; None if it keeps no such time. Raises SourceError."""
        return self._ask("asking for a TSO", present_ts)

    def bracketing(self, changefeed: Changefeed, *, encoded: bool) -> Bracketing:
        """What dumps of it by this account can have. From another cluster than the changefeed's no mark would come, and a snapshot there
        would be of other rows. Raises SourceError."""
        kept_out = no_marks(changefeed, encoded=encoded)

        def question(session: MysqlSession) -> Bracketing:
            if elsewhere := _elsewhere(session, changefeed.upstream_id):
                return Bracketing(elsewhere, elsewhere)
            marks = kept_out or unwritable(session, self._account.user)
            return Bracketing(marks, "" if session.flavour is Flavour.TIDB else _NO_SNAPSHOTS)

        return self._ask("reading which brackets a dump can have", question, role=Role.READ_SOURCE if kept_out else Role.MARK)

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
        spelled, unfit = self._by_key(table, lambda key: spelled_keys(key, keys))
        if unfit:
            raise UnfitKeys(f"--keys of {table}: {next(iter(unfit.values()))}", hint=_KEY_HINT, keys=tuple(unfit))
        return spelled

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

    def _ask(self, doing: str, question: Callable[[MysqlSession], T], *, role: Role = Role.READ_SOURCE) -> T:
        if self._caller is None:
            with closing(MysqlSession(self._account, role)) as session:
                return carried_out(session, lambda: question(session), doing=doing)
        with closing(MysqlSession(_within(self._account, max(self._caller.left_s(), ANSWER_MIN_S)), role)) as session:
            if not self._caller.when_gone(session.interrupt):
                session.interrupt()
            return carried_out(session, lambda: question(session), doing=doing, stopped=self._caller.gone)


def _elsewhere(session: MysqlSession, upstream_id: int) -> str:
    here = cluster_id(session) if session.flavour is Flavour.TIDB else None
    if here is None or here == upstream_id or not upstream_id:
        return ""
    what = f"source.host is a TiDB of cluster {here}, and the changefeed reads cluster {upstream_id}"
    return with_hint(what, "set source.host to a TiDB of the cluster that the changefeed reads")


def cluster_id(session: MysqlSession) -> int | None:
    """PD's, as TiDB keeps it in mysql.tidb (pingcap/tidb pkg/session/bootstrap.go, from version 242 of that on). None: the server does
    not say, or not to this account. Raises pymysql's errors."""
    try:
        rows = session.rows("SELECT VARIABLE_VALUE FROM mysql.tidb WHERE VARIABLE_NAME = 'cluster_id'")
    except pymysql.err.MySQLError as error:
        if code_of(error) not in NO_RIGHT | NOT_THERE:
            raise
        return None
    text = str(rows[0][0]) if rows else ""
    return int(text) if text.isascii() and text.isdigit() else None


def unwritable(session: MysqlSession, user: str) -> str:
    """Why the account can write no mark, with the way out; empty: it can. An UPDATE and an INSERT that change no row are sent, as a server
    says it: it judges rights, columns and read-only modes before it looks for rows. Raises pymysql's errors."""
    columns = "changefeed_id, unique_identifier, event_type, create_time, update_time"
    try:
        session.change(f"UPDATE {MARK_TABLE} SET unique_identifier = '', event_type = 0, update_time = 0 WHERE changefeed_id = ''")
        session.change(f"INSERT INTO {MARK_TABLE} ({columns}) SELECT {columns} FROM {MARK_TABLE} WHERE FALSE")
    except pymysql.err.MySQLError as error:
        if passes(error, Role.MARK):
            raise
        rights = f"GRANT SELECT, INSERT, UPDATE ON {MARK_TABLE.schema}.* TO '{user}'@'%'"
        return with_hint(f"{MARK_TABLE} cannot be written: {error.args[-1]}", f"create it with deploy/sql/changefeed_dump.sql; {rights}")
    return ""


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
