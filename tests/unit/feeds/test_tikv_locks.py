"""What becomes of a lock, by the state of its transaction, against stores that keep locks and ends as TiKV does. Above all: a
transaction that lives is left as it is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from sidecar.shared.errors import FeedLost, MessageUnreadable
from sidecar.shared.model.nouns import CommitTs
from sidecar.shared.rowcodec.key_values import KeyRange
from sidecar.shared.tikv import kv as tikv_kv
from sidecar.shared.tikv import locks as tikv_locks
from sidecar.shared.tikv.channel import connector
from sidecar.shared.tikv.kv import KvCalls
from sidecar.shared.tikv.locks import HOLDERS_S, LockOutcome, LockResolver
from sidecar.shared.tikv.pd import PdClient
from tests.support.tikv.locked import LockedCluster, ts
from tests.support.tikv.server import TikvServers
from tests.support.tikv.transactions import ROLLED_BACK, Lock
from ticdc_dump.tikv import kvrpcpb_pb2 as kv

PULLED = KeyRange(b"t1", b"t2")
PRIMARY, KEY, OTHER = b"s_primary", b"t1_b", b"t1_r"
"""In a region each. The primary is in no range that is pulled."""
START = ts(60)
SINCE = f"{datetime.fromtimestamp((START >> 18) / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
DEAD, ALIVE = 3_000, 120_000
COMMITTED = ts(59)


class Rig:
    def __init__(self, held: ExitStack) -> None:
        self.cluster = LockedCluster(keys_of_splits=[b"t1", b"t1_m"])
        for number in range(2):
            self.cluster.lead(number, number + 1)
        self.servers = held.enter_context(TikvServers(self.cluster))
        section = self.servers.section()
        pd = PdClient(section)
        held.callback(pd.close)
        self.calls = KvCalls(pd, connector(section.tls))
        held.callback(self.calls.close)
        self.of = self.cluster.transactions

    def resolve(self, resolved_ts: int = START, held: KeyRange = PULLED) -> LockOutcome:
        return LockResolver(self.calls, CommitTs(ts(0))).resolve(held, CommitTs(resolved_ts))

    def fates(self, *keys: bytes, start_ts: int = START) -> list[int | str]:
        return ["locked" if key in self.of.locks else self.of.ends.get((start_ts, key), "nothing") for key in keys]


@pytest.fixture
def rig() -> Iterator[Rig]:
    with ExitStack() as held:
        yield Rig(held)


def lock(key: bytes, ttl_ms: int = DEAD, **more: Any) -> Lock:
    return Lock(key, **{"start_ts": START, "primary": PRIMARY, "ttl_ms": ttl_ms, **more})


def asynchronous(key: bytes, ttl_ms: int = DEAD, *, min_commit_ts: int, **more: Any) -> Lock:
    return lock(key, ttl_ms, is_async=True, min_commit_ts=min_commit_ts, **more)


# ---- two phases -----------------------------------------------------------------------------------------------------


def test_nothing_is_found_where_no_lock_is(rig: Rig) -> None:
    assert rig.resolve() == (0, "")
    assert {name for name, _ in rig.of.requests} == {"KvScanLock"}


@pytest.mark.parametrize("end", [COMMITTED, ROLLED_BACK])
def test_locks_end_as_their_primary_did(rig: Rig, end: int) -> None:
    rig.cluster.prewrite(lock(PRIMARY, ALIVE), lock(KEY, ALIVE), lock(OTHER, ALIVE))
    rig.cluster.finish(PRIMARY, end)
    assert rig.resolve() == (2, "")
    assert rig.fates(PRIMARY, KEY, OTHER) == [end, end, end]
    assert len(rig.of.asked("KvCheckTxnStatus")) == 1, "its fate is known for all of its locks"


def test_a_transaction_whose_ttl_is_over_is_rolled_back(rig: Rig) -> None:
    rig.cluster.prewrite(lock(PRIMARY), lock(KEY), lock(OTHER))
    assert rig.resolve() == (2, "")
    assert rig.fates(PRIMARY, KEY, OTHER) == [ROLLED_BACK] * 3


def test_a_transaction_that_lives_is_left_as_it_is_and_named(rig: Rig) -> None:
    living = [lock(PRIMARY, ALIVE, min_commit_ts=START + 1), lock(KEY), lock(OTHER)]
    rig.cluster.prewrite(*living)
    resolved, waits_for = rig.resolve()
    assert (resolved, rig.of.locks, rig.of.ends) == (0, {it.key: it for it in living}, {})
    assert waits_for == f"waits for a lock of transaction {START}, which began at {SINCE}, primary {PRIMARY.hex()}, TTL {ALIVE} ms"


def test_a_ttl_of_this_very_millisecond_is_not_over(rig: Rig) -> None:
    rig.cluster.prewrite(lock(PRIMARY, 60_000), lock(KEY, 60_000))
    assert rig.resolve().resolved == 0
    rig.of.locks[PRIMARY] = replace(rig.of.locks[PRIMARY], ttl_ms=59_999)
    assert rig.resolve().resolved == 1


def test_a_primary_that_is_not_there_yet_has_the_ttl_of_the_lock(rig: Rig) -> None:
    rig.cluster.prewrite(lock(KEY, DEAD), lock(OTHER, ALIVE))
    rig.cluster.merge(1)
    resolved, waits_for = rig.resolve()
    assert (resolved, rig.of.ends) == (0, {})
    assert str(START) in waits_for
    assert "not there yet" in waits_for


def test_a_primary_that_never_came_is_rolled_back_for_good(rig: Rig) -> None:
    rig.cluster.prewrite(lock(KEY))
    assert rig.resolve() == (1, "")
    assert rig.fates(PRIMARY, KEY) == [ROLLED_BACK, ROLLED_BACK]


def test_one_transaction_that_lives_does_not_keep_another_that_is_dead(rig: Rig) -> None:
    rig.cluster.prewrite(lock(PRIMARY, ALIVE), lock(KEY), lock(b"t1_c", start_ts=START + 1, primary=b"t1_c"))
    resolved, waits_for = rig.resolve()
    assert (resolved, rig.fates(KEY)) == (1, ["locked"])
    assert rig.fates(b"t1_c", start_ts=START + 1) == [ROLLED_BACK]
    assert str(START) in waits_for


# ---- what is not touched --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [kv.Lock, kv.PessimisticLock, kv.SharedLock, kv.SharedPessimisticLock])
def test_locks_that_hold_no_resolved_ts_are_left(rig: Rig, kind: kv.Op) -> None:
    rig.cluster.prewrite(lock(KEY, kind=kind))
    assert rig.resolve() == (0, "")
    assert rig.fates(KEY, PRIMARY) == ["locked", "nothing"]


def test_locks_beside_the_range_or_long_after_its_resolved_ts_are_left(rig: Rig) -> None:
    later = ts(60 - HOLDERS_S, 1)
    rig.cluster.prewrite(lock(b"t0"), lock(b"t2"), lock(KEY, start_ts=later))
    assert rig.resolve() == (0, "")
    assert (set(rig.of.locks), rig.of.ends) == ({b"t0", b"t2", KEY}, {})


def test_a_file_based_transaction_is_left_and_named(rig: Rig) -> None:
    rig.cluster.prewrite(lock(KEY))
    info = rig.of.locks[KEY].info()
    info.is_txn_file = True
    rig.of.answers["KvScanLock"] = [kv.ScanLockResponse(locks=[info])]
    resolved, waits_for = rig.resolve()
    assert (resolved, rig.fates(KEY)) == (0, ["locked"])
    assert "file-based" in waits_for


# ---- async commit ---------------------------------------------------------------------------------------------------


def prewrite_async(rig: Rig, ttl_ms: int = DEAD, *, without: bytes = b"") -> None:
    locks = [
        asynchronous(PRIMARY, ttl_ms, min_commit_ts=START + 10, secondaries=(OTHER, KEY)),
        asynchronous(KEY, ttl_ms, min_commit_ts=START + 30),
        asynchronous(OTHER, ttl_ms, min_commit_ts=START + 20),
    ]
    rig.cluster.prewrite(*(it for it in locks if it.key != without))


def test_an_async_commit_with_all_its_locks_is_committed_at_the_highest_min_commit_ts(rig: Rig) -> None:
    prewrite_async(rig)
    assert rig.resolve(held=KeyRange(b"t1_m", b"t2")) == (1, "")
    assert rig.fates(PRIMARY, KEY, OTHER) == [START + 30] * 3, "also beside the range"
    assert rig.of.asked("KvResolveLock")[0].keys == [PRIMARY], "first the primary: whoever asks from then on is told"


def test_an_async_commit_of_one_key_is_committed_at_its_min_commit_ts(rig: Rig) -> None:
    rig.cluster.prewrite(asynchronous(KEY, min_commit_ts=START + 5, primary=KEY))
    assert rig.resolve() == (1, "")
    assert rig.fates(KEY) == [START + 5]


@pytest.mark.parametrize(("missing", "value"), [(KEY, OTHER), (OTHER, KEY)])
def test_an_async_commit_without_one_of_its_locks_is_rolled_back(rig: Rig, missing: bytes, value: bytes) -> None:
    prewrite_async(rig, without=missing)
    assert rig.resolve() == (1, "")
    assert rig.fates(PRIMARY, missing, value) == [ROLLED_BACK] * 3


@pytest.mark.parametrize(("ended", "left"), [(KEY, OTHER), (OTHER, KEY)])
def test_an_async_commit_that_has_begun_to_commit_goes_on_with_that_ts(rig: Rig, ended: bytes, left: bytes) -> None:
    prewrite_async(rig)
    rig.cluster.finish(ended, START + 40)
    assert rig.resolve() == (1, "")
    assert rig.fates(PRIMARY, ended, left) == [START + 40] * 3


def test_an_async_commit_that_lives_is_left_as_it_is(rig: Rig) -> None:
    prewrite_async(rig, ALIVE)
    before = dict(rig.of.locks)
    resolved, waits_for = rig.resolve()
    assert (resolved, rig.of.locks, rig.of.ends) == (0, before, {})
    assert not rig.of.asked("KvCheckSecondaryLocks"), "asking alone would end a transaction"
    assert f"{START}, which began at {SINCE}, primary {PRIMARY.hex()}, TTL {ALIVE} ms" in waits_for


def test_an_async_commit_lives_as_long_as_its_primary(rig: Rig) -> None:
    prewrite_async(rig)
    rig.of.locks[PRIMARY] = replace(rig.of.locks[PRIMARY], ttl_ms=60_000)
    assert rig.resolve().resolved == 0, "not over within this very millisecond"
    assert rig.fates(PRIMARY, KEY, OTHER) == ["locked"] * 3
    rig.of.locks[PRIMARY] = replace(rig.of.locks[PRIMARY], ttl_ms=59_999)
    assert rig.resolve() == (1, "")


def test_an_async_commit_that_ended_below_its_primarys_min_commit_ts_is_refused(rig: Rig) -> None:
    prewrite_async(rig)
    rig.cluster.finish(KEY, START + 9)
    with pytest.raises(MessageUnreadable, match=f"committed at {START + 9} and at "):
        rig.resolve()
    assert rig.fates(PRIMARY, OTHER) == ["locked"] * 2


def test_an_async_commit_that_fell_back_to_two_phases_is_rolled_back_with_its_primary(rig: Rig) -> None:
    prewrite_async(rig)
    rig.of.locks[OTHER] = replace(rig.of.locks[OTHER], is_async=False, min_commit_ts=0)
    assert rig.resolve() == (2, "")
    assert rig.fates(PRIMARY, KEY, OTHER) == [ROLLED_BACK] * 3


def test_two_ends_of_one_transaction_stop_it_there(rig: Rig) -> None:
    prewrite_async(rig)
    rig.cluster.finish(KEY, START + 40)
    rig.cluster.finish(OTHER, START + 41)
    rig.cluster.prewrite(asynchronous(b"t1_c", min_commit_ts=START + 1))
    with pytest.raises(MessageUnreadable, match=rf"transaction {START}.*committed at {START + 40} and at {START + 41}"):
        rig.resolve()
    assert rig.fates(PRIMARY, b"t1_c") == ["locked", "locked"]


def test_a_lock_of_another_transaction_says_nothing_of_this_one(rig: Rig) -> None:
    prewrite_async(rig)
    other = asynchronous(KEY, min_commit_ts=START + 99, start_ts=START + 1)
    rig.of.answers["KvCheckSecondaryLocks"] = [kv.CheckSecondaryLocksResponse(locks=[other.info()])]
    with pytest.raises(MessageUnreadable, match=rf"locks of others: \[{START + 1}\]"):
        rig.resolve()
    assert rig.fates(PRIMARY, KEY, OTHER) == ["locked"] * 3


def test_an_async_commit_without_a_ts_is_not_taken_for_one_that_was_rolled_back(rig: Rig) -> None:
    rig.cluster.prewrite(asynchronous(KEY, min_commit_ts=0, primary=KEY))
    with pytest.raises(MessageUnreadable, match="without a min_commit_ts"):
        rig.resolve()
    assert rig.fates(KEY) == ["locked"]


# ---- answers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("action", [kv.MinCommitTSPushed, kv.TTLExpirePessimisticRollback, kv.LockNotExistDoNothing])
def test_no_fate_is_read_out_of_an_answer_that_reports_none(rig: Rig, action: kv.Action) -> None:
    rig.cluster.prewrite(lock(KEY))
    rig.of.answers["KvCheckTxnStatus"] = [kv.CheckTxnStatusResponse(action=action)]
    with pytest.raises(MessageUnreadable, match=kv.Action.Name(action)):
        rig.resolve()
    assert rig.fates(KEY) == ["locked"]


def test_a_commit_before_the_beginning_is_refused(rig: Rig) -> None:
    rig.cluster.prewrite(lock(KEY))
    rig.of.answers["KvCheckTxnStatus"] = [kv.CheckTxnStatusResponse(commit_version=START)]
    with pytest.raises(MessageUnreadable, match="before it began"):
        rig.resolve()
    assert rig.fates(KEY) == ["locked"]


def test_an_error_about_a_key_is_reported_and_ends_nothing(rig: Rig) -> None:
    rig.cluster.prewrite(lock(KEY), lock(PRIMARY, primary=b"elsewhere"))
    with pytest.raises(MessageUnreadable, match=r"KvCheckTxnStatus of region \d+, says: primary_mismatch"):
        rig.resolve()
    assert rig.fates(KEY, PRIMARY) == ["locked", "locked"]


@pytest.mark.parametrize("name", ["KvScanLock", "KvCheckTxnStatus", "KvCheckSecondaryLocks", "KvResolveLock"])
def test_a_region_that_cannot_answer_is_requested_again_another_time(rig: Rig, name: str) -> None:
    prewrite_async(rig)
    answers = {"KvScanLock": kv.ScanLockResponse, "KvCheckTxnStatus": kv.CheckTxnStatusResponse, "KvResolveLock": kv.ResolveLockResponse}
    answer = answers.get(name, kv.CheckSecondaryLocksResponse)()
    answer.region_error.message = "merging"
    rig.of.answers[name] = [answer]
    with pytest.raises(FeedLost, match=f"{name}.*merging"):
        rig.resolve()
    assert rig.fates(PRIMARY, KEY, OTHER) == ["locked"] * 3
    assert rig.resolve() == (1, "")
    assert rig.fates(PRIMARY, KEY, OTHER) == [START + 30] * 3


def test_a_store_that_is_gone_is_queried_again_where_it_is_then(rig: Rig) -> None:
    rig.cluster.prewrite(lock(KEY))
    assert rig.resolve(resolved_ts=1) == (0, "")
    for store in rig.cluster.stores:
        rig.servers.stop_store(store)
    with pytest.raises(FeedLost, match="does not answer: UNAVAILABLE"):
        rig.resolve()
    for store in rig.cluster.stores:
        rig.servers.start_store(store)
    assert rig.resolve() == (1, "")


def test_locks_come_page_by_page(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (tikv_kv, tikv_locks):
        monkeypatch.setattr(module, "LOCKS_MAX", 3)
    keys = [b"t1_b%02d" % number for number in range(10)]
    rig.cluster.prewrite(*(lock(key) for key in keys))
    assert rig.resolve() == (10, "")
    assert rig.fates(*keys) == [ROLLED_BACK] * 10


def test_a_large_transaction_that_lives_is_not_read_to_its_end(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (tikv_kv, tikv_locks):
        monkeypatch.setattr(module, "LOCKS_MAX", 3)
    rig.cluster.prewrite(lock(PRIMARY, ALIVE), *(lock(b"t1_b%02d" % number) for number in range(10)))
    assert rig.resolve().resolved == 0
    assert len(rig.of.asked("KvScanLock")) == 2, "one page of each region"


def test_requests_for_a_keyspace_say_so_and_others_do_not(rig: Rig) -> None:
    key = b"x\x00\x00\x07t1_a"
    rig.cluster.prewrite(lock(KEY, primary=KEY), lock(key, primary=key))
    assert rig.resolve(held=KeyRange(b"x\x00\x00\x07t1", b"x\x00\x00\x07t2")) == (1, "")
    assert {(it.context.api_version, it.context.keyspace_id) for _, it in rig.of.requests} == {(kv.V2, 7)}
    rig.of.requests.clear()
    assert rig.resolve() == (1, "")
    assert {(it.context.api_version, it.context.HasField("region_epoch")) for _, it in rig.of.requests} == {(kv.V1, True)}
