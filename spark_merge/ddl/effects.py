"""What the DDLs that end a segment did to its tables: the one interpretation that every sink follows.

A table is followed by its id; where the log has no ids by RENAME of a statement; else by its name. Then, first match first:

    before  after   and                                                           fate
    yes     no      DROP TABLE or DROP DATABASE names it                          dropped
    yes     no      it has a name that the log does not have                      renamed, without a schema after
    yes     no      it is still there, and has no handle key                      unkeyed
    yes     no                                                                    gone
    no      yes     CREATE TABLE                                                  created
    no      yes     (RECOVER TABLE, a rename of a table that had no rows here)    arrived
    yes     yes     TRUNCATE, DROP, or CREATE TABLE of a table with another id    emptied
    yes     yes     the text is not understood, and the log has no ids            unknown
    yes     yes     EXCHANGE PARTITION names it                                   exchanged
    yes     yes     another name                                                  renamed
    yes     yes                                                                   kept

- A table without a handle key has no rows in a log, so it is no table here. Nor is the watermark table.
- All DDLs of a segment have one commit_ts: the schemas before and after it are those of each of its DDLs.
- Rows leave with a partition by what the statement says, and by ids where a statement is not understood. A segment may end at one step of
  a DDL that takes several (partitions change in steps). It has no record of it, so ids alone are not judged there.
- Columns are followed as columns.py says. What a target does about an effect is the sink's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple

from sidecar.shared.errors import UnsupportedDdl
from sidecar.shared.log.manifest import DdlRecord
from sidecar.shared.model.nouns import MARK_TABLE, TableName, TableSchema, lowered
from spark_merge.ddl.columns import ColumnEffect, column_effects
from spark_merge.ddl.logged import LoggedDdl, logged_ddls
from spark_merge.ddl.names import changed_tables, together
from spark_merge.ddl.statement import Partitions, StatementKind
from spark_merge.port.contract import Head, has_rows

Schemas = Mapping[TableName, TableSchema]


class TableFate(Enum):
    """What became of a table."""

    KEPT = "kept"
    RENAMED = "renamed"
    EMPTIED = "emptied"
    DROPPED = "dropped"
    CREATED = "created"
    EXCHANGED = "exchanged"
    """Its rows change places with those of another table."""
    ARRIVED = "arrived"
    """It has rows that no change event brings."""
    UNKEYED = "unkeyed"
    """It has rows at the source, and no change event brings any more of them."""
    GONE = "gone"
    """The log does not have it any more, and no statement says why."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class TableEffect:
    """`name`: the table's after the DDL. `before`, `after`: its schemas, where it has rows in the log; both are None for a text that is not
    understood and concerns none of these tables. `columns`: of a table that is there before and after, those of `after` in order, or of
    `before` where it is renamed to a name that the log does not have. `rows_leave`: rows leave or come with a partition, without a change
    event of each. `record`: None where no DDL of the segment names the table. `problem`: why its text is not understood."""

    fate: TableFate
    name: TableName
    before: TableSchema | None = None
    after: TableSchema | None = None
    columns: tuple[ColumnEffect, ...] = ()
    rows_leave: bool = False
    record: DdlRecord | None = None
    problem: UnsupportedDdl | None = None

    @property
    def renamed_columns(self) -> dict[str, str]:
        """The names before by the names after, as the schemas have them."""
        return {one.column.name: one.before.name for one in self.columns if one.before is not None and one.renamed}

    @property
    def changes_columns(self) -> bool:
        """Whether its columns, its key, or what its rows are decoded by is another, or values of rows that are there may be. Not what the
        changefeed omits."""
        old, new = self.before, self.after
        if old is None or new is None:
            return False
        differ = bool(self.renamed_columns) or replace(old.undefined(), name=new.name, omitted=new.omitted) != new.undefined()
        return differ or any(one.may_change_values for one in self.columns)

    @property
    def unkeyed(self) -> str:
        """Why its rows cannot be followed."""
        return f"{self.name} has no key any more, so its rows are not delivered"


def effects(head: Head) -> list[TableEffect]:
    """In the order of the DDLs that name the tables, then of the schemas; of a table that no DDL names, where its schema changed."""
    if not head.ddls and head.next_schemas is head.schemas:
        return []
    ddls = [ddl for ddl in logged_ddls(head, head.ddls) if ddl.record.schema != MARK_TABLE.schema]
    numbered: list[tuple[int, TableEffect]] = []
    unexplained = {number for number, ddl in enumerate(ddls) if ddl.problem}
    for pair in _pairs(head, ddls):
        about = [number for number, ddl in enumerate(ddls) if _is_about(ddl, pair)]
        unexplained -= set(about)
        if about or pair.old != pair.new:
            numbered.append((about[0] if about else len(ddls), _effect(head, pair, ddls, [ddls[number] for number in about])))
    for number in unexplained:
        record = ddls[number].record
        effect = TableEffect(TableFate.UNKNOWN, TableName(record.schema, record.table), record=record, problem=ddls[number].problem)
        numbered.append((number, effect))
    return [effect for _, effect in sorted(numbered, key=lambda one: one[0])]


# ---- which table it is ------------------------------------------------------------------------------------------------


class _Pair(NamedTuple):
    """A table before and after. `name`: its name after."""

    old: TableSchema | None
    new: TableSchema | None
    name: TableName


