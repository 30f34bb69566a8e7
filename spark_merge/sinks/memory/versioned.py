"""The versioned kind: of each key the change with the greatest (commit_ts, rank) wins, so tasks may come in any order and any number.

A frozen former worker may write when it wakes up: what it writes has lost to what came after it, or is the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from sidecar.core.model import TableSchema
from sidecar.process.progress import progressed
from spark_merge.merge.cut import spread, units
from spark_merge.port.contract import Accepted, Batch, Head, Outcome, Owner, Portion, Standing, Task
from spark_merge.port.readable import Reading
from spark_merge.sinks.memory.reading import read_back
from spark_merge.sinks.memory.rows import read
from spark_merge.sinks.memory.target import target

CHUNK_PARTS, LIVE_PART_ROWS = 4, 100_000


class VersionedSink:
    finds_keys = False

    def __init__(self, name: str, *, log_id: str) -> None:
        self._name, self._log_id = name, log_id
        self._owner = Owner(-1, 0)

    def look(self) -> Accepted | None:
        return target(self._name, self._log_id).accepted

    def open(self, *, epoch: int | None) -> Standing:
        to = target(self._name, self._log_id)
        self._owner = to.take_over(epoch)
        return Standing(self._owner, to.accepted)

    def plan(self, heads: Sequence[Head], *, cores: int) -> Batch:
        groups = spread(units(heads, chunk_parts=CHUNK_PARTS, live_part_rows=LIVE_PART_ROWS), heads, cores=cores)
        tasks = tuple(Task(str(number), group) for number, group in enumerate(groups))
        return Batch(tuple(heads), (tasks,), Upsert(self._name, self._log_id))

    def accept(self, batch: Batch, outcomes: Sequence[Outcome]) -> None:  # noqa: ARG002 - the rows are there
        target(self._name, self._log_id).advance(self._owner, batch)

    def reading(self, schema: TableSchema, *, parts: int, keys: pa.Table | None = None) -> Reading:  # noqa: ARG002 - rows are in one list
        return read_back(self._name, self._log_id, schema, parts=parts)

    def close(self) -> None:
        """Nothing is held."""


@dataclass(frozen=True, slots=True)
class Upsert:
    """A delete leaves its version behind, for as long as a former worker may be frozen."""

    name: str
    log_id: str

    def __call__(self, task: Task, portions: Iterator[Portion]) -> Outcome:
        to = target(self.name, self.log_id)
        counts, rows = read(portions)
        for row in rows:
            with to.lock:
                known = to.newest.get((row.table, row.key))
                if known is None or row[1:4] >= known[1:4]:
                    to.newest[row.table, row.key] = row
            progressed()
        return Outcome(task.id, counts)
