"""What operators see of the pumps: how far each is, and what holds the stream since when, with the way out."""

from __future__ import annotations

from dataclasses import dataclass

from sidecar.binlog.nodes import CLOSING, OFFLINE, ONLINE, PAUSED, PAUSING, Node
from sidecar.shared.model.nouns import CommitTs, ts_at, utc

STUCK_AFTER_MS = 10_000
"""A pump without transactions sends something every 3 s."""


@dataclass(frozen=True, slots=True)
class PumpView:
    """`handed_ts`: its last binlog that came. `stands`: why nothing comes after that; empty if it advances."""

    node_id: str
    host: str
    state: str
    handed_ts: CommitTs
    stuck: str = ""


@dataclass(frozen=True, slots=True)
class StreamsView:
    """`looked_ts`: PD's time when the registry was read last. `pd_why`: why it cannot be read now; empty: it can. `bytes_waiting`: pulled
    and not polled."""

    pumps: tuple[PumpView, ...]
    looked_ts: CommitTs
    pd_why: str
    bytes_waiting: int

    def held_by(self) -> str:
        """What holds the stream and since when; empty: nothing does."""
        if self.pd_why:
            return f"PD, since {utc(self.looked_ts)}: {self.pd_why}"
        standing = min((pump for pump in self.pumps if pump.stuck), key=lambda pump: pump.handed_ts, default=None)
        if standing is None:
            return ""
        return f"pump {standing.node_id} ({standing.host}, {standing.state}), since {utc(standing.handed_ts)}: {standing.stuck}"


def view_of(node: Node, handed_ts: CommitTs, now_ts: CommitTs, why: str, *, held: bool) -> PumpView:
    """`why`: what keeps it from being read. `held`: it waits for others."""
    late = handed_ts < now_ts - ts_at(STUCK_AFTER_MS)
    stuck = _why_stuck(node, handed_ts, now_ts, why) if late and not held else ""
    return PumpView(node.node_id, node.host, node.state, handed_ts, stuck)


def _why_stuck(node: Node, handed_ts: CommitTs, now_ts: CommitTs, why: str) -> str:
    cannot = f"; it cannot be read: {why}" if why else ""
    if node.state in (PAUSED, PAUSING):
        return f"it is paused and has what nobody else has: start it again, or let it go offline when it has been read{cannot}"
    if node.state == OFFLINE:
        return f"it is offline, and its binlogs up to {utc(node.max_commit_ts)} were not read: start it again on its data{cannot}"
    if node.silent_at(now_ts):
        return f"it has not updated its entry since {utc(node.update_ts)}: start it again on its data{cannot}"
    if why:
        return f"it cannot be read: {why}"
    if node.state in (ONLINE, CLOSING) and node.max_commit_ts <= handed_ts:
        return "it lives and has nothing ready: a transaction whose end it does not know holds it, for ten minutes at most"
    return ""
