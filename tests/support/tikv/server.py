"""The gRPC servers of a made cluster: two members of PD, and one server a store. `TikvServers` starts and stops them.

PD's members have no etcd in them. They pass on to a real one its requests, if they are given one: as of PD, one address is both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Lock, Thread
from typing import Any

import grpc

from sidecar.shared.config import TikvSection
from sidecar.shared.tikv.regions import encoded
from tests.support.tikv.cluster import CLUSTER_ID, Cluster, Session
from tests.support.tikv.snapshot import Snapshots
from tests.support.tikv.transactions import Transactions
from ticdc_dump.tikv import (
    cdcpb_pb2_grpc,
    errorpb_pb2,
    keyspacepb_pb2,
    keyspacepb_pb2_grpc,
    kvrpcpb_pb2,
    metapb_pb2,
    pdpb_pb2,
    pdpb_pb2_grpc,
    tikvpb_pb2_grpc,
)

STREAMS_MAX = 24
PD_MEMBERS = 2
TSO_PHYSICAL_MS = 1_795_000_000_000
GC_WORKER = b"gc_worker"


class TikvServers:
    """Listens on free ports of this machine. Close it. `etcd`: host:port of the one behind PD's members."""

    def __init__(self, cluster: Cluster, *, credentials: Any = None, etcd: str = "") -> None:
        self.cluster = cluster
        self.credentials = credentials
        self.addresses: dict[int, str] = {}
        self.versions = dict.fromkeys(cluster.stores, "9.0.0-beta.2")
        self.pd_addresses: list[str] = []
        self.pd_cluster_id = CLUSTER_ID
        self.multiplexes = True
        self.safe_points = {GC_WORKER: 0}
        """Of garbage collection, by service."""
        self.keyspaces: dict[str, tuple[int, bool]] | None = None
        """By name the number, and whether its garbage is collected apart. None: this PD knows no keyspaces."""
        self.has_barriers = False
        self.of_keyspaces: dict[int, dict[bytes, int]] = {}
        """As `safe_points`, of those with a garbage collection of their own."""
        self.registered: list[Any] = []
        """Every request of a registration, as it came."""
        self.timestamps = 0
        """How many PD has given."""
        self.physical_ms = TSO_PHYSICAL_MS
        """PD's clock, which stands."""
        self.snapshots = Snapshots(cluster)
        self.follows_log = False
        """PD's timestamps are just below what the log is resolved to: no commit at or below one is to come, and the feed passes it."""
        self.read_regions: list[int] = []
        """Of each KvScan that was served."""
        self.scans, self.answers_scans = 0, Event()
        """How many have come; none is answered while this is not set."""
        self.answers_scans.set()
        self._giving = Lock()
        self._stores: dict[int, Any] = {}
        self._pd: list[Any] = []
        for number in range(PD_MEMBERS):
            keyspaces = keyspacepb_pb2_grpc.add_KeyspaceServicer_to_server, _Keyspaces(self)
            server, address = self._serve((pdpb_pb2_grpc.add_PDServicer_to_server, _Pd(self, number)), keyspaces)
            if etcd:
                server.add_generic_rpc_handlers((_EtcdBehind(etcd),))
            self._pd.append(server)
            self.pd_addresses.append(address)
        for store in sorted(cluster.stores):
            self.start_store(store)

    def __enter__(self) -> TikvServers:
        return self

    def __exit__(self, *ended: object) -> None:
        for server in [*self._pd, *self._stores.values()]:
            if server is not None:
                server.stop(0).wait()

    def section(self, **settings: Any) -> TikvSection:
        return TikvSection(pd=tuple(self.pd_addresses), **settings)

    def timestamp(self, count: int = 1) -> tuple[int, int]:
        """Physical and logical part of the last of `count`. For any thread."""
        if self.follows_log:
            with self.cluster.changed:
                past_ts = self.cluster.history.resolved[self.cluster.position] + self.cluster.idle_ts - 1
            return past_ts >> 18, past_ts & (1 << 18) - 1
        with self._giving:
            self.timestamps += count
            return self.now_ms(), self.timestamps

    def now_ms(self) -> int:
        """By PD's clock. Not by two threads at once."""
        return self.physical_ms

    def start_store(self, store: int) -> None:
        """At another address than before."""
        self._stores[store], self.addresses[store] = self._serve(
            (cdcpb_pb2_grpc.add_ChangeDataServicer_to_server, _Store(self, store)),
            (tikvpb_pb2_grpc.add_TikvServicer_to_server, _Kv(self, store)),
        )

    def stop_store(self, store: int) -> None:
        """Its streams break. Who leads its regions is the test's to say."""
        self._stores.pop(store).stop(0).wait()

    def stop_pd(self, number: int) -> None:
        self._pd[number].stop(0).wait()
        self._pd[number] = None

    def _serve(self, *services: tuple[Any, Any]) -> tuple[Any, str]:
        server = grpc.server(ThreadPoolExecutor(STREAMS_MAX, thread_name_prefix="tikv-server"))
        for add, service in services:
            add(service, server)
        if self.credentials is not None:
            port = server.add_secure_port("localhost:0", self.credentials)
        else:
            port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        return server, f"localhost:{port}" if self.credentials is not None else f"127.0.0.1:{port}"


