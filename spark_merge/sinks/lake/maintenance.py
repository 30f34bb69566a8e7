"""Keeping the tables of a lake cheap to read: `ticdc-dump maintain`, a process beside the sink's worker. Off by default: somebody runs it.

    of each table   compact: few files of many small ones, and of an Iceberg table those of deletes applied
                    expire: versions of which no reader is left, and the files that only they have

A process of its own, and not the sink between two batches:
- No batch waits for it (P3). To rewrite a table takes minutes, a batch seconds; and what it dies of ends no delivery.
- The formats are made for it. A commit is valid on the version that was looked at alone, on either side. **The sink never loses**: it gives
  way to STEPS_MAX commits of others in a row (steps.py), and a run makes COMMITS_MAX at the most of a table, whatever is in it. The
  compaction loses: nothing was changed, and it is done again on the table as it is then, TRIES times in all; then the next run does it.
- A compaction changes no row. Each version has the rows that it had before it, and what the sink commits later is on top of it.
Cost: where a Delta table is merged, the sink repeats the MERGE that was overtaken. An Iceberg table of `mode=merge` takes rows of a dump
with their keys from then on (iceberg/merge.py), so it waits for the table's dump.

What is never touched:
- The position. Delta's is in files beside the tables and in the transactions of each, Iceberg's in a table of its own (`_ticdc_dump`) and
  in properties: none of them is a version, so none expires.
- The newest version, and of Iceberg SNAPSHOTS_KEPT: a reader at the position needs the one before a table's last batch.
- Files that a version younger than `keep_hours` has: of readers that are under way, dumpverify among them, and for reading the past.
- Files that no commit names, before ORPHAN_HOURS have passed: a batch that is being written has them, and a worker that was frozen may
  still commit its own. Later they are a dead worker's. Delta's go with VACUUM; Iceberg's sink removes them itself (iceberg/tables.py), but
  for metadata of commits that failed.

A process that dies leaves files that no commit names, and nothing else.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import TableName
from spark_merge.port.maintained import FileTotals, Maintained, Sql, Upkeep
from spark_merge.sinks.lake.steps import Outpaced

COMMITS_MAX = 5
"""Of a run, of a table: Delta's OPTIMIZE, and the beginning and end of VACUUM, twice; Iceberg's new files, deletes that go, and snapshots
that go."""

TRIES = 3
"""Of a compaction that the sink's commits overtake. Each rewrites the files again."""

ORPHAN_HOURS = 168
"""Longer than any batch takes, or a worker is frozen."""

SNAPSHOTS_KEPT = 10
"""Of an Iceberg table, however old: commits of a run may lie between the last batch and the one before it."""


NO_FILES = FileTotals(0, 0)


class UpkeepState(StrEnum):
    """`NONE`: there is no such table yet. `LOOK`: nothing was to be done. `DUMP`: expired only, its dump runs. `OVERTAKEN`: by the sink's
    commits, each time."""

    NONE = "none"
    LOOK = "look"
    DONE = "done"
    DUMP = "dump"
    OVERTAKEN = "overtaken"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class TableUpkeep:
    """`removed`: files, by the expiry. `seconds`: that it took. `error`: why it failed."""

    table: TableName
    state: UpkeepState
    before: FileTotals = NO_FILES
    after: FileTotals = NO_FILES
    removed: int = 0
    seconds: float = 0.0
    error: str = ""

    def to_json(self) -> dict[str, Any]:
        both = {"before": self.before._asdict(), "after": self.after._asdict()}
        return asdict(self) | both | {"table": str(self.table), "state": self.state.value, "seconds": round(self.seconds, 3)}


def looked_at(lake: Maintained, tables: Iterable[TableName]) -> Iterator[TableUpkeep]:
    """What there is, and nothing is changed. A table that fails stops no other."""
    for name in tables:
        try:
            totals = lake.totals(name)
            yield TableUpkeep(name, UpkeepState.NONE) if totals is None else TableUpkeep(name, UpkeepState.LOOK, totals, totals)
        except SinkError as error:
            yield TableUpkeep(name, UpkeepState.FAILED, error=str(error))


def maintained(
    lake: Maintained, tables: Iterable[TableName], upkeep: Upkeep, sql: Sql, *, complete: Collection[TableName]
) -> Iterator[TableUpkeep]:
    """A table after another; one that fails stops no other. `complete`: those that the sink has whole."""
    for name in tables:
        began_s, before = time.monotonic(), NO_FILES
        try:
            if (totals := lake.totals(name)) is None:
                yield TableUpkeep(name, UpkeepState.NONE)
                continue
            before = totals
            state = UpkeepState.DUMP if lake.waits_for_dump and name not in complete else _compacted(lake, name, upkeep, sql)
            removed, state = _expired(lake, name, upkeep, sql, state)
            after = lake.totals(name) or NO_FILES
            yield TableUpkeep(name, state, before, after, removed, time.monotonic() - began_s)
        except SinkError as error:
            yield TableUpkeep(name, UpkeepState.FAILED, before, before, seconds=time.monotonic() - began_s, error=str(error))


def _compacted(lake: Maintained, name: TableName, upkeep: Upkeep, sql: Sql) -> UpkeepState:
    for _ in range(TRIES):
        try:
            lake.compact(name, upkeep, sql)
        except Outpaced:
            continue
        return UpkeepState.DONE
    return UpkeepState.OVERTAKEN


def _expired(lake: Maintained, name: TableName, upkeep: Upkeep, sql: Sql, state: UpkeepState) -> tuple[int, UpkeepState]:
    """An expiry that is overtaken is the next run's."""
    try:
        return lake.expire(name, upkeep, sql), state
    except Outpaced:
        return 0, UpkeepState.OVERTAKEN
