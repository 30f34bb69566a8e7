"""The changefeed's tables as DDLs change them: `Schemas` over a TiDB that can be asked what its tables were at a TSO.

- A DDL's commit_ts F is the commit that made its last state public, so the tables after it are those of TSO F (facts/tidb.md 4.3).
- What `begin` found holds up to the TSO at which it was read: an older DDL, which the feed still brings, is contained in it.
- At F other tables may be amid a DDL of their own, and SQL hides then what the feed still carries (facts/tidb.md 5). So a table
  that no DDL names keeps its columns while its ids are the same.
- The log's tables hold where it ends, but for tables that have come into the changefeed's rules since. If an event filter
  leaves DDLs out, no DDL tells what has become of them: then the present tables count.
- A source without TSOs (no TiDB) cannot be asked: a DDL of a table stops the sidecar.

Views and sequences are no tables here. What the changefeed has of all tables, `narrow` says: a table that a RENAME takes out of its
rules is gone, and TiCDC itself stops at one that it would bring in (ticdc/ddl_rules.py).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Protocol

from sidecar.adapters.memory.schemas import StillSchemas
from sidecar.core.model import Change, CommitTs, Ddl, TableName, TableSchema
from sidecar.errors import SourceError

Tables = Mapping[TableName, TableSchema]

NAMED_MAX = 10
"""Tables that one note names."""


class TablesInTime(Protocol):
    """As `adapters.tidb_schema.TidbSchemas`."""

    def tables(self, at_ts: CommitTs | None = None) -> Tables: ...
    def now_ts(self) -> CommitTs | None: ...


class FollowedSchemas:
    """`Schemas` for feeds that name their tables. For one term; `tables` may be read from any thread.

    `narrow`: of all tables those that the changefeed has; heard whenever they may have changed. `ddls_hidden`: its filter leaves
    DDLs out. `note`: told what an operator should know.
    """

    def __init__(self, source: TablesInTime, *, narrow: Callable[[Tables], Tables], ddls_hidden: bool, note: Callable[[str], None]) -> None:
        self._source, self._narrow, self._note = source, narrow, note
        self._ddls_hidden = ddls_hidden
        self._known_ts: CommitTs | None = None
        self.tables: Tables = {}

    def begin(self) -> Tables:
        """As the port. Raises FeedUnsuitable, SourceError."""
        self._known_ts, found = self._present()
        return self._take(found)

    def resume(self, tables: Tables, *, upto_ts: CommitTs) -> Tables:
        """As the port. Raises FeedUnsuitable, SourceError."""
        if self._ddls_hidden:
            self._known_ts, found = self._present()
        else:
            self._known_ts = upto_ts if self._source.now_ts() is not None else None
            found = self._where_it_ends(tables, upto_ts)
        taken = self._take(found)
        if changed := sorted(str(name) for name in taken.keys() | tables.keys() if _form(taken.get(name)) != _form(tables.get(name))):
            named = ", ".join(changed[:NAMED_MAX]) + (" …" if len(changed) > NAMED_MAX else "")
            self._note(f"{len(changed)} tables are not what they were where the log ends, without a DDL in the feed: {named}")
        return taken

    def after(self, ddls: Sequence[Ddl]) -> Tables:
        """As the port. Raises also SourceError for a time that is garbage-collected, FeedUnsuitable."""
        if self._known_ts is None:
            StillSchemas(self.tables).after(ddls)
        commit_ts = max(ddl.commit_ts for ddl in ddls)
        if self._known_ts is not None and commit_ts > self._known_ts:
            found = self._source.tables(commit_ts)
            named = {TableName(ddl.schema, ddl.table) for ddl in ddls if ddl.table}
            self._take(found if self._ddls_hidden else _with_columns_of(self.tables, found, but=named))
            self._known_ts = commit_ts
        return self.tables

    def named(self, changes: Iterable[Change]) -> Iterable[Change]:
        return changes

    def _present(self) -> tuple[CommitTs | None, Tables]:
        """The tables and the TSO at which they were read."""
        now_ts = self._source.now_ts()
        return now_ts, self._source.tables(now_ts)

    def _where_it_ends(self, logged: Tables, upto_ts: CommitTs) -> Tables:
        """The log's tables, and those that came into the changefeed's rules while nobody attended to it."""
        if self._known_ts is not None:
            try:
                return _with_columns_of(logged, self._source.tables(upto_ts), but=())
            except SourceError as error:
                if error.retryable:
                    raise
        return {**self._source.tables(), **logged}  # too long ago to ask; what was made since has its DDL still to come

    def _take(self, found: Tables) -> Tables:
        self.tables = self._narrow(found)
        return self.tables


def _form(table: TableSchema | None) -> object:
    """What an operator would call another form of it. A log of an older version has no ids."""
    return table and (table.columns, table.key)


def _with_columns_of(before: Tables, found: Tables, *, but: Collection[TableName]) -> Tables:
    """`found`, in which tables that are the same as `before` by name and ids have the columns that they had."""

    def kept(name: TableName, now: TableSchema) -> TableSchema:
        then = before.get(name)
        same = then is not None and name not in but and (then.table_id, then.physical_ids) == (now.table_id, now.physical_ids)
        return then if then is not None and same else now

    return {name: kept(name, now) for name, now in found.items()}
