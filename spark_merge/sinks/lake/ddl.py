"""What a schema change does to tables of `mode=merge`, whose rows are to be what TiDB's are. (`append` only sees other columns.)

    TRUNCATE, DROP TABLE, DROP DATABASE     all rows go; the lake's table stays
    CREATE TABLE                            rows that an earlier table left in its place go
    ADD, DROP, RENAME COLUMN, another type  as the lake's own rules say (`MergeRules`)
    RENAME TABLE                            nothing, where `routes` lead both names to one place; else refused
    indexes, comments, views                nothing
    of `ddl-anew`                           each of its tables begins without rows
    of `ddl-done`                           the operator has carried it out: no row changes

TiDB changes rows for the rest without a change event of each: a conversion that rounds or reads a text, EXCHANGE, DROP and TRUNCATE
PARTITION, a default that is computed (but of logs of raw key-values, which have it). They fail with an error, and nothing is done; what is
the columns' alone is followed where the table has no row.

A name's place is fixed there: a table that is renamed keeps its rows only if a route leads its new name to their place, and that is right
only if no other table has either name. All else (the swap of gh-ost and pt-online-schema-change) begins without rows, by the operator's
word, and is dumped. What a place has of an earlier table is no row of a table that is created there.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import Column, CommitTs, TableName, TableSchema
from spark_merge.ddl.columns import ColumnEffect
from spark_merge.ddl.effects import TableEffect, TableFate, effects
from spark_merge.ddl.routes import Routes, route
from spark_merge.port.contract import Head, has_rows
from spark_merge.sinks.kit.table_ddl import checked_effects, text_of

Mode: TypeAlias = Literal["append", "merge"]
"""The log of changes, or the tables as they are."""


class LakeSettings(Protocol):
    """Of the sink's URI. `again`: DDLs whose tables begin without rows."""

    @property
    def mode(self) -> Mode: ...
    @property
    def commit_s(self) -> float: ...
    @property
    def routes(self) -> Routes: ...
    @property
    def ddl_done(self) -> frozenset[CommitTs]: ...
    @property
    def again(self) -> frozenset[CommitTs]: ...

    def place(self, name: TableName) -> Hashable:
        """Where a table of the source is. Raises SinkError."""

    def compared(self, target: TableName) -> Hashable:
        """The place to which routes lead a table, equal where the lake may take two for one."""


@dataclass(frozen=True, slots=True)
class MergeRules:
    """What rows of a lake can follow. How messages name it: `tables` what it keeps, `stays` why one is not renamed, `finds` what finds a
    row by its key. `begins`: what rows cannot have in a new column; empty where they get what TiDB's have. `holds`: whether the values of a
    column are exact after the effect, which has one before."""

    tables: str
    stays: str
    finds: str
    begins: Callable[[ColumnEffect], str]
    holds: Callable[[ColumnEffect, Column], bool]

    def refused(self, head: Head, why: str) -> SinkError:
        text = text_of(head) or "a step of a DDL"
        return SinkError(
            f"the DDL {text!r} cannot be carried out on {self.tables}: {why}",
            hint=f"bring the table to what TiDB has by hand and add ddl-done={head.upto_ts} to the sink's URI; or add "
            f"ddl-anew={head.upto_ts}: the table begins without rows there, then dump it; mode=append follows this DDL",
        )

    def followed(self, head: Head, settings: LakeSettings) -> list[TableEffect]:
        """Of the segment's DDLs. Raises SinkError for what cannot be followed, whether the table has rows or not."""
        place = settings.place
        results = checked_effects(head)
        for effect in results:
            if effect.problem is not None:
                raise self.refused(head, effect.problem.message) from effect.problem
            if effect.rows_leave:
                why = "rows change places" if effect.fate is TableFate.EXCHANGED else "rows go"
                raise self.refused(head, f"{why} without a change of each")
        moves = [(one.before.name, one.name) for one in results if one.fate is TableFate.RENAMED and one.before is not None]
        if moves := [(old, new) for old, new in moves if place(old) != place(new)]:
            raise SinkError(
                f"the DDL {text_of(head)!r} cannot be carried out on {self.tables}: {self.stays}", hint=_way_out(head, settings, moves)
            )
        return results

    def check_key(self, schema: TableSchema) -> None:
        """Raises SinkError for a key that cannot be compared."""
        odd = [column.name for column in schema.columns if column.name in schema.key and column.kind in ("float", "double")]
        if odd:
            raise SinkError(
                f"{schema.name} has {odd[0]}, a floating-point number, in its key, and {self.finds} by it is not exact",
                hint="use mode=append, or leave the table out by the changefeed's filter",
            )


