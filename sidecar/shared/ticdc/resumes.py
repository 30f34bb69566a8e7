"""Whether a changefeed that was resumed skipped a stretch of time in its feed. Pure.

The new architecture keeps start-ts when a changefeed is resumed with --overwrite-checkpoint-ts, so its incarnation stays the same. But
it writes the state and the checkpoint that it resumes from in one transaction, so the checkpoints just before and at it show that. Without
the option it resumes from what it had in memory, which etcd has a moment later. (The classic architecture sets start-ts: another
incarnation.)

Source: pingcap/ticdc coordinator/changefeed/etcd_backend.go (ResumeChangefeed), coordinator/coordinator.go (saveCheckpointTs).
"""

from __future__ import annotations

from typing import NamedTuple

from sidecar.shared.model.nouns import CommitTs, ts_at

SAVED_LATE_MS = 5_000
"""How far TiCDC's own checkpoint may be ahead of what it has in etcd while a changefeed is paused."""

_STILL = frozenset({"stopped", "failed", "finished"})
"""Only from these is a changefeed resumed by hand."""


class Life(NamedTuple):
    """How a changefeed stands at one moment of etcd. `revision`: of the last write of its definition."""

    revision: int
    state: str
    checkpoint_ts: CommitTs | None


class Gap(NamedTuple):
    """Changes above `after_ts` and up to `upto_ts` are in no feed."""

    after_ts: CommitTs
    upto_ts: CommitTs


def skipped(before: Life, at: Life) -> Gap | None:
    """`at`: right when its definition was written; `before`: just before that. None: nothing is missing between their checkpoints."""
    if before.state not in _STILL or at.state in _STILL or before.checkpoint_ts is None or at.checkpoint_ts is None:
        return None
    return Gap(before.checkpoint_ts, at.checkpoint_ts) if at.checkpoint_ts - before.checkpoint_ts > ts_at(SAVED_LATE_MS) else None
