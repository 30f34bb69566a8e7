"""The TiKV feed against a cluster of real gRPC servers that plays a recording: all that was recorded arrives, no mark passes an entry
that did not come, the end is reached; whatever happens to regions, stores, streams and PD meanwhile. What cannot be used is named.

A cluster and its puller are made for each test, on free ports; a failing seed is replayed by its number in the test's name, threads
permitting.
"""

from __future__ import annotations

import random
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import grpc
import pytest

from sidecar.feeds.tikv import gc as tikv_gc
from sidecar.feeds.tikv import lock_watch as tikv_lock_watch
from sidecar.feeds.tikv.puller import TikvPuller
from sidecar.shared.config import Tls
from sidecar.shared.errors import ConfigError, FeedLost, FeedUnsuitable, MessageUnreadable
from sidecar.shared.model.nouns import CommitTs, physical_ms
from sidecar.shared.rowcodec.key_values import KeyRange, KvEntry, Pulled
from sidecar.shared.rowcodec.kv_matcher import COMMIT, COMMITTED, PUT
from sidecar.shared.tikv.pd import PdClient
from sidecar.shared.tikv.regions import encoded
from tests.support.eventually import PATIENCE_S
from tests.support.services.tls import Authority
from tests.support.tikv.cluster import CLUSTER_ID, Cluster, Row
from tests.support.tikv.faults import Faults
from tests.support.tikv.locked import LockedCluster, ts
from tests.support.tikv.reader import Reader
from tests.support.tikv.recorded import History, history, joined
from tests.support.tikv.server import TikvServers
from tests.support.tikv.transactions import Lock
from ticdc_dump.tikv import cdcpb_pb2, errorpb_pb2, kvrpcpb_pb2

pytestmark = pytest.mark.recordings

STEPS = 60
FAULT_PART = 0.25


@dataclass
class Made:
    cluster: Cluster
    servers: TikvServers
    puller: TikvPuller
    reader: Reader

    def until(self, done: Callable[[], bool]) -> None:
        """Polls until it is so."""
        until_s = time.monotonic() + PATIENCE_S
        while not done():
            self.reader.poll()
            assert time.monotonic() < until_s, f"not within {PATIENCE_S} s: {self.puller.view()}"

    def without_polling(self, done: Callable[[], bool]) -> None:
        until_s, never = time.monotonic() + PATIENCE_S, threading.Event()
        while not done():
            never.wait(0.01)  # a queue that fills tells nobody
            assert time.monotonic() < until_s, f"not within {PATIENCE_S} s: {self.puller.view()}"

    def served(self) -> bool:
        view = self.puller.view()
        return view.unserved == 0 and 0 < view.regions == view.initialized

    def read_all(self) -> None:
        end_ts = self.cluster.history.end_ts
        self.until(lambda: self.reader.frontier() >= end_ts)
        left = [it for missing in self.reader.missing.values() for it in missing if it.commit_ts <= end_ts]
        assert not left, f"{len(left)} entries did not come"


@contextmanager
def made(played: History, *, seed: int = 0, stores: int = 2, **settings: float) -> Iterator[Made]:
    cluster = Cluster(played, seed=seed, stores=stores)
    with TikvServers(cluster) as servers:
        puller = TikvPuller(servers.section(**settings), name="default/test")
        try:
            reader = Reader(puller, played, played.ranges)
            puller.want(played.ranges)
            yield Made(cluster, servers, puller, reader)
        finally:
            puller.close()


