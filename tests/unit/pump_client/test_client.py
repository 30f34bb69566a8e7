"""The pump client against pumps that fail in all ways."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from threading import Event
from typing import Any

import grpc
import pytest

from sidecar.binlog.nodes import ONLINE, PAUSED, Node
from sidecar.shared.errors import CoordinationLost, FeedLost
from sidecar.shared.model.nouns import CommitTs
from tests.support.eventually import PATIENCE_S, eventually
from tests.support.pump_client import client as client_module
from tests.support.pump_client.choice import by_hash, by_range
from tests.support.pump_client.client import ERRORS_MAX, PumpClient, WriteSettings
from tests.support.services.ports import free_ports
from ticdc_dump.binlog import pump_pb2, pump_pb2_grpc

CLUSTER_ID = 7
Failing = Callable[[Any], Any]
"""Raises, aborts, or answers; what came is kept before."""


class Pump(pump_pb2_grpc.PumpServicer):
    """`failing` fails every write while it is there; `kept` before it fails."""

    def __init__(self, name: str, nodes: dict[str, Node], port: int = 0) -> None:
        self.name, self._nodes = name, nodes
        self.kept: list[bytes] = []
        self.asked = 0
        self.failing: Failing | None = None
        self._server: Any = None
        self.start(port)

    def start(self, port: int = 0) -> None:
        self._server = grpc.server(ThreadPoolExecutor(4))
        pump_pb2_grpc.add_PumpServicer_to_server(self, self._server)  # type: ignore[no-untyped-call]
        port = self._server.add_insecure_port(f"127.0.0.1:{port}")
        self._server.start()
        self.register(ONLINE, f"127.0.0.1:{port}")

    def register(self, state: str, host: str | None = None) -> None:
        known = self._nodes.get(self.name) or Node(self.name, "", state, CommitTs(0), CommitTs(0))
        self._nodes[self.name] = replace(known, state=state, host=host or known.host)

    def stop(self) -> None:
        self._server.stop(None).wait()

    def WriteBinlog(self, request: Any, context: Any) -> Any:  # noqa: N802  # the service's name
        assert request.clusterID == CLUSTER_ID
        self.asked += 1
        if self.failing is not None:
            return self.failing(context)
        if request.payload:
            self.kept.append(request.payload)
        return pump_pb2.WriteBinlogResp()


def refused(context: Any) -> Any:
    return pump_pb2.WriteBinlogResp(errmsg="no online: paused")


def aborted(code: grpc.StatusCode) -> Failing:
    return lambda context: context.abort(code, "on command")


def hangs(context: Any) -> Any:
    gone = Event()
    if context.add_callback(gone.set):
        gone.wait()
    return pump_pb2.WriteBinlogResp()


class Cluster:
    def __init__(self, names: Sequence[str]) -> None:
        self.nodes: dict[str, Node] = {}
        self.pumps = {name: Pump(name, self.nodes) for name in names}
        self.clients: list[PumpClient] = []

    def read(self) -> Sequence[Node]:
        return list(self.nodes.values())

    def client(self, **settings: Any) -> PumpClient:
        given = {"write_max_s": 0.3, "end_max_s": 0.2, "probe_every_s": 0.05} | settings
        self.clients.append(PumpClient(self.read, grpc.insecure_channel, CLUSTER_ID, WriteSettings(**given)))
        return self.clients[-1]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "RETRY_S", 0.005)
    monkeypatch.setattr(client_module, "END_RETRY_S", 0.01)
    monkeypatch.setattr(client_module, "FOLLOW_EVERY_S", 0.02)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = Cluster("abc")
    yield made
    for client in made.clients:
        client.close()
    for pump in made.pumps.values():
        pump.stop()


def test_by_range_each_has_its_turn() -> None:
    choose = by_range()
    assert [choose(7, 0, 3) for _ in range(4)] == [0, 1, 2, 0]


def test_by_hash_a_transaction_has_its_pump_and_a_failed_try_takes_the_next() -> None:
    choose = by_hash()
    assert [choose(start_ts, 0, 3) for start_ts in (6, 7, 7)] == [0, 1, 1]
    assert [choose(7, failed, 3) for failed in range(3)] == [1, 2, 0]


@pytest.mark.parametrize("strategy", ["range", "hash"])
def test_an_end_goes_to_the_pump_of_its_prewrite(cluster: Cluster, strategy: str) -> None:
    client = cluster.client(strategy=strategy)
    where = {ts: client.prewrite(ts, b"P%d" % ts) for ts in range(9)}
    assert all(client.end(ts, b"C%d" % ts) for ts in reversed(where))
    for name, pump in cluster.pumps.items():
        mine = [ts for ts, chosen in where.items() if chosen == name]
        assert sorted(pump.kept) == sorted([b"P%d" % ts for ts in mine] + [b"C%d" % ts for ts in mine])
        assert len(mine) == 3


def test_a_write_under_way_goes_on_where_another_one_to_the_same_pump_fails(cluster: Cluster) -> None:
    client = cluster.client(strategy="hash", write_max_s=PATIENCE_S)
    met, go_on = Event(), Event()

    def waits(_: Any) -> Any:
        met.set()
        assert go_on.wait(PATIENCE_S)
        return pump_pb2.WriteBinlogResp()

    turns = iter([waits, aborted(grpc.StatusCode.UNAVAILABLE)])
    cluster.pumps["a"].failing = lambda context: next(turns)(context)
    with ThreadPoolExecutor(1) as other:
        first = other.submit(client.prewrite, 0, b"P0")
        assert met.wait(PATIENCE_S)
        assert client.prewrite(3, b"P3") == "b"
        go_on.set()
        assert first.result(PATIENCE_S) == "a"


@pytest.mark.parametrize("failing", [refused, aborted(grpc.StatusCode.UNKNOWN), aborted(grpc.StatusCode.UNAVAILABLE), hangs])
def test_a_prewrite_that_a_pump_does_not_take_goes_to_another(cluster: Cluster, failing: Failing) -> None:
    cluster.pumps["a"].failing = failing
    client = cluster.client(strategy="hash")
    assert client.prewrite(0, b"P") == "b"
    assert client.end(0, b"C")
    assert cluster.pumps["b"].kept == [b"P", b"C"]


def test_a_pump_that_died_is_passed_over(cluster: Cluster) -> None:
    client = cluster.client(strategy="hash")
    assert client.prewrite(0, b"P") == "a"
    cluster.pumps["a"].stop()
    assert client.prewrite(3, b"P") == "b"


def test_an_end_waits_for_its_pump_to_come_back(cluster: Cluster) -> None:
    client = cluster.client(strategy="hash", end_max_s=PATIENCE_S)
    assert client.prewrite(0, b"P") == "a"
    cluster.pumps["a"].stop()
    with ThreadPoolExecutor(1) as ending:
        ended = ending.submit(client.end, 0, b"C")
        cluster.pumps["a"].start()
        assert ended.result(PATIENCE_S)
    assert cluster.pumps["a"].kept == [b"P", b"C"]
    assert not cluster.pumps["b"].kept


def test_an_end_that_its_pump_never_takes_is_given_up_and_reported(cluster: Cluster) -> None:
    client = cluster.client(strategy="hash")
    client.prewrite(0, b"P")
    cluster.pumps["a"].failing = refused
    assert not client.end(0, b"C")
    assert [pump.kept for pump in cluster.pumps.values()] == [[b"P"], [], []]
    with pytest.raises(KeyError):
        client.end(0, b"C")


def test_a_pump_that_fails_again_and_again_is_not_chosen_until_it_answers_a_probe(cluster: Cluster) -> None:
    client = cluster.client(strategy="hash", probe_every_s=3600.0)
    cluster.pumps["a"].failing = refused
    for ts in range(0, 3 * (ERRORS_MAX + 1), 3):
        assert client.prewrite(ts, b"P") != "a"
    assert client.available() == ["b", "c"]
    before = cluster.pumps["a"].asked
    assert {client.prewrite(ts, b"P") for ts in range(1000, 1006)} == {"b", "c"}
    client.probe()
    assert (client.available(), cluster.pumps["a"].asked) == (["b", "c"], before + 1)
    cluster.pumps["a"].failing = None
    client.probe()
    assert client.available() == ["a", "b", "c"]
    assert not cluster.pumps["a"].kept


def test_probes_come_by_themselves(cluster: Cluster) -> None:
    client = cluster.client(strategy="hash")
    cluster.pumps["a"].failing = refused
    for ts in range(0, 3 * (ERRORS_MAX + 1), 3):
        client.prewrite(ts, b"P")
    cluster.pumps["a"].failing = None
    eventually(lambda: client.available() == ["a", "b", "c"])


def test_pumps_that_are_not_online_take_no_prewrites_and_new_ones_do(cluster: Cluster) -> None:
    client = cluster.client()
    cluster.pumps["a"].register(PAUSED)
    eventually(lambda: client.available() == ["b", "c"])
    cluster.pumps["d"] = Pump("d", cluster.nodes)
    eventually(lambda: client.available() == ["b", "c", "d"])
    cluster.pumps["a"].register(ONLINE)
    eventually(lambda: client.available() == ["a", "b", "c", "d"])


def test_when_no_pump_takes_it_the_transaction_must_not_commit(cluster: Cluster) -> None:
    client = cluster.client(write_max_s=0.05)
    for pump in cluster.pumps.values():
        pump.failing = refused
    with pytest.raises(FeedLost, match=r"no pump took the prewrite binlog of transaction 5: .*no online: paused"):
        client.prewrite(5, b"P")
    assert all(pump.asked >= 2 for pump in cluster.pumps.values()), "all had their turn, and a last one"


def test_unavailable_pumps_are_the_last_resort(cluster: Cluster) -> None:
    client = cluster.client(write_max_s=0.05, probe_every_s=3600.0)
    for pump in cluster.pumps.values():
        pump.failing = aborted(grpc.StatusCode.UNKNOWN)
    for _ in range(2):
        with pytest.raises(FeedLost):
            client.prewrite(5, b"P")
    for pump in cluster.pumps.values():
        pump.failing = None
    assert client.prewrite(6, b"P") in cluster.pumps


def test_what_no_pump_can_take_is_not_tried_again(cluster: Cluster) -> None:
    client = cluster.client()
    for pump in cluster.pumps.values():
        pump.failing = aborted(grpc.StatusCode.RESOURCE_EXHAUSTED)
    with pytest.raises(FeedLost, match="RESOURCE_EXHAUSTED"):
        client.prewrite(5, b"P")
    assert sum(pump.asked for pump in cluster.pumps.values()) == 1


def test_an_answer_that_was_lost_leaves_the_prewrite_in_two_pumps(cluster: Cluster) -> None:
    first = cluster.pumps["a"]

    def keeps_and_fails(context: Any) -> Any:
        first.kept.append(b"P")
        context.abort(grpc.StatusCode.UNAVAILABLE, "answer lost")

    first.failing = keeps_and_fails
    client = cluster.client(strategy="hash")
    assert client.prewrite(0, b"P") == "b"
    assert [pump.kept for pump in cluster.pumps.values()] == [[b"P"], [b"P"], []]


def test_many_threads_write_at_once(cluster: Cluster) -> None:
    client = cluster.client()
    with ThreadPoolExecutor(8) as many:
        assert all(many.map(lambda ts: client.prewrite(ts, b"P%d" % ts) and client.end(ts, b"C%d" % ts), range(200)))
    for pump in cluster.pumps.values():
        at = {payload: place for place, payload in enumerate(pump.kept)}
        assert all(at[b"P" + payload[1:]] < place for payload, place in at.items() if payload.startswith(b"C"))
    assert sum(len(pump.kept) for pump in cluster.pumps.values()) == 400


def test_a_registry_that_is_away_changes_nothing(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    client = cluster.client()
    away = [0]

    def lost() -> Sequence[Node]:
        away[0] += 1
        raise CoordinationLost("etcd does not answer", hint="wait")

    monkeypatch.setattr(client, "_read", lost)
    eventually(lambda: away[0] > 2)
    assert all(one != other for one, other in pairwise(client.prewrite(ts, b"P") for ts in range(4)))


def test_a_pump_that_is_back_is_written_to_though_a_previous_connection_to_it_waits_before_it_tries_again() -> None:
    """gRPC gives channels with the same options one connection, which waits for seconds once it was refused."""
    (port,) = free_ports(1)
    host = f"127.0.0.1:{port}"
    nodes = {"a": Node("a", host, ONLINE, CommitTs(0), CommitTs(0))}
    held = []

    def connect(host: str, options: Any) -> Any:
        held.append(grpc.insecure_channel(host, options))
        return Keeping(held[-1])

    with closing(
        PumpClient(lambda: list(nodes.values()), connect, CLUSTER_ID, WriteSettings(write_max_s=0.3, probe_every_s=PATIENCE_S))
    ) as client:
        for _ in range(3):
            with pytest.raises(FeedLost, match="no pump took"):
                client.prewrite(1, b"P")
        pump = Pump("a", nodes, port)
        try:
            assert client.prewrite(2, b"P") == "a"
        finally:
            pump.stop()
    for channel in held:
        channel.close()


class Keeping:
    """A channel that its owner's `close` leaves open, as one is that a write holds."""

    def __init__(self, channel: Any) -> None:
        self._channel = channel

    def __getattr__(self, name: str) -> Any:
        return getattr(self._channel, name)

    def close(self) -> None: ...


def test_without_any_pump_nothing_begins() -> None:
    with pytest.raises(FeedLost, match="names no pump"):
        PumpClient(list, grpc.insecure_channel, CLUSTER_ID)
