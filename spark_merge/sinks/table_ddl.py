"""Schema changes at targets that keep tables: what no such target can follow.

- `Merged` is of targets that keep tables as they are in TiDB and execute no statement."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from sidecar.core.model import CommitTs, TableName, TableSchema
from sidecar.errors import SinkError
from spark_merge.ddl.effects import TableEffect, TableFate, effects
from spark_merge.ddl.routes import Routes
from spark_merge.port.contract import Head


@dataclass(frozen=True, slots=True)
class Merged:
    """How messages name a target: `tables` what it keeps, `stays` why one is not renamed, `place` where a new dump is delivered."""

    tables: str
    stays: str
    place: str

    def refused(self, head: Head, why: str) -> SinkError:
        text = _text(head) or "a step of a DDL"
        return SinkError(
            f"the DDL {text!r} cannot be carried out on {self.tables}: {why}",
            hint=f"bring the table to what TiDB has by hand and add ddl-done={head.upto_ts} to the sink's URI; or deliver a new dump to "
            f"a new {self.place}; mode=append follows this DDL",
        )

    def followed(self, head: Head, routes: Routes, place: Callable[[TableName], object]) -> list[TableEffect]:
        """Of the segment's DDLs. `place`: of a table of the log at the target. Raises SinkError for what cannot be followed, whether the
        table has rows or not."""
        results = checked_effects(head)
        for effect in results:
            if effect.problem is not None:
                raise self.refused(head, effect.problem.message) from effect.problem
            if effect.rows_leave:
                why = "rows change places" if effect.fate is TableFate.EXCHANGED else "rows go"
                raise self.refused(head, f"{why} without a change of each")
            if effect.fate is TableFate.RENAMED and effect.before is not None and place(effect.before.name) != place(effect.name):
                raise SinkError(
                    f"the DDL {effect.record and effect.record.query!r} cannot be carried out on {self.tables}: {self.stays}",
                    hint=f"add the route {effect.name}=>{routes.target(effect.before.name)} to routes=, so that its rows stay there",
                )
        return results


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
