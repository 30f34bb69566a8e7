"""What a changefeed lets through, and what of the existing rows its dump may therefore send.

Of a table that the table rules have, TiCDC omits an insert, update or delete if any event filter whose matcher has the
table ignores that type (`ignore-event`), or has a value expression of that type that is 1: an insert's over the new row, a
delete's over the old one, an update's over the old or the new one. NULL, 0 and whatever is no integer are not 1. An update
that TiCDC splits because it changes a key is judged before, as an update.
- A dump row goes the way of an insert: ignored inserts exclude the table, an insert's expression goes into the WHERE.
  What the other types' filters mean for a dump cannot be put into a SELECT: each is a warning.
- Matchers are compiled with case where the architecture does so: always for value expressions, in classic also for types.
- TiCDC compares text byte by byte (it switches collations off, 8.1.2 and later) and shows timestamps in its server's zone:
  columns of those kinds are wrapped to do the same. Enum, set and json are left as they are.
- An expression becomes a predicate of the alias that tables are read under (keyset.ALIAS). TiCDC takes no subquery.
- A DDL is judged by ticdc/ddl_rules.py. What is ignored is still applied to TiCDC's own schemas, so rows of a form arrive that
  no DDL in the feed announced.

Source: pingcap/tiflow pkg/filter/{filter,expr_filter,sql_event_filter}.go, pkg/binlog-filter, cmd/cdc/main.go; pingcap/ticdc the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, assert_never

from sidecar.shared.errors import FeedUnsuitable
from sidecar.shared.model.keyset import ALIAS, qualified
from sidecar.shared.model.nouns import MARK_TABLE, Column, TableName, TableSchema
from sidecar.shared.sql.text import quoted
from sidecar.shared.ticdc.changefeed import Changefeed, EventFilter
from sidecar.shared.ticdc.ddl_rules import ALIASES, EVENT_TYPES, schema_matches, sql_rules
from sidecar.shared.ticdc.expression import FilterExpression, NotAnExpression
from sidecar.shared.ticdc.table_rules import TableRules, compiled


class RowEvent(StrEnum):
    """As in `ignore-event`."""

    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"


KNOWN_EVENTS = frozenset({*EVENT_TYPES.values(), *RowEvent, "all dml", "all ddl", "alter table", *ALIASES})
"""What `ignore-event` may hold, letter for letter; TiCDC refuses anything else."""


class ValueExpr(NamedTuple):
    """An event is omitted if `text` is 1 for its old (`old`) or new row."""

    setting: str
    text: str
    old: bool


@dataclass(frozen=True, slots=True)
class _Rule:
    """One event filter; `name` is what people call it."""

    name: str
    types: TableRules
    values: TableRules
    ignored: frozenset[str]
    event_filter: EventFilter

    def exprs(self, event: RowEvent) -> list[ValueExpr]:
        of_filter = self.event_filter
        match event:
            case RowEvent.INSERT:
                every = [("ignore-insert-value-expr", of_filter.ignore_insert_value_expr, False)]
            case RowEvent.UPDATE:
                every = [("ignore-update-old-value-expr", of_filter.ignore_update_old_value_expr, True)]
                every.append(("ignore-update-new-value-expr", of_filter.ignore_update_new_value_expr, False))
            case RowEvent.DELETE:
                every = [("ignore-delete-value-expr", of_filter.ignore_delete_value_expr, True)]
            case _:
                assert_never(event)
        return [ValueExpr(f"{self.name}, {setting}", text, old) for setting, text, old in every if text]


@dataclass(frozen=True, slots=True)
class FilterRules:
    """A changefeed's filter, compiled; `of` makes it."""

    tables: TableRules
    rules: tuple[_Rule, ...]

    @classmethod
    def of(cls, changefeed: Changefeed) -> FilterRules:
        """Raises FeedUnsuitable for a rule, an event type or a regex that is not understood."""
        sensitive = changefeed.filter.case_sensitive
        rules = []
        for number, event_filter in enumerate(changefeed.filter.event_filters, 1):
            name = f"filter.event-filters number {number}"
            unknown = sorted(set(event_filter.ignore_event) - KNOWN_EVENTS)
            if unknown:
                hint = f"take it out of ignore-event; known are {', '.join(sorted(KNOWN_EVENTS))}"
                raise FeedUnsuitable(f"{name} ignores {unknown[0]!r}, which is no type of event that TiCDC has", hint=hint)
            types = compiled(f"{name}, matcher", event_filter.matcher, case_sensitive=sensitive or not changefeed.new_architecture)
            values = compiled(f"{name}, matcher", event_filter.matcher, case_sensitive=True)
            ignored = frozenset(ALIASES.get(event, event) for event in event_filter.ignore_event)
            rule = _Rule(name, types, values, ignored, event_filter)
            if ignored:
                # with a regex that is none TiCDC continues as if ignore-event were not there either
                sql_rules(name, event_filter.ignore_sql)
            rules.append(rule)
        return cls(compiled("filter.rules", changefeed.filter.rules or ("*.*",), case_sensitive=sensitive), tuple(rules))

    def has(self, table: TableName) -> bool:
        """By the table rules alone."""
        return self.tables.matches(table)

    def ignoring(self, table: TableName, event: RowEvent) -> str | None:
        """The setting that leaves all such events of `table` out, None if none does."""
        ignoring = (rule for rule in self.rules if rule.types.matches(table) and rule.ignored & {event, "all dml"})
        return next((f"{rule.name}, ignore-event" for rule in ignoring), None)

    def exprs(self, table: TableName, event: RowEvent) -> list[ValueExpr]:
        """Such an event of `table` is omitted if any of these is 1."""
        return [expr for rule in self.rules if rule.values.matches(table) for expr in rule.exprs(event)]

    def update_only_columns(self, table: TableName) -> list[tuple[str, tuple[str, ...]]]:
        """An update of `table` is omitted if it changes only the columns of one of these. With the settings' names."""
        matching = (rule for rule in self.rules if rule.event_filter.ignore_update_only_columns and rule.types.matches(table))
        return [(f"{rule.name}, ignore-update-only-columns", rule.event_filter.ignore_update_only_columns) for rule in matching]

    def hides_ddls(self) -> bool:
        """Whether any event filter leaves DDLs out, whatever tables it matches."""
        return bool(_of_ddls(self.rules))

    def hidden_ddls(self, table: TableName) -> list[str]:
        """What says that DDLs of `table`, or of its schema, are omitted: event types and ignore-sql's regexes."""
        ddls = _of_ddls([rule for rule in self.rules if rule.types.matches(table)])
        whole = any("drop database" in rule.ignored and schema_matches(rule.types, table.schema) for rule in self.rules)
        return [*ddls, "drop database"] if whole and "drop database" not in ddls else ddls


