"""Can a row of a sink differ from the source's because the changefeed's filter omitted a change of it? `explanations` is the one answer.

    filter                                             what can differ, and be right
    inserts, by a value expression                     extra: a row that is hidden now was delivered before
    updates, by type or a value expression             different; missing and extra too: an update can change the key
    updates, by the columns that they change alone     different; missing and extra too if a column of the key is among them
    deletes, by type or a value expression             extra
    DDLs that remove rows, bring rows back, …          see _OF_DDLS; of others, and of a text (`ignore-sql`), anything
    transactions, by their start-ts                    anything

A repair deletes extra rows and overwrites the others, so it would undo what the filter does. It asks here first, and so does whatever
judges a difference. Only the filter of the moment is known: what an earlier one omitted is a difference as any other.

Source: pingcap/tiflow pkg/filter/{filter,expr_filter,sql_event_filter}.go; event_filter.py says how each filter is applied.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sidecar.shared.model.nouns import TableName, lowered
from sidecar.shared.ticdc.event_filter import FilterRules, RowEvent

KINDS = ("missing", "extra", "different")
"""Of differences: in the sink, of the sink alone, with other values."""

_ALL = frozenset(KINDS)
_EXTRA = frozenset({"extra"})
_NONE = frozenset[str]()
_OF_EVENTS = {RowEvent.INSERT: _EXTRA, RowEvent.UPDATE: _ALL, RowEvent.DELETE: _EXTRA}
_OF_DDLS: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(("drop database", "drop table", "truncate table", "drop table partition", "truncate table partition"), _EXTRA),
    **dict.fromkeys(("add column", "drop column"), frozenset({"different"})),
    "recover table": frozenset({"missing"}),
    **dict.fromkeys(
        (
            "create database", "modify schema charset and collate", "create table", "modify table comment", "create view", "drop view",
            "add table partition", "reorganize table partition", "alter table partitioning", "remove table partitioning",
            "set default value", "rebase auto id", "create index", "drop index", "rename index", "alter index visibility",
            "alter ttl info", "alter ttl remove", "add foreign key", "drop foreign key", "add fulltext index", "create hybrid index",
        ),
        _NONE,
    ),
}  # fmt: skip
"""By TiCDC's words (ddl_rules.EVENT_TYPES). One that is not here can explain any difference: `modify column` can
change the text of a key."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """`why`: the setting, and what it omits. `kinds`: of KINDS, those that can be right by it."""

    why: str
    kinds: frozenset[str]


def explanations(
    rules: FilterRules, table: TableName, *, key: Sequence[str], skipped_transactions: bool = False
) -> tuple[Explanation, ...]:
    """`key`: the table's handle key. `skipped_transactions`: whether the filter has start-ts. Empty: each difference is one."""
    return tuple(_explanations(rules, table, key, skipped_transactions=skipped_transactions))


def _explanations(rules: FilterRules, table: TableName, key: Sequence[str], *, skipped_transactions: bool) -> Iterator[Explanation]:
    if skipped_transactions:
        yield Explanation("filter.ignore-txn-start-ts omits transactions", _ALL)
    for event in RowEvent:
        if setting := rules.ignoring(table, event):
            yield Explanation(f"{setting}, omits {event}s", _OF_EVENTS[event])
        for expr in rules.exprs(table, event):
            yield Explanation(f"{expr.setting}, omits {event}s for which ({expr.text}) holds", _OF_EVENTS[event])
    for setting, columns in rules.update_only_columns(table):
        changes_key = not _folded(key).isdisjoint(_folded(columns))
        kinds = _ALL if changes_key else frozenset({"different"})
        yield Explanation(f"{setting}, omits updates that change only {', '.join(columns)}", kinds)
    for kind in rules.hidden_ddls(table):
        if kinds := _OF_DDLS.get(kind, _ALL):
            yield Explanation(f"the event filters omit DDLs: {kind}", kinds)


def are_all(kinds: Iterable[Iterable[str]]) -> bool:
    """Whether no kind of difference says anything, where all these can be right."""
    return {kind for one in kinds for kind in one} >= _ALL


def _folded(names: Iterable[str]) -> frozenset[str]:
    return frozenset(map(lowered, names))
