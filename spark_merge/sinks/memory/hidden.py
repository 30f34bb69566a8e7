"""The hidden kind: what tasks write is seen by nobody until `accept` shows it, all at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from spark_merge.merge.cut import spread, units
from spark_merge.merge.rule import OutputRow
from spark_merge.port.contract import RANK_CHUNK, Batch, Head, Outcome, Owner, Portion, Standing, Task
from spark_merge.sinks.memory.rows import read
from spark_merge.sinks.memory.target import target
from spark_merge.sinks.memory.twin import Twin

LIVE_PART_ROWS = 100_000


class HiddenSink(Twin):
    """Output order is by segment and table, and inside by what rows carry, so it is made when they are shown: any units side by side. A
    table's chunks of a segment are one unit, for only their place in the manifest says which comes first."""

    def open(self, *, epoch: int | None) -> Standing:
        standing, aside = super().open(epoch=epoch), self._target.aside
        for place in [place for place in aside if place[0] < standing.owner]:
            del aside[place]
        return standing

    def plan(self, heads: Sequence[Head], *, cores: int) -> Batch:
        groups = spread(units(heads, chunk_parts=1, live_part_rows=LIVE_PART_ROWS), heads, cores=cores)
        tasks = tuple(Task(str(number), group) for number, group in enumerate(groups))
        return Batch(tuple(heads), (tasks,), WriteAside(self._name, self._owner))

    def accept(self, batch: Batch, outcomes: Sequence[Outcome]) -> None:
        to = self._target
        rows = [row for outcome in outcomes for row in to.aside.get((self._owner, outcome.note), ())]
        with to.lock:
            self._accept(batch)
            to.rows += sorted(rows, key=_place)


def _place(row: OutputRow) -> tuple[object, ...]:
    """Rows of chunks are equal here if their tables are: they stay as they came."""
    return row.seq, row.table, row.commit_ts, row.rank, -1 if row.rank == RANK_CHUNK else row.ordinal


@dataclass(frozen=True, slots=True)
class WriteAside:
    """Under a name that no other attempt has: the outcome's note."""

    name: str
    owner: Owner

    def __call__(self, task: Task, portions: Iterator[Portion]) -> Outcome:
        counts, rows = read(portions)
        to = target(self.name)
        with to.lock:
            attempt = f"{task.id}-{len(to.aside)}"
            to.aside[self.owner, attempt] = rows
        return Outcome(task.id, counts, attempt)
