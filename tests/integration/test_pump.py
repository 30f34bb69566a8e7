"""A pump with a real etcd: who writes, who reads, who pauses and closes it."""

from __future__ import annotations

import json
import random
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from threading import Event

import grpc
import pytest

from sidecar.pump import app as pump_app
from sidecar.pump.record import Binlog, binlog_of
from sidecar.shared.config import Tls
from sidecar.shared.errors import ConfigError, CoordinationLost
from sidecar.shared.process.background import Background
from sidecar.shared.tikv.pd import PdClient
from tests.support.eventually import PATIENCE_S, eventually
from tests.support.pump_rig import Client, MadeDrainer, PumpProcess, PumpRig, http, made_cluster
from tests.support.services.etcd import Etcd
from tests.support.services.ports import free_port
from tests.support.services.tls import Authority
from tests.support.tikv.cluster import CLUSTER_ID
from tests.support.tikv.server import TSO_PHYSICAL_MS, TikvServers
from tests.unit.pump.test_storage import commit, fake, prewrite
from ticdc_dump.binlog import binlog_pb2

BASE = TSO_PHYSICAL_MS << 18


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    with Etcd(tmp_path_factory.mktemp("etcd")) as etcd:
        yield etcd


@pytest.fixture
def servers(etcd: Etcd) -> Iterator[TikvServers]:
    with made_cluster() as servers:
        yield servers
    etcd.etcdctl("del", "--prefix", "/tidb-binlog/")


@pytest.fixture
def rig(tmp_path: Path, etcd: Etcd, servers: TikvServers) -> PumpRig:
    return PumpRig(tmp_path, etcd, servers)


def test_what_is_written_is_pulled_in_the_order_of_commits_and_followed(rig: PumpRig) -> None:
    with rig.running() as pump, Client(f"127.0.0.1:{pump.port}") as client:
        for one in (prewrite(1), prewrite(2), commit(2, 3), commit(1, 4)):
            assert client.write(one.payload).errmsg == ""
        call = client.pull()
        first, second = next(call).entity, next(call).entity
        assert [(one.meta.startTs, one.meta.commitTs) for one in (first, second)] == [(2, 3), (1, 4)]
        assert binlog_pb2.Binlog.FromString(first.payload).prewrite_value == b"value"
        assert not first.HasField("pos")
        client.write(fake(9).payload, compression=grpc.Compression.Gzip)
        assert next(call).entity.payload == fake(9).payload
        call.cancel()
        assert [one.meta.commitTs for one in client.pulled(2, offset=3)] == [4, 9]


def test_probes_and_foreign_clusters_are_answered_and_nothing_is_stored(rig: PumpRig) -> None:
    with rig.running() as pump, Client(f"127.0.0.1:{pump.port}") as client:
        assert client.write(b"").errmsg == ""
        with pytest.raises(grpc.RpcError) as refused:
            client.write(fake(5).payload, cluster_id=9)
        assert refused.value.code() is grpc.StatusCode.UNKNOWN
        assert refused.value.details() == f"cluster ID are mismatch, 9 vs {CLUSTER_ID}"
        with pytest.raises(grpc.RpcError, match="cluster ID are mismatch"):
            next(client.pull(cluster_id=9))
        with pytest.raises(grpc.RpcError, match="the payload is no binlog"):
            client.write(b"\xff\xff\xff")
        client.write(fake(6).payload)
        assert [one.meta.commitTs for one in client.pulled(1)] == [6]


def test_a_large_transaction_passes_grpcs_default_bound(rig: PumpRig) -> None:
    value = random.Random(0).randbytes(1000) * 20_000
    with rig.running() as pump, Client(f"127.0.0.1:{pump.port}") as client:
        client.write(prewrite(1, value).payload)
        client.write(commit(1, 2).payload)
        (result,) = client.pulled(1)
        assert binlog_pb2.Binlog.FromString(result.payload).prewrite_value == value


