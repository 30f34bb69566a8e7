"""The changefeed's tables as DDLs change them: `Schemas` over a TiDB that knows its tables at any TSO.

- A DDL's commit_ts F is the commit that made its last state public, so the tables after it are those of TSO F
  (pingcap/tidb pkg/ddl/job_worker.go, runOneJobStep).
- A new log begins at the TSO at which its tables were read: what is older in the feed was written under tables that nobody knows any
  more, and a dump brings its rows. Unless the operator has it otherwise: then DDLs up to that TSO, which the feed still brings, are
  contained in the tables, and the rows before them are taken for rows of the same form.
- A TiDB server may not have loaded F yet. What it answers is believed if the tables that the DDLs name are not what they were, or when all
  servers have loaded what was made (shared/reads/ddl_jobs.py).
- At F other tables may be amid a DDL of their own, and SQL hides then what the feed still carries. So a table
  that no DDL names keeps its columns while its ids are the same.
- What tables were made of (`definition`) comes with them. A log of 0.3.0 and before does not tell it: it is added where it fits the
  log's columns, and stops nothing where it does not.
- The log's tables hold where it ends, but for those that TiDB has otherwise there without a DDL that was changing them, and tables that
  have come into the changefeed's rules since. DDLs that an event filter keeps from the topics come all the
  same (feeds/encoded/hidden.py).
- A table that is there after a DDL, although no DDL in the feed made it, came back by FLASHBACK DATABASE. TiCDC omits that from the feed,
  with the rows of such tables. The sidecar stops.
- A source without TSOs (no TiDB) has no tables at a TSO: a DDL of a table stops the sidecar.

Views and sequences are no tables here. What the changefeed has of all tables, `narrow` says: a table that a RENAME takes out of its
rules is gone, and TiCDC itself stops at one that it would bring in (shared/ticdc/ddl_rules.py).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Protocol

from sidecar.shared.errors import FeedUnsuitable, SourceError
from sidecar.shared.model.nouns import Change, CommitTs, Ddl, TableName, TableSchema
from sidecar.shared.schema.unfollowed import check_untouched
from sidecar.shared.ticdc.table_routes import names_in_feed, with_own_name

Tables = Mapping[TableName, TableSchema]

NAMED_MAX = 10
"""Tables that one note names."""

_OF_THOSE_THAT_CAME = (
    "if it was neither the changefeed's rules nor this account's rights that let new ones in, but a FLASHBACK DATABASE, TiCDC sends nothing"
    " of them: re-create the changefeed, with a new log and new sinks, and dump again"
)
"""Who takes over cannot tell one from the other, though the owner before it may have stopped for it."""


class TablesInTime(Protocol):
    """As `adapters.tidb.schema.TidbSchemas`."""

    def tables(self, at_ts: CommitTs | None = None, *, shown: Callable[[Tables], bool] = ...) -> Tables: ...
    def changing(self, table_ids: Collection[int], at_ts: CommitTs) -> frozenset[int]: ...
    def now_ts(self) -> CommitTs | None: ...


class FollowedSchemas:
    """`Schemas` for feeds that name their tables. For one term; `tables` may be read from any thread. `began`: `since_ts` of
    a log that is new, None for one that continues.

    `narrow` returns, of all tables, those that the changefeed has; called whenever they may have changed. `note` receives what an
    operator should know. `from_now`: a new log begins at the moment of its tables, if the source has a TSO for it; else at all that the
    feed has.
    """

    def __init__(
        self,
        source: TablesInTime,
        *,
        narrow: Callable[[Tables], Tables],
        note: Callable[[str], None],
        from_now: bool = True,
    ) -> None:
        self._source, self._narrow, self._note = source, narrow, note
        self._from_now = from_now
        self._known_ts: CommitTs | None = None
        self.began: CommitTs | None = None
        self._all: Tables = {}
        self.tables: Tables = {}

    @property
    def since_ts(self) -> CommitTs:
        """As the port."""
        return self.began or CommitTs(0)

    @property
    def known_ts(self) -> CommitTs:
        """Of the tables: DDLs up to there are in them. 0 where the source has no TSO."""
        return self._known_ts or CommitTs(0)

    @property
    def after_ts(self) -> CommitTs:
        """What is committed up to there a new log skips, or the log has. 0 where that is not known."""
        return self.known_ts if self.began is None else self.began

    def begin(self) -> Tables:
        """As the port. Raises FeedUnsuitable, SourceError."""
        self._known_ts, schemas = self._present()
        self.began = self._known_ts if self._from_now and self._known_ts is not None else CommitTs(0)
        return self._take(schemas)

    def resume(self, tables: Tables, *, upto_ts: CommitTs) -> Tables:
        """As the port. Raises FeedUnsuitable, SourceError."""
        self._known_ts = upto_ts if self._source.now_ts() is not None else None
        schemas = self._where_it_ends(tables, upto_ts)
        taken = self._take(schemas)
        if changed := sorted(str(name) for name in taken.keys() | tables.keys() if _form(taken.get(name)) != _form(tables.get(name))):
            what = f"{len(changed)} tables are not what they were where the log ends, without a DDL in the feed: {_listed(changed)}"
            came = any(table.key and name not in tables for name, table in taken.items())
            self._note(what + (f"; {_OF_THOSE_THAT_CAME}" if came else ""))
        return taken

    def after(self, ddls: Sequence[Ddl]) -> Tables:
        """As the port. Raises also SourceError for a time that is garbage-collected, FeedUnsuitable."""
        if self._known_ts is None:
            check_untouched(self.tables.keys(), ddls)
        commit_ts = max(ddl.commit_ts for ddl in ddls)
        if self._known_ts is not None and commit_ts > self._known_ts:
            named = {TableName(ddl.schema, ddl.table).folded() for ddl in ddls if ddl.table}
            before = self.tables
            schemas = self._source.tables(commit_ts, shown=lambda tables: _all_changed(named, self._all, tables))
            self._take(_with_columns_of(before, schemas, but=named))
            _check_reported(before, self.tables, named, commit_ts)
            self._known_ts = commit_ts
        return self.tables

    def named(self, changes: Iterable[Change]) -> Iterable[Change]:
        """As the port. Raises FeedUnsuitable for a name that no table has in the feed."""
        names = names_in_feed(self.tables)
        return (with_own_name(change, names) for change in changes) if names else changes

    def _present(self) -> tuple[CommitTs | None, Tables]:
        """The tables and the TSO at which they were read."""
        now_ts = self._source.now_ts()
        return now_ts, self._source.tables(now_ts)

    def _where_it_ends(self, logged: Tables, upto_ts: CommitTs) -> Tables:
        """The log's tables, and those that came into the changefeed's rules while nobody attended to it."""
        if self._known_ts is not None:
            try:
                return self._as_logged(logged, self._source.tables(upto_ts), upto_ts)
            except SourceError as error:
                if error.retryable:
                    raise
        return {**self._source.tables(), **logged}  # too long ago to ask; what was made since has its DDL still to come

    def _as_logged(self, logged: Tables, tables: Tables, upto_ts: CommitTs) -> Tables:
        """Where both differ, a DDL under way says that the log is right: SQL shows what it makes before the feed does. Without one the log
        is from a server that was behind."""
        other = {name: now.table_id for name, now in tables.items() if name in logged and _form(logged[name]) != _form(now)}
        amid = self._source.changing(frozenset(other.values()), upto_ts) if other else frozenset[int]()
        return _with_columns_of(logged, tables, but={name.folded() for name, number in other.items() if number not in amid})

    def _take(self, tables: Tables) -> Tables:
        self._all, self.tables = tables, self._narrow(tables)
        return self.tables


def _check_reported(before: Tables, after: Tables, named: Collection[TableName], commit_ts: CommitTs) -> None:
    """Of tables with a key only: TiCDC sends nothing of the others. Raises FeedUnsuitable."""
    ids = {table.table_id for table in before.values() if table.table_id}
    came = sorted(name for name, table in after.items() if table.key and name not in before and table.table_id not in ids)
    if untold := [str(name) for name in came if name.folded() not in named]:
        raise FeedUnsuitable(
            f"tables that no DDL in the feed has made are there at commit_ts {commit_ts}: {_listed(untold)}; this is FLASHBACK "
            "DATABASE, which TiCDC omits together with all rows after it, or this account could not see them before",
            hint="after a FLASHBACK re-create the changefeed, with a new log and new sinks, and dump again; "
            "after a GRANT start the sidecar again",
        )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:NAMED_MAX]) + (" …" if len(names) > NAMED_MAX else "")


def _form(table: TableSchema | None) -> object:
    """What an operator would call another form of it. A log of an older version has no ids."""
    return table and (table.columns, table.omitted, table.key)


def _all_changed(named: Collection[TableName], before: Tables, now: Tables) -> bool:
    """Whether the answer alone shows that it includes the DDLs of these tables (folded), in their rows' columns. Their definitions alone
    show nothing, for one that was not known may have come to be."""
    then, schemas = ({name.folded(): table.undefined() for name, table in tables.items()} for tables in (before, now))
    return bool(named) and all(then.get(name) != schemas.get(name) for name in named)


def _with_columns_of(before: Tables, tables: Tables, *, but: Collection[TableName]) -> Tables:
    """`tables`, in which those that are the same as `before` by name and ids, and not of `but` (folded), have the columns that they had.
    A definition that was not known is taken from `tables` where it is of these columns."""

    def kept(name: TableName, now: TableSchema) -> TableSchema:
        then = before.get(name)
        same = then is not None and name.folded() not in but and (then.table_id, then.physical_ids) == (now.table_id, now.physical_ids)
        if then is None or not same:
            return now
        return now if then.definition is None and then == now.undefined() else then

    return {name: kept(name, now) for name, now in tables.items()}
