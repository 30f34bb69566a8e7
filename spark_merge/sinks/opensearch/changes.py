"""What a segment's DDLs did to the tables (spark_merge/ddl/effects.py), as far as it concerns their indices.

    dropped   a statement drops it, or moves it out of the log    made      it is there and has no rows yet
    emptied   it is there and lost its rows                       kept      its rows stay, perhaps under another name, in other columns

- Rows that come or go without a change event (a partition that is exchanged, emptied or dropped; a table that comes back, comes from
  outside the changefeed, or loses its key) cannot be known from a log: the sink stops, unless the operator lets the table begin again.
  So it does at a text that is not understood, unless the log's ids show what became of the table.
- A table that the log does not have any more, and no statement says why, keeps its index.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import Column, TableName, TableSchema
from spark_merge.ddl.columns import ColumnEffect
from spark_merge.ddl.conversion import Conversion
from spark_merge.ddl.effects import TableEffect, TableFate, effects
from spark_merge.port.contract import Head, has_rows
from spark_merge.sinks.kit.table_ddl import checked_effects


@dataclass(frozen=True, slots=True)
class ColumnSource:
    """Where a column's values come from in documents of before: column `name`; None: from nowhere, all have the text `absent`. `how`: same,
    text (a number or labels become text), scale (a decimal gets its new digits)."""

    column: Column
    name: str | None = None
    absent: str | None = None
    how: str = "same"


@dataclass(frozen=True, slots=True)
class KeptIndex:
    """`sources` of the columns of `after`, in their order."""

    before: TableSchema
    after: TableSchema
    sources: tuple[ColumnSource, ...]

    @property
    def reshaped(self) -> bool:
        """Whether documents of before must be written again, as far as the schemas show."""
        return any(
            source.how != "same" or (source.absent is not None if source.name is None else source.name != source.column.name)
            for source in self.sources
        )

    @property
    def added(self) -> frozenset[str]:
        return frozenset(source.column.name for source in self.sources if source.name is None)


@dataclass(slots=True)
class IndexChanges:
    dropped: list[TableSchema] = field(default_factory=list)
    made: list[TableSchema] = field(default_factory=list)
    emptied: list[tuple[TableSchema, TableSchema]] = field(default_factory=list)
    kept: list[KeptIndex] = field(default_factory=list)


def ours(schemas: Mapping[TableName, TableSchema]) -> dict[TableName, TableSchema]:
    return {name: schema for name, schema in schemas.items() if has_rows(schema)}


def arrived(head: Head) -> list[TableSchema]:
    """Tables that the segment's DDLs bring, with rows that are in no change event."""
    return [effect.after for effect in effects(head) if effect.fate is TableFate.ARRIVED and effect.after is not None]


def changes(head: Head, *, again: bool = False) -> IndexChanges:
    """`again`: tables that cannot be followed begin again without rows. Raises SinkError for what cannot be followed."""
    due = IndexChanges()
    for effect in effects(head) if again else checked_effects(head):
        try:
            _one(due, effect)
        except SinkError as error:
            if not again:
                raise _refused(head, error) from error
            _begin_again(due, effect.before, effect.after)
    return due


def _one(changes: IndexChanges, effect: TableEffect) -> None:
    match effect.fate, effect.before, effect.after:
        case TableFate.UNKEYED, _, _:
            raise SinkError(effect.unkeyed, hint="")
        case TableFate.UNKNOWN | TableFate.GONE, TableSchema(), _ if effect.problem is not None:
            raise SinkError(effect.problem.message, hint="") from effect.problem
        case TableFate.GONE, _, _:
            pass  # no statement says that its rows are gone
        case TableFate.CREATED | TableFate.ARRIVED | TableFate.EMPTIED, old, new:
            _begin_again(changes, old, new)
        case _, TableSchema() as old, None:
            changes.dropped.append(old)
        case _, TableSchema() as old, TableSchema() as new:
            if effect.rows_leave:
                raise SinkError(f"rows of {effect.name} come or go with its partitions, without change events", hint="")
            if old != new or effect.renamed_columns:
                changes.kept.append(KeptIndex(old, new, tuple(_sources(old, new, effect.columns))))


def _begin_again(changes: IndexChanges, old: TableSchema | None, new: TableSchema | None) -> None:
    if old is not None and new is not None:
        changes.emptied.append((old, new))
    elif new is not None:
        changes.made.append(new)
    elif old is not None:
        changes.dropped.append(old)


def _refused(head: Head, error: SinkError) -> SinkError:
    ddls = "; ".join(f"the DDL at commit_ts {ddl.commit_ts}, {ddl.query!r}" for ddl in head.ddls) or f"a step of a DDL at {head.upto_ts}"
    return SinkError(
        f"segment {head.seq}, {ddls}: {error.message}",
        hint=f"add ddl-anew={head.upto_ts} to the sink's URI: the table begins with an empty index; dump it again once the DDL has passed."
        f" Or make the index by hand as the table is now, and name the DDL in ddl-done={head.upto_ts}",
    )


# ---- columns ---------------------------------------------------------------------------------------------------------


def _sources(old: TableSchema, new: TableSchema, columns: Sequence[ColumnEffect]) -> Iterator[ColumnSource]:
    was = {one.column.name: one.before.name for one in columns if one.before is not None}
    if [was.get(name) for name in new.key] != list(old.key):
        raise SinkError(f"the handle key of {new.name} was ({', '.join(old.key)}) and is ({', '.join(new.key)})", hint="")
    for one in columns:
        column = one.column
        if one.before is not None:
            yield ColumnSource(column, one.before.name, how=_how(new.name, one, one.before))
        elif one.unknown:
            raise SinkError(f"rows of {new.name} have {one.unknown} in its new column {column.name}, which is not in this log", hint="")
        else:
            yield ColumnSource(column, absent=one.existing)


def _how(table: TableName, one: ColumnEffect, old: Column) -> str:
    """Of documents, in which a decimal and a moment is a text, and a json may be an object."""
    conversion, new = one.conversion, one.column
    if conversion is Conversion.UNCHANGED and (old.kind == new.kind or "json" not in (old.kind, new.kind)):
        return "scale" if new.kind == "decimal" != old.kind else "same"
    if conversion is Conversion.PADDED and new.kind == "decimal":
        return "scale"
    if conversion is Conversion.TEXT:
        return "text"
    raise SinkError(
        f"column {new.name} of {table} was {old.kind} and is {new.kind}: what TiDB made of its values is in no change event", hint=""
    )
