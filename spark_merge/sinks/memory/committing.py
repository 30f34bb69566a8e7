"""The committing kind: each task is a transaction, which is seen at once and holds the task's slot.

- The batch that is begun is on record before its first task: the next owner does the same cut, and what has its slot is not done again.
- A transaction of an earlier owner fails, whatever it has written so far.
- Rows appear as committed, a chunk's at its high mark among the live ones: stage after stage (`cut.stages`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from spark_merge.merge.cut import stages
from spark_merge.port.contract import Accepted, Batch, Head, Outcome, Owner, Portion, Task
from spark_merge.sinks.memory.rows import read
from spark_merge.sinks.memory.target import Begun, target
from spark_merge.sinks.memory.twin import Twin

CHUNK_PARTS = 2
"""A part of what a batch's cut is: it may not change while one is begun."""


class CommittingSink(Twin):
    def plan(self, heads: Sequence[Head], *, cores: int) -> Batch:  # noqa: ARG002 - the cut must not depend on the cores
        tasks = stages(heads, chunk_parts=CHUNK_PARTS)
        with self._target.writing(self._owner):
            if self._position.state.detail is None:
                self._position.change(Begun(Accepted.of(heads[-1].manifest), heads[0].received_as))
                self._target.slots = {task.id: None for stage in tasks for task in stage}
        return Batch(tuple(heads), tasks, Commit(self._name, self._owner))

    def accept(self, batch: Batch, outcomes: Sequence[Outcome]) -> None:  # noqa: ARG002 - the slots have them
        with self._target.lock:
            self._accept(batch)
            self._target.slots = {}


@dataclass(frozen=True, slots=True)
class Commit:
    name: str
    owner: Owner

    def __call__(self, task: Task, portions: Iterator[Portion]) -> Outcome:
        to = target(self.name)
        with to.writing(self.owner):
            if (done := to.slot(task.id)) is not None:
                return done
        counts, rows = read(portions)
        outcome = Outcome(task.id, counts)
        with to.writing(self.owner):
            if to.slot(task.id) is None:
                to.rows += rows
                to.slots[task.id] = outcome
        return outcome
