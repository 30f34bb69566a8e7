"""Where a table is in a sink and in the log, and waiting until either is far enough. For one comparison."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from sidecar.core.model import CommitTs, Seq, TableName, TableSchema, utc
from sidecar.errors import SinkError
from sidecar.log.sink_tables import read_sink_tables
from spark_merge.log.read import LoggedSchemas, new_manifests
from spark_merge.port.contract import Accepted, Sink
from spark_merge.port.readable import Readable
from spark_merge.verify.context import CheckContext
from spark_merge.verify.moving import Moving

AWAIT_S, LOOK_WAIT_S = 0.1, 0.5
SINK_WAIT_S = 600.0
"""For the sink to accept what the look before has seen in the log."""


class Altered(Exception):
    """A DDL changed the table while it was compared."""


class ReadableSink(Sink, Readable, Protocol):
    """A sink that can be read back."""


@dataclass(frozen=True, slots=True)
class Positions:
    """`name`: the sink's. `waits_for`: receives what is waited for; empty: nothing any more."""

    context: CheckContext
    name: str
    sink: ReadableSink
    table: TableName
    waits_for: Callable[[str], object]

    def accepted(self) -> Accepted:
        result = self.sink.look()
        if result is None:
            raise SinkError(f"sink {self.name} has accepted nothing yet", hint="wait until it has: see dumpquery")
        return result

    def schema_after(self, accepted: Accepted) -> TableSchema:
        """The table in the sink. Raises Altered where the log has none."""
        log = self.context.log.settings.log
        before = new_manifests(log, after=Seq(accepted.seq - 1), limit=1)
        if not before:
            raise SinkError(f"segment {accepted.seq}, which sink {self.name} ends with, is not in the log", hint="try again")
        name = before[0].next_schemas or before[0].schemas if before[0].seq == accepted.seq else before[0].schemas
        schema = LoggedSchemas(log, name).get(self.table)
        if schema is None or not schema.key:
            raise Altered
        return schema

    def has_all_rows(self) -> bool:
        """At its position now and later, as far as is known; also of a sink without a record, which has received nothing of which it could
        lack some."""
        tables = read_sink_tables(self.context.log.settings.log, [self.name]).get(self.name)
        return tables is None or not tables.incomplete([self.table])

    def await_sink(self, upto_ts: CommitTs) -> None:
        """Until the sink has everything up to `upto_ts`. Raises SinkError."""
        until_s = time.monotonic() + SINK_WAIT_S
        while (self.accepted().upto_ts or 0) < upto_ts:
            self.waits_for(f"sink {self.name} to accept the changes up to {utc(upto_ts)}")
            if time.monotonic() > until_s:
                raise SinkError(
                    f"sink {self.name} has not reached {upto_ts} within {SINK_WAIT_S:g} s, so {self.table} cannot be compared",
                    hint="see dumpquery for what holds the sink up, then verify again",
                )
            self.context.gate(0)
            self.context.wait(LOOK_WAIT_S)
        self.waits_for("")

    def await_log(self, moving: Moving, ts: CommitTs, *, follow: Callable[[Moving], CommitTs]) -> None:
        """Until the log has everything up to `ts`. Raises Altered."""
        while follow(moving) < ts:
            self.waits_for(f"the log to have all changes up to {utc(ts)}")
            self.context.gate(0)
            self.context.wait(AWAIT_S)
        self.waits_for("")
        if moving.altered:
            raise Altered
