"""A pump or a drainer as it stands in PD's etcd, where all parts of TiDB-Binlog find each other.

- One key a node, below PUMPS or DRAINERS, JSON, no lease, never deleted: `state` shows which node is gone, and `update_ts` which one died:
  a TSO that a living node writes again every HEARTBEAT_S.
- `max_commit_ts` of a pump: all it has up to there is ready to be pulled. Of a drainer: all up to there is consumed for good, and a
  pump that is to go offline waits until every drainer that is not offline has passed its own.
- isAlive is written and means nothing: real nodes leave it false all the time.

From pingcap/tidb-binlog pkg/node/node.go; seen in recordings of real clusters.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sidecar.shared.errors import MessageUnreadable
from sidecar.shared.model.nouns import CommitTs, ts_at

ROOT = "/tidb-binlog/v1/"
PUMPS = f"{ROOT}pumps/"
DRAINERS = f"{ROOT}drainers/"


class NodeState(StrEnum):
    """A pump that is online takes prewrites; one that is paused comes back with all it has; one that is offline has nothing that any
    drainer needs."""

    ONLINE = "online"
    PAUSING = "pausing"
    PAUSED = "paused"
    CLOSING = "closing"
    OFFLINE = "offline"


ONLINE, PAUSING, PAUSED, CLOSING, OFFLINE = NodeState

HEARTBEAT_S = 2.0
"""As often as a real pump writes its entry."""

DEAD_AFTER_MS = 10_000
"""An entry that is older than so many heartbeats is of a process that died, hangs, or cannot reach PD."""


@dataclass(frozen=True, slots=True)
class Node:
    """`host`: the address that it is reached at, host:port. `state`: a `NodeState`, or what somebody else has written there."""

    node_id: str
    host: str
    state: str
    max_commit_ts: CommitTs
    update_ts: CommitTs
    score: int = 0
    label: Mapping[str, Any] | None = None

    def plain(self) -> dict[str, Any]:
        """Field by field as it is in etcd."""
        return {
            "nodeId": self.node_id,
            "host": self.host,
            "state": self.state,
            "isAlive": False,
            "score": self.score,
            "label": self.label,
            "maxCommitTS": self.max_commit_ts,
            "updateTS": self.update_ts,
        }

    def to_json(self) -> bytes:
        return json.dumps(self.plain(), separators=(",", ":")).encode()

    def silent_at(self, now_ts: CommitTs) -> bool:
        """Whether it has not written its entry for too long."""
        return self.update_ts < now_ts - ts_at(DEAD_AFTER_MS)


def node_of(key: str, value: bytes) -> Node:
    """Raises MessageUnreadable."""
    try:
        result = json.loads(value)
        return Node(
            node_id=str(result["nodeId"]),
            host=str(result["host"]),
            state=str(result["state"]),
            max_commit_ts=CommitTs(int(result["maxCommitTS"])),
            update_ts=CommitTs(int(result["updateTS"])),
            score=int(result.get("score") or 0),
            label=result.get("label"),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise MessageUnreadable(
            f"etcd key {key} is not the entry of a pump or drainer: {error!r}",
            hint="see with binlogctl what the node is; if it is none, delete the key (etcdctl del)",
        ) from error
