"""The pump in PD's etcd, where TiDB and drainers look for pumps: /tidb-binlog/v1/pumps/<nodeId>, and the drainers beside it.

    offline or none ──register──► online ──pause, SIGTERM──► pausing ──► paused ──start──► online
                                     └────────close────────► closing ──► offline

- Written every few seconds by a pump that lives, without a lease: a dead one stays online, and `updateTS` shows it.
- A pump that was offline is online first, and then notifies every online drainer, before it serves: TiDB may write to it from then on, and
  no drainer may go past what it will have. If one drainer cannot be notified, the pump is offline again and does not start.
- `updateTS` is PD's time as far as the machine's clock can extrapolate it.

From pingcap/tidb-binlog pkg/node/node.go, pump/node.go.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock

import grpc
import stamina

from sidecar.adapters.etcd.binlog import EtcdNodes
from sidecar.binlog.nodes import Node, NodeState
from sidecar.shared.config import Tls
from sidecar.shared.errors import CoordinationLost
from sidecar.shared.model.nouns import CommitTs, ts_at
from sidecar.shared.process.tls import section_credentials
from ticdc_dump.binlog import cistern_pb2, cistern_pb2_grpc

NOTIFY_MAX_S, NOTIFY_TRIES = 10.0, 3


class PumpNode:
    """This pump's own entry. Safe to share between threads."""

    def __init__(self, registry: EtcdNodes, node_id: str, host: str, max_commit_ts: Callable[[], int]) -> None:
        self.registry, self.node_id, self.host = registry, node_id, host
        self._max_commit_ts = max_commit_ts
        self._lock = Lock()
        self._clock: tuple[CommitTs, float] | None = None
        self.state = NodeState.OFFLINE

    def previous(self) -> NodeState:
        """What a previous run left; offline for none, and for what is no state: then drainers are notified."""
        node = self.registry.mine()
        return NodeState(node.state) if node is not None and node.state in set(NodeState) else NodeState.OFFLINE

    def set_clock(self, now_ts: CommitTs) -> None:
        self._clock = now_ts, time.monotonic()

    def move(self, state: NodeState) -> None:
        """Written at once, and by each heartbeat from now on. Raises CoordinationError, and has moved all the same."""
        self.state = state
        self.refresh()

    def refresh(self) -> None:
        """A heartbeat."""
        with self._lock:
            self.registry.put(self.status())

    def status(self) -> Node:
        return Node(self.node_id, self.host, self.state, CommitTs(self._max_commit_ts()), self._now_ts())

    def consumed_ts(self) -> int | None:
        """What all drainers that are not offline are past; None: there are none."""
        return min((drainer.max_commit_ts for drainer in self.registry.drainers() if drainer.state != NodeState.OFFLINE), default=None)

    def _now_ts(self) -> CommitTs:
        if self._clock is None:
            return CommitTs(0)
        then_ts, at_s = self._clock
        return CommitTs(then_ts + ts_at(1000) * int(time.monotonic() - at_s))


def notify_drainers(registry: EtcdNodes, tls: Tls) -> list[str]:
    """Notify every online drainer of a pump that is in the registry. Returns the notified ones. Raises CoordinationLost that names who did
    not answer."""
    credentials = section_credentials("pump.cluster_tls", tls)
    drainer_ids = []
    for drainer in registry.drainers():
        if drainer.state != NodeState.ONLINE:
            continue
        options = (("grpc.enable_http_proxy", 0), ("grpc.use_local_subchannel_pool", 1))
        channel = (
            grpc.insecure_channel(drainer.host, options) if credentials is None else grpc.secure_channel(drainer.host, credentials, options)
        )
        with channel:
            _notify(channel, drainer)
        drainer_ids.append(drainer.node_id)
    return drainer_ids


def _notify(channel: grpc.Channel, drainer: Node) -> None:
    stub = cistern_pb2_grpc.CisternStub(channel)  # type: ignore[no-untyped-call]  # generated without types
    try:
        for attempt in stamina.retry_context(on=grpc.RpcError, attempts=NOTIFY_TRIES, timeout=NOTIFY_MAX_S, wait_initial=1.0):
            with attempt:
                stub.Notify(cistern_pb2.NotifyReq(), timeout=NOTIFY_MAX_S, wait_for_ready=True)
    except grpc.RpcError as error:
        raise CoordinationLost(
            f"drainer {drainer.node_id} at {drainer.host} is online in the registry and does not answer Notify: {error.code().name}, "
            f"{error.details()}",
            hint="see that it runs, or take it out: binlogctl -cmd update-drainer -node-id … -state paused; then start again",
        ) from error
