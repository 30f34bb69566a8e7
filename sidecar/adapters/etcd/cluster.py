"""Which TiDB cluster the etcd is of: the id that PD drew for it."""

from __future__ import annotations

from sidecar.adapters.etcd.client import EtcdClient
from sidecar.errors import TicdcDumpError

CLUSTER_ID_KEY = "/pd/cluster_id"
"""Eight bytes, big-endian (PD's `pdClusterIDPath` in server/server.go)."""


def pd_cluster_id(client: EtcdClient) -> str:
    """As a decimal number; empty where this etcd is not PD's, or its user may not read the key."""
    try:
        found = client.get(CLUSTER_ID_KEY)
    except TicdcDumpError:
        return ""
    return str(int.from_bytes(found.value, "big")) if found is not None and len(found.value) == 8 else ""