class _Store(cdcpb_pb2_grpc.ChangeDataServicer):
    def __init__(self, servers: TikvServers, store: int) -> None:
        self._servers, self._cluster, self._store = servers, servers.cluster, store

    def EventFeedV2(self, request_iterator: Any, context: Any) -> Iterator[Any]:  # noqa: N802  # the service's name
        features = dict(context.invocation_metadata()).get("features", "")
        if features != "stream-multiplexing" or not self._servers.multiplexes:
            context.abort(grpc.StatusCode.UNIMPLEMENTED, f"features {features!r}")
        session = Session(self._store, self._cluster.store_cluster_ids.get(self._store, CLUSTER_ID))
        with self._cluster.changed:
            self._cluster.sessions.append(session)
        Thread(target=self._listen, args=(session, request_iterator), name="tikv-server-requests", daemon=True).start()
        try:
            while True:
                with self._cluster.changed:
                    messages = self._wait(session)
                if session.broken:
                    context.abort(grpc.StatusCode.UNAVAILABLE, "broken on command")
                yield from messages
        finally:
            with self._cluster.changed:
                self._cluster.sessions.remove(session)

    def _wait(self, session: Session) -> list[Any]:
        while not session.broken:
            if messages := self._cluster.pump(session):
                return messages
            self._cluster.changed.wait()
        return []

    def _listen(self, session: Session, requests: Iterator[Any]) -> None:
        """Ends the session when the client is gone."""
        try:
            for request in requests:
                with self._cluster.changed:
                    if request.WhichOneof("request") == "deregister":
                        self._cluster.deregister(session, request)
                    else:
                        self._servers.registered.append(request)
                        self._cluster.register(session, request)
        except grpc.RpcError:
            pass  # that is how a stream that is cancelled ends here
        finally:
            with self._cluster.changed:
                session.broken = True
                self._cluster.changed.notify_all()


