"""What a segment's DDLs did to the tables, told by the schemas before and after them; their text is asked only where these leave it open.

    dropped   it is gone                                          made      it is there and has no rows yet
    emptied   it is there and lost its rows                       kept      its rows stay, perhaps under another name, in other columns

- A table is followed by its id; where the log has no ids, by its name, and over a RENAME by the statement.
- A column is followed as spark_merge/ddl/columns.py says, which also gives what existing rows have in an added one.
- A segment may end at a step of a DDL that is told in another one (partitions go in steps): that one is judged, the step is not.
- Rows that come or go with no change of theirs (a partition that is exchanged, emptied or dropped, a table that comes back or comes from
  outside the changefeed) cannot be told from a log: refused by name, unless the operator lets the table begin anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sidecar.core.model import MARK_TABLE, Column, CommitTs, TableName, TableSchema
from sidecar.errors import SinkError
from spark_merge.contract import Head
from spark_merge.ddl.columns import column_effects
from spark_merge.ddl.logged import LoggedDdl, logged_ddls
from spark_merge.ddl.statement import Kind, Partitions
from spark_merge.sinks.opensearch.fields import Form, Forms

_ROWS_UNKNOWN = (Kind.ALTER_TABLE, Kind.UNREAD)
"""Of a text that is not understood. With ids the schemas show whether rows come or go; without ids such a text is refused."""

_TEXT_OF = frozenset({"int", "uint", "decimal", "date", "time", "datetime", "timestamp", "enum", "set", "year", "text"})
"""Kinds whose canonical text is the text that TiDB makes of the value."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where a column's values come from in documents of before: column `name`; None: from nowhere, all have the text `absent`. `how`: same,
    text (a number or labels become text), scale (a decimal gets its new digits)."""

    column: Column
    name: str | None = None
    absent: str | None = None
    how: str = "same"
    form: Form = Form.TEXT


@dataclass(frozen=True, slots=True)
class Kept:
    """`sources` of the columns of `after`, in their order."""

    before: TableSchema
    after: TableSchema
    sources: tuple[Source, ...]

    @property
    def reshaped(self) -> bool:
        """Whether documents of before must be written anew, as far as the schemas tell."""
        return any(
            source.how != "same" or (source.absent is not None if source.name is None else source.name != source.column.name)
            for source in self.sources
        )

    @property
    def added(self) -> frozenset[str]:
        return frozenset(source.column.name for source in self.sources if source.name is None)


@dataclass(slots=True)
class Changes:
    dropped: list[TableSchema] = field(default_factory=list)
    made: list[TableSchema] = field(default_factory=list)
    emptied: list[tuple[TableSchema, TableSchema]] = field(default_factory=list)
    kept: list[Kept] = field(default_factory=list)


def ours(schemas: Mapping[TableName, TableSchema]) -> dict[TableName, TableSchema]:
    """Those that have rows here."""
    return {name: schema for name, schema in schemas.items() if schema.key and schema.columns and name != MARK_TABLE}


def changes(head: Head, forms: Forms, *, anew: bool = False) -> Changes:
    """`anew`: tables that cannot be followed begin again without rows. Raises SinkError for what cannot be followed."""
    before, after = ours(head.schemas), ours(head.next_schemas)
    ddls = logged_ddls(head, head.ddls)
    found, gone = Changes(), dict(before)
    for name, new in after.items():
        old = _same_table(new, before, head, ddls)
        if old is not None:
            gone.pop(old.name, None)
        about = [ddl for ddl in ddls if _is_about(ddl, name, None if old is None else old.name)]
        try:
            _one(found, head, old, new, about, forms)
        except SinkError as error:
            if not anew:
                raise _refused(head, error) from error
            found.made.append(new) if old is None else found.emptied.append((old, new))
    found.dropped = list(gone.values())
    return found


def _one(found: Changes, head: Head, old: TableSchema | None, new: TableSchema, ddls: Sequence[LoggedDdl], forms: Forms) -> None:
    makes_table = any(ddl.statement.kind in (Kind.CREATE_TABLE, Kind.CREATE_LIKE) for ddl in ddls)
    empties = any(ddl.statement.kind is Kind.TRUNCATE for ddl in ddls)
    partitions = {ddl.statement.partitions for ddl in ddls}
    if old is None:
        if not makes_table:
            raise SinkError(f"{new.name} comes with rows that no change of it tells", hint="")
        found.made.append(new)
    elif not new.table_id and (unread := next((ddl.problem for ddl in ddls if ddl.problem and ddl.statement.kind in _ROWS_UNKNOWN), None)):
        raise SinkError(unread.message, hint="") from unread
    elif old != new or empties or Partitions.ROWS_LEAVE in partitions:
        moved = bool(head.ddls) and (old.table_id != new.table_id or bool(set(old.physical_ids) - set(new.physical_ids)))
        if empties or (makes_table and moved):
            found.emptied.append((old, new))
            return
        if Partitions.ROWS_LEAVE in partitions or (moved and Partitions.REARRANGED not in partitions):
            raise SinkError(f"rows of {new.name} come or go with its partitions, and no change of them tells", hint="")
        found.kept.append(Kept(old, new, tuple(_sources(old, new, ddls, forms))))


def _same_table(new: TableSchema, before: Mapping[TableName, TableSchema], head: Head, ddls: Sequence[LoggedDdl]) -> TableSchema | None:
    if new.table_id:
        by_id = next((old for old in before.values() if old.table_id == new.table_id), None)
        if by_id is not None:
            return by_id
        named = before.get(new.name)
        went_away = named is not None and any(other.table_id == named.table_id for other in head.next_schemas.values())
        return None if went_away and not any(ddl.statement.kind is Kind.EXCHANGE for ddl in ddls) else named
    source = next((moves[new.name.folded()] for moves in map(_moves, ddls) if new.name.folded() in moves), None)
    return before.get(new.name) if source is None else next((old for old in before.values() if old.name.folded() == source), None)


def moments(head: Head) -> frozenset[CommitTs]:
    """By which an operator names what the segment ends with: its DDLs' commit_ts, or its own end, for a step that no DDL is told with."""
    return frozenset(ddl.commit_ts for ddl in head.ddls) or frozenset({head.upto_ts})


