"""The entries of pumps and drainers in PD's etcd, and how each TiDB server says it is with its binlogs.

One entry is written, the caller's own: everybody else's stays as it is. Nothing is watched: who follows reads again.

From pingcap/tidb-binlog pkg/node/registry.go; pingcap/tidb domain/infosync/info.go, sessionctx/binloginfo/binloginfo.go.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from sidecar.adapters.etcd.client import EtcdClient
from sidecar.adapters.etcd.keys import Put
from sidecar.binlog.nodes import DRAINERS, PUMPS, Node, node_of
from sidecar.shared.config import EtcdSection
from sidecar.shared.errors import CoordinationError

TIDB_SERVERS = "/tidb/server/info/"
"""Below it a key a living TiDB, which goes with its lease."""

_SKIPPING = ("Skipping", "Off")


class EtcdNodes:
    """For the node whose key is `own`, below PUMPS or DRAINERS. Safe to share between threads. Calls raise what EtcdClient raises."""

    def __init__(self, section: EtcdSection, *, own: str) -> None:
        """Raises ConfigError; does not connect."""
        self.own = own
        self._client = EtcdClient(section, root=own)

    def pumps(self) -> Sequence[Node]:
        return self._below(PUMPS)

    def drainers(self) -> Sequence[Node]:
        return self._below(DRAINERS)

    def mine(self) -> Node | None:
        entry = self._client.get(self.own)
        return None if entry is None else node_of(entry.key, entry.value)

    def put(self, node: Node) -> None:
        """Our own entry, as it is from now on."""
        self._client.transact([], [Put(self.own, node.to_json())])

    def without_binlogs(self) -> Sequence[str]:
        """TiDB servers whose transactions go to no pump, each with its address and why; empty if there is none."""
        binlogs = []
        for entry in self._client.get_prefix(TIDB_SERVERS):
            try:
                server = json.loads(entry.value)
                status, address = server.get("binlog_status"), f"{server.get('ip')}:{server.get('listening_port')}"
            except (ValueError, AttributeError) as error:
                raise CoordinationError(
                    f"etcd key {entry.key} is not what a TiDB server writes about itself: {error!r}", hint="see which server wrote it"
                ) from error
            if status in _SKIPPING:
                binlogs.append(f"TiDB {address} (binlog_status {status})")
        return binlogs

    def close(self) -> None:
        self._client.close()

    def _below(self, prefix: str) -> Sequence[Node]:
        return [node_of(entry.key, entry.value) for entry in self._client.get_prefix(prefix)]
