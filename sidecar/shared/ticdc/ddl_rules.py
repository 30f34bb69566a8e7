"""What TiCDC makes of a DDL: discard, ignore or send.

- DISCARD: TiCDC does not even apply it to its own schemas: the action is not in its allow list, or its table rules exclude the
  table. IGNORE: applied, not sent (event filters, ignored start-ts). SEND.
- Our schemas follow every job, whatever the verdict; it decides only what a sink gets.

Where DISCARD makes TiCDC's own schemas wrong, and ours are right: REPAIR_TABLE can replace columns; RECOVER_SCHEMA brings tables
back that TiCDC then does not replicate; ADD_ and DROP_FOREIGN_KEY, SHARD_ROW_ID, check constraints, attributes, placement and
cache leave the old TableInfo in place until the next allowed DDL of the table (rows decode the same); a table that is renamed
into the rules stops TiCDC (ErrSyncRenameTableFailed), so `verdict` refuses it. FLASHBACK_CLUSTER is discarded by TiCDC, which
then continues with rows that were restored without its knowledge; here it stops.
Source: pingcap/tidb pkg/meta/model/job.go; pingcap/ticdc pkg/filter; pingcap/tiflow pkg/filter, cdc/puller/ddl_puller.go.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum

from sidecar.shared.errors import UnsupportedDdl
from sidecar.shared.model.nouns import TableName
from sidecar.shared.schema.ddl import Action, DdlEvent, Effect, TableChange
from sidecar.shared.schema.system import is_system_schema
from sidecar.shared.ticdc.changefeed import FeedFilter
from sidecar.shared.ticdc.table_rules import TableRules, compiled


class DdlVerdict(Enum):
    DISCARD = "discard"
    IGNORE = "ignore"
    SEND = "send"


_A = Action
EVENT_TYPES: dict[Action, str] = {
    _A.CREATE_SCHEMA: "create database", _A.DROP_SCHEMA: "drop database", _A.MODIFY_SCHEMA_CHARSET: "modify schema charset and collate",
    _A.CREATE_TABLE: "create table", _A.CREATE_TABLES: "create table", _A.DROP_TABLE: "drop table", _A.TRUNCATE_TABLE: "truncate table",
    _A.RENAME_TABLE: "rename table", _A.RENAME_TABLES: "rename table", _A.RECOVER_TABLE: "recover table",
    _A.MODIFY_TABLE_COMMENT: "modify table comment", _A.MODIFY_TABLE_CHARSET: "modify table charset and collate",
    _A.CREATE_VIEW: "create view", _A.DROP_VIEW: "drop view",
    _A.ADD_TABLE_PARTITION: "add table partition", _A.DROP_TABLE_PARTITION: "drop table partition",
    _A.TRUNCATE_TABLE_PARTITION: "truncate table partition", _A.EXCHANGE_PARTITION: "exchange table partition",
    _A.REORGANIZE_PARTITION: "reorganize table partition", _A.ALTER_TABLE_PARTITIONING: "alter table partitioning",
    _A.REMOVE_PARTITIONING: "remove table partitioning",
    _A.ADD_COLUMN: "add column", _A.DROP_COLUMN: "drop column", _A.MODIFY_COLUMN: "modify column",
    _A.SET_DEFAULT_VALUE: "set default value",
    _A.ADD_COLUMNS: "add column", _A.DROP_COLUMNS: "drop column",
    _A.REBASE_AUTO_ID: "rebase auto id", _A.ADD_PRIMARY_KEY: "add primary key", _A.DROP_PRIMARY_KEY: "drop primary key",
    _A.ADD_INDEX: "create index", _A.DROP_INDEX: "drop index", _A.RENAME_INDEX: "rename index",
    _A.ALTER_INDEX_VISIBILITY: "alter index visibility",
    _A.ALTER_TTL: "alter ttl info", _A.REMOVE_TTL: "alter ttl remove", _A.MULTI_SCHEMA_CHANGE: "multi schema change",
    _A.ADD_FOREIGN_KEY: "add foreign key", _A.DROP_FOREIGN_KEY: "drop foreign key",
    _A.ADD_FULLTEXT_INDEX: "add fulltext index", _A.CREATE_HYBRID_INDEX: "create hybrid index",
}  # fmt: skip
"""TiCDC's allow list with the name of each in `ignore-event`. The last four are the new architecture's only."""

NEW_ARCHITECTURE_ONLY = frozenset({_A.ADD_FOREIGN_KEY, _A.DROP_FOREIGN_KEY, _A.ADD_FULLTEXT_INDEX, _A.CREATE_HYBRID_INDEX})

_SCHEMA_DDLS = frozenset({_A.CREATE_SCHEMA, _A.DROP_SCHEMA, _A.MODIFY_SCHEMA_CHARSET})
_NOT_ALTER_TABLE = _SCHEMA_DDLS | {_A.CREATE_TABLE, _A.CREATE_TABLES, _A.DROP_TABLE, _A.TRUNCATE_TABLE, _A.RECOVER_TABLE}
_NOT_ALTER_TABLE |= {_A.CREATE_VIEW, _A.DROP_VIEW} | NEW_ARCHITECTURE_ONLY
_ESCAPE_OR_SLASH = re.compile(r"\\.|/", re.DOTALL)
_KNOWN = frozenset(EVENT_TYPES.values())
_IN_TICDCS_WORDS = (("partition", "table partition"), ("columns", "column"), ("tables", "table"), ("alter table multi-", "multi "))
KEEPS_ROWS = frozenset(
    {"add index", "drop index", "rename index", "alter index visibility", "set default value", "rebase auto_increment ID", "rebase auto id"}
    | {
        "modify table comment",
        "add foreign key",
        "drop foreign key",
        "alter table set ttl",
        "alter table remove ttl",
        "create view",
        "drop view",
    }
)
"""In TiDB's words: rows are after it what they were before."""
ALIASES = {"create schema": "create database", "drop schema": "drop database"}


