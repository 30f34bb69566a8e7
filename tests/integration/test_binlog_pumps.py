"""Both halves and the client together: a writer as TiDB is, our pumps, and our drainer over them, with a real etcd between."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from threading import Event
from typing import Any

import grpc
import pytest

from sidecar.adapters.etcd.binlog import EtcdNodes
from sidecar.binlog.nodes import DRAINERS, OFFLINE
from sidecar.feeds.binlog.joining import PUMPS_LANE, lane_of
from sidecar.feeds.binlog.streams import PullSettings, PumpStreams
from sidecar.shared.config import EtcdSection, Tls
from sidecar.shared.errors import FeedUnsuitable
from sidecar.shared.process.background import Background
from sidecar.shared.tikv.pd import PdClient
from tests.support.binlog_reader import Log, Reader
from tests.support.eventually import PATIENCE_S, eventually
from tests.support.pump_client import client as client_module
from tests.support.pump_client.client import PumpClient, WriteSettings
from tests.support.pump_rig import PumpRig, http, made_cluster
from tests.support.services.etcd import Etcd
from tests.support.services.ports import free_port
from tests.support.services.tls import Authority
from tests.support.tikv.server import TikvServers
from ticdc_dump.binlog import binlog_pb2

NAME = "ticdc-dump"


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    with Etcd(tmp_path_factory.mktemp("etcd")) as made:
        yield made


@pytest.fixture
def servers(etcd: Etcd) -> Iterator[TikvServers]:
    with made_cluster() as made:
        yield made
    etcd.etcdctl("del", "--prefix", "/tidb-binlog/")


@pytest.fixture
def held() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def pump_of(folder: Path, etcd: Etcd, servers: TikvServers, name: str, **settings: Any) -> PumpRig:
    """At a port of its own, which its entry names."""
    port = free_port()
    host = f"{'localhost' if 'tls' in settings else '127.0.0.1'}:{port}"
    return PumpRig(folder / name, etcd, servers, node_id=name, listen=f"127.0.0.1:{port}", advertise=host, fake_s=0.05, **settings)


class Drainer:
    def __init__(self, etcd: Etcd, servers: TikvServers, held: ExitStack, **settings: Any) -> None:
        self.nodes = EtcdNodes(EtcdSection(endpoints=etcd.endpoints), own=f"{DRAINERS}{NAME}")
        held.callback(self.nodes.close)
        pd = PdClient(servers.section())
        held.callback(pd.close)
        from_ts = pd.tso()
        self.streams = PumpStreams(PullSettings(node_id=NAME, listen="127.0.0.1:0", from_ts=from_ts, **settings), self.nodes, pd)
        held.callback(self.streams.close)
        self.reader = Reader(self.streams, Log(from_ts))

    @property
    def log(self) -> Log:
        return self.reader.log


class Writer:
    """Transactions one after another, each with its commit_ts from PD after its prewrite is stored."""

    def __init__(self, servers: TikvServers, drainer: Drainer) -> None:
        self.committed: list[tuple[int, int]] = []
        self.of: dict[int, str] = {}
        self.ending = Event()
        self._servers, self._nodes = servers, drainer.nodes
        self._work = Background(self._write, name="writer")

    def end(self) -> None:
        self.ending.set()
        self._work.close(PATIENCE_S)
        self._work.check()

    def _write(self, _: Event) -> None:
        with closing(PdClient(self._servers.section())) as pd:
            client = PumpClient(self._nodes.pumps, grpc.insecure_channel, pd.cluster_id(), WriteSettings())
            with closing(client):
                while not self.ending.is_set():
                    start_ts = pd.tso()
                    made = binlog_pb2.Binlog(tp=binlog_pb2.Prewrite, start_ts=start_ts, prewrite_key=b"k", prewrite_value=b"%d" % start_ts)
                    pump = client.prewrite(start_ts, made.SerializeToString())
                    commit_ts = pd.tso()
                    made = binlog_pb2.Binlog(tp=binlog_pb2.Commit, start_ts=start_ts, commit_ts=commit_ts, prewrite_key=b"k")
                    assert client.end(start_ts, made.SerializeToString())
                    self.of[commit_ts] = pump
                    self.committed.append((commit_ts, start_ts))


def test_nothing_is_lost_while_pumps_join_and_pause_under_load(
    tmp_path: Path, etcd: Etcd, servers: TikvServers, held: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "FOLLOW_EVERY_S", 0.02)
    monkeypatch.setattr(client_module, "END_RETRY_S", 0.02)
    first = held.enter_context(pump_of(tmp_path, etcd, servers, "a").running())
    drainer = Drainer(etcd, servers, held)
    drainer.reader.until(lambda: lane_of("a") in drainer.streams.lanes() and drainer.nodes.mine() is not None)
    writer = Writer(servers, drainer)
    drainer.reader.until(lambda: len(drainer.log.rows) > 20)
    rig = pump_of(tmp_path, etcd, servers, "b")
    with rig.running():
        assert rig.said("drainers know of this pump")[0]["drainers"] == NAME
        assert lane_of("b") in drainer.streams.lanes()
        drainer.reader.until(lambda: "b" in writer.of.values())
    count = len(writer.committed)
    moved = pump_of(tmp_path, etcd, servers, "b")
    with moved.running():
        drainer.reader.until(lambda: "b" in [writer.of[ts] for ts, _ in writer.committed[count + 1 :]])
        writer.end()
        last_ts = writer.committed[-1][0]
        drainer.reader.until(lambda: drainer.log.after_ts >= last_ts)
    assert first.storage.max_commit_ts > 0
    assert [row for row in drainer.log.rows if row[0] <= last_ts] == writer.committed


def test_a_pump_goes_offline_when_the_log_has_what_it_had(tmp_path: Path, etcd: Etcd, servers: TikvServers, held: ExitStack) -> None:
    held.enter_context(pump_of(tmp_path, etcd, servers, "a").running())
    rig = pump_of(tmp_path, etcd, servers, "b")
    with rig.running() as leaving:
        drainer = Drainer(etcd, servers, held)
        drainer.reader.until(lambda: drainer.streams.lanes() == {PUMPS_LANE, lane_of("a"), lane_of("b")})
        assert http("PUT", f"127.0.0.1:{leaving.port}", "/state/b/close")[0] == 200
        eventually(lambda: rig.registered("b")["state"] == "closing")
        drainer.reader.until(lambda: drainer.streams.lanes() == {PUMPS_LANE, lane_of("a")})
    result = next(node for node in drainer.nodes.pumps() if node.node_id == "b")
    mine = drainer.nodes.mine()
    assert mine is not None
    assert result.state == OFFLINE
    assert mine.max_commit_ts <= drainer.log.after_ts
    drainer.reader.until(lambda: drainer.log.after_ts > result.max_commit_ts)


def test_pumps_are_read_over_mutual_tls(tmp_path: Path, etcd: Etcd, servers: TikvServers, held: ExitStack) -> None:
    authority = Authority(tmp_path / "tls")
    server, client = authority.sign("server"), authority.sign("client")
    tls = Tls(ca_file=str(authority.ca_file), cert_file=str(server.cert_file), key_file=str(server.key_file))
    held.enter_context(pump_of(tmp_path, etcd, servers, "a", tls=tls).running())
    mine = Tls(ca_file=str(authority.ca_file), cert_file=str(client.cert_file), key_file=str(client.key_file))
    drainer = Drainer(etcd, servers, held, tls=mine)
    after_ts = drainer.log.after_ts
    drainer.reader.until(lambda: drainer.log.after_ts > after_ts)
    assert drainer.streams.view().held_by() == ""


def test_what_our_pump_has_removed_is_a_gap(tmp_path: Path, etcd: Etcd, servers: TikvServers, held: ExitStack) -> None:
    """The made PD's clock stands, so what comes after is of the same millisecond."""
    pump = held.enter_context(pump_of(tmp_path, etcd, servers, "a").running())
    eventually(lambda: pump.storage.collect(pump.storage.max_commit_ts - 1))
    drainer = Drainer(etcd, servers, held)
    with pytest.raises(FeedUnsuitable, match="has removed its binlogs"):
        drainer.reader.until(lambda: False)