def test_an_idle_pump_writes_fakes_and_its_registry_entry_moves(rig: PumpRig, tmp_path: Path, servers: TikvServers) -> None:
    rig = PumpRig(tmp_path, rig.etcd, servers, fake_s=0.05)
    with rig.running() as pump, Client(f"127.0.0.1:{pump.port}") as client:
        for one in client.pulled(3):
            assert one.meta.startTs == one.meta.commitTs > BASE
            assert binlog_of(one.payload).is_fake
        result = eventually(lambda: (it := rig.registered())["maxCommitTS"] and it)
        assert list(result) == ["nodeId", "host", "state", "isAlive", "score", "label", "maxCommitTS", "updateTS"]
        expected = {"nodeId": "pump-a", "host": "127.0.0.1:1", "state": "online", "isAlive": False, "score": 0, "label": None}
        assert result | expected == result
        eventually(lambda: rig.registered()["updateTS"] > result["updateTS"])
    left = rig.registered()
    assert left["state"] == "paused"
    assert result["maxCommitTS"] <= left["maxCommitTS"] <= pump.storage.max_commit_ts  # a fake may come after the last entry


def test_a_new_pump_is_online_before_drainers_are_notified_and_a_paused_one_notifies_nobody(rig: PumpRig) -> None:
    drainer, away = MadeDrainer(rig.etcd, refusals=1), MadeDrainer(rig.etcd, "away", state="paused")
    with rig.running():
        pass
    assert [notice["state"] for notice in drainer.received] == ["online"]
    assert away.received == []
    rig.reported.clear()
    with rig.running():
        pass
    assert len(drainer.received) == 1
    drainer.close()
    away.close()


