"""A table of a target that speaks SQL: its rows, read back by its key, and for how long what it has is believed.

    position ─► what the table has ─► cuts of its key ─► in tasks, each part: SELECT … WHERE key in (after, upper], or key in (…)

- The position comes before the rows, so rows are of it or of later segments. No snapshot spans both: a part makes its own connection,
  whenever and wherever it runs.
- The ranges of a key are in parts of their own, and hold each row once. Some keys are one part, whose statements hold as many as the server
  looks up well.
- The dialect is the sink's: the text of a SELECT, where its key is cut, and how its answer becomes canonical text (`KeyedTable`).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import pyarrow as pa

from sidecar.shared.model.keyset import Key
from sidecar.shared.model.nouns import TableSchema
from spark_merge.port.contract import Accepted
from spark_merge.port.readable import Reading, RowsRead

T = TypeVar("T")

TABLES_KNOWN_S = 600
"""How long what a table of the target has is believed; our own DDLs, and every error, make it be read again."""


class KeyedTable(Protocol):
    """Picklable."""

    def rows(self, statements: Sequence[str]) -> Iterator[pa.Table]:
        """Of these SELECTs, one after another, in bounded memory: canonical text, with the columns of the schema. Raises as ReadPart."""


@dataclass(frozen=True, slots=True)
class KeyedPart:
    """`ReadPart`."""

    table: KeyedTable
    statements: tuple[str, ...]

    def __call__(self) -> Iterator[RowsRead]:
        return (RowsRead(rows) for rows in self.table.rows(self.statements))


def keyed_reading(accepted: Accepted | None, table: KeyedTable, parts: Iterable[Iterable[str]]) -> Reading:
    """`parts`: of each its statements."""
    return Reading(accepted, exact=False, parts=tuple(KeyedPart(table, tuple(statements)) for statements in parts))


def keys_of(schema: TableSchema, keys: pa.Table) -> list[Key]:
    """`keys` as of `Readable.reading`."""
    return list(zip(*(keys.column(name).to_pylist() for name in schema.key), strict=True))


class KnownTables(Generic[T]):
    """What tables of the target have, as far as it is believed."""

    def __init__(self) -> None:
        self._known: dict[TableSchema, tuple[T, float]] = {}

    def unknown(self, schemas: Iterable[TableSchema]) -> list[TableSchema]:
        oldest = time.monotonic() - TABLES_KNOWN_S
        return [schema for schema in schemas if self._known.get(schema, (None, oldest))[1] <= oldest]

    def learn(self, value: Mapping[TableSchema, T]) -> None:
        now = time.monotonic()
        self._known |= {schema: (one, now) for schema, one in value.items()}

    def get(self, schema: TableSchema) -> T | None:
        return self._known[schema][0] if schema in self._known else None

    def forget(self) -> None:
        self._known.clear()
