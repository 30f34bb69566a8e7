"""The hidden kind: what tasks write is seen by nobody until `accept` shows it, all at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from sidecar.core.model import TableSchema
from spark_merge.merge.cut import spread, units
from spark_merge.merge.rule import OutputRow
from spark_merge.port.contract import RANK_CHUNK, Accepted, Batch, Head, Outcome, Owner, Portion, Standing, Task
from spark_merge.port.readable import Reading
from spark_merge.sinks.memory.reading import read_back
from spark_merge.sinks.memory.rows import read
from spark_merge.sinks.memory.target import target

LIVE_PART_ROWS = 100_000


class HiddenSink:
    """Output order is by segment and table, and inside by what rows carry, so it is made when they are shown: any units side by side. A
    table's chunks of a segment are one unit, for only their place in the manifest tells which comes first."""

    finds_keys = False

    def __init__(self, name: str, *, log_id: str) -> None:
        self._name, self._log_id = name, log_id
        self._owner = Owner(-1, 0)

    def look(self) -> Accepted | None:
        return target(self._name, self._log_id).accepted

    def open(self, *, epoch: int | None) -> Standing:
        to = target(self._name, self._log_id)
        self._owner = to.take_over(epoch)
        for place in [place for place in to.aside if place[0] < self._owner]:
            del to.aside[place]
        return Standing(self._owner, to.accepted)

    def plan(self, heads: Sequence[Head], *, cores: int) -> Batch:
        groups = spread(units(heads, chunk_parts=1, live_part_rows=LIVE_PART_ROWS), heads, cores=cores)
        tasks = tuple(Task(str(number), group) for number, group in enumerate(groups))
        return Batch(tuple(heads), (tasks,), WriteAside(self._name, self._log_id, self._owner))

    def accept(self, batch: Batch, outcomes: Sequence[Outcome]) -> None:
        to = target(self._name, self._log_id)
        with to.writing(self._owner):
            rows = [row for outcome in outcomes for row in to.aside.get((self._owner, outcome.note), ())]
            to.advance(self._owner, batch)
            to.rows += sorted(rows, key=_place)

    def reading(self, schema: TableSchema, *, parts: int, keys: pa.Table | None = None) -> Reading:  # noqa: ARG002 - rows are in one list
        return read_back(self._name, self._log_id, schema, parts=parts)

    def close(self) -> None:
        """Nothing is held."""


def _place(row: OutputRow) -> tuple[object, ...]:
    """Rows of chunks are equal here if their tables are: they stay as they came."""
    return row.seq, row.table, row.commit_ts, row.rank, -1 if row.rank == RANK_CHUNK else row.ordinal


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
