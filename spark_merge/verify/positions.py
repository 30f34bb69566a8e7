"""Where a table is in a sink and in the log, and waiting until either is far enough. For one comparison."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from sidecar.shared.errors import SinkError
from sidecar.shared.log.sink_tables import read_sink_tables
from sidecar.shared.model.nouns import CommitTs, Seq, TableName, TableSchema, utc
from spark_merge.log.read import LoggedSchemas, new_manifests
from spark_merge.port.contract import Accepted, Gathers, Sink
from spark_merge.port.readable import Readable
from spark_merge.verify.context import CheckContext
from spark_merge.verify.moving import Moving

AWAIT_S, LOOK_WAIT_S = 0.1, 0.5
SINK_WAIT_S = 600.0
"""Beyond what the sink gathers, for it to accept the next batch."""
NEXT_WAITS_MAX = 60
"""Of LOOK_WAIT_S each, beyond what the sink gathers: an idle stream has a segment each ten seconds."""


class Altered(Exception):
    """A DDL changed the table while it was compared. Its text: what the table is now; empty: it has other columns or rows."""


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
        position = self.sink.look()
        if position is None:
            raise SinkError(f"sink {self.name} has accepted nothing yet", hint="wait until it has: see dumpquery")
        return position

    def schema_after(self, accepted: Accepted) -> TableSchema:
        """The table in the sink. Raises Altered where the log has none."""
        log = self.context.log.settings.log
        before = new_manifests(log, after=Seq(accepted.seq - 1), limit=1)
        if not before:
            raise SinkError(f"segment {accepted.seq}, which sink {self.name} ends with, is not in the log", hint="try again")
        name = before[0].next_schemas or before[0].schemas if before[0].seq == accepted.seq else before[0].schemas
        schema = LoggedSchemas(log, name).get(self.table)
        if schema is None or not schema.key:
            raise Altered("the changefeed has no such table any more: it was dropped, renamed or has lost its key")
        return schema

    def has_all_rows(self) -> bool:
        """At its position now and later, as far as is known; also of a sink without a record, which has received nothing of which it could
        lack some."""
        tables = read_sink_tables(self.context.log.settings.log, [self.name]).get(self.name)
        return tables is None or not tables.incomplete([self.table])

    def await_sink(self, upto_ts: CommitTs) -> None:
        """Until the sink has everything up to `upto_ts`, however far behind it is. Raises SinkError where it accepts nothing for long."""
        seq, since_s = None, time.monotonic()
        while ((accepted := self.accepted()).upto_ts or 0) < upto_ts:
            self.waits_for(f"sink {self.name} to accept the changes up to {utc(upto_ts)}")
            if accepted.seq != seq:
                seq, since_s = accepted.seq, time.monotonic()
            if (waited_s := time.monotonic() - since_s) > SINK_WAIT_S + self._gather_s:
                raise SinkError(
                    f"sink {self.name} has accepted nothing for {waited_s:.0f} s, and not {upto_ts}: {self.table} cannot be compared",
                    hint="see dumpquery for what holds the sink up, then verify again",
                )
            self.context.gate(0)
            self.context.wait(LOOK_WAIT_S)
        self.waits_for("")

    def await_next(self, after: Accepted | None) -> None:
        """Until the sink has accepted another segment, or for a while: it carries out a DDL before it accepts the segment of the DDL."""
        for _ in range(NEXT_WAITS_MAX + int(self._gather_s / LOOK_WAIT_S)):
            if after is None or self.accepted().seq > after.seq:
                break
            self.waits_for(f"sink {self.name} to accept the next segment")
            self.context.gate(0)
            self.context.wait(LOOK_WAIT_S)
        self.waits_for("")

    @property
    def _gather_s(self) -> float:
        """It waits so long for more, and may have begun just now."""
        return 2 * self.sink.gather_s if isinstance(self.sink, Gathers) else 0.0

    def await_log(self, moving: Moving, ts: CommitTs, *, follow: Callable[[Moving], CommitTs]) -> None:
        """Until the log has everything up to `ts`. Raises Altered."""
        while follow(moving) < ts:
            self.waits_for(f"the log to have all changes up to {utc(ts)}")
            self.context.gate(0)
            self.context.wait(AWAIT_S)
        self.waits_for("")
        if moving.altered:
            raise Altered