def _pairs(head: Head, ddls: Sequence[LoggedDdl]) -> list[_Pair]:
    before = {name: schema for name, schema in head.schemas.items() if has_rows(schema)}
    after = {name: schema for name, schema in head.next_schemas.items() if has_rows(schema)}
    names = _names_after(before, head.next_schemas, _moves(head, ddls))
    sources = {name: before[source] for source, name in names.items()}
    pairs = [_Pair(sources.get(name), new, name) for name, new in after.items()]
    return pairs + [_Pair(old, None, names.get(source, source)) for source, old in before.items() if names.get(source) not in after]


def _names_after(before: Schemas, next_schemas: Schemas, moves: Mapping[TableName, TableName]) -> dict[TableName, TableName]:
    """Of the tables that are there after the DDLs."""
    by_id = {schema.table_id: name for name, schema in next_schemas.items() if schema.table_id}
    folded = {name.folded(): name for name in next_schemas}
    tables: dict[TableName, TableName] = {}
    for name, schema in before.items():
        if schema.table_id in by_id:
            tables[name] = by_id[schema.table_id]
        elif name in moves:
            tables[name] = folded.get(moves[name].folded(), moves[name])
    taken = set(tables.values())
    for name in sorted(before.keys() - tables.keys()):
        same = name if name in next_schemas else folded.get(name.folded())
        if same is not None and same not in taken:
            tables[name] = same
    return tables


def _moves(head: Head, ddls: Sequence[LoggedDdl]) -> dict[TableName, TableName]:
    """Names before to names after all of them."""
    renames = [
        ddl.statement for ddl in ddls if ddl.statement.moves and ddl.statement.kind in (StatementKind.RENAME, StatementKind.ALTER_TABLE)
    ]
    tables: dict[TableName, TableName] = {}
    for source, target in together(renames, head).moves if renames else ():
        first = next((name for name, now in tables.items() if now == source), source)
        tables[first] = target
    return tables


def _is_about(ddl: LoggedDdl, pair: _Pair) -> bool:
    if ddl.statement.kind is StatementKind.DROP_SCHEMA:
        return pair.old is not None and lowered(pair.old.name.schema) in map(lowered, ddl.statement.schemas())
    names = {pair.name.folded()} if pair.old is None else {pair.old.name.folded(), pair.name.folded()}
    return bool(names & _named(ddl))


def _named(ddl: LoggedDdl) -> set[TableName]:
    """Folded."""
    tables = changed_tables(ddl.statement) or (TableName(ddl.record.schema, ddl.record.table),)
    return {name.folded() for name in tables}


# ---- what became of it ------------------------------------------------------------------------------------------------


def _effect(head: Head, pair: _Pair, ddls: Sequence[LoggedDdl], own: Sequence[LoggedDdl]) -> TableEffect:
    """`own`: those of `ddls` that name the table."""
    old, new, name = pair
    fate = _fate(head, pair, own)
    stays = new or (old if fate is TableFate.RENAMED else None)
    columns = () if old is None or stays is None else column_effects(old, stays, [ddl.statement for ddl in ddls])
    partitions = {ddl.statement.partitions for ddl in own}
    unexplained = old is not None and new is not None and _has_other_ids(head, old, new) and Partitions.REARRANGED not in partitions
    rows_leave = fate in _STAY and (Partitions.ROWS_LEAVE in partitions or unexplained)
    problem = next((ddl.problem for ddl in own if ddl.problem), None)
    return TableEffect(fate, name, old, new, columns, rows_leave, own[0].record if own else None, problem)


def _fate(head: Head, pair: _Pair, own: Sequence[LoggedDdl]) -> TableFate:
    """As in the table above."""
    kinds = {ddl.statement.kind for ddl in own}
    makes, drops = bool(kinds & _MAKE), bool(kinds & _DROP)
    match pair.old, pair.new:
        case TableSchema() as old, None:
            if drops:
                return TableFate.DROPPED
            if pair.name != old.name:
                return TableFate.RENAMED
            return TableFate.UNKEYED if pair.name in head.next_schemas else TableFate.GONE
        case TableSchema() as old, TableSchema() as new:
            if drops or StatementKind.TRUNCATE in kinds or (makes and _has_other_ids(head, old, new)):
                return TableFate.EMPTIED
            if any(ddl.problem for ddl in own) and not new.table_id and not makes:
                return TableFate.UNKNOWN
            if StatementKind.EXCHANGE in kinds:
                return TableFate.EXCHANGED
            return TableFate.KEPT if old.name == new.name else TableFate.RENAMED
        case _:
            return TableFate.CREATED if makes else TableFate.ARRIVED


_MAKE = frozenset({StatementKind.CREATE_TABLE, StatementKind.CREATE_LIKE})
_STAY = frozenset({TableFate.KEPT, TableFate.RENAMED, TableFate.EXCHANGED})
_DROP = frozenset({StatementKind.DROP_TABLE, StatementKind.DROP_SCHEMA})


def _has_other_ids(head: Head, old: TableSchema, new: TableSchema) -> bool:
    """False at a step of a DDL that another segment has, and without ids."""
    if not (head.ddls and old.table_id and new.table_id):
        return False
    return old.table_id != new.table_id or not set(old.physical_ids) <= set(new.physical_ids)
