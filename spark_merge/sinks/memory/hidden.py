"""The hidden kind: what tasks write is seen by nobody until `accept` shows it, all at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sidecar.core.model import Seq
from spark_merge.contract import Batch, Head, Outcome, Owner, Portion, Standing, Task
from spark_merge.cut import spread, units
from spark_merge.sinks.memory.rows import read
from spark_merge.sinks.memory.target import target


class HiddenSink:
    """Output order is by segment and table, in what order tasks are is free: so any units side by side."""

    def __init__(self, name: str, *, log_id: str) -> None:
        self._name, self._log_id = name, log_id
        self._owner = Owner(-1, 0)

    def look(self) -> Seq | None:
        return target(self._name, self._log_id).accepted

    def open(self, *, epoch: int | None) -> Standing:
        to = target(self._name, self._log_id)
        self._owner = to.take_over(epoch)
        for place in [place for place in to.aside if place[0] < self._owner]:
            del to.aside[place]
        return Standing(self._owner, to.accepted)

    def plan(self, heads: Sequence[Head], *, cores: int) -> Batch | None:
        groups = spread(units(heads, chunk_parts=0), heads, cores=cores)
        tasks = tuple(Task(str(number), group) for number, group in enumerate(groups))
        return Batch(tuple(heads), (tasks,), WriteAside(self._name, self._log_id, self._owner))

    def accept(self, batch: Batch, outcomes: Sequence[Outcome]) -> None:
        to = target(self._name, self._log_id)
        with to.writing(self._owner):
            rows = [row for outcome in outcomes for row in to.aside.get((self._owner, outcome.note), ())]
            to.advance(self._owner, batch)
            to.rows += sorted(rows, key=lambda row: (row.seq, row.table))

    def close(self) -> None:
        """Nothing is held."""


@dataclass(frozen=True, slots=True)
class WriteAside:
    """Under a name that no other attempt has: the outcome's note."""

    name: str
    log_id: str
    owner: Owner

    def __call__(self, task: Task, portions: Iterator[Portion]) -> Outcome:
        counts, rows = read(portions)
        to = target(self.name, self.log_id)
        with to.lock:
            attempt = f"{task.id}-{len(to.aside)}"
            to.aside[self.owner, attempt] = rows
        return Outcome(task.id, counts, attempt)