def test_a_pump_that_cannot_notify_a_drainer_stays_offline(rig: PumpRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sidecar.pump.node.NOTIFY_MAX_S", 0.3)
    drainer = MadeDrainer(rig.etcd, refusals=1000)
    with (
        pytest.raises(CoordinationLost, match=r"drainer drainer at .* is online in the registry and does not answer Notify"),
        rig.running(),
    ):
        pass
    assert rig.registered()["state"] == "offline"
    drainer.close()


def test_binlogctl_pauses_it_on_the_port_of_grpc_and_its_process_ends(rig: PumpRig) -> None:
    with rig.running() as pump, Client(f"127.0.0.1:{pump.port}") as client:
        address = f"127.0.0.1:{pump.port}"
        client.write(prewrite(1).payload)
        call = client.pull()
        assert json.loads(http("PUT", address, "/state/other/pause")[1])["message"].startswith("invalide nodeID other")
        assert json.loads(http("PUT", address, "/state/pump-a/stop")[1])["message"] == "invalide action stop"
        status, answer = http("PUT", address, "/state/pump-a/pause")
        assert (status, json.loads(answer)) == (200, {"message": "apply action pause success!", "code": 200, "data": None})
        assert list(call) == [], "a pull ends with the pump"
        eventually(lambda: rig.registered()["state"] == "paused")
    assert rig.said("the pump has left")[0]["state"] == "paused"


def test_it_goes_offline_when_all_has_an_end_and_drainers_are_past_it(rig: PumpRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pump_app, "LOOK_S", 0.05)
    drainer, paused = MadeDrainer(rig.etcd), MadeDrainer(rig.etcd, "paused", state="paused")
    with rig.running() as pump, Client(f"127.0.0.1:{pump.port}") as client:
        client.write(prewrite(BASE + 1).payload)
        http("PUT", f"127.0.0.1:{pump.port}", "/state/pump-a/close")
        eventually(lambda: rig.registered()["state"] == "closing")
        with pytest.raises(grpc.RpcError, match="no online: closing"):
            client.write(prewrite(BASE + 2).payload)
        eventually(lambda: [it for it in rig.said("waiting to go offline") if it["needed"] is None])
        client.write(commit(BASE + 1, BASE + (1 << 18)).payload)
        needed = eventually(lambda: [it["needed"] for it in rig.said("waiting to go offline") if it["needed"]])[0]
        assert needed >= BASE + (1 << 18)
        drainer.put(max_commit_ts=needed)
        assert [one.meta.commitTs for one in client.pulled(1, offset=BASE + 1)] != []
        assert rig.registered()["state"] == "closing", "the paused drainer has not consumed it"
        paused.put(state="paused", max_commit_ts=needed)
        eventually(lambda: rig.registered()["state"] == "offline")
    assert rig.registered()["state"] == "offline"
    drainer.close()
    paused.close()


def test_its_pages(tmp_path: Path, etcd: Etcd, servers: TikvServers) -> None:
    rig = PumpRig(tmp_path, etcd, servers, gc_days=36_500.0)
    servers.cluster.transactions.ends[BASE + 1, b"key"] = BASE + 2
    drainer = MadeDrainer(rig.etcd)
    with rig.running() as pump, Client(f"127.0.0.1:{pump.port}") as client:
        address = f"127.0.0.1:{pump.port}"
        client.write(prewrite(BASE + 1, b"\x08\x07").payload)
        client.write(commit(BASE + 1, BASE + 2).payload)
        status = json.loads(http("GET", address, "/status")[1])
        assert status["status"]["pump-a"]["state"] == "online"
        assert status["CommitTS"] > BASE
        assert [it["nodeId"] for it in json.loads(http("GET", address, "/drainers")[1])] == ["drainer"]
        text = http("GET", address, f"/debug/binlog/{BASE + 1}")[1]
        assert "schema_version: 7" in text
        assert f"start_ts:{BASE + 1} commit_ts:{BASE + 2}" in text
        assert "not found" in http("GET", address, "/debug/binlog/77")[1]
        assert http("GET", address, "/debug/binlog/x")[1] == "invalid parameter ts: x"
        assert http("POST", address, "/debug/gc/trigger")[1] == "nothing to collect\n"
        assert http("GET", address, "/nothing")[0] == 404
        metrics = http("GET", address, "/metrics")[1]
        assert "binlog_pump_storage_gc_ts 0.0" in metrics
        assert 'binlog_pump_rpc_duration_seconds_count{label="succ",method="WriteBinlog"} 2.0' in metrics
    drainer.close()


def test_a_lost_commit_is_requested_of_tikv(rig: PumpRig, servers: TikvServers) -> None:
    servers.cluster.transactions.ends[BASE + 1, b"key"] = BASE + 5
    servers.cluster.transactions.ends[BASE + 2, b"key"] = 0
    with rig.running() as pump, Client(f"127.0.0.1:{pump.port}") as client:
        for start_ts in (BASE + 1, BASE + 2):
            client.write(prewrite(start_ts).payload)
        (result,) = client.pulled(1)
        assert (result.meta.startTs, result.meta.commitTs) == (BASE + 1, BASE + 5)
        eventually(lambda: pump.storage.waiting == 0)


def test_an_old_transaction_without_an_end_is_rolled_back_by_tikv(rig: PumpRig, servers: TikvServers) -> None:
    """It has neither a lock nor a write: TiKV makes its rollback, so that it can never commit."""
    start_ts = BASE - (601_000 << 18)
    with rig.running() as pump, Client(f"127.0.0.1:{pump.port}") as client:
        client.write(prewrite(start_ts).payload)
        eventually(lambda: pump.lost.tally.rolled_back == 1)
    assert servers.cluster.transactions.ends[start_ts, b"key"] == 0


def test_one_folder_is_one_pumps(rig: PumpRig) -> None:
    with rig.running(), pytest.raises(ConfigError, match="another pump has"), rig.running():
        pass


def test_tls_for_grpc_and_http_on_one_port(tmp_path: Path, etcd: Etcd, servers: TikvServers) -> None:
    authority = Authority(tmp_path / "tls")
    server, client = authority.sign("server"), authority.sign("client")
    tls = Tls(ca_file=str(authority.ca_file), cert_file=str(server.cert_file), key_file=str(server.key_file))
    rig = PumpRig(tmp_path / "data", etcd, servers, tls=tls)
    mine = grpc.ssl_channel_credentials(authority.ca_file.read_bytes(), client.key_file.read_bytes(), client.cert_file.read_bytes())
    context = ssl.create_default_context(cafile=authority.ca_file)
    with rig.running() as pump:
        address = f"localhost:{pump.port}"
        with Client(address, credentials=mine) as it:
            it.write(fake(5).payload)
            assert [one.meta.commitTs for one in it.pulled(1)] == [5]
        with pytest.raises(OSError, match=r"(?i)certificate|reset|closed"):
            http("GET", address, "/status", context=context)
        context.load_cert_chain(client.cert_file, client.key_file)
        assert http("GET", address, "/drainers", context=context) == (200, "[]\n")


def test_who_says_nothing_is_sent_away(rig: PumpRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sidecar.pump.front.SILENT_MAX_S", 0.1)
    with rig.running() as pump:
        for said in (b"", b"PRI * HTT", b"GET /status HTTP/1.1\r\n", b"x" * 20_000):
            with socket.create_connection(("127.0.0.1", pump.port)) as one:
                one.settimeout(PATIENCE_S)
                one.sendall(said)
                with suppress(ConnectionResetError):
                    assert one.recv(1) == b""


def test_a_kill_under_load_loses_and_doubles_nothing(tmp_path: Path, etcd: Etcd, servers: TikvServers) -> None:
    """A writer that goes on and a reader that comes back, over two deaths: each commit that was answered is read, once, in its order."""
    ending = Event()
    answered: list[Binlog] = []
    read: list[Binlog] = []
    with PumpProcess(tmp_path, etcd, servers, free_port()) as pump:
        writing = Background(lambda _: _write(pump.address, servers, ending, answered), name="writer")
        written = Event()
        is_over = partial(_is_behind, written, answered)
        reading = Background(lambda _: _read(pump.address, is_over, read), name="reader")
        try:
            for _ in range(2):
                eventually(partial(_has, answered, len(answered) + 100))
                pump.kill()
                pump.start()
        finally:
            ending.set()
            writing.close(PATIENCE_S)
            written.set()
        writing.check()
        reading.close(PATIENCE_S)
        reading.check()
    assert [one.commit_ts for one in read] == sorted({one.commit_ts for one in read})
    real = [one for one in read if not one.is_fake]
    assert {one.commit_ts for one in answered} <= {one.commit_ts for one in real}
    assert {binlog_pb2.Binlog.FromString(one.payload).prewrite_value for one in real} == {b"value"}


def _is_behind(written: Event, answered: list[Binlog], commit_ts: int) -> bool:
    return written.is_set() and commit_ts > answered[-1].commit_ts


def _has(answered: list[Binlog], count: int) -> bool:
    return len(answered) >= count


def _write(address: str, servers: TikvServers, ending: Event, answered: list[Binlog]) -> None:
    """A transaction after another; one write that is not answered is written again."""
    with Client(address) as client, closing(PdClient(servers.section())) as pd:
        while not ending.is_set():
            start_ts = pd.tso()
            _until_answered(client, prewrite(start_ts))
            answered.append(commit(start_ts, pd.tso()))
            _until_answered(client, answered[-1])


def _until_answered(client: Client, one: Binlog) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            client.write(one.payload)
        except grpc.RpcError:
            assert time.monotonic() < deadline
        else:
            return


def _read(address: str, is_over: Callable[[int], bool], read: list[Binlog]) -> None:
    """From where it stood, after each break, until one comes with which it is over."""
    with Client(address) as client:
        while not (read and is_over(read[-1].commit_ts)):
            call = client.pull(read[-1].commit_ts if read else 0)
            try:
                for one in call:
                    read.append(binlog_of(one.entity.payload))
                    if is_over(one.entity.meta.commitTs):
                        call.cancel()
            except grpc.RpcError:
                continue
