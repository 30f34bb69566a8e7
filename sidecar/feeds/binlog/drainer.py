"""Our own entry in PD's etcd: to pumps, to binlogctl and to a real drainer beside us we are a drainer.

- `max_commit_ts` is what is durable in the log and nothing beyond: pumps that go offline take their binlogs with them by it. It never goes
  back. A paused drainer's holds them as an online one's does; only one that is offline is waited for by nobody.
- Everybody else's entry is read and never written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from sidecar.binlog.nodes import OFFLINE, ONLINE, PAUSED, Node
from sidecar.shared.model.nouns import CommitTs


class NodeRegistry(Protocol):
    """The registry, in which one entry is ours (`sidecar.adapters.etcd.binlog.EtcdNodes`). Raises TicdcDumpError."""

    def pumps(self) -> Sequence[Node]: ...

    def put(self, node: Node) -> None: ...

    def mine(self) -> Node | None: ...

    def without_binlogs(self) -> Sequence[str]: ...


class Drainer:
    """`host`: where pumps reach us. `durable_ts`: what the log has when we begin."""

    def __init__(self, nodes: NodeRegistry, node_id: str, host: str, durable_ts: CommitTs) -> None:
        self._nodes = nodes
        self._node_id, self._host = node_id, host
        self.durable_ts = durable_ts

    def acknowledge(self, durable_ts: CommitTs) -> None:
        """The next `beat` reports it."""
        self.durable_ts = max(self.durable_ts, durable_ts)

    def beat(self, now_ts: CommitTs) -> None:
        self._nodes.put(self._node(ONLINE, now_ts))

    def pause(self, now_ts: CommitTs) -> None:
        self._nodes.put(self._node(PAUSED, now_ts))

    def _node(self, state: str, now_ts: CommitTs) -> Node:
        return Node(self._node_id, self._host, state, self.durable_ts, now_ts)


def leave(nodes: NodeRegistry, now_ts: CommitTs) -> bool:
    """For good: pumps wait for us no more. False: there was no entry of ours."""
    mine = nodes.mine()
    if mine is not None:
        nodes.put(replace(mine, state=OFFLINE, update_ts=now_ts))
    return mine is not None
