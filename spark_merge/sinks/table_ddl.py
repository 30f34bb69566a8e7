"""Schema changes at targets that keep tables as they are in TiDB and carry no statement out themselves: what no such target can follow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sidecar.core.model import TableName, TableSchema
from sidecar.errors import SinkError
from spark_merge.contract import Head
from spark_merge.ddl.effects import TableEffect, TableFate, effects
from spark_merge.ddl.routes import Routes


@dataclass(frozen=True, slots=True)
class Merged:
    """How messages name a target: `tables` what it keeps, `stays` why one is not renamed, `place` where a new dump is delivered."""

    tables: str
    stays: str
    place: str

    def refused(self, head: Head, why: str) -> SinkError:
        text = "; ".join(ddl.query for ddl in head.ddls) or "a step of a DDL"
        return SinkError(
            f"the DDL {text!r} cannot be carried out on {self.tables}: {why}",
            hint=f"bring the table to what TiDB has by hand and add ddl-done={head.upto_ts} to the sink's URI; or deliver a new dump to "
            f"a new {self.place}; mode=append follows every DDL",
        )

    def followed(self, head: Head, routes: Routes, place: Callable[[TableName], object]) -> list[TableEffect]:
        """Of the segment's DDLs. `place`: of a table of the log at the target. Raises SinkError for what cannot be followed, whether the
        table has rows or not."""
        found = effects(head)
        for effect in found:
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
        return found


def check_key(schema: TableSchema, by: str) -> None:
    """`by`: what finds a row of the table by its key. Raises SinkError for a key that it cannot compare."""
    odd = [column.name for column in schema.columns if column.name in schema.key and column.kind in ("float", "double")]
    if odd:
        raise SinkError(
            f"{schema.name} has {odd[0]}, a floating-point number, in its key, and {by} by it is not exact",
            hint="use mode=append, or leave the table out by the changefeed's filter",
        )
