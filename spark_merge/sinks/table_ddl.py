"""Schema changes at targets that keep tables as they are in TiDB and carry no statement out themselves: what no such target can follow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sidecar.core.model import TableName
from sidecar.errors import SinkError
from sidecar.log.manifest import DdlRecord
from spark_merge.contract import Head
from spark_merge.ddl.effects import Fate, TableEffect, effects
from spark_merge.ddl.routes import Routes


@dataclass(frozen=True, slots=True)
class Merged:
    """How messages name a target: `tables` what it keeps, `stays` why one is not renamed, `place` where a new dump is delivered."""

    tables: str
    stays: str
    place: str

    def refused(self, ddl_text: str, why: str, ddls: Sequence[DdlRecord]) -> SinkError:
        stamps = ", ".join(str(ddl.commit_ts) for ddl in ddls)
        return SinkError(
            f"the DDL {ddl_text!r} cannot be carried out on {self.tables}: {why}",
            hint=f"bring the table to what TiDB has by hand and add ddl-done={stamps} to the sink's URI; or deliver a new dump to a new "
            f"{self.place}; mode=append follows every DDL",
        )

    def followed(self, head: Head, routes: Routes, place: Callable[[TableName], object]) -> list[TableEffect]:
        """Of the segment's DDLs. `place`: of a table of the log at the target. Raises SinkError for what cannot be followed, whether the
        table has rows or not."""
        found = effects(head)
        for effect in found:
            if effect.problem is not None:
                raise self.refused(effect.text, effect.problem.message, head.ddls) from effect.problem
            if effect.rows_leave:
                why = "rows change places" if effect.fate is Fate.EXCHANGED else "rows go"
                raise self.refused(effect.text, f"{why} without a change of each", head.ddls)
            if effect.fate is Fate.RENAMED and effect.before is not None and place(effect.before.name) != place(effect.name):
                to = routes.target(effect.before.name)
                raise SinkError(
                    f"the DDL {effect.text!r} cannot be carried out on {self.tables}: {self.stays}",
                    hint=f"add the route {effect.name}=>{to} to routes=, so that its rows stay where they are",
                )
        return found