def _refused(head: Head, error: SinkError) -> SinkError:
    ddls = "; ".join(f"the DDL at commit_ts {ddl.commit_ts}, {ddl.query!r}" for ddl in head.ddls) or f"a step of a DDL at {head.upto_ts}"
    times = ",".join(map(str, sorted(moments(head))))
    return SinkError(
        f"segment {head.seq}, {ddls}: {error.message}",
        hint=f"add ddl-anew={times} to the sink's URI: the table begins with an empty index; and dump it again once the DDL has passed."
        f" Or make the index by hand as the table is now, and name the DDL in ddl-done={times}",
    )


# ---- columns ---------------------------------------------------------------------------------------------------------


def _sources(old: TableSchema, new: TableSchema, ddls: Sequence[LoggedDdl], forms: Forms) -> Iterator[Source]:
    effects = column_effects(old, new, [ddl.statement for ddl in ddls])
    was = {one.column.name: one.before.name for one in effects if one.before is not None}
    if [was.get(name) for name in new.key] != list(old.key):
        raise SinkError(f"the handle key of {new.name} was ({', '.join(old.key)}) and is ({', '.join(new.key)})", hint="")
    for one in effects:
        column, form = one.column, forms.form(one.column)
        if one.before is not None:
            yield Source(column, one.before.name, how=_how(new.name, one.before, column), form=form)
        elif one.unknown:
            raise SinkError(f"rows of {new.name} have {one.unknown} in its new column {column.name}, which is not in this log", hint="")
        else:
            yield Source(column, absent=one.existing, form=form)


def _how(table: TableName, old: Column, new: Column) -> str:
    if old.kind == new.kind and old.kind not in ("decimal", "time", "datetime", "timestamp", "binary", "float", "double"):
        return "same"
    if old.kind == new.kind and old.scale == new.scale and (old.kind != "binary" or old.length == new.length):
        return "same"
    if {old.kind, new.kind} == {"int", "uint"}:
        return "same"
    if old.kind == new.kind == "decimal" and old.scale < new.scale:
        return "scale"
    if new.kind == "text" and old.kind in _TEXT_OF:
        return "text"
    raise SinkError(
        f"column {new.name} of {table} was {old.kind} and is {new.kind}: what TiDB made of its values is told by no change", hint=""
    )


# ---- statements ------------------------------------------------------------------------------------------------------


def _is_about(ddl: LoggedDdl, *names: TableName | None) -> bool:
    own = TableName(ddl.record.schema, ddl.record.table).folded()
    exchanged = {name.folded() for move in ddl.statement.moves for name in move} if ddl.statement.kind is Kind.EXCHANGE else set()
    about = {own, *_moves(ddl), *exchanged}
    return any(name is not None and name.folded() in about for name in names)


def _moves(ddl: LoggedDdl) -> Mapping[TableName, TableName]:
    """Of a RENAME the old names by the new ones, folded."""
    if ddl.statement.kind not in (Kind.RENAME, Kind.ALTER_TABLE):
        return {}
    return {target.folded(): source.folded() for source, target in ddl.statement.moves}
