"""Reading a twin's rows back (port/readable.py). Rows that a batch shows before it is accepted are omitted. The versioned kind has
none but the newest: there they are as of a later position."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import TableSchema
from spark_merge.merge.rule import Image, OutputRow
from spark_merge.port.contract import Accepted
from spark_merge.port.readable import Reading, RowsRead, Versions
from spark_merge.sinks.memory.target import target


def read_back(name: str, schema: TableSchema, *, parts: int) -> Reading:
    to = target(name)
    with to.lock:
        accepted, exact = to.accepted, not to.newest
    results = tuple(TwinPart(name, schema, accepted, number, parts) for number in range(parts))
    return Reading(accepted, exact, results if accepted is not None or not exact else ())


@dataclass(frozen=True, slots=True)
class TwinPart:
    """Every `of`-th row, from `number` on. In this process alone."""

    name: str
    schema: TableSchema
    accepted: Accepted | None
    number: int
    of: int

    def __call__(self) -> Iterator[RowsRead]:
        to = target(self.name)
        with to.lock:
            upto = -1 if self.accepted is None else self.accepted.seq
            rows = [*(row for row in to.rows if row.seq <= upto), *to.newest.values()]
        own = [row for row in rows if row.table == self.schema.name][self.number :: self.of]
        if own:
            yield self._rows_read(own)

    def _image(self, row: OutputRow) -> Image:
        """Of a key that a dump deletes no more is known."""
        if (image := row.before if row.after is None else row.after) is not None:
            return image
        known = dict(zip(self.schema.key, row.key, strict=True))
        return tuple(known.get(name) for name in self.schema.column_names())

    def _rows_read(self, own: list[OutputRow]) -> RowsRead:
        images, names = [self._image(row) for row in own], self.schema.column_names()
        if any(len(image) != len(names) for image in images):
            raise SinkError(
                f"{self.schema.name} cannot be read back: the in-memory sink has rows of other columns than {', '.join(names)}",
                hint="in-memory sinks keep no schema changes: use another target",
            )
        rows = pa.table({name: pa.array([image[place] for image in images], pa.string()) for place, name in enumerate(names)})
        commit_ts = pa.array([row.commit_ts for row in own], pa.int64())
        rank = pa.array([row.rank for row in own], pa.int32())
        return RowsRead(rows, Versions(commit_ts, rank, pa.array([row.after is None for row in own])))
