"""The registry of TiDB-Binlog in a real etcd: entries of others stay as they are, and a recording comes through it whole."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from sidecar.adapters.etcd.binlog import EtcdNodes
from sidecar.adapters.etcd.client import EtcdClient
from sidecar.adapters.etcd.keys import Delete, Put
from sidecar.binlog.nodes import DRAINERS, OFFLINE, ONLINE, PAUSED, PUMPS, Node
from sidecar.feeds.binlog import streams as streams_module
from sidecar.feeds.binlog.drainer import leave
from sidecar.feeds.binlog.streams import PullSettings, PumpStreams
from sidecar.shared.config import EtcdSection
from sidecar.shared.errors import CoordinationError, CoordinationLost, MessageUnreadable
from sidecar.shared.model.nouns import CommitTs
from sidecar.shared.tikv.pd import PdClient
from tests.support.binlog_reader import Log, Reader
from tests.support.made_pumps import MadePd, MadePump, World, fake, recorded_pumps
from tests.support.recordings import recording
from tests.support.services.etcd import Etcd
from tests.support.tikv.cluster import CLUSTER_ID as TIKV_CLUSTER_ID
from tests.support.tikv.cluster import Cluster
from tests.support.tikv.recorded import History
from tests.support.tikv.server import TikvServers

OURS = f"{DRAINERS}ticdc-dump"
REAL = '{"nodeId":"drainer","host":"h:8249","state":"online","isAlive":false,"score":0,"label":null,"maxCommitTS":7,"updateTS":8}'


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[Etcd]:
    with Etcd(tmp_path / "etcd") as made:
        yield made


@pytest.fixture
def held() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def nodes_of(etcd: Etcd, held: ExitStack, own: str = OURS) -> EtcdNodes:
    made = EtcdNodes(EtcdSection(endpoints=etcd.endpoints), own=own)
    held.callback(made.close)
    return made


def pump_node(name: str, state: str = ONLINE) -> Node:
    return Node(name, f"{name}:8250", state, CommitTs(1), CommitTs(2), label={"zone": "a"})


def test_nodes_find_each_other_and_each_writes_its_own(etcd: Etcd, held: ExitStack) -> None:
    etcd.put(f"{DRAINERS}drainer", REAL)
    first, second = nodes_of(etcd, held, f"{PUMPS}a"), nodes_of(etcd, held, f"{PUMPS}ab")
    first.put(pump_node("a"))
    second.put(pump_node("ab", PAUSED))
    ours = nodes_of(etcd, held)
    assert ours.mine() is None
    ours.put(pump_node("ticdc-dump"))
    assert list(ours.pumps()) == [pump_node("a"), pump_node("ab", PAUSED)]
    assert [node.node_id for node in ours.drainers()] == ["drainer", "ticdc-dump"]
    assert leave(ours, CommitTs(9))
    assert ours.mine() == replace(pump_node("ticdc-dump"), state=OFFLINE, update_ts=CommitTs(9))
    assert etcd.get(f"{DRAINERS}drainer") == REAL


def test_leaving_without_an_entry_writes_none(etcd: Etcd, held: ExitStack) -> None:
    assert not leave(nodes_of(etcd, held), CommitTs(9))
    assert etcd.get(OURS) is None


def test_no_other_key_can_be_written(etcd: Etcd, held: ExitStack) -> None:
    client = EtcdClient(EtcdSection(endpoints=etcd.endpoints), root=OURS)
    held.callback(client.close)
    for write in (Put(f"{OURS}-2", b""), Put(f"{DRAINERS}drainer", b""), Delete(OURS), Put("/changefeed_dump/v1/x", b"")):
        with pytest.raises(CoordinationError, match="not ours to write"):
            client.transact([], [write])


def test_an_entry_that_is_none_is_named(etcd: Etcd, held: ExitStack) -> None:
    etcd.put(f"{PUMPS}x", "nonsense")
    with pytest.raises(MessageUnreadable, match=f"etcd key {PUMPS}x"):
        nodes_of(etcd, held).pumps()


def test_servers_that_write_no_binlogs_are_found(etcd: Etcd, held: ExitStack) -> None:
    for number, status in enumerate(("On", "Skipping", "Off", "Unknown")):
        etcd.put(f"/tidb/server/info/{number}", json.dumps({"ip": f"10.0.0.{number}", "listening_port": 4000, "binlog_status": status}))
    assert list(nodes_of(etcd, held).without_binlogs()) == [
        "TiDB 10.0.0.1:4000 (binlog_status Skipping)",
        "TiDB 10.0.0.2:4000 (binlog_status Off)",
    ]
    etcd.put("/tidb/server/info/9", "nonsense")
    with pytest.raises(CoordinationError, match="/tidb/server/info/9"):
        nodes_of(etcd, held).without_binlogs()


def test_a_recording_comes_through_a_real_registry(etcd: Etcd, held: ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pump that joins does so by etcd; a real drainer's entry beside ours stays; etcd restarts in the middle."""
    monkeypatch.setattr(streams_module, "LOOKS_INTERVAL_S", 0.02)
    etcd.put(f"{DRAINERS}drainer", REAL)
    recorded, pd, ours = recorded_pumps(recording("binlog")), MadePd(), nodes_of(etcd, held)
    pd.now_ts = recorded.start_ts
    registry = Registries(etcd, held)
    world = held.enter_context(World(recorded, registry, pd))
    settings = PullSettings(node_id="ticdc-dump", listen="127.0.0.1:0", from_ts=CommitTs(recorded.start_ts))
    streams = PumpStreams(settings, ours, pd)
    held.callback(streams.close)
    log = Log(recorded.start_ts)
    reader = Reader(streams, log)
    moments = recorded.moments()
    for at, ms in enumerate(moments[:: len(moments) // 12]):
        world.advance(ms)
        reader.step()
        if at == 6:
            etcd.kill()
            etcd.start()
    world.advance(moments[-1])
    last_ts = max(pump.max_commit_ts for pump in world.pumps.values())
    for pump in world.pumps.values():
        pump.commit(last_ts + 1, fake(last_ts + 1))
    reader.until(lambda: log.after_ts >= last_ts)
    assert log.rows == recorded.merged()
    streams.close()
    mine = ours.mine()
    assert mine is not None
    assert (mine.state, mine.host.rpartition(":")[0]) == (PAUSED, "127.0.0.1")
    assert recorded.start_ts <= mine.max_commit_ts <= log.after_ts
    assert etcd.get(f"{DRAINERS}drainer") == REAL


def test_an_etcd_that_stays_away_is_lost(etcd: Etcd, held: ExitStack) -> None:
    pump = MadePump("a", Registries(etcd, held))
    held.callback(pump.kill)
    pump.register()
    settings = PullSettings(node_id="ticdc-dump", listen="127.0.0.1:0", from_ts=CommitTs(1), outage_max_s=0.2)
    streams = PumpStreams(settings, nodes_of(etcd, held), MadePd(1))
    held.callback(streams.close)
    reader = Reader(streams, Log(1))
    reader.until(lambda: len(streams.lanes()) == 2)
    etcd.kill()
    with pytest.raises(CoordinationLost):
        reader.until(lambda: False)


def test_pds_own_clock_and_cluster_id(etcd: Etcd, held: ExitStack) -> None:
    """TSOs and the cluster's id by PD's gRPC, as the product asks for them."""
    servers = held.enter_context(TikvServers(Cluster(History((), (), {}))))
    pd = PdClient(servers.section(), named="binlog")
    held.callback(pd.close)
    pump = MadePump("a", Registries(etcd, held), cluster_id=TIKV_CLUSTER_ID)
    held.callback(pump.kill)
    pump.register()
    from_ts = pd.tso()
    settings = PullSettings(node_id="ticdc-dump", listen="127.0.0.1:0", from_ts=from_ts)
    streams = PumpStreams(settings, nodes_of(etcd, held), pd)
    held.callback(streams.close)
    reader = Reader(streams, Log(from_ts))
    pump.commit(from_ts + 1, fake(from_ts + 1))
    reader.until(lambda: reader.log.after_ts == from_ts + 1)


class Registries:
    """Each pump writes its own entry."""

    def __init__(self, etcd: Etcd, held: ExitStack) -> None:
        self._etcd, self._held = etcd, held
        self._made: dict[str, EtcdNodes] = {}

    def put(self, node: Node) -> None:
        if node.node_id not in self._made:
            self._made[node.node_id] = nodes_of(self._etcd, self._held, f"{PUMPS}{node.node_id}")
        self._made[node.node_id].put(node)