def play(it: Made, *, seed: int) -> list[str]:
    """Moves the cluster to its end, with faults by the way; about every second time all is served again before it goes on."""
    choice, faults, happened = random.Random(seed), Faults(it.servers, seed=seed), []
    while not it.cluster.is_at_end:
        if choice.random() < FAULT_PART:
            happened.append(faults.happen())
        it.cluster.advance(choice.randrange(1, 2 * len(it.cluster.history.log) // STEPS))
        if choice.random() < 0.5:
            it.until(it.served)
        else:
            it.reader.poll()
    return happened


# ---- all of it arrives ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["demo", "shop", "ddl", "restart"])
def test_what_the_history_reports_is_what_was_recorded(name: str) -> None:
    played = history(name)
    reported = {it for range_, from_ts in played.ranges.items() for it in played.writes(range_, from_ts)}
    assert reported == {it._replace(region=0) for _, it in joined(name).entries}


@pytest.mark.parametrize("name", ["shop", "ddl", "restart"])
def test_a_recording_arrives_whole(name: str) -> None:
    with made(history(name)) as it:
        it.until(it.served)
        while not it.cluster.is_at_end:
            it.cluster.advance(1_000)
            it.reader.poll()
        it.read_all()
        assert it.reader.repeats == 0


@pytest.mark.parametrize("seed", range(20))
def test_the_small_recording_arrives_whole_whatever_happens(seed: int) -> None:
    with made(history("demo"), seed=seed, stores=3) as it:
        assert play(it, seed=seed)
        it.read_all()


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", ["shop", "ddl", "restart"])
def test_a_recording_arrives_whole_whatever_happens(name: str, seed: int) -> None:
    with made(history(name), seed=seed, stores=3) as it:
        assert play(it, seed=seed)
        it.read_all()


def test_keys_with_a_keyspace_pass_as_they_are() -> None:
    prefix, bare = b"x\x00\x00\x07", history("demo")
    played = History(
        tuple(row._replace(key=prefix + row.key) for row in bare.log),
        bare.resolved,
        {KeyRange(prefix + range_.start, prefix + range_.end): ts for range_, ts in bare.ranges.items()},
    )
    with made(played) as it:
        it.cluster.split(played.log[100].key)
        it.cluster.advance(len(played.log))
        it.read_all()


# ---- regions and stores ---------------------------------------------------------------------------------------------


def test_a_region_goes_on_from_its_own_resolved_ts() -> None:
    with made(history("demo")) as it:
        it.cluster.advance(2_000)
        it.until(lambda: it.reader.frontier() >= it.cluster.history.resolved[2_000])
        before = len(it.servers.registered)
        it.cluster.break_streams()
        it.until(lambda: it.served() and len(it.servers.registered) >= before + len(it.reader.wanted))
        assert {request.checkpoint_ts for request in it.servers.registered[before:]} == {it.cluster.history.resolved[2_000]}


def test_a_split_range_is_pulled_in_parts_and_a_merged_one_again_as_one() -> None:
    played = history("demo")
    with made(played) as it:
        it.until(it.served)
        keys = sorted({row.key for row in played.log if row.key in max(played.ranges, key=lambda one: len(it.reader.expected[one]))})
        for key in keys[10::100]:
            it.cluster.split(key)
        it.cluster.advance(1_000)
        it.until(lambda: it.served() and it.puller.view().regions > len(played.ranges))
        while len(it.cluster.regions) > 1:
            it.cluster.merge(0)
        it.cluster.advance(len(played.log))
        it.read_all()


def test_a_store_that_is_gone_is_left_for_the_new_leader() -> None:
    with made(history("demo")) as it:
        it.until(it.served)
        it.servers.stop_store(1)
        it.cluster.advance(1_000)
        it.until(lambda: it.puller.view().unserved > 0)
        it.cluster.lead(0, 2)
        it.cluster.advance(len(it.cluster.history.log))
        it.read_all()
        assert it.puller.view().stores == (it.servers.addresses[2],)


def test_pd_members_may_stop_and_lead_in_turn() -> None:
    with made(history("demo")) as it:
        it.until(it.served)
        it.cluster.pd_leader = 1
        it.servers.stop_pd(0)
        it.cluster.break_streams()
        it.cluster.advance(len(it.cluster.history.log))
        it.read_all()


def test_what_is_served_goes_on_while_pd_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tikv_gc, "RENEW_EVERY_S", 0.05)
    with made(history("demo")) as it:
        it.until(it.served)
        it.puller._router._outage_max_s = 0.2
        for number in range(2):
            it.servers.stop_pd(number)
        while not it.cluster.is_at_end:
            it.cluster.advance(200)
            it.reader.poll(timeout_s=0.05)
        it.read_all()


# ---- what is wanted -------------------------------------------------------------------------------------------------


def test_a_range_that_is_wanted_no_more_ends_and_the_others_go_on() -> None:
    played = history("demo")
    with made(played) as it:
        it.cluster.advance(1_000)
        it.until(it.served)
        it.reader.want_no_more(next(iter(played.ranges)))
        left = len(played.ranges) - 1
        it.until(lambda: all(len(session.subscriptions) == left for session in it.cluster.sessions))
        it.cluster.advance(1_000)
        it.until(lambda: it.reader.frontier() >= played.resolved[2_000])
        assert it.puller.view().regions == left


def test_a_range_that_is_wanted_again_begins_where_it_is_said() -> None:
    """What is in the queue from before must not count: its marks are beyond the new beginning."""
    played = history("demo")
    with made(played) as it:
        it.cluster.advance(len(played.log))
        it.without_polling(lambda: it.puller.view().bytes_waiting > 0)
        it.puller.want({})
        it.puller.want(played.ranges)
        it.reader = Reader(it.puller, played, played.ranges)
        it.read_all()


def test_a_range_that_stays_wanted_stays_where_it_is() -> None:
    played = history("demo")
    with made(played) as it:
        it.cluster.advance(len(played.log))
        it.read_all()
        it.puller.want({range_: CommitTs(ts + 1) for range_, ts in played.ranges.items()})
        it.cluster.break_streams()
        it.until(lambda: len(it.servers.registered) >= 2 * len(played.ranges))
        assert {request.checkpoint_ts for request in it.servers.registered[len(played.ranges) :]} == {played.end_ts}


def test_nothing_is_read_ahead_of_a_slow_consumer_beyond_the_bound() -> None:
    bytes_max = 60_000
    with made(history("demo"), queue_bytes_max=bytes_max) as it:
        it.cluster.advance(len(it.cluster.history.log))
        it.without_polling(lambda: it.puller.view().bytes_waiting > bytes_max // 2)
        while it.reader.frontier() < it.cluster.history.end_ts:
            assert it.puller.view().bytes_waiting <= bytes_max
            it.reader.poll()
        it.read_all()


# ---- garbage collection ---------------------------------------------------------------------------------------------


def test_what_is_not_durable_yet_is_kept_from_garbage_collection() -> None:
    played = history("demo")
    first = min(played.ranges)
    mine = b"ticdc-dump-default/test"
    with made(played) as it:
        it.until(it.served)
        assert it.servers.safe_points[mine] == min(played.ranges.values()) - 1
        it.puller.acknowledge(dict.fromkeys(played.ranges, played.end_ts))
        it.puller.want({first: played.ranges[first]})
        it.puller.want(played.ranges)  # asked again at once
        it.until(it.served)
        assert it.servers.safe_points[mine] == min(played.ranges.values()) - 1, "the others begin anew"
        it.puller.acknowledge(dict.fromkeys(played.ranges, played.end_ts))
        it.puller.want({first: played.ranges[first], KeyRange(b"x", b"y"): played.end_ts})
        it.without_polling(lambda: it.servers.safe_points[mine] == played.end_ts - 1)


def test_versions_that_are_gone_are_named_before_anything_is_pulled() -> None:
    played = history("demo")
    with TikvServers(Cluster(played)) as servers:
        servers.safe_points[b"gc_worker"] = played.end_ts
        puller = TikvPuller(servers.section(), name="default/test")
        puller.want(played.ranges)
        try:
            with pytest.raises(FeedUnsuitable, match="may be gone"):
                puller.poll(timeout_s=PATIENCE_S)
            assert not servers.registered
        finally:
            puller.close()


# ---- locks of dead clients ------------------------------------------------------------------------------------------


PULLED = KeyRange(b"t1", b"t2")
DEAD_MS, ALIVE_MS = 3_000, 3_600_000


@dataclass
class Locked:
    cluster: LockedCluster
    servers: TikvServers
    puller: TikvPuller
    entries: list[KvEntry]
    upto: dict[KeyRange, CommitTs]

    def until(self, done: Callable[[], bool]) -> None:
        until_s = time.monotonic() + PATIENCE_S
        while not done():
            for event in self.puller.poll(timeout_s=0.02):
                if isinstance(event, Pulled):
                    self.upto[event.range] = event.upto_ts
                else:
                    self.entries.append(event)
            assert time.monotonic() < until_s, f"not within {PATIENCE_S} s: {self.puller.view()}"

    def at_end(self, number: int) -> bool:
        """The region at `number` of the two."""
        return self.upto.get((KeyRange(b"t1", b"t1_m"), KeyRange(b"t1_m", b"t2"))[number]) == ts(0)


@contextmanager
def locked(monkeypatch: pytest.MonkeyPatch, *locks: Lock) -> Iterator[Locked]:
    """Regions for t1, for t1_m and for the rest, led by two stores; `locks` are there when the puller comes."""
    monkeypatch.setattr(tikv_lock_watch, "LOOK_EVERY_S", 0.05)
    cluster = LockedCluster(keys_of_splits=[b"t1", b"t1_m"])
    cluster.lead(2, 2)
    cluster.prewrite(*locks)
    with TikvServers(cluster) as servers:
        puller = TikvPuller(servers.section(), name="default/test")
        try:
            puller.want({PULLED: CommitTs(ts(100))})
            yield Locked(cluster, servers, puller, [], {})
        finally:
            puller.close()


def test_a_region_goes_on_when_the_lock_of_a_dead_client_is_committed_as_its_primary_was(monkeypatch: pytest.MonkeyPatch) -> None:
    with locked(monkeypatch, Lock(b"s", ts(60), b"s", DEAD_MS), Lock(b"t1_b", ts(60), b"s", DEAD_MS)) as it:
        it.cluster.finish(b"s", ts(59))
        it.until(lambda: it.at_end(0) and it.at_end(1))
        assert [(entry.key, entry.start_ts, entry.commit_ts) for entry in it.entries] == [(b"t1_b", ts(60), ts(59))]
        it.until(lambda: it.puller.view().locks_resolved == 1)
        it.until(lambda: not it.puller.view().held)
        assert (it.puller.view().lock_errors, it.puller.view().last_lock_error) == (0, "")


def test_regions_go_on_when_a_dead_client_is_rolled_back(monkeypatch: pytest.MonkeyPatch) -> None:
    with locked(monkeypatch, *(Lock(key, ts(60), b"t1_b", DEAD_MS) for key in (b"t1_b", b"t1_r"))) as it:
        it.until(lambda: it.at_end(0) and it.at_end(1))
        assert not it.entries
        assert it.cluster.transactions.ends == {(ts(60), b"t1_b"): 0, (ts(60), b"t1_r"): 0}


def test_a_region_goes_on_when_a_dead_async_commit_is_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    primary = Lock(b"t1_b", ts(60), b"t1_b", DEAD_MS, is_async=True, min_commit_ts=ts(60, 7), secondaries=(b"t1_r",))
    with locked(monkeypatch, primary, Lock(b"t1_r", ts(60), b"t1_b", DEAD_MS, is_async=True, min_commit_ts=ts(60, 9))) as it:
        it.until(lambda: it.at_end(0) and it.at_end(1))
        assert {(entry.key, entry.commit_ts) for entry in it.entries} == {(b"t1_b", ts(60, 9)), (b"t1_r", ts(60, 9))}


def test_a_transaction_that_lives_is_waited_for_and_named_while_other_regions_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    with locked(monkeypatch, Lock(b"t1_b", ts(60), b"t1_b", ALIVE_MS)) as it:
        it.until(lambda: it.at_end(1) and bool(it.puller.view().held))
        looks = len(it.cluster.transactions.requests)
        it.until(lambda: len(it.cluster.transactions.requests) > looks + 4)
        (held,) = it.puller.view().held
        assert held == it.puller.view().slowest
        assert it.puller.view().locks_resolved == 0
        assert held.range == KeyRange(b"t1", b"t1_m")
        began = datetime.fromtimestamp(physical_ms(ts(60)) // 1000, UTC)
        lock = f"which began at {began:%Y-%m-%d %H:%M:%S} UTC, primary {b't1_b'.hex()}, TTL {ALIVE_MS} ms"
        assert held.waits_for == f"waits for a lock of transaction {ts(60)}, {lock}"
        it.cluster.finish(b"t1_b", ts(1))
        it.until(lambda: it.at_end(0) and not it.puller.view().held)
        assert [entry.commit_ts for entry in it.entries] == [ts(1)]


def test_locks_that_cannot_be_seen_to_are_reported_and_end_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    refused_ = kvrpcpb_pb2.ScanLockResponse(error=kvrpcpb_pb2.KeyError(abort="no such thing"))
    with locked(monkeypatch) as it:
        it.cluster.transactions.answers["KvScanLock"] = [refused_] * 3
        it.cluster.prewrite(Lock(b"t1_b", ts(60), b"t1_b", DEAD_MS))
        it.until(lambda: it.puller.view().lock_errors > 0 and bool(it.puller.view().held))
        assert "no such thing" in it.puller.view().last_lock_error
        assert "no such thing" in it.puller.view().held[0].waits_for
        it.until(lambda: it.at_end(0) and it.at_end(1))
        assert it.puller.view().lock_errors == 3
        it.until(lambda: not it.puller.view().held)


def test_pd_that_is_away_from_the_watch_is_reported_and_the_feed_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def away(pd: PdClient) -> CommitTs:
        raise FeedLost("PD's leader does not answer: for a test", hint="")

    with locked(monkeypatch, Lock(b"t1_b", ts(60), b"t1_b", DEAD_MS)) as it:
        with monkeypatch.context() as patched:
            patched.setattr(PdClient, "tso", away)
            it.until(lambda: it.puller.view().lock_errors > 1 and it.at_end(1))
            assert it.puller.view().last_lock_error == "PD's leader does not answer: for a test"
        it.until(lambda: it.at_end(0))


def test_a_region_that_is_late_for_less_than_the_bound_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    late_s = tikv_lock_watch.LATE_S
    with locked(monkeypatch, Lock(b"t1_b", ts(late_s), b"t1_b", 1), Lock(b"t1_r", ts(late_s + 0.001), b"t1_r", 1)) as it:
        it.until(lambda: it.at_end(1))
        looks = it.servers.timestamps
        it.until(lambda: it.servers.timestamps > looks + 3)
        assert it.cluster.transactions.locks.keys() == {b"t1_b"}
        regions = {region.id: region.start for region in it.cluster.regions}
        scanned = {regions[request.context.region_id] for request in it.cluster.transactions.asked("KvScanLock")}
        assert scanned == {encoded(b"t1_m")}


def test_of_one_look_so_many_regions_are_looked_at_and_all_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tikv_lock_watch, "REGIONS_MAX", 1)
    locks = [Lock(b"t1_b", ts(60), b"t1_b", ALIVE_MS), Lock(b"t1_r", ts(50), b"t1_r", DEAD_MS)]
    with locked(monkeypatch, *locks) as it:
        it.until(lambda: it.at_end(1))
        assert it.cluster.transactions.locks.keys() == {b"t1_b"}


def test_a_look_has_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tikv_lock_watch, "REGIONS_MAX", 1)
    with locked(monkeypatch, *(Lock(key, ts(60), key, ALIVE_MS) for key in (b"t1_b", b"t1_r"))) as it:
        it.until(lambda: len(it.cluster.transactions.asked("KvCheckTxnStatus")) >= 6)
        looks = [request.current_ts for request in it.cluster.transactions.asked("KvCheckTxnStatus")]
        assert len(looks) == len(set(looks)), "one part in each"
        assert len(it.puller.view().held) == 2


# ---- what cannot be used --------------------------------------------------------------------------------------------


def row(key: bytes, *, kind: int = COMMITTED, commit_ts: int = 1 << 62, value: bytes = b"value") -> Any:
    return Row(type=kind, key=key, start_ts=5, commit_ts=commit_ts, op_type=PUT, value=value)


def refused(it: Made, error: type[Exception], *reported: str) -> None:
    with pytest.raises(error) as raised:
        it.until(lambda: False)
    for text in reported:
        assert re.search(text, str(raised.value)), f"{text!r} is not in: {raised.value}"
    with pytest.raises(error):  # and it stays so
        it.puller.poll(timeout_s=0)


def test_a_key_that_was_not_requested_is_named() -> None:
    with made(history("demo")) as it:
        it.until(it.served)
        it.cluster.tell([row(b"\xffgarbage")])
        refused(it, MessageUnreadable, "region 1 ", b"\xffgarbage".hex(), "outside the range")


def test_a_commit_without_its_prewrite_is_named() -> None:
    played = history("demo")
    with made(played) as it:
        it.until(it.served)
        it.cluster.tell([row(played.log[0].key, kind=COMMIT, value=b"")])
        refused(it, MessageUnreadable, played.log[0].key.hex(), "start_ts 5", "without a prewrite|outside")


def test_a_commit_below_a_resolved_mark_is_named() -> None:
    played = history("demo")
    range_, from_ts = max(played.ranges.items(), key=lambda one: len(played.writes(*one)))
    with made(History(played.log, played.resolved, {range_: from_ts})) as it:
        it.cluster.advance(len(played.log))
        it.read_all()
        it.cluster.tell([row(next(iter(it.reader.expected[range_])).key, commit_ts=played.end_ts)])
        refused(it, MessageUnreadable, f"resolved to {played.end_ts}")


def test_a_store_of_another_cluster_is_named() -> None:
    with made(history("demo")) as it:
        it.cluster.store_cluster_ids[1] = 4711
        it.cluster.break_streams()
        refused(it, FeedUnsuitable, "store 1 ", "4711", str(CLUSTER_ID))


def test_pd_members_of_two_clusters_are_named() -> None:
    with made(history("demo")) as it:
        it.until(it.served)
        it.servers.pd_cluster_id = 4711
        it.cluster.break_streams()
        refused(it, FeedUnsuitable, "4711")


def test_what_the_store_cannot_do_is_named() -> None:
    with made(history("demo")) as it:
        it.until(it.served)
        it.cluster.end(0, cdcpb_pb2.Error(compatibility=cdcpb_pb2.Compatibility(required_version="6.2.0")))
        refused(it, FeedUnsuitable, "6.2.0")


def test_a_store_that_is_too_old_is_named() -> None:
    with made(history("demo")) as it:
        it.until(it.served)
        it.servers.versions[1] = "v6.5.3"
        it.cluster.break_streams()
        refused(it, FeedUnsuitable, "6.5.3")


def test_a_store_without_multiplexed_streams_is_named() -> None:
    with made(history("demo")) as it:
        it.until(it.served)
        it.servers.multiplexes = False
        it.cluster.break_streams()
        refused(it, FeedUnsuitable, "TiKV store 1 .*UNIMPLEMENTED", "upgrade")


def test_a_range_that_nobody_serves_is_named_after_the_outage() -> None:
    played = history("demo")
    with made(played) as it:
        it.until(it.served)
        it.puller._router._outage_max_s = 0.5
        it.servers.stop_store(1)
        refused(it, FeedLost, "nobody has served keys .*7480", "store 1 .*UNAVAILABLE")


def test_a_store_that_is_busy_for_ever_is_an_outage() -> None:
    with made(history("demo")) as it:
        it.until(it.served)
        it.puller._router._outage_max_s = 0.5
        it.cluster.refusals += [cdcpb_pb2.Error(server_is_busy=errorpb_pb2.ServerIsBusy(reason="scans"))] * 1_000
        it.cluster.break_streams()
        refused(it, FeedLost, "server_is_busy: scans")


def test_pd_that_does_not_answer_is_an_outage() -> None:
    with made(history("demo")) as it:
        it.until(it.served)
        it.puller._router._outage_max_s = 0.5
        for number in range(2):
            it.servers.stop_pd(number)
        it.cluster.break_streams()
        refused(it, FeedLost, "nobody has served", "PD has no leader that we can reach")


def test_a_request_that_the_store_has_already_is_made_again_under_another_number() -> None:
    with made(history("demo")) as it:
        it.cluster.refusals.append(cdcpb_pb2.Error(duplicate_request=cdcpb_pb2.DuplicateRequest(region_id=1)))
        it.cluster.advance(len(it.cluster.history.log))
        it.read_all()
        ids = [request.request_id for request in it.servers.registered]
        assert len(ids) == len(set(ids))


# ---- connections ----------------------------------------------------------------------------------------------------


def test_tls_with_a_certificate_of_ones_own(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    server, client = authority.sign("tikv"), authority.sign("ticdc-dump")
    pair = (server.key_file.read_bytes(), server.cert_file.read_bytes())
    ca = authority.ca_file.read_bytes()
    credentials = grpc.ssl_server_credentials([pair], root_certificates=ca, require_client_auth=True)
    played = history("demo")
    with TikvServers(Cluster(played), credentials=credentials) as servers:
        servers.cluster.advance(1_000)
        tls = Tls(ca_file=str(authority.ca_file), cert_file=str(client.cert_file), key_file=str(client.key_file))
        puller = TikvPuller(servers.section(tls=tls), name="default/test")
        try:
            puller.want(played.ranges)
            made_ = Made(servers.cluster, servers, puller, Reader(puller, played, played.ranges))
            made_.until(lambda: made_.reader.frontier() >= played.resolved[1_000])
        finally:
            puller.close()


def test_settings_that_cannot_be_used_are_refused_at_once() -> None:
    with TikvServers(Cluster(history("demo"))) as servers:
        section = servers.section()
        for wrong in (Tls(cert_file="a"), Tls(ca_file="a", cert_file="b"), Tls(ca_file="/nowhere")):
            with pytest.raises(ConfigError, match=r"tikv\.tls"):
                TikvPuller(servers.section(tls=wrong), name="default/test")
    with pytest.raises(ConfigError, match=r"tikv\.pd"):
        TikvPuller(type(section)(), name="default/test")


def test_closing_ends_every_thread_also_of_a_full_queue() -> None:
    with made(history("demo"), queue_bytes_max=10_000) as it:
        it.cluster.advance(len(it.cluster.history.log))
        it.until(lambda: it.puller.view().regions > 0)
        it.puller.close()
        assert it.puller.poll(timeout_s=0) == []
        own = [thread for thread in threading.enumerate() if re.match(r"tikv-(router|store|locks)", thread.name)]
        for thread in own:
            thread.join(PATIENCE_S)
        assert not [thread.name for thread in own if thread.is_alive()]