def _of_ddls(rules: Sequence[_Rule]) -> list[str]:
    types = sorted({event for rule in rules for event in rule.ignored} - {*RowEvent, "all dml"})
    return types + [f"/{regex}/" for rule in rules for regex in rule.event_filter.ignore_sql]


# ---- the watermark table ----------------------------------------------------------------------------------------------


def mark_table_problem(changefeed: Changefeed) -> tuple[str, str] | None:
    """What keeps marks out of the feed, and what to change. Raises FeedUnsuitable for a filter that is not understood."""
    rules = FilterRules.of(changefeed)
    if not rules.has(MARK_TABLE):
        return f"filter.rules omit {MARK_TABLE}", f'add "{MARK_TABLE.schema}.*" at the end'
    leave_out = f'add "!{MARK_TABLE.schema}.*" at the end of its matcher'
    for event in (RowEvent.INSERT, RowEvent.UPDATE):
        if setting := rules.ignoring(MARK_TABLE, event):
            return f"{setting}, omits every {event} of {MARK_TABLE}", leave_out
        for expr in rules.exprs(MARK_TABLE, event):
            return f"{expr.setting}, is applied to {MARK_TABLE}", leave_out
    for setting, _ in rules.update_only_columns(MARK_TABLE):
        return f"{setting}, is applied to {MARK_TABLE}", leave_out
    return None


# ---- the dump's scope -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Through:
    """Dump it, only the rows for which `predicate` is true; None: all rows. Columns are `keyset.qualified`."""

    predicate: str | None


@dataclass(frozen=True, slots=True)
class LeftOut:
    """No row of it would have come through."""

    reason: str


@dataclass(frozen=True, slots=True)
class DumpScope:
    """Each table that the table rules have. `warnings`: sentences, each begins with the table that it is about."""

    tables: Mapping[TableName, Through | LeftOut]
    warnings: tuple[str, ...]


