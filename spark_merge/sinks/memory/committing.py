"""The committing kind: each task is a transaction, which is seen at once and holds the task's slot.

- The batch that is begun is on record before its first task: the next owner does the same cut, and what has its slot is not done again.
- A transaction of a former owner fails, whatever it has written so far.
- Rows appear as committed, a chunk's at its high mark among the live ones: stage after stage (`cut.stages`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from sidecar.core.model import TableSchema
from spark_merge.merge.cut import stages
from spark_merge.port.contract import Accepted, Batch, Head, Outcome, Owner, Portion, Standing, Task
from spark_merge.port.readable import Reading
from spark_merge.sinks.memory.reading import read_back
from spark_merge.sinks.memory.rows import read
from spark_merge.sinks.memory.target import Begun, target

CHUNK_PARTS = 2
"""A part of what a batch's cut is: it may not change while one is begun."""


class CommittingSink:
    finds_keys = False

    def __init__(self, name: str, *, log_id: str) -> None:
        self._name, self._log_id = name, log_id
        self._owner = Owner(-1, 0)

    def look(self) -> Accepted | None:
        return target(self._name, self._log_id).accepted

    def open(self, *, epoch: int | None) -> Standing:
        to = target(self._name, self._log_id)
        self._owner = to.take_over(epoch)
        begun = to.begun
        return Standing(self._owner, to.accepted, begun.last if begun else None, begun.sink if begun else None)

    def plan(self, heads: Sequence[Head], *, cores: int) -> Batch:  # noqa: ARG002 - the cut must not depend on the cores
        to = target(self._name, self._log_id)
        with to.writing(self._owner):
            found = stages(heads, chunk_parts=CHUNK_PARTS)
            to.begun = to.begun or Begun(heads[-1].seq, heads[0].received_as, {task.id: None for stage in found for task in stage})
            return Batch(tuple(heads), found, Commit(self._name, self._log_id, self._owner))

    def accept(self, batch: Batch, outcomes: Sequence[Outcome]) -> None:  # noqa: ARG002 - the slots have told
        target(self._name, self._log_id).advance(self._owner, batch)

    def reading(self, schema: TableSchema, *, parts: int, keys: pa.Table | None = None) -> Reading:  # noqa: ARG002 - rows are in one list
        return read_back(self._name, self._log_id, schema, parts=parts)

    def close(self) -> None:
        """Nothing is held."""


@dataclass(frozen=True, slots=True)
class Commit:
    """The whole task in one transaction."""

    name: str
    log_id: str
    owner: Owner

    def __call__(self, task: Task, portions: Iterator[Portion]) -> Outcome:
        to = target(self.name, self.log_id)
        with to.writing(self.owner):
            if (done := to.slot(task.id)) is not None:
                return done
        counts, rows = read(portions)
        outcome = Outcome(task.id, counts)
        with to.writing(self.owner):
            if to.slot(task.id) is None:
                to.rows += rows
                to.fill(task.id, outcome)
        return outcome
