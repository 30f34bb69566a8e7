"""What a replay is doing, as one value: the live view and the plain lines are made of nothing else."""

from __future__ import annotations

from dataclasses import dataclass

from sidecar.shared.model.nouns import CommitTs, TableName
from sidecar.shared.model.progress import Progress


@dataclass(frozen=True, slots=True)
class ReplayStatus:
    """`played`: part of the recording, 0 to 1. `estimates`: rows of each table when the dump began. `changes`,
    `dump_rows` (with those `dropped` in windows) are what the sinks have received, as in the replay's report. `delivered` and
    `logged` are counts of segments. The page that shows rates computes them, from two statuses and `elapsed_s`."""

    phase: str
    elapsed_s: float
    played: float
    resolved_ts: CommitTs
    changes: int
    repeats: int
    dump_rows: int
    dropped: int
    open_windows: int
    logged: int
    delivered: int
    crashes: int
    progress: Progress | None
    estimates: dict[TableName, int]
