"""A table of a target that speaks SQL: its rows, read back by its key.

    position ─► what the table has ─► cuts of its key ─► in tasks, each part: SELECT … WHERE key in (after, upper], or key in (…)

- The position comes before the rows, so rows are of it or of later segments. No snapshot spans both: a part makes its own connection,
  whenever and wherever it runs.
- The ranges of a key are in parts of their own, and hold each row once. Some keys are one part, whose statements hold as many as the server
  looks up well.
- The dialect is the sink's: the text of a SELECT, where its key is cut, and how its answer becomes canonical text (`KeyedTable`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import pyarrow as pa

from sidecar.shared.model.keyset import Key
from sidecar.shared.model.nouns import TableSchema
from spark_merge.port.contract import Accepted
from spark_merge.port.readable import Reading, RowsRead

T = TypeVar("T")


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