def dump_scope(
    changefeed: Changefeed, schemas: Mapping[TableName, TableSchema], *, server_tz: str = "UTC", text_collation: str = "utf8mb4_bin"
) -> DumpScope:
    """What a dump may send of `schemas`; the watermark table is not among it, tables without a key are.

    `server_tz`: the TiCDC server's zone. `text_collation`: of utf8mb4, compares code points; TiDB's `utf8mb4_0900_bin` (7.4 and
    later) counts trailing blanks as TiCDC does. The SELECT's session must be UTC, utf8mb4 and without ANSI_QUOTES,
    NO_BACKSLASH_ESCAPES and PIPES_AS_CONCAT. Raises FeedUnsuitable.
    """
    rules = FilterRules.of(changefeed)
    tables: dict[TableName, Through | LeftOut] = {}
    warnings: list[str] = []
    for table, schema in schemas.items():
        if table == MARK_TABLE or not rules.has(table):
            continue
        setting = rules.ignoring(table, RowEvent.INSERT)
        if setting:
            tables[table] = LeftOut(f"{setting}, omits its inserts")
            continue
        exprs = rules.exprs(table, RowEvent.INSERT)
        parts = [_Predicate(expr, schema, server_tz, text_collation) for expr in exprs]
        tables[table] = Through(" AND ".join(part.sql() for part in parts) or None)
        warnings += [f"{table}: {warning}" for warning in _warnings(rules, table)]
        warnings += [f"{table}: {part.expr.setting}, {warning}" for part in parts for warning in part.warnings()]
    return DumpScope(tables, tuple(warnings))


def _warnings(rules: FilterRules, table: TableName) -> Iterator[str]:
    newer = "a dump row is as the table has it when it is read, which can be newer than the last version the feed let through"
    if setting := rules.ignoring(table, RowEvent.UPDATE):
        yield f"{setting}, omits updates: {newer}, and later updates do not follow"
    for expr in rules.exprs(table, RowEvent.UPDATE):
        yield f"{expr.setting}, omits updates for which ({expr.text}) holds: {newer}"
    for setting, columns in rules.update_only_columns(table):
        yield f"{setting}, omits updates that change only {', '.join(columns)}: {newer}"
    if setting := rules.ignoring(table, RowEvent.DELETE):
        yield f"{setting}, omits deletes: a row that is deleted after the dump has read it stays in the output"
    for expr in rules.exprs(table, RowEvent.DELETE):
        yield f"{expr.setting}, omits deletes for which ({expr.text}) holds: such a row, deleted after the dump has read it, stays"
    if hidden := rules.hidden_ddls(table):
        yield f"DDLs are omitted ({', '.join(hidden)}): rows change their form, and no sink receives the DDL"


# ---- value expressions ------------------------------------------------------------------------------------------------

_TRUTH = re.compile(r"<=>|[<>!]=?|<>|=|&&|\|\||is|in|like|between|regexp|rlike|not|and|or|xor|isnull|true|false")
_CHANGING = re.compile(
    "now|sysdate|(cur|utc_)(date|time)|current_(date|time|timestamp|user)|localtime(stamp)?|(unix|utc)_timestamp|rand|uuid|user"
    "|session_user|database|schema|connection_id|version"
)


class _Predicate:
    """One insert expression as a SQL predicate for the rows that it lets through."""

    def __init__(self, expr: ValueExpr, schema: TableSchema, server_tz: str, text_collation: str) -> None:
        """Raises FeedUnsuitable."""
        self.expr = expr
        self._server_tz, self._text_collation = server_tz, text_collation
        try:
            self._expression = FilterExpression.of(expr.text, schema)
            self._columns = self._expression.columns()
        except NotAnExpression as error:
            raise FeedUnsuitable(
                f"{expr.setting}, of {schema.name} cannot be put into the dump's SELECT: ({expr.text}) {error}",
                hint="write it as one SQL expression over the table's columns, with closed quotes and parentheses and without comments",
            ) from error

    def sql(self) -> str:
        """`<=> 1`, not IS TRUE: TiCDC looks for the integer 1."""
        return f"NOT (({self._expression.rewritten(self._as_ticdc_sees, quoted(ALIAS))}) <=> 1)"

    def warnings(self) -> Iterator[str]:
        words = {token.text.lower() for token in self._expression.tokens if token.kind in ("word", "sign")}
        if changing := sorted(filter(_CHANGING.fullmatch, words)):
            yield f"asks for {', '.join(changing)}: TiCDC asks when a row changes, the dump when it reads"
        if not any(map(_TRUTH.fullmatch, words)):
            yield "is no comparison: TiCDC leaves a row out if it is the integer 1, the dump also if it is 1 as a text or a decimal"
        if any(column.kind == "text" for column in self._columns.values()):
            yield "looks at text: the dump compares it byte by byte as TiCDC does from 8.1.2 on; before, the column's collation decided"

    def _as_ticdc_sees(self, column: Column) -> str:
        name = qualified(column.name)
        if column.kind == "text":
            return f"(CONVERT({name} USING utf8mb4) COLLATE {self._text_collation})"
        if column.kind == "timestamp" and self._server_tz.upper() != "UTC":
            zone = self._server_tz.replace("\\", "\\\\").replace("'", "''")
            return f"CONVERT_TZ({name}, '+00:00', '{zone}')"
        return name