class _Kv(tikvpb_pb2_grpc.TikvServicer):
    """Serves what its store leads, and nothing else."""

    def __init__(self, servers: TikvServers, store: int) -> None:
        self._servers, self._cluster, self._store = servers, servers.cluster, store

    def KvScan(self, request: Any, context: Any) -> Any:  # noqa: N802  # the service's names, here and below
        self._servers.scans += 1
        while not self._servers.answers_scans.wait(0.02) and context.is_active():
            pass
        key = request.end_key if request.reverse else request.start_key
        answer = self._answer("KvScan", request, [key], kvrpcpb_pb2.ScanResponse, lambda _, it: self._servers.snapshots.scan(it))
        if not answer.HasField("region_error"):
            self._servers.read_regions.append(request.context.region_id)
        return answer

    def KvScanLock(self, request: Any, context: Any) -> Any:  # noqa: N802
        return self._answer("KvScanLock", request, [request.start_key], kvrpcpb_pb2.ScanLockResponse, Transactions.scan)

    def KvCheckTxnStatus(self, request: Any, context: Any) -> Any:  # noqa: N802
        return self._answer("KvCheckTxnStatus", request, [request.primary_key], kvrpcpb_pb2.CheckTxnStatusResponse, Transactions.check)

    def KvCheckSecondaryLocks(self, request: Any, context: Any) -> Any:  # noqa: N802
        reported = kvrpcpb_pb2.CheckSecondaryLocksResponse
        return self._answer("KvCheckSecondaryLocks", request, request.keys, reported, Transactions.check_secondaries)

    def KvResolveLock(self, request: Any, context: Any) -> Any:  # noqa: N802
        return self._answer("KvResolveLock", request, request.keys, kvrpcpb_pb2.ResolveLockResponse, Transactions.resolve)

    def MvccGetByKey(self, request: Any, context: Any) -> Any:  # noqa: N802
        return self._answer("MvccGetByKey", request, [request.key], kvrpcpb_pb2.MvccGetByKeyResponse, Transactions.mvcc)

    def _answer(self, name: str, request: Any, keys: Sequence[bytes], response: Any, act: Callable[[Transactions, Any], Any]) -> Any:
        with self._cluster.changed:
            transactions = self._cluster.transactions
            transactions.requests.append((name, request))
            error = self._region_error(request.context, keys)
            if error is not None:
                return response(region_error=error)
            if planned := transactions.answers.get(name):
                return planned.pop(0)
            answer = act(transactions, request)
            self._cluster.changed.notify_all()
            return answer

    def _region_error(self, reported: Any, keys: Sequence[bytes]) -> Any:
        region = next((region for region in self._cluster.regions if region.id == reported.region_id), None)
        if region is None:
            return errorpb_pb2.Error(message="not found", region_not_found=errorpb_pb2.RegionNotFound(region_id=reported.region_id))
        if region.leader != self._store or reported.peer != region.peer():
            return errorpb_pb2.Error(message="not leader", not_leader=errorpb_pb2.NotLeader(region_id=region.id, leader=region.peer()))
        if reported.region_epoch != region.meta().region_epoch:
            return errorpb_pb2.Error(message="epoch", epoch_not_match=errorpb_pb2.EpochNotMatch(current_regions=[region.meta()]))
        if not all(region.start <= encoded(key) and (not region.end or encoded(key) < region.end) for key in keys):
            return errorpb_pb2.Error(message="key not in region")
        return None