@dataclass(frozen=True, slots=True)
class DdlRules:
    """What TiCDC does with a DDL, by the changefeed's filter; `of` makes it.

    Ignored start-ts are IGNORE, as in current sources of both architectures; older ones discarded them.
    """

    tables: TableRules
    events: tuple[tuple[TableRules, frozenset[str], TableRules], ...]
    """Of each event filter its matcher, the types and the texts (`sql_rules`) that it ignores."""
    ignored_start_ts: frozenset[int]
    allowed: Collection[Action]

    @classmethod
    def of(cls, feed_filter: FeedFilter, *, new_architecture: bool) -> DdlRules:
        """Raises RefusedRequest for a table rule that is not one, FeedUnsuitable for an `ignore-sql` that Go would not take."""
        events = tuple(
            (
                # the classic architecture compiles an event filter's matcher as case-sensitive, whatever the setting says
                TableRules.of(one.matcher, case_sensitive=feed_filter.case_sensitive or not new_architecture),
                frozenset(ALIASES.get(event, event) for event in map(str.lower, one.ignore_event)),
                sql_rules(f"filter.event-filters number {number}", one.ignore_sql),
            )
            for number, one in enumerate(feed_filter.event_filters, 1)
        )
        rules = TableRules.of(feed_filter.rules or ("*.*",), case_sensitive=feed_filter.case_sensitive)
        allowed = EVENT_TYPES.keys() if new_architecture else EVENT_TYPES.keys() - NEW_ARCHITECTURE_ONLY
        return cls(rules, events, frozenset(feed_filter.ignore_txn_start_ts), allowed)

    def verdict(self, event: DdlEvent) -> DdlVerdict:
        """For the whole DDL: SEND if any of its tables is to be sent.

        Raises UnsupportedDdl if a table is renamed from outside the rules to inside: TiCDC stops there too.
        """
        if event.action not in self.allowed:
            return DdlVerdict.DISCARD
        if event.action in _SCHEMA_DDLS:
            kept = not is_system_schema(event.schema) and schema_matches(self.tables, event.schema)
            return self._kept(event, [TableName(event.schema, "")]) if kept else DdlVerdict.DISCARD
        names = [name for change in event.tables if (name := self._matched_name(event, change)) is not None]
        return self._kept(event, names) if names else DdlVerdict.DISCARD

    def may_hide(self, name: TableName, kind: str, query: str) -> bool:
        """Whether a DDL of the table may be omitted and change what rows are. `kind` is TiDB's word (ADMIN SHOW DDL JOBS): where it is
        none of TiCDC's, any event filter of DDLs that has the table is taken for one of it."""
        if kind in KEEPS_ROWS:
            return False
        event = next((known for known in (kind, *(kind.replace(*words) for words in _IN_TICDCS_WORDS)) if known in _KNOWN), None)
        types = {"all ddl", "alter table", event} if event else _KNOWN | {"all ddl", "alter table"}
        return any(
            not types.isdisjoint(ignored) or texts.matches(TableName(query, "sql"))
            for rules, ignored, texts in self.events
            if rules.matches(name)
        )

    def _matched_name(self, event: DdlEvent, change: TableChange) -> TableName | None:
        """The name by which TiCDC judges this table, None if its rules leave it out."""
        before = change.name_before or change.name_after
        if before is not None and self.tables.matches(before):
            return before
        if event.effect is Effect.RENAME and change.name_after is not None and self.tables.matches(change.name_after):
            raise UnsupportedDdl(
                f"{event.query!r} renames {change.name_before} to {change.name_after}, from outside the changefeed's table rules to inside",
                hint="TiCDC stops here too: let the rules hold both names, or start a new changefeed after the DDL and dump the table",
            )
        return None

    def _kept(self, event: DdlEvent, names: Collection[TableName]) -> DdlVerdict:
        if event.start_ts in self.ignored_start_ts or all(self._ignored(event, name) for name in names):
            return DdlVerdict.IGNORE
        return DdlVerdict.SEND

    def _ignored(self, event: DdlEvent, name: TableName) -> bool:
        types = {"all", "all ddl", EVENT_TYPES[event.action]} | (set() if event.action in _NOT_ALTER_TABLE else {"alter table"})
        return any(
            not types.isdisjoint(ignored) or (event.query and texts.matches(TableName(event.query, "sql")))
            for rules, ignored, texts in self.events
            if (rules.matches(name) if name.table else schema_matches(rules, name.schema))
        )


def sql_rules(name: str, regexes: Collection[str]) -> TableRules:
    """`ignore-sql` of the event filter `name` as rules for a schema that is called like the DDL's text: its regexes are the
    same Go regexes, matched anywhere, without case. Raises FeedUnsuitable for one that Go would not take."""
    escaped = (_ESCAPE_OR_SLASH.sub(lambda match: r"\/" if match[0] == "/" else match[0], regex) for regex in regexes)
    rules = [f"/(?i){regex}/.sql" if regex else "*.sql" for regex in escaped]
    return compiled(f"{name}, ignore-sql", rules, case_sensitive=True)


def schema_matches(rules: TableRules, schema: str) -> bool:
    """Whether some table of the schema can get through: table-filter's MatchSchema. A rule with `!` leaves the whole schema out
    only if it is for all tables, which shows in that it takes the empty name (as `*` does)."""
    name = schema if rules.case_sensitive else schema.lower()
    return next((rule.lets_in for rule in reversed(rules.rules) if rule.schema(name) and (rule.lets_in or rule.table(""))), False)
