"""Which pumps are lanes, and how far the stream may be released without losing one that joins.

    T from PD ──► read the registry ──► every pump in it that may still bring something is a lane ──► the lane `pumps` resolves T

- **The order of these carries weight** (`look`). A pump that was not in the registry when it was read registered after T; TiDB writes to a
  pump only once it is there, and takes a transaction's commit_ts after its prewrite binlog is stored: so all that it will ever bring is
  above T. The call to Notify a drainer comes too late for that: a pump's first transaction was recorded 25 ms before it.
- A pump is a lane whatever its state: one that is paused, dead or stuck holds the stream, for it has what nobody else has. Only one that
  is offline is none, once it has been handed out to its end (`max_commit_ts`), or if it was seen closing and then said itself that it is
  offline: it waited until we had all that is real, and wrote fakes meanwhile, up to its end. One that died while it waited, and that an
  operator set offline, has its last entry but for the state (binlogctl's UpdateNodeState): it is needed to its end.
- A pump that was none at the look before has nothing at or below that look's T that is needed: it is read from there on.

It knows no thread, no clock and no network.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from sidecar.binlog.nodes import CLOSING, OFFLINE, Node
from sidecar.shared.model.nouns import CommitTs, Lane

PUMPS_LANE = Lane("pumps")
_PUMP = "pump/"


class PumpLook(NamedTuple):
    """`ts`: earlier than the moment at which `pumps` was read."""

    ts: CommitTs
    pumps: Sequence[Node]


def look(tso: Callable[[], CommitTs], pumps: Callable[[], Sequence[Node]]) -> PumpLook:
    ts = tso()
    return PumpLook(ts, pumps())


def lane_of(node_id: str) -> Lane:
    return Lane(_PUMP + node_id)


@dataclass(slots=True)
class JoinedPump:
    """`received_ts`: its last binlog that came. `handed_ts`: up to there they were handed out, or are in the log already. `leaving`: it was
    closing while it was a lane of ours, and nobody else has said that it is gone."""

    lane: Lane
    node: Node
    handed_ts: CommitTs
    received_ts: CommitTs
    leaving: bool = False

    def over(self) -> bool:
        """Nothing of it is needed any more."""
        is_read = self.handed_ts >= self.received_ts and (self.leaving or self.handed_ts >= self.node.max_commit_ts)
        return self.node.state == OFFLINE and is_read


class BinlogChange(NamedTuple):
    """`joined` are lanes from now on, `ended` none any more."""

    joined: Sequence[JoinedPump]
    ended: Sequence[JoinedPump]


class Joining:
    """`positions`: what comes next, by lane; of `pumps`: everything at or below is in the log. Empty for a new log, which has what is
    committed after `from_ts`."""

    def __init__(self, positions: Mapping[Lane, int], from_ts: CommitTs) -> None:
        self._positions = dict(positions)
        self.resolved_ts = CommitTs(positions[PUMPS_LANE]) if PUMPS_LANE in positions else from_ts
        """T of the last look: what is not a lane has nothing at or below it that is needed."""
        self.pumps: dict[Lane, JoinedPump] = {}

    def take(self, pump_look: PumpLook) -> BinlogChange:
        joined, ended = [], []
        for node in pump_look.pumps:
            lane = lane_of(node.node_id)
            known = self.pumps.get(lane)
            pump = known or self._pump(lane, node)
            if known is not None:
                pump.leaving = node.state == CLOSING or (node.state == OFFLINE and pump.leaving and not _by_hand(pump.node, node))
            pump.node = node
            if pump.over():
                self._positions.pop(lane, None)
                ended += [self.pumps.pop(lane)] if known else []
            elif known is None:
                joined.append(pump)
                self.pumps[lane] = pump
        self.resolved_ts = max(self.resolved_ts, pump_look.ts)
        return BinlogChange(joined, ended)

    def lanes(self) -> frozenset[Lane]:
        return frozenset({PUMPS_LANE, *(lane for lane, pump in self.pumps.items() if not pump.over())})

    def _pump(self, lane: Lane, node: Node) -> JoinedPump:
        """A lane's position is that of what comes next, or of the oldest that is not in the log."""
        position = self._positions.get(lane)
        start_ts = self.resolved_ts if position is None else CommitTs(position - 1)
        return JoinedPump(lane, node, start_ts, start_ts)


def _by_hand(before: Node, offline: Node) -> bool:
    """Whether the entry of a pump that was closing was changed by another: it has said nothing itself since."""
    return before.state == CLOSING and replace(offline, state=CLOSING) == before
