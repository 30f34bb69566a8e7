"""PD, the cluster's directory: which region has a key, where a store is, what time it is.

- Any member reports the leader; only the leader answers the rest. After a call that fails, the client requests the leader again, once;
  then it is FeedLost, and the caller decides how long to continue.
- Every answer carries the cluster's id. The first one is kept, and another one later stops: endpoints of two clusters.
- Not for several threads at once.

From pd server/grpc_service.go, server/gc_service.go and server/keyspace_service.go; client-go's PD client; pd pkg/utils/tsoutil for the
layout of a TSO.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import grpc
import stamina

from sidecar.shared.config import Config, TikvSection
from sidecar.shared.errors import ConfigError, FeedLost, FeedUnsuitable
from sidecar.shared.model.nouns import CommitTs, ts_at
from sidecar.shared.tikv.channel import Connect, connector, refusal, status_text
from sidecar.shared.tikv.regions import Region, encoded
from ticdc_dump.tikv import keyspacepb_pb2, keyspacepb_pb2_grpc, metapb_pb2, pdpb_pb2, pdpb_pb2_grpc

ANSWER_MAX_S = 3.0
"""For one answer of one member; a leader answers in milliseconds."""

TSO_RETRY_S = 15.0
"""Longer than PD takes to elect a leader."""

SCAN_REGIONS_MAX = 1024
"""Of one answer, as TiCDC asks."""


class Store(NamedTuple):
    id: int
    address: str
    version: str


class Keyspace(NamedTuple):
    """`own_gc`: its garbage is collected apart, as of every one of TiDB's next generation (pd pkg/keyspace/keyspace.go)."""

    id: int
    own_gc: bool


def pd_section(config: Config) -> TikvSection:
    """Where PD may be: in its own section, else at TiCDC's etcd, which is PD's. Without endpoints where there is neither."""
    return config.tikv if config.tikv.pd else TikvSection(pd=config.etcd.endpoints, tls=config.etcd.tls)


