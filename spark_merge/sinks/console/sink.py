"""The console sink: one line a delivered segment, with its rows by table. For looking, not for keeping.

It remembers nothing beyond the process: every start delivers the log from its beginning again.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TextIO

from sidecar.shared.model.nouns import TableName
from spark_merge.merge.cut import LIVE_PART_ROWS, spread, units
from spark_merge.port.contract import Accepted, Batch, Head, Outcome, Owner, Rows, Standing, Task, delivered
from spark_merge.port.kinds import SinkKind
from spark_merge.sinks.kit.written import count_rows


class ConsoleSink:
    """`out` is standard output if it is not given."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = sys.stdout if out is None else out
        self._accepted: Accepted | None = None

    def look(self) -> Accepted | None:
        return self._accepted

    def open(self, *, epoch: int | None) -> Standing:
        return Standing(Owner(epoch or 0, 1), self._accepted)

    def plan(self, heads: Sequence[Head], *, cores: int) -> Batch:
        groups = spread(units(heads, chunk_parts=cores, live_part_rows=LIVE_PART_ROWS), heads, cores=cores)
        return Batch(tuple(heads), (tuple(Task(str(number), group) for number, group in enumerate(groups)),), count_rows)

    def accept(self, batch: Batch, outcomes: Sequence[Outcome]) -> None:
        for head, result in zip(batch.heads, delivered(batch, outcomes), strict=True):
            self._out.write(_line(head, result.tables) + "\n")
            self._accepted = Accepted.of(head.manifest)
        self._out.flush()

    def close(self) -> None:
        """Nothing is held."""


def _line(head: Head, tables: Mapping[TableName, Rows]) -> str:
    parts = [
        f"{table}: {rows.log} live" + (f", {rows.dump} dumped, {rows.dropped} dropped" if rows.dump or rows.dropped else "")
        for table, rows in sorted(tables.items())
    ]
    parts += [f"ddl: {ddl.query}" for ddl in head.ddls]
    return f"segment {head.seq} up to {head.upto_ts}  " + ("; ".join(parts) or "no rows")


CONSOLE = SinkKind(lambda _: ConsoleSink(), unreadable="it prints how many rows there are, and keeps none")
