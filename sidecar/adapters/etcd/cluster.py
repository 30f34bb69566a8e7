"""Which TiDB cluster the etcd is of: the id that PD drew for it, and the TiDB servers that have announced themselves."""

from __future__ import annotations

import msgspec

from sidecar.adapters.etcd.binlog import TIDB_SERVERS
from sidecar.adapters.etcd.client import EtcdClient
from sidecar.config import is_address
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


class _Server(msgspec.Struct):
    ip: str
    listening_port: int


def tidb_servers(client: EtcdClient) -> tuple[str, ...]:
    """Addresses host:port for SQL, as the servers announce them (pingcap/tidb domain/infosync/info.go); none where the user may not read
    them. A server whose entry has no address is not among them."""
    try:
        entries = client.get_prefix(TIDB_SERVERS)
    except TicdcDumpError:
        return ()
    found = []
    for entry in entries:
        try:
            server = msgspec.json.decode(entry.value, type=_Server)
        except msgspec.MsgspecError:
            continue
        address = f"[{server.ip}]:{server.listening_port}" if ":" in server.ip else f"{server.ip}:{server.listening_port}"
        if is_address(address):
            found.append(address)
    return tuple(dict.fromkeys(found))
