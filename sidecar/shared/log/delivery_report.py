"""What the merge worker reports to the sidecar: how far the sinks are, in one file beside the log (`delivered.json`).

It is a projection, like the progress store: the sinks' own accepted segment is the only position, and the file may be behind it
or be absent. The sidecar holds a dump back by it, shows it, and retains the log by what it reported in the present term. A report
of another log, or of a segment that is not in this one, is not believed (sidecar/shared/log/deliveries.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

import msgspec

from sidecar.shared.log.manifest import TS_END
from sidecar.shared.model.nouns import CommitTs, Seq, TableName
from sidecar.shared.model.sink_delivery import SinkDelivery

DELIVERED_NAME = "delivered.json"
SPARK_STARTING, SPARK_READY = "starting", "ready"
RUNNING, STOPPED = "running", "stopped"


@dataclass(frozen=True, slots=True)
class DeliveryReport:
    """`seq`, `upto_ts`: the last segment that every sink has accepted, None before the first. `state`: starting, running or
    stopped; `error`: what a worker last died of, until one has delivered something since. `dropped`: by table, rows of chunks omitted
    because their key was touched in the window, since this worker started. `written_ms`: the worker's wall clock. `rows`: by where they
    were merged (`worker`: in the worker's own process, `spark`: in Spark's tasks), of all sinks together, since this worker started.
    `spark`: starting, ready or empty where it is not needed. `sinks`: one report each. `log`: the id of the log that they have;
    empty: not recorded, by a worker of 0.2.0 or before. `skipped`: rows of the log that are skipped (skips.py). `guessed`: TIMESTAMPs of an
    hour that the server's zone has twice, taken as `kafka.ambiguous` says, since this worker started. `epoch`: the owner's that the worker
    serves; 0: any owner's, or not recorded. `verification_waits_for`: as of spark_merge/verify/starvation.py."""

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
    log: str = ""
    skipped: int = 0
    guessed: int = 0
    epoch: int = 0
    verification_waits_for: str = ""

    def to_json(self) -> bytes:
        dropped = tuple((table.schema, table.table, rows) for table, rows in self.dropped.items())
        written = _Report(
            self.seq,
            str(self.upto_ts),
            self.state,
            self.written_ms,
            self.pid,
            self.error,
            dropped,
            dict(self.rows),
            self.spark,
            self.sinks,
            self.log,
            self.skipped,
            self.guessed,
            self.epoch,
            self.verification_waits_for,
        )
        return msgspec.json.format(msgspec.json.encode(written), indent=0)


_Count = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]


class _Report(msgspec.Struct):
    """The file's fields in their order. A worker of 0.1.0 wrote the last batch's seconds in fields of its own, and no sinks."""

    seq: Annotated[Seq, msgspec.Meta(ge=0, le=(1 << 63) - 1)] | None
    upto_ts: str
    state: str
    written_ms: _Count
    pid: _Count
    error: str
    dropped: tuple[tuple[str, str, _Count], ...]
    rows: dict[str, _Count] = {}
    spark: str = ""
    sinks: tuple[SinkDelivery, ...] = ()
    log: str = ""
    skipped: int = 0
    guessed: int = 0
    epoch: int = 0
    verification_waits_for: str = ""


def report_from_json(data: bytes) -> DeliveryReport:
    """The inverse of `DeliveryReport.to_json`. Raises ValueError for what is not one."""
    try:
        report = msgspec.json.decode(data, type=_Report)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not a delivery report: {error}") from error
    upto_ts = int(report.upto_ts)
    if not 0 <= upto_ts < TS_END:
        raise ValueError(f"not a delivery report: {upto_ts} is no ts")
    return DeliveryReport(
        seq=report.seq,
        upto_ts=CommitTs(upto_ts),
        state=report.state,
        written_ms=report.written_ms,
        pid=report.pid,
        error=report.error,
        dropped={TableName(schema, table): rows for schema, table, rows in report.dropped},
        rows=report.rows,
        spark=report.spark,
        sinks=report.sinks,
        log=report.log,
        skipped=report.skipped,
        guessed=report.guessed,
        epoch=report.epoch,
        verification_waits_for=report.verification_waits_for,
    )
