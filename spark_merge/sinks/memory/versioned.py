"""The versioned kind: of each key the change with the greatest (commit_ts, rank) wins, so tasks may come in any order and any number.

A frozen earlier worker may write when it wakes up: what it writes has lost to what came after it, or is the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sidecar.shared.process.progress import progressed
from spark_merge.merge.cut import spread, units
from spark_merge.port.contract import Batch, Head, Outcome, Portion, Task
from spark_merge.sinks.memory.rows import read
from spark_merge.sinks.memory.target import target
from spark_merge.sinks.memory.twin import Twin

CHUNK_PARTS, LIVE_PART_ROWS = 4, 100_000


class VersionedSink(Twin):
    def plan(self, heads: Sequence[Head], *, cores: int) -> Batch:
        groups = spread(units(heads, chunk_parts=CHUNK_PARTS, live_part_rows=LIVE_PART_ROWS), heads, cores=cores)
        tasks = tuple(Task(str(number), group) for number, group in enumerate(groups))
        return Batch(tuple(heads), (tasks,), Upsert(self._name))

    def accept(self, batch: Batch, outcomes: Sequence[Outcome]) -> None:  # noqa: ARG002 - the rows are there
        self._accept(batch)


@dataclass(frozen=True, slots=True)
class Upsert:
    """A delete leaves its version behind, for as long as an earlier worker may be frozen."""

    name: str

    def __call__(self, task: Task, portions: Iterator[Portion]) -> Outcome:
        to = target(self.name)
        counts, rows = read(portions)
        for row in rows:
            with to.lock:
                known = to.newest.get((row.table, row.key))
                if known is None or row[1:4] >= known[1:4]:
                    to.newest[row.table, row.key] = row
            progressed()
        return Outcome(task.id, counts)
