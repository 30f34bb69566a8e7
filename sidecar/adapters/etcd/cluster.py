"""Which TiDB cluster the etcd is of: the id that PD drew for it, PD's other members, and the TiDB servers that announce themselves."""

from __future__ import annotations

from contextlib import closing

import msgspec

from sidecar.adapters.etcd.binlog import TIDB_SERVERS
from sidecar.adapters.etcd.client import EtcdClient
from sidecar.adapters.etcd.keys import Keys
from sidecar.shared.config_forms import is_address
from sidecar.shared.errors import CoordinationError, TicdcDumpError
from sidecar.shared.model.nouns import CommitTs

CLUSTER_ID_KEY = "/pd/cluster_id"
"""Eight bytes, big-endian (PD's `pdClusterIDPath` in server/server.go)."""

MEMBER_TIMEOUT_S = 2.0
"""Of each member that may not be reachable from here: somebody waits."""


def pd_cluster_id(client: Keys) -> str:
    """As a decimal number; empty where this etcd is not PD's, or its user may not read the key."""
    try:
        entry = client.get(CLUSTER_ID_KEY)
    except TicdcDumpError:
        return ""
    return str(int.from_bytes(entry.value, "big")) if entry is not None and len(entry.value) == 8 else ""


def gc_safe_point(client: Keys, cluster_id: int) -> CommitTs | None:
    """Below it PD lets stores collect versions; None where this etcd does not have it: it is not that cluster's PD, or GC never ran. As PD
    keeps it, in hexadecimal (tikv/pd pkg/storage/endpoint/gc_safe_point.go); with GC by keyspace it has others."""
    entry = client.get(safe_point_key(cluster_id))
    try:
        return None if entry is None else CommitTs(int(entry.value, 16))
    except ValueError as error:
        raise CoordinationError(f"etcd key {entry and entry.key} is no safe point", hint="check PD's version") from error


def safe_point_key(cluster_id: int) -> str:
    return f"/pd/{cluster_id}/gc/safe_point"


def other_members(client: Keys) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """PD's members that the client's endpoints do not name: those that answer from here, and those that do not. None where there is one
    member alone, which may have been named otherwise than it names itself, or the user may not list them."""
    try:
        there = client.members()
    except TicdcDumpError:
        return (), ()
    others = [one for one in dict.fromkeys(there) if one not in client.section.endpoints and is_address(one)] if len(there) > 1 else []
    answering = [one for one in others if _answers(client, one)]
    return tuple(answering), tuple(one for one in others if one not in answering)


def _answers(client: Keys, endpoint: str) -> bool:
    section = msgspec.structs.replace(client.section, endpoints=(endpoint,), timeout_s=MEMBER_TIMEOUT_S)
    with closing(EtcdClient(section)) as one:
        try:
            return bool(one.members())
        except TicdcDumpError:
            return False


class _Server(msgspec.Struct):
    ip: str
    listening_port: int


def tidb_servers(client: Keys) -> tuple[str, ...]:
    """Addresses host:port for SQL, as the servers announce them (pingcap/tidb domain/infosync/info.go); none where the user may not read
    them. A server whose entry has no address is not among them."""
    try:
        entries = client.get_prefix(TIDB_SERVERS)
    except TicdcDumpError:
        return ()
    addresses = []
    for entry in entries:
        try:
            server = msgspec.json.decode(entry.value, type=_Server)
        except msgspec.MsgspecError:
            continue
        address = f"[{server.ip}]:{server.listening_port}" if ":" in server.ip else f"{server.ip}:{server.listening_port}"
        if is_address(address):
            addresses.append(address)
    return tuple(dict.fromkeys(addresses))
