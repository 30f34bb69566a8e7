"""What the merge worker tells the sidecar: how far the sinks are, in one file beside the log (`delivered.json`).

It is a projection, like the progress store: the sinks' own accepted segment is the only position, and the file may be behind it
or be absent. The sidecar holds a dump back by it, shows it, and retains the log by what it told in the present term.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from sidecar.core.model import CommitTs, Seq, TableName

DELIVERED_NAME = "delivered.json"


@dataclass(frozen=True, slots=True)
class DeliveryReport:
    """`seq`, `upto_ts`: the last segment that every sink has accepted, None before the first. `state`: starting, running or
    waiting; `error`: what the worker last died of. `dropped`: by table, rows of chunks left out because their key was touched in
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
        return json.dumps(
            {
                "seq": self.seq,
                "upto_ts": str(self.upto_ts),
                "state": self.state,
                "written_ms": self.written_ms,
                "pid": self.pid,
                "error": self.error,
                "batch_s": self.batch_s,
                "accept_s": self.accept_s,
                "dropped": [[table.schema, table.table, rows] for table, rows in self.dropped.items()],
            },
            ensure_ascii=False,
        ).encode()


def report_from_json(data: bytes) -> DeliveryReport:
    """The inverse of `DeliveryReport.to_json`. Raises ValueError for what is not one."""
    try:
        found = json.loads(data)
        return DeliveryReport(
            seq=None if found["seq"] is None else Seq(int(found["seq"])),
            upto_ts=CommitTs(int(found["upto_ts"])),
            state=str(found["state"]),
            written_ms=int(found["written_ms"]),
            pid=int(found["pid"]),
            error=str(found["error"]),
            batch_s=float(found["batch_s"]),
            accept_s=float(found["accept_s"]),
            dropped={TableName(schema, table): int(rows) for schema, table, rows in found["dropped"]},
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a delivery report: {error!r}") from error