@dataclass(frozen=True, slots=True)
class LakeAltered:
    """A table by the end of a segment. `before` None: no table continues there. `columns`: of a table that continues.
    `emptied`: no row stays, whatever else. `unless_empty`: why rows that are there cannot follow. `by_hand`: the operator did it."""

    before: TableSchema | None
    after: TableSchema | None
    columns: tuple[ColumnEffect, ...] = ()
    emptied: bool = False
    unless_empty: str = ""
    by_hand: bool = False

    @property
    def name(self) -> TableName:
        """The one before it, where there is one."""
        schema = self.before or self.after
        assert schema is not None, "a table is there before or after"
        return schema.name

    @property
    def begins(self) -> bool:
        """Whether its place is as that of a table without rows."""
        return self.emptied and self.before is None


def alterations(head: Head, settings: LakeSettings, rules: MergeRules) -> dict[TableName, LakeAltered]:
    """Of the DDLs that end a segment, by name: one a place, of the table that has it then. Raises SinkError for what no table can
    follow."""
    if settings.mode == "append":
        return _with_columns(head, checked_effects(head, settings.ddl_done | settings.again))
    if head.upto_ts in settings.again:
        followed = effects(head)
        schemas = [*(one.before for one in reversed(followed)), *(one.after for one in reversed(followed))]
        results: Iterable[LakeAltered] = (LakeAltered(None, one, emptied=True) for one in schemas if one is not None)
    elif head.upto_ts in settings.ddl_done:
        results = filter(None, map(_by_hand, effects(head)))
    else:
        results = filter(None, (_altered(one, rules) for one in rules.followed(head, settings)))
    by_place: dict[Hashable, LakeAltered] = {settings.place(one.name): one for one in results}
    return {one.name: one for one in by_place.values()}


def _by_hand(effect: TableEffect) -> LakeAltered | None:
    before, after = effect.before, effect.after
    if after is None or not (before is None or effect.fate is TableFate.RENAMED or effect.changes_columns or effect.record):
        return None
    continues = before is not None and effect.fate is not TableFate.RENAMED
    return LakeAltered(before if continues else None, after, effect.columns if continues else (), by_hand=True)


def _altered(effect: TableEffect, rules: MergeRules) -> LakeAltered | None:
    before, after = effect.before, effect.after
    if before is None:
        return None if after is None else LakeAltered(None, after, emptied=effect.fate is TableFate.CREATED)
    if effect.fate in (TableFate.EMPTIED, TableFate.DROPPED):
        return LakeAltered(before, after, emptied=True)
    if effect.fate is TableFate.UNKEYED:
        return LakeAltered(before, None, unless_empty=effect.unkeyed)
    if after is None or not effect.changes_columns:
        return None
    return LakeAltered(before, after, effect.columns, unless_empty="; ".join(_reasons(effect.columns, rules)))


def _reasons(columns: Iterable[ColumnEffect], rules: MergeRules) -> Iterator[str]:
    for one in columns:
        column, previous = one.column, one.before
        if previous is None:
            if what := rules.begins(one):
                yield f"column {column.name} begins with {what}"
        elif not rules.holds(one, previous):
            yield f"column {column.name} has values of a {previous.kind}, which may be others as a {column.kind}"


def _with_columns(head: Head, effects: Iterable[TableEffect]) -> dict[TableName, LakeAltered]:
    """Those that have other columns under their names, or are there under a name that no table had."""
    if head.schemas is head.next_schemas:
        return {}
    columns, before = {(one.before, one.after): one.columns for one in effects}, head.schemas.get
    new = {name: after for name, after in head.next_schemas.items() if has_rows(after)}
    other = {name for name, after in new.items() if (was := before(name)) is None or was.columns != after.columns}
    return {name: LakeAltered(before(name), new[name], columns.get((before(name), new[name]), ())) for name in other}


# ---- what no table can follow -----------------------------------------------------------------------------------------


def _way_out(head: Head, settings: LakeSettings, moves: Sequence[tuple[TableName, TableName]]) -> str:
    """`moves`: names before and after, whose places differ."""
    place = settings.place
    there, then = _with_rows(head.schemas), _with_rows(head.next_schemas)
    if not any(new in there or any(place(other) == place(old) for other in then - {new}) for old, new in moves):
        needed = ",".join(route(new, settings.routes.target(old)) for old, new in moves)
        return f"set the route {needed} in routes= of the sink's URI, so that the rows stay in their place"
    tables = ", ".join(str(new) for _, new in moves if new in then)
    return (
        f"add ddl-anew={head.upto_ts} to the sink's URI: {tables} begin without rows there. Then dump those of them that TiDB still has;"
        " mode=append follows this DDL"
    )


def _with_rows(schemas: Mapping[TableName, TableSchema]) -> set[TableName]:
    return {name for name, schema in schemas.items() if has_rows(schema)}
