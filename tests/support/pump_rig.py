"""A pump between a real etcd and a made PD and TiKV, in this process or as one of its own; and who writes to it and reads from it."""

from __future__ import annotations

import gzip
import json
import struct
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc

from sidecar.pump.app import Pump
from sidecar.pump.config import PumpSection
from sidecar.pump.lost import Tikv
from sidecar.shared.process.background import Background
from tests.support.eventually import PATIENCE_S, eventually
from tests.support.services.etcd import Etcd
from tests.support.tikv.cluster import CLUSTER_ID, Cluster
from tests.support.tikv.recorded import History
from tests.support.tikv.server import TikvServers
from ticdc_dump.binlog import cistern_pb2, cistern_pb2_grpc, pump_pb2, pump_pb2_grpc

OPTIONS = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1), ("grpc.use_local_subchannel_pool", 1))


def made_cluster() -> TikvServers:
    return TikvServers(Cluster(History([], (), {})))


class PumpRig:
    """`etcd` and `servers` are others' to close."""

    def __init__(self, folder: Path, etcd: Etcd, servers: TikvServers, **settings: Any) -> None:
        given: dict[str, Any] = {
            "listen": "127.0.0.1:0",
            "advertise": "127.0.0.1:1",
            "node_id": "pump-a",
            "free_bytes_min": 0,
            "fake_s": 86_400.0,
        }
        given |= {"pd": tuple(servers.pd_addresses), "etcd": etcd.endpoints, "data_dir": str(folder), "heartbeat_s": 0.05} | settings
        self.section = PumpSection(**given)
        self.etcd = etcd
        self.reported: list[tuple[str, dict[str, Any]]] = []

    @contextmanager
    def running(self, connect: Callable[[], Tikv] | None = None) -> Iterator[Pump]:
        """In this process. Serves when it begins, and has left when it ends."""
        pump = Pump(self.section, self._notice, connect=connect)
        work = Background(lambda _: pump.run(), name="pump")
        try:
            eventually(lambda: self.said("the pump serves") or not work.alive)
            work.check()
            yield pump
        finally:
            pump.stop()
            work.close(PATIENCE_S)
        work.check()
        assert not work.alive

    def said(self, what: str) -> list[dict[str, Any]]:
        return [values for text, values in self.reported if text == what]

    def registered(self, node_id: str = "pump-a") -> dict[str, Any]:
        text = self.etcd.get(f"/tidb-binlog/v1/pumps/{node_id}")
        return json.loads(text) if text else {}

    def _notice(self, what: str, **values: Any) -> None:
        self.reported.append((what, values))


class PumpProcess:
    """`ticdc-dump pump` as it is. Ends with its block."""

    def __init__(self, folder: Path, etcd: Etcd, servers: TikvServers, port: int, *, fake_s: float = 0.1) -> None:
        self.folder, self.address = folder, f"127.0.0.1:{port}"
        self._config = folder / "pump.toml"
        self._config.write_text(
            f"""
            [pump]
            pd = {json.dumps(servers.pd_addresses)}
            etcd = {json.dumps(etcd.endpoints)}
            data_dir = {json.dumps(str(folder / "data"))}
            listen = "{self.address}"
            free_bytes_min = 0
            fake_s = {fake_s}
            """
        )
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> PumpProcess:
        self.start()
        return self

    def __exit__(self, *ended: object) -> None:
        self.kill()

    def start(self) -> None:
        with (self.folder / "pump.log").open("ab") as log:
            command = [sys.executable, "-m", "sidecar", "pump", "--config", str(self._config)]
            self.process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        eventually(self._serves, "the pump does not serve")

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def _serves(self) -> bool:
        assert self.process is not None
        log = (self.folder / "pump.log").read_text(errors="replace")
        assert self.process.poll() is None, log[-3000:]
        try:
            return http("GET", self.address, "/metrics")[0] == 200
        except OSError:
            return False


class Client:
    """A channel to a pump."""

    def __init__(self, address: str, *, credentials: Any = None) -> None:
        self.channel = grpc.secure_channel(address, credentials, OPTIONS) if credentials else grpc.insecure_channel(address, OPTIONS)
        self._stub = pump_pb2_grpc.PumpStub(self.channel)  # type: ignore[no-untyped-call]  # generated without types

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *ended: object) -> None:
        self.channel.close()

    def write(self, payload: bytes, *, cluster_id: int = CLUSTER_ID, compression: Any = None) -> Any:
        request = pump_pb2.WriteBinlogReq(clusterID=cluster_id, payload=payload)
        return self._stub.WriteBinlog(request, timeout=PATIENCE_S, wait_for_ready=True, compression=compression)

    def pull(self, offset: int = 0, *, cluster_id: int = CLUSTER_ID) -> Any:
        """Entities, for as long as a test may wait; `cancel` it."""
        request = pump_pb2.PullBinlogReq(clusterID=cluster_id, startFrom=pump_pb2.Pos(offset=offset))
        return self._stub.PullBinlogs(request, wait_for_ready=True, timeout=PATIENCE_S)

    def pulled(self, count: int, offset: int = 0) -> list[Any]:
        call = self.pull(offset)
        results = [next(call).entity for _ in range(count)]
        call.cancel()
        return results


class MadeDrainer(cistern_pb2_grpc.CisternServicer):
    """Answers Notify, as one that is registered. `received`: what the registry had of the pump then. `refusals`: that come first."""

    def __init__(self, etcd: Etcd, node_id: str = "drainer", *, refusals: int = 0, state: str = "online") -> None:
        self.etcd, self.node_id, self.refusals = etcd, node_id, refusals
        self.received: list[dict[str, Any]] = []
        self._server = grpc.server(ThreadPoolExecutor(2))
        cistern_pb2_grpc.add_CisternServicer_to_server(self, self._server)  # type: ignore[no-untyped-call]  # generated without types
        self.host = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()
        self.put(state=state)

    def put(self, *, state: str = "online", max_commit_ts: int = 0) -> None:
        status = {"nodeId": self.node_id, "host": self.host, "state": state, "isAlive": False, "score": 0, "label": None}
        self.etcd.put(f"/tidb-binlog/v1/drainers/{self.node_id}", json.dumps(status | {"maxCommitTS": max_commit_ts, "updateTS": 1}))

    def Notify(self, request: Any, context: Any) -> Any:  # noqa: N802  # the service's name
        if self.refusals:
            self.refusals -= 1
            context.abort(grpc.StatusCode.UNAVAILABLE, "not yet")
        self.received.append(json.loads(self.etcd.get("/tidb-binlog/v1/pumps/pump-a") or "{}"))
        return cistern_pb2.NotifyResp()

    def close(self) -> None:
        self._server.stop(0).wait()
        self.etcd.etcdctl("del", f"/tidb-binlog/v1/drainers/{self.node_id}")


def http(method: str, address: str, path: str, *, context: Any = None) -> tuple[int, str]:
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    request = urllib.request.Request(f"{'https' if context else 'http'}://{address}{path}", method=method)
    try:
        with direct.open(request, timeout=PATIENCE_S) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def frames(path: Path) -> Iterator[bytes]:
    """Of a recording's `writes/` or `pumps/`: u32, payload."""
    data = gzip.decompress(path.read_bytes())
    at = 0
    while at < len(data):
        (size,) = struct.unpack_from("<I", data, at)
        yield data[at + 4 : at + 4 + size]
        at += 4 + size