class PdClient:
    """No request before the first call. `named`: the settings' section that PD is set in, and `tls` what it calls the certificates.
    Raises ConfigError for certificates that cannot be used or no endpoint."""

    def __init__(self, section: TikvSection, *, named: str = "tikv", tls: str = "tls") -> None:
        if not section.pd:
            raise ConfigError(f"{named}.pd names no endpoint", hint=f"set {named}.pd to PD's client endpoints, host:port")
        self.endpoints = section.pd
        self._one_cluster = f"set {named}.pd to members of the one cluster that the changefeed reads"
        self._see_pd = f"see that PD runs, that {named}.pd names its client endpoints, and that {named}.{tls} fits"
        self._connect: Connect = connector(section.tls, named=f"{named}.{tls}", idle_pings=False)
        self._channels: dict[str, Any] = {}
        self._leader: str | None = None
        self._cluster_id: int | None = None

    def cluster_id(self) -> int:
        """Raises FeedLost, FeedUnsuitable; so do all below."""
        if self._cluster_id is None:
            self._find_leader()
        assert self._cluster_id is not None
        return self._cluster_id

    def tso(self) -> CommitTs:
        """A timestamp that is later than every one given before. Waits for a leader, TSO_RETRY_S at most."""
        for attempt in stamina.retry_context(on=FeedLost, attempts=None, timeout=TSO_RETRY_S, wait_initial=0.1, wait_max=1.0):
            with attempt:
                answer = self._ask("Tso", lambda stub, header: next(_timestamps(stub, header)))
                return ts_at(answer.timestamp.physical, answer.timestamp.logical)
        raise AssertionError("the last attempt raises")

    def regions(self, start: bytes, end: bytes, *, at_most: int | None = None) -> Sequence[Region]:
        """Those that PD knows between two raw keys, in the order of their keys; maybe with holes. `at_most`: the first so many."""
        regions: list[Region] = []
        at, end_encoded = encoded(start), encoded(end)
        while at < end_encoded and (at_most is None or len(regions) < at_most):
            limit = SCAN_REGIONS_MAX if at_most is None else min(SCAN_REGIONS_MAX, at_most - len(regions))
            page = self._scan(at, end_encoded, limit)
            regions += page
            if len(page) < limit or not page[-1].end:
                break
            at = regions[-1].end
        return regions

    def store(self, store_id: int) -> Store | None:
        """None for one that is gone for good, or not known yet."""
        request = pdpb_pb2.GetStoreRequest(store_id=store_id)
        answer = self._ask("GetStore", lambda stub, header: _with(request, header, stub.GetStore), may_be_unknown=True)
        if not answer.HasField("store") or answer.store.state == metapb_pb2.Tombstone:
            return None
        return Store(answer.store.id, answer.store.address, answer.store.version)

    def keep_versions(self, service_id: str, *, above: int, keep_s: int) -> int:
        """Keep versions above a ts from garbage collection for `keep_s`. The lowest ts that PD does so for: higher is too late."""
        request = pdpb_pb2.UpdateServiceGCSafePointRequest(service_id=service_id.encode(), TTL=keep_s, safe_point=above)
        answer = self._ask("UpdateServiceGCSafePoint", lambda stub, header: _with(request, header, stub.UpdateServiceGCSafePoint))
        return int(answer.min_safe_point)

    def forget_versions(self, service_id: str) -> int:
        """Keep none for it any more; nothing to do where none are kept. The lowest ts, as of `keep_versions`."""
        return self.keep_versions(service_id, above=0, keep_s=0)

    def keyspace(self, name: str) -> Keyspace | None:
        """None where PD has no keyspace of this name, or knows no keyspaces."""
        request = keyspacepb_pb2.LoadKeyspaceRequest(name=name)

        def call(stub: Any, header: Any) -> Any:
            return _with(request, header, stub.LoadKeyspace)

        answer = self._ask("LoadKeyspace", call, may_be_unknown=True, may_lack=True, of=keyspacepb_pb2_grpc.KeyspaceStub)
        if answer is None or answer.header.error.type == pdpb_pb2.ENTRY_NOT_FOUND:
            return None
        if answer.header.error.type != pdpb_pb2.OK:
            raise FeedLost(f"PD's leader answered LoadKeyspace with {answer.header.error.message}", hint=self._see_pd)
        if not answer.keyspace.HasField("id"):
            raise FeedUnsuitable(f"PD gives keyspace {name} no number", hint="report it with PD's version")
        return Keyspace(answer.keyspace.id, answer.keyspace.config.get("gc_management_type") == "keyspace_level")

    def set_barrier(self, keyspace_id: int, barrier_id: str, *, above: int, keep_s: int) -> int | None:
        """As `keep_versions`, by a GC barrier of one keyspace; PD sets it for all of them where this one has no GC of its own. None: PD has
        no barriers."""
        scope = pdpb_pb2.KeyspaceScope(keyspace_id=keyspace_id)
        request = pdpb_pb2.SetGCBarrierRequest(keyspace_scope=scope, barrier_id=barrier_id, barrier_ts=above, ttl_seconds=keep_s)

        def call(stub: Any, header: Any) -> Any:
            return _with(request, header, stub.SetGCBarrier)

        answer = self._ask("SetGCBarrier", call, may_be_unknown=True, may_lack=True)
        if answer is None:
            return None
        safe_point = self._txn_safe_point(keyspace_id)
        if answer.header.error.type != pdpb_pb2.OK and safe_point <= above:
            raise FeedLost(f"PD's leader answered SetGCBarrier with {answer.header.error.message}", hint=self._see_pd)
        return safe_point

    def delete_barrier(self, keyspace_id: int, barrier_id: str) -> int | None:
        """As `forget_versions`. None: PD has no barriers."""
        request = pdpb_pb2.DeleteGCBarrierRequest(keyspace_scope=pdpb_pb2.KeyspaceScope(keyspace_id=keyspace_id), barrier_id=barrier_id)
        answer = self._ask("DeleteGCBarrier", lambda stub, header: _with(request, header, stub.DeleteGCBarrier), may_lack=True)
        return None if answer is None else self._txn_safe_point(keyspace_id)

    def _txn_safe_point(self, keyspace_id: int) -> int:
        scope = pdpb_pb2.KeyspaceScope(keyspace_id=keyspace_id)
        request = pdpb_pb2.GetGCStateRequest(keyspace_scope=scope, exclude_gc_barriers=True)
        answer = self._ask("GetGCState", lambda stub, header: _with(request, header, stub.GetGCState))
        return int(answer.gc_state.txn_safe_point)

    def answers_as_pd(self) -> bool:
        """False where an endpoint is something else, as an etcd alone. An endpoint that does not answer is not judged: the next request
        fails as lost."""
        for endpoint in self.endpoints:
            try:
                self._stub(endpoint).GetMembers(pdpb_pb2.GetMembersRequest(), timeout=ANSWER_MAX_S)
            except grpc.RpcError as error:
                self._leave(endpoint)
                if error.code() is grpc.StatusCode.UNIMPLEMENTED:
                    return False
        return True

    def close(self) -> None:
        for channel in self._channels.values():
            channel.close()
        self._channels.clear()

    def _scan(self, start: bytes, end: bytes, limit: int) -> Sequence[Region]:
        request = pdpb_pb2.ScanRegionsRequest(start_key=start, end_key=end, limit=limit)
        answer = self._ask("ScanRegions", lambda stub, header: _with(request, header, stub.ScanRegions))
        return [_region(region) for region in answer.regions]

    # ---- asking -----------------------------------------------------------------------------------------------------

    def _ask(
        self, name: str, call: Callable[[Any, Any], Any], *, may_be_unknown: bool = False, may_lack: bool = False, of: Any = None
    ) -> Any:
        """`may_be_unknown`: an answer with an error is one, too. `may_lack`: None for a PD that does not have the call. `of`: the stub of
        another service."""
        why = ""
        for _ in range(2):
            leader = self._leader or self._find_leader()
            try:
                answer = call(self._stub(leader, of), pdpb_pb2.RequestHeader(cluster_id=self._cluster_id or 0, caller_id="ticdc-dump"))
            except grpc.RpcError as error:
                if may_lack and error.code() is grpc.StatusCode.UNIMPLEMENTED:
                    return None
                if error.code() is grpc.StatusCode.FAILED_PRECONDITION:
                    raise FeedUnsuitable(f"PD {leader} refuses {name}: {status_text(error)}", hint=self._one_cluster) from error
                if refused := refusal(error, f"PD {leader}, called for {name},"):
                    raise refused from error
                why = f"{leader} answered {name} with {status_text(error)}"
            except StopIteration:
                why = f"{leader} ended {name} without an answer"
            else:
                self._check_cluster(leader, answer.header.cluster_id)
                failed = answer.header.error
                if failed.type == pdpb_pb2.OK or may_be_unknown:
                    return answer
                why = f"{leader} answered {name} with {pdpb_pb2.ErrorType.Name(failed.type)}: {failed.message}"
            self._leave(leader)
        raise FeedLost(f"PD's leader does not answer: {why}", hint=self._see_pd)

    def _find_leader(self) -> str:
        reasons: list[str] = []
        for endpoint in self.endpoints:
            try:
                request = pdpb_pb2.GetMembersRequest()
                answer = self._stub(endpoint).GetMembers(request, timeout=ANSWER_MAX_S)
            except grpc.RpcError as error:
                if refused := refusal(error, f"PD {endpoint}"):
                    raise refused from error
                reasons.append(f"{endpoint}: {status_text(error)}")
                self._leave(endpoint)
                continue
            self._check_cluster(endpoint, answer.header.cluster_id)
            if answer.leader.client_urls:
                self._leader = str(answer.leader.client_urls[0]).partition("://")[2] or str(answer.leader.client_urls[0])
                return self._leader
            reasons.append(f"{endpoint}: knows no leader")
        raise FeedLost(f"PD has no leader that we can reach: {'; '.join(reasons)}", hint=self._see_pd)

    def _check_cluster(self, address: str, cluster_id: int) -> None:
        if self._cluster_id is None:
            self._cluster_id = cluster_id
        elif cluster_id != self._cluster_id:
            raise FeedUnsuitable(
                f"PD {address} is of cluster {cluster_id}, the others of cluster {self._cluster_id}", hint=self._one_cluster
            )

    def _leave(self, address: str) -> None:
        """A channel that failed waits before it connects again: the next call is to have a new one."""
        self._leader = None
        channel = self._channels.pop(address, None)
        if channel is not None:
            channel.close()

    def _stub(self, address: str, of: Any = None) -> Any:
        if address not in self._channels:
            self._channels[address] = self._connect(address)
        return (of or pdpb_pb2_grpc.PDStub)(self._channels[address])


def _with(request: Any, header: Any, call: Any) -> Any:
    request.header.CopyFrom(header)
    return call(request, timeout=ANSWER_MAX_S)


def _timestamps(stub: Any, header: Any) -> Any:
    return stub.Tso(iter([pdpb_pb2.TsoRequest(header=header, count=1)]), timeout=ANSWER_MAX_S)


def _region(value: Any) -> Region:
    epoch = value.region.region_epoch
    leader = value.leader.store_id or None
    return Region(value.region.id, value.region.start_key, value.region.end_key, epoch.conf_ver, epoch.version, leader, value.leader.id)
