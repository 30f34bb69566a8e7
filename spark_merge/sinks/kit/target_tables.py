"""Is the target's table ready for rows? The rule of sinks whose target keeps tables:

- While nothing is accepted, every table is looked at before the first row, and made where it is not there.
- Afterwards a table is looked at before it gets rows. One that is not there lacks the rows that it had: it is not made again.
- What was seen is believed for TABLES_KNOWN_S. An opening of the sink, so every error, and a DDL make the sink look again.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

from sidecar.shared.model.nouns import TableSchema
from spark_merge.merge.cut import tables_with_rows
from spark_merge.port.contract import Head, has_rows

T = TypeVar("T")

TABLES_KNOWN_S = 600


class TargetTables(Generic[T]):
    """`T`: what the sink needs of a table that is ready."""

    def __init__(self) -> None:
        self._known: dict[TableSchema, tuple[T, float]] = {}

    def due(self, heads: Sequence[Head], *, all_tables: bool) -> list[TableSchema]:
        """Those to look at before rows of these segments: of all tables of the log that have rows, or of those that get some now."""
        wanted = filter(has_rows, heads[0].schemas.values()) if all_tables else tables_with_rows(heads)
        oldest = time.monotonic() - TABLES_KNOWN_S
        return [schema for schema in wanted if self._known.get(schema, (None, oldest))[1] <= oldest]

    def learn(self, tables: Mapping[TableSchema, T]) -> None:
        """These are ready."""
        now = time.monotonic()
        self._known |= {schema: (one, now) for schema, one in tables.items()}

    def get(self, schema: TableSchema) -> T | None:
        return self._known[schema][0] if schema in self._known else None

    def forget(self) -> None:
        self._known.clear()
