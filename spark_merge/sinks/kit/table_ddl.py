"""Schema changes at targets that keep tables: what no such target can follow."""

from __future__ import annotations

from collections.abc import Collection

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import CommitTs
from spark_merge.ddl.effects import TableEffect, TableFate, effects
from spark_merge.port.contract import Head


def checked_effects(head: Head, decided: Collection[CommitTs] = ()) -> list[TableEffect]:
    """What the segment's DDLs did. `decided`: the DDLs that the operator has decided, by commit_ts. Raises SinkError for a table that
    arrives with rows of which the log has no change event."""
    results, ts = effects(head), head.upto_ts
    arrived = ", ".join(str(effect.name) for effect in results if effect.fate is TableFate.ARRIVED)
    if arrived and ts not in decided:
        statement = repr(text_of(head)) if head.ddls else "whose statement is not in the log"
        raise SinkError(
            f"segment {head.seq}, the DDL at commit_ts {ts}, {statement}: rows of {arrived} arrive without a change event of each",
            hint=f"add ddl-done={ts} to the sink's URI: the sink continues without these rows. Then dump {arrived}. A SQL target needs the"
            " table first: create it, or carry out the DDL, by hand",
        )
    return results


def text_of(head: Head) -> str:
    return "; ".join(ddl.query for ddl in head.ddls)
