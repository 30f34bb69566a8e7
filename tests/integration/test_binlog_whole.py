"""TiDB-Binlog without recordings: a made TiDB writes transactions to our pumps, which are processes, and all of them come out again.

    load ─► made TiDB ─► client ─► two pumps ─► sidecar ─► Spark ─► files
                │                      │           │
             made TiKV ◄── lost ends ──┘        a dump: SQL of the made TiDB

The second pump joins amid the load; one is killed and started again on its data; so is the sidecar, in the middle of its dump. Of the
transactions some lose their commit, some come to both pumps, some are rolled back, and one is left by a TiDB that died.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing
from heapq import merge
from itertools import groupby, takewhile
from pathlib import Path
from random import Random
from typing import Any

import grpc
import pytest

from sidecar.adapters.etcd.binlog import EtcdNodes
from sidecar.binlog.nodes import DRAINERS
from sidecar.replay.judge.verify import verify
from sidecar.shared.config import EtcdSection, SourceSection
from sidecar.shared.log.storage import open_folder
from sidecar.shared.model.nouns import MARK_TABLE
from spark_merge.sinks.files.reader import read_output
from tests.integration.test_binlog_pumps import Drainer
from tests.integration.test_live import complete_at
from tests.lanes import LANE
from tests.support.binlog_load import Load
from tests.support.binlog_sql import serving
from tests.support.binlog_tables import KEYS, NAMES, some_rows
from tests.support.binlog_tidb import BinlogTidb, Committed, Fate, TickingServers, Written, WrittenTruth
from tests.support.pump_client.client import PumpClient, WriteSettings
from tests.support.pump_rig import Client, PumpProcess
from tests.support.services.etcd import Etcd
from tests.support.services.ports import free_ports
from tests.support.tikv.cluster import CLUSTER_ID
from tests.tools.rig.sidecar_process import MergeWorkerProcess, SidecarProcess
from ticdc_dump.binlog import binlog_pb2

pytestmark = [pytest.mark.recordings, pytest.mark.xdist_group("binlog-whole")]

PATIENCE_S = 600.0
LEASE_S = 5
FAKE_S = 0.5
"""Soon, and not so often that waiting for Spark costs more than Spark."""
NAME = "whole"
SEEDS = range(4) if LANE.whole else (0,)


class World:
    """Etcd, PD and TiKV, a TiDB, and as many pumps as were started."""

    def __init__(self, folder: Path, held: ExitStack) -> None:
        self.folder, self._held = folder, held
        self.etcd = held.enter_context(Etcd(folder / "etcd"))
        self.servers = TickingServers(self.etcd.endpoints[0])
        held.enter_context(self.servers)
        self.first = self.pump("a")
        nodes = EtcdNodes(EtcdSection(endpoints=self.etcd.endpoints), own=f"{DRAINERS}nobody")
        held.callback(nodes.close)
        settings = WriteSettings(write_max_s=PATIENCE_S, end_max_s=2.0, probe_every_s=1.0)
        client = held.enter_context(closing(PumpClient(nodes.pumps, grpc.insecure_channel, CLUSTER_ID, settings)))
        self.tidb = BinlogTidb(self.servers, client)

    def pump(self, name: str) -> PumpProcess:
        (self.folder / name).mkdir()
        (port,) = free_ports(1)
        return self._held.enter_context(PumpProcess(self.folder / name, self.etcd, self.servers, port, fake_s=FAKE_S))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with ExitStack() as held:
        yield World(tmp_path, held)


@pytest.mark.parametrize(("seed", "brackets"), [(seed, "snapshot" if seed % 2 else "watermark") for seed in SEEDS])
def test_the_files_have_every_committed_transaction_once_whatever_dies(world: World, seed: int, brackets: str) -> None:
    """Two pumps and the sidecar, one after another, in an order that the seed decides."""
    tidb, folder = world.tidb, world.folder
    tidb.fill(some_rows(tidb.tables, Random(seed), KEYS))
    with ExitStack() as held:
        source = held.enter_context(serving(tidb, folder))
        config = settings(world, source)
        held.enter_context(MergeWorkerProcess(config, folder / "worker.log"))
        sidecar = held.enter_context(SidecarProcess(config, folder / "sidecar.log"))
        sidecar.await_status(lambda value: len(value["lanes"]) > 2, timeout_s=PATIENCE_S)
        with Load(tidb, seed=seed):
            sidecar.ask("dumpstart", "--brackets", brackets, "--chunk-rows", "10", "--rows-per-second", "20")
            second = world.pump("b")
            tidb.await_commits(1, is_doubled)
            victims: list[PumpProcess | SidecarProcess] = [world.first, second, sidecar]
            for victim in Random(seed).sample(victims, len(victims)):
                victim.kill()
                tidb.await_commits(10)
                victim.start()
            done = sidecar.await_status(is_over, timeout_s=PATIENCE_S)
        leave_one(world)
        end_ts = tidb.committed[-1].commit_ts
        sidecar.await_status(lambda value: int(value["delivered_tso"]) >= end_ts, timeout_s=PATIENCE_S)
        assert sidecar.stop(timeout_s=PATIENCE_S) == 0
    output = open_folder(f"{folder}/output")
    moments = sorted({*(one.commit_ts for one in tidb.committed[:: len(tidb.committed) // 10]), end_ts})
    verdict = verify(output, WrittenTruth(tidb, tuple(moments), NAMES), complete_at=complete_at(done), tables=NAMES)
    assert verdict.ok, verdict
    assert all(table.snapshots_compared > 0 for table in verdict.tables)
    live = Counter(reported_of(row) for row in read_output(output) if row["origin"] == "log")
    due = Counter(reported for one in tidb.committed for reported in due_of(one))
    assert {*tidb.fates} == {*Fate}
    assert live == due, f"lost: {[*(due - live)][:3]}; too many: {[*(live - due)][:3]}"


@pytest.mark.parametrize("seed", SEEDS)
def test_a_reader_that_behaves_as_the_real_drainer_gets_the_committed_transactions_in_their_order(world: World, seed: int) -> None:
    tidb = world.tidb
    with ExitStack() as held:
        drainer = Drainer(world.etcd, world.servers, held)
        reader, log = drainer.reader, drainer.log
        reader.until(lambda: len(drainer.streams.lanes()) > 1 and drainer.nodes.mine() is not None)
        with Load(tidb, seed=seed):
            reader.until(lambda: len(log.rows) > 20)
            second = world.pump("b")
            reader.until(lambda: any(map(is_doubled, tidb.committed)))
            world.first.kill()
            known = len(tidb.committed)
            reader.until(lambda: len(tidb.committed) > known + 10)
            world.first.start()
            known = len(tidb.committed)
            reader.until(lambda: any(map(is_doubled, tidb.committed[known:])))
        leave_one(world)
        end_ts = tidb.committed[-1].commit_ts
        reader.until(lambda: log.after_ts >= end_ts)
    committed = [(one.commit_ts, one.start_ts) for one in tidb.committed]
    assert [row for row in log.rows if row[0] <= end_ts] == committed
    streams = [streamed(pump, end_ts) for pump in (world.first, second)]
    assert {*streams[0]} & {*streams[1]}, "no transaction came to both pumps"
    assert [place for place, _ in groupby(merge(*streams))] == committed, "what the real drainer makes of them"
    assert {*tidb.fates} == {*Fate}


def streamed(pump: PumpProcess, end_ts: int) -> list[tuple[int, int]]:
    """commit_ts and start_ts of all transactions that a pump streams, from its first one up to `end_ts`."""
    with Client(pump.address) as client:
        reported = (binlog_pb2.Binlog.FromString(answer.entity.payload) for answer in client.pull())
        places = takewhile(lambda place: place[0] <= end_ts, ((binlog.commit_ts, binlog.start_ts) for binlog in reported))
        return [place for place in places if place[0] != place[1]]


def is_over(status: dict[str, Any]) -> bool:
    assert status["state"] != "failed", status["reason"]
    return bool(status["state"] == "finished")


def reported_of(row: dict[str, Any]) -> str:
    return json.dumps([int(row["commit_ts"]), row["table"], row["op"], row["before"], row["after"]])


def due_of(transaction: Committed) -> Iterator[str]:
    """The rows of an output that a transaction is, marks left out."""
    for (name, _), (table, old, new) in transaction.net.items():
        if name != MARK_TABLE:
            op = "insert" if old is None else "delete" if new is None else "update"
            images = [None if row is None else dict(zip(table.schema.column_names(), table.texts(row), strict=True)) for row in (old, new)]
            yield json.dumps([transaction.commit_ts, name.table, op, *images])


def is_doubled(one: Committed) -> bool:
    return len({*one.pumps}) > 1


def leave_one(world: World) -> None:
    """TiDB dies with a transaction, which holds the stream until its lock is over, and PD's clock ten minutes on."""
    table, row = next(some_rows(world.tidb.tables, Random(2), 1))
    world.tidb.transact([(table.name, table.key(row))], lambda before: [Written(table, None, row)], Fate.DEAD)
    world.servers.ahead_ms += 601_000


def settings(world: World, source: SourceSection) -> Path:
    notify_port, control_port, metrics_port = free_ports(3)
    folder = world.folder
    path = folder / "sidecar.toml"
    path.write_text(f"""
sinks = ["file://{folder}/output?format=jsonl"]
feed = "binlog"
etcd = {{ lease_s = {LEASE_S} }}
log.uri = "file://{folder}/log"
spark.managed = false
control.listen = "127.0.0.1:{control_port}"
metrics.listen = "127.0.0.1:{metrics_port}"

[binlog]
name = "{NAME}"
pd = {json.dumps(world.servers.pd_addresses)}
listen = "127.0.0.1:{notify_port}"
filter = {{ rules = {json.dumps([*map(str, NAMES), "changefeed_dump.*"])} }}

[source]
host = "{source.host}"
port = {source.port}
status_port = {source.status_port}
user = "{source.user}"
reader = "{source.reader}"
""")
    return path
