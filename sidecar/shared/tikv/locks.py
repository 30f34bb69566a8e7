"""Locks that dead clients left are resolved as every client of TiKV does it, for they hold back the resolved ts of their region.

    a lock ──primary──► alive, its TTL is not over         left alone; the caller receives what it waits for
                        committed, rolled back             so is the lock
                        TTL over, or gone without an end   TiKV rolls the primary back first, and then so is the lock
                        TTL over, async commit             all its keys have their locks: committed, at the highest min_commit_ts
                                                           of them; one lock is missing: what became of that one

- Nothing is decided here that TiKV does not decide: the primary's TTL, at a timestamp of PD's, says who is dead. A transaction that
  lives is not even changed (caller_start_ts 0). A primary that is not there yet counts as alive for the TTL of the lock.
- Only what holds a resolved ts is touched: locks of puts and deletes, in the keys that are pulled, of transactions that began no
  later than HOLDERS_S after it; of an async commit all its other keys, too.
- Each step may be done again, by anybody, at any time: an error leaves nothing half done.
- 1PC leaves no locks. Those of file-based transactions are left alone.

From client-go txnkv/txnlock/lock_resolver.go; tikv src/storage/txn/actions/check_txn_status.rs, commands/check_secondary_locks.rs,
components/cdc/src/delegate.rs (which locks hold a resolved ts); ticdc logservice/txnutil/lock_resolver.go.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple, NoReturn

from sidecar.shared.errors import MessageUnreadable
from sidecar.shared.model.nouns import CommitTs
from sidecar.shared.rowcodec.key_values import KeyRange
from sidecar.shared.tikv.kv import LOCKS_MAX, KvCalls
from ticdc_dump.tikv import kvrpcpb_pb2

HOLDERS_S = 4
"""As TiCDC scans (logservice/logpuller, resolveLockFence): a lock that began much later does not hold this resolved ts."""

_PHYSICAL_SHIFT = 18

_HOLDING = (kvrpcpb_pb2.Put, kvrpcpb_pb2.Del)

_ROLLED_BACK = (kvrpcpb_pb2.NoAction, kvrpcpb_pb2.TTLExpireRollback, kvrpcpb_pb2.LockNotExistRollback)
"""The actions that go with the end of a transaction, as TiKV reports it; the others leave it open."""


class LockFate(NamedTuple):
    """How a transaction ended; `commit_ts` 0: rolled back. `keys`: those of an async commit, to be ended first and in this order."""

    commit_ts: int
    keys: Sequence[bytes] = ()


class LockOutcome(NamedTuple):
    """`resolved` locks. `waits_for`: the first transaction that is left alone, empty: none."""

    resolved: int
    waits_for: str


def physical_ms(ts: int) -> int:
    return ts >> _PHYSICAL_SHIFT


class LockResolver:
    """For one look at a moment, `now_ts`, a timestamp of PD's. What it learns of transactions that have ended it keeps."""

    def __init__(self, calls: KvCalls, now_ts: CommitTs) -> None:
        self._calls = calls
        self._now_ts = now_ts
        self._fates: dict[int, LockFate] = {}

    def resolve(self, held: KeyRange, resolved_ts: CommitTs) -> LockOutcome:
        """Ends what holds these keys at `resolved_ts`. Raises FeedLost, FeedUnsuitable, MessageUnreadable."""
        max_ts = resolved_ts + (HOLDERS_S * 1000 << _PHYSICAL_SHIFT)
        resolved, reason = 0, ""
        for part, region in self._calls.parts(held):
            at = part.start
            while at < part.end:
                locks = self._calls.scan_locks(region, KeyRange(at, part.end), max_ts=max_ts)
                ended, left = self._settle(locks)
                resolved, reason = resolved + ended, reason or left
                if len(locks) < LOCKS_MAX or left:  # a large transaction that lives may have any number of locks
                    break
                at = locks[-1].key + b"\0"
        return LockOutcome(resolved, reason)

    def _settle(self, locks: Sequence[Any]) -> LockOutcome:
        transactions: dict[int, list[Any]] = defaultdict(list)
        for lock in locks:
            if lock.lock_type in _HOLDING:
                transactions[lock.lock_version].append(lock)
        resolved, reason = 0, ""
        for start_ts, mine in transactions.items():
            fate = self._fates.get(start_ts) or self._fate(max(mine, key=lambda lock: lock.lock_ttl))
            if isinstance(fate, str):
                reason = reason or fate
                continue
            for region, keys in self._calls.by_region([*fate.keys, *(lock.key for lock in mine)]):
                self._calls.end(region, keys, start_ts, commit_ts=fate.commit_ts)
            self._fates[start_ts] = LockFate(fate.commit_ts)
            resolved += len(mine)
        return LockOutcome(resolved, reason)

    def _fate(self, lock: Any) -> LockFate | str:
        """Or why nobody may end the transaction yet. `lock`: of its locks one with the longest TTL."""
        if lock.is_txn_file:
            return waits_for(lock, lock.lock_ttl, ", a file-based transaction, which ticdc-dump leaves alone")
        status = self._calls.transaction(lock, self._now_ts)
        if status is None:
            if not self._is_over(lock, lock.lock_ttl):
                return waits_for(lock, lock.lock_ttl, ", whose primary is not there yet")
            status = self._calls.transaction(lock, self._now_ts, rolls_back_if_gone=True)
        if status.lock_info.use_async_commit and self._is_over(lock, status.lock_ttl):
            fate = self._fate_of_async(lock, status.lock_info)
            if fate is not None:
                return fate
            status = self._calls.transaction(lock, self._now_ts, as_sync=True)
            if status is None:
                return waits_for(lock, lock.lock_ttl, ", whose primary has just gone")
        if status.lock_ttl:
            return waits_for(lock, status.lock_ttl)
        if not status.commit_version and status.action not in _ROLLED_BACK:
            _refuse(lock, f"neither locked nor ended: {kvrpcpb_pb2.Action.Name(status.action)}")
        return _fate(lock, status.commit_version)

    def _fate_of_async(self, lock: Any, primary: Any) -> LockFate | None:
        """None: it has fallen back to a commit in two phases."""
        commit_ts, is_ended, keys = primary.min_commit_ts, False, [lock.primary_lock]
        for region, region_keys in self._calls.by_region(primary.secondaries):
            answer = self._calls.secondaries(region, region_keys, lock.lock_version)
            if len(answer.locks) < len(region_keys):
                if (is_ended and answer.commit_ts != commit_ts) or 0 < answer.commit_ts < commit_ts:
                    _refuse(lock, f"committed at {answer.commit_ts} and at {commit_ts} (0: rolled back)")
                commit_ts, is_ended = answer.commit_ts, True
                continue
            if any(it.lock_version != lock.lock_version for it in answer.locks):
                _refuse(lock, f"said to have locks of others: {sorted({it.lock_version for it in answer.locks})}")
            if not all(it.use_async_commit for it in answer.locks):
                return None
            keys += [it.key for it in answer.locks]
            if not is_ended:
                commit_ts = max(commit_ts, *(it.min_commit_ts for it in answer.locks))
        if not commit_ts and not is_ended:
            _refuse(lock, "an async commit without a min_commit_ts")
        return _fate(lock, commit_ts, keys)

    def _is_over(self, lock: Any, ttl_ms: int) -> bool:
        """As TiKV sees it."""
        return physical_ms(lock.lock_version) + ttl_ms < physical_ms(self._now_ts)


def _fate(lock: Any, commit_ts: int, keys: Sequence[bytes] = ()) -> LockFate:
    if 0 < commit_ts <= lock.lock_version:
        _refuse(lock, f"committed at {commit_ts}, before it began")
    return LockFate(commit_ts, keys)


def waits_for(lock: Any, ttl_ms: int, more: str = "") -> str:
    """What a reader of the lock's key does."""
    since = datetime.fromtimestamp(physical_ms(lock.lock_version) / 1000, UTC)
    begun = f"transaction {lock.lock_version}, which began at {since:%Y-%m-%d %H:%M:%S} UTC"
    return f"waits for a lock of {begun}, primary {lock.primary_lock.hex()}, TTL {ttl_ms} ms{more}"


def _refuse(lock: Any, what: str) -> NoReturn:
    raise MessageUnreadable(
        f"transaction {lock.lock_version}, primary {lock.primary_lock.hex()}, is {what}",
        hint="its locks are left as they are; report this with the TiKV version",
    )
