"""What the merge worker tells the sidecar: how far the sinks are, in one file beside the log (`delivered.json`).

It is a projection, like the progress store: the sinks' own accepted segment is the only position, and the file may be behind it
or be absent. The sidecar holds a dump back by it, shows it, and retains the log by what it told in the present term.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from sidecar.core.model import CommitTs, Seq, TableName
from sidecar.pace.sinks import SinkDelivery

DELIVERED_NAME = "delivered.json"


@dataclass(frozen=True, slots=True)
class DeliveryReport:
    """`seq`, `upto_ts`: the last segment that every sink has accepted, None before the first. `state`: starting, running or
    stopped; `error`: what the worker last died of. `dropped`: by table, rows of chunks left out because their key was touched in
    the window, since this worker started. `written_ms`: the worker's wall clock. `rows`: by where they were merged (`worker`: in the
    worker's own process, `spark`: in Spark's tasks), of all sinks together, since this worker started. `spark`: starting, ready or
    empty where it was not asked for yet. `sinks`: each one by itself."""

    seq: Seq | None
    upto_ts: CommitTs
    state: str
    written_ms: int
    pid: int = 0
    error: str = ""
    dropped: Mapping[TableName, int] = field(default_factory=dict)
    rows: Mapping[str, int] = field(default_factory=dict)
    spark: str = ""
    sinks: tuple[SinkDelivery, ...] = ()

    def to_json(self) -> bytes:
        dropped = tuple((table.schema, table.table, rows) for table, rows in self.dropped.items())
        upto_ts, rows = str(self.upto_ts), dict(self.rows)
        written = _Report(self.seq, upto_ts, self.state, self.written_ms, self.pid, self.error, dropped, rows, self.spark, self.sinks)
        return msgspec.json.format(msgspec.json.encode(written), indent=0)


class _Report(msgspec.Struct):
    """The file's fields in their order. A worker of 0.1.0 told the last batch's seconds in fields of its own, and no sinks."""

    seq: Seq | None
    upto_ts: str
    state: str
    written_ms: int
    pid: int
    error: str
    dropped: tuple[tuple[str, str, int], ...]
    rows: dict[str, int] = {}
    spark: str = ""
    sinks: tuple[SinkDelivery, ...] = ()


def report_from_json(data: bytes) -> DeliveryReport:
    """The inverse of `DeliveryReport.to_json`. Raises ValueError for what is not one."""
    try:
        found = msgspec.json.decode(data, type=_Report)
    except msgspec.DecodeError as error:
        raise ValueError(f"not a delivery report: {error}") from error
    return DeliveryReport(
        seq=found.seq,
        upto_ts=CommitTs(int(found.upto_ts)),
        state=found.state,
        written_ms=found.written_ms,
        pid=found.pid,
        error=found.error,
        dropped={TableName(schema, table): rows for schema, table, rows in found.dropped},
        rows=found.rows,
        spark=found.spark,
        sinks=found.sinks,
    )