class _EtcdBehind(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpc has no types
    """Messages pass as they are; so does what etcd answers instead."""

    def __init__(self, address: str) -> None:
        self._channel = grpc.insecure_channel(address, [("grpc.max_receive_message_length", -1)])

    def service(self, details: Any) -> Any:
        if not details.method.startswith("/etcdserverpb."):
            return None
        call = self._channel.stream_stream(details.method)

        def passed_on(requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
            answers = call(requests, timeout=context.time_remaining())
            context.add_callback(answers.cancel)
            try:
                yield from answers
            except grpc.RpcError as error:
                context.abort(error.code(), error.details())

        return grpc.stream_stream_rpc_method_handler(passed_on)


class _Keyspaces(keyspacepb_pb2_grpc.KeyspaceServicer):
    def __init__(self, servers: TikvServers) -> None:
        self._servers = servers

    def LoadKeyspace(self, request: Any, context: Any) -> Any:  # noqa: N802  # the service's name
        if self._servers.keyspaces is None:
            context.abort(grpc.StatusCode.UNIMPLEMENTED, "this PD is older")
        header = pdpb_pb2.ResponseHeader(cluster_id=self._servers.pd_cluster_id)
        if (known := (self._servers.keyspaces or {}).get(request.name)) is None:
            header.error.CopyFrom(pdpb_pb2.Error(type=pdpb_pb2.ENTRY_NOT_FOUND, message="keyspace does not exist"))
            return keyspacepb_pb2.LoadKeyspaceResponse(header=header)
        number, own_gc = known
        config = {"gc_management_type": "keyspace_level" if own_gc else "unified"}
        meta = keyspacepb_pb2.KeyspaceMeta(id=number, name=request.name, config=config)
        return keyspacepb_pb2.LoadKeyspaceResponse(header=header, keyspace=meta)


class _Pd(pdpb_pb2_grpc.PDServicer):
    def __init__(self, servers: TikvServers, number: int) -> None:
        self._servers, self._cluster, self._number = servers, servers.cluster, number

    def GetMembers(self, request: Any, context: Any) -> Any:  # noqa: N802  # the service's names, here and below
        members = [
            pdpb_pb2.Member(name=f"pd-{number}", member_id=number + 1, client_urls=[f"http://{address}"])
            for number, address in enumerate(self._servers.pd_addresses)
        ]
        return pdpb_pb2.GetMembersResponse(header=self._header(), members=members, leader=members[self._cluster.pd_leader])

    def ScanRegions(self, request: Any, context: Any) -> Any:  # noqa: N802
        self._lead(request, context)
        with self._cluster.changed:
            regions = [
                pdpb_pb2.Region(region=region.meta(), leader=region.peer())
                for region in self._cluster.regions
                if (not request.end_key or region.start < request.end_key) and (not region.end or region.end > request.start_key)
            ]
        return pdpb_pb2.ScanRegionsResponse(header=self._header(), regions=regions[: request.limit or None])

    def GetRegion(self, request: Any, context: Any) -> Any:  # noqa: N802
        self._lead(request, context)
        with self._cluster.changed:
            region = self._cluster.region_at(request.region_key)
        return pdpb_pb2.GetRegionResponse(header=self._header(), region=region.meta(), leader=region.peer())

    def GetStore(self, request: Any, context: Any) -> Any:  # noqa: N802
        self._lead(request, context)
        address = self._servers.addresses.get(request.store_id)
        if address is None:
            error = pdpb_pb2.Error(type=pdpb_pb2.UNKNOWN, message=f"invalid store ID {request.store_id}, not found")
            return pdpb_pb2.GetStoreResponse(header=pdpb_pb2.ResponseHeader(cluster_id=self._servers.pd_cluster_id, error=error))
        store = metapb_pb2.Store(id=request.store_id, address=address, version=self._servers.versions[request.store_id])
        return pdpb_pb2.GetStoreResponse(header=self._header(), store=store)

    def Tso(self, request_iterator: Any, context: Any) -> Iterator[Any]:  # noqa: N802
        for request in request_iterator:
            self._lead(request, context)
            physical, logical = self._servers.timestamp(request.count)
            timestamp = pdpb_pb2.Timestamp(physical=physical, logical=logical)
            yield pdpb_pb2.TsoResponse(header=self._header(), count=request.count, timestamp=timestamp)

    def UpdateServiceGCSafePoint(self, request: Any, context: Any) -> Any:  # noqa: N802
        self._lead(request, context)
        safe_points = self._servers.safe_points
        if request.TTL <= 0:
            safe_points.pop(request.service_id, None)
        elif request.safe_point >= min(safe_points.values()):
            safe_points[request.service_id] = request.safe_point
        return pdpb_pb2.UpdateServiceGCSafePointResponse(header=self._header(), TTL=request.TTL, min_safe_point=min(safe_points.values()))

    def SetGCBarrier(self, request: Any, context: Any) -> Any:  # noqa: N802
        held = self._of_keyspace(request, context)
        if request.barrier_ts < held[GC_WORKER]:
            error = pdpb_pb2.Error(type=pdpb_pb2.UNKNOWN, message="behind the txn safe point")
            return pdpb_pb2.SetGCBarrierResponse(header=pdpb_pb2.ResponseHeader(cluster_id=self._servers.pd_cluster_id, error=error))
        held[request.barrier_id.encode()] = request.barrier_ts
        return pdpb_pb2.SetGCBarrierResponse(header=self._header())

    def DeleteGCBarrier(self, request: Any, context: Any) -> Any:  # noqa: N802
        held = self._of_keyspace(request, context)
        held.pop(request.barrier_id.encode(), None)
        return pdpb_pb2.DeleteGCBarrierResponse(header=self._header())

    def GetGCState(self, request: Any, context: Any) -> Any:  # noqa: N802
        held = self._of_keyspace(request, context)
        return pdpb_pb2.GetGCStateResponse(header=self._header(), gc_state=pdpb_pb2.GCState(txn_safe_point=held[GC_WORKER]))

    def _of_keyspace(self, request: Any, context: Any) -> dict[bytes, int]:
        """What is held of it: the cluster's where it has no GC of its own."""
        if not self._servers.has_barriers:
            context.abort(grpc.StatusCode.UNIMPLEMENTED, "this PD is older")
        number = request.keyspace_scope.keyspace_id
        own = any(own_gc for known, own_gc in (self._servers.keyspaces or {}).values() if known == number)
        return self._servers.of_keyspaces.setdefault(number, {GC_WORKER: 0}) if own else self._servers.safe_points

    def _header(self) -> Any:
        return pdpb_pb2.ResponseHeader(cluster_id=self._servers.pd_cluster_id)

    def _lead(self, request: Any, context: Any) -> None:
        if self._cluster.pd_leader != self._number:
            context.abort(grpc.StatusCode.UNAVAILABLE, "not leader")
        if request.header.cluster_id != self._servers.pd_cluster_id:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, f"mismatch cluster id, need {self._servers.pd_cluster_id}")
