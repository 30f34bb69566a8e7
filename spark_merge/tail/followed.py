"""A table under all its names: over a RENAME it is the one with the same id, over a DDL that gives it another id the one with its name.

Who goes through the log's schemas in one direction, a step after another, meets the table under the name that it has there. TiDB gives
a table another id at TRUNCATE, and a source without ids has the names alone. Where neither the id nor the name is there, it is a table of
the name that was typed: it may have been dropped, and made again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sidecar.shared.model.nouns import TableName, TableSchema


@dataclass(slots=True)
class FollowedTable:
    """`wanted`: the name that was typed, in the log's spelling. `name` and `table_id`: of the table as it was met last."""

    wanted: TableName
    name: TableName
    table_id: int = 0

    def at(self, tables: Mapping[TableName, TableSchema]) -> TableSchema | None:
        """The table among these, which are next to those of the last call in the log. None: it is not there."""
        here = tables.get(self.name)
        if here is None or here.table_id != self.table_id:
            same = (one for one in tables.values() if self.table_id and one.table_id == self.table_id)
            here = next(same, here) or tables.get(self.wanted)
        if here is not None:
            self.name, self.table_id = here.name, here.table_id
        return here
