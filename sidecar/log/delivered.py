"""What the merge worker tells the sidecar: how far the sinks are, in one file beside the log (`delivered.json`).

It is a projection, like the progress store: the sinks' own accepted segment is the only position, and the file may be behind it
or be absent. The sidecar holds a dump back by it, shows it, and retains the log by what it told in the present term.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from sidecar.core.model import CommitTs, Seq, TableName

DELIVERED_NAME = "delivered.json"


@dataclass(frozen=True, slots=True)
class DeliveryReport:
    """`seq`, `upto_ts`: the last segment that every sink has accepted, None before the first. `state`: starting, running or
    stopped; `error`: what the worker last died of. `dropped`: by table, rows of chunks left out because their key was touched in
    the window, since this worker started. `written_ms`: the worker's wall clock. `batch_s`: of the last batch; `accept_s`: how
    much of it the sinks took to accept what the tasks had written."""

    seq: Seq | None
    upto_ts: CommitTs
    state: str
    written_ms: int
    pid: int = 0
    error: str = ""
    dropped: Mapping[TableName, int] = field(default_factory=dict)
    batch_s: float = 0.0
    accept_s: float = 0.0

    def to_json(self) -> bytes:
        dropped = tuple((table.schema, table.table, rows) for table, rows in self.dropped.items())
        written = _Report(
            self.seq, str(self.upto_ts), self.state, self.written_ms, self.pid, self.error, self.batch_s, self.accept_s, dropped
        )
        return msgspec.json.format(msgspec.json.encode(written), indent=0)


class _Report(msgspec.Struct):
    """The file's fields in their order."""

    seq: Seq | None
    upto_ts: str
    state: str
    written_ms: int
    pid: int
    error: str
    batch_s: float
    accept_s: float
    dropped: tuple[tuple[str, str, int], ...]


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
        batch_s=found.batch_s,
        accept_s=found.accept_s,
        dropped={TableName(schema, table): rows for schema, table, rows in found.dropped},
    )
