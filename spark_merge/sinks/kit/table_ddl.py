"""Schema changes at targets that keep tables: what no such target can follow.

- `Merged` is of targets that keep tables as they are in TiDB and execute no statement. A name's place is fixed there: a table that is
  renamed keeps its rows only if a route leads its new name to their place, and that is right only if no other table has either name. All
  else (the swap of gh-ost and pt-online-schema-change) begins without rows, by the operator's word, and is dumped.
- What a place has of an earlier table is no row of a table that is created there."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import CommitTs, TableName, TableSchema
from spark_merge.ddl.effects import TableEffect, TableFate, effects
from spark_merge.ddl.routes import Routes, route
from spark_merge.port.contract import Head, has_rows


@dataclass(frozen=True, slots=True)
class Merged:
    """How messages name a target: `tables` what it keeps, `stays` why one is not renamed."""

    tables: str
    stays: str

    def refused(self, head: Head, why: str) -> SinkError:
        text = _text(head) or "a step of a DDL"
        return SinkError(
            f"the DDL {text!r} cannot be carried out on {self.tables}: {why}",
            hint=f"bring the table to what TiDB has by hand and add ddl-done={head.upto_ts} to the sink's URI; or add "
            f"ddl-anew={head.upto_ts}: the table begins without rows there, then dump it; mode=append follows this DDL",
        )

    def followed(self, head: Head, routes: Routes, place: Place) -> list[TableEffect]:
        """Of the segment's DDLs. `place`: of a table of the log at the target. Raises SinkError for what cannot be followed, whether the
        table has rows or not."""
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
                f"the DDL {_text(head)!r} cannot be carried out on {self.tables}: {self.stays}", hint=_way_out(head, routes, place, moves)
            )
        return results


Place: TypeAlias = Callable[[TableName], Hashable]
"""Of a table of the log at the target."""


def _way_out(head: Head, routes: Routes, place: Place, moves: Sequence[tuple[TableName, TableName]]) -> str:
    """`moves`: names before and after, whose places differ."""
    there, then = _with_rows(head.schemas), _with_rows(head.next_schemas)
    if not any(new in there or any(place(other) == place(old) for other in then - {new}) for old, new in moves):
        needed = ",".join(route(new, routes.target(old)) for old, new in moves)
        return f"set the route {needed} in routes= of the sink's URI, so that the rows stay in their place"
    tables = ", ".join(str(new) for _, new in moves if new in then)
    return (
        f"add ddl-anew={head.upto_ts} to the sink's URI: {tables} begin without rows there. Then dump those of them that TiDB still has;"
        " mode=append follows this DDL"
    )


def _with_rows(schemas: Mapping[TableName, TableSchema]) -> set[TableName]:
    return {name for name, schema in schemas.items() if has_rows(schema)}


def begun_again(head: Head, place: Place) -> list[TableSchema]:
    """Of DDLs whose tables begin without rows: a table for each place that one of them had, or has; the one that has it, where one has."""
    results = effects(head)
    schemas = [*(one.after for one in results), *(one.before for one in results)]
    return list({place(one.name): one for one in reversed(schemas) if one is not None}.values())


def checked_effects(head: Head, decided: Collection[CommitTs] = ()) -> list[TableEffect]:
    """What the segment's DDLs did. `decided`: the DDLs that the operator has decided, by commit_ts. Raises SinkError for a table that
    arrives with rows of which the log has no change event."""
    results, ts = effects(head), head.upto_ts
    arrived = ", ".join(str(effect.name) for effect in results if effect.fate is TableFate.ARRIVED)
    if arrived and ts not in decided:
        statement = repr(_text(head)) if head.ddls else "whose statement is not in the log"
        raise SinkError(
            f"segment {head.seq}, the DDL at commit_ts {ts}, {statement}: rows of {arrived} arrive without a change event of each",
            hint=f"add ddl-done={ts} to the sink's URI: the sink continues without these rows. Then dump {arrived}. A SQL target needs the"
            " table first: create it, or carry out the DDL, by hand",
        )
    return results


def _text(head: Head) -> str:
    return "; ".join(ddl.query for ddl in head.ddls)


def check_key(schema: TableSchema, by: str) -> None:
    """`by`: what finds a row of the table by its key. Raises SinkError for a key that it cannot compare."""
    odd = [column.name for column in schema.columns if column.name in schema.key and column.kind in ("float", "double")]
    if odd:
        raise SinkError(
            f"{schema.name} has {odd[0]}, a floating-point number, in its key, and {by} by it is not exact",
            hint="use mode=append, or leave the table out by the changefeed's filter",
        )
