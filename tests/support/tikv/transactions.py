"""What TiKV knows of transactions, as far as locks are resolved: one table of locks and one of ends, for all stores.

Written from tikv src/storage/txn (actions/check_txn_status.rs, commands/check_secondary_locks.rs, commands/resolve_lock_lite.rs):
what an answer changes is the point of it. `requests` are all that came, in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from ticdc_dump.tikv import kvrpcpb_pb2 as kv

ROLLED_BACK = 0


@dataclass(frozen=True)
class Lock:
    key: bytes
    start_ts: int
    primary: bytes
    ttl_ms: int
    kind: kv.Op = kv.Put
    value: bytes = b"value"
    is_async: bool = False
    min_commit_ts: int = 0
    secondaries: tuple[bytes, ...] = ()

    def info(self) -> Any:
        return kv.LockInfo(
            primary_lock=self.primary,
            lock_version=self.start_ts,
            key=self.key,
            lock_ttl=self.ttl_ms,
            lock_type=self.kind,
            use_async_commit=self.is_async,
            min_commit_ts=self.min_commit_ts,
            secondaries=self.secondaries,
        )

    def is_over(self, now_ts: int) -> bool:
        return (self.start_ts >> 18) + self.ttl_ms < now_ts >> 18


@dataclass
class Transactions:
    """`ended` receives each lock that goes, with its commit_ts. `answers`: in place of the next ones, by the name of the call."""

    locks: dict[bytes, Lock] = field(default_factory=dict)
    ends: dict[tuple[int, bytes], int] = field(default_factory=dict)
    requests: list[tuple[str, Any]] = field(default_factory=list)
    answers: dict[str, list[Any]] = field(default_factory=dict)
    ended: Callable[[Lock, int], None] = lambda lock, commit_ts: None

    def lock(self, *locks: Lock) -> None:
        for it in locks:
            assert it.key not in self.locks
            self.locks[it.key] = it

    def end(self, key: bytes, commit_ts: int) -> None:
        lock = self.locks.pop(key)
        self.ends[lock.start_ts, key] = commit_ts
        self.ended(lock, commit_ts)

    def asked(self, name: str) -> list[Any]:
        return [request for requested, request in self.requests if requested == name]

    def scan(self, request: Any) -> Any:
        locks = [
            it for key, it in sorted(self.locks.items()) if request.start_key <= key and (not request.end_key or key < request.end_key)
        ]
        results = [it.info() for it in locks if it.start_ts <= request.max_version]
        return kv.ScanLockResponse(locks=results[: request.limit or None])

    def check(self, request: Any) -> Any:
        lock, start_ts, key = self._mine(request.primary_key, request.lock_ts), request.lock_ts, request.primary_key
        if lock is None:
            return self._check_missing(start_ts, key, request)
        if request.verify_is_primary and lock.primary != key:
            return kv.CheckTxnStatusResponse(error=kv.KeyError(primary_mismatch=kv.PrimaryMismatch(lock_info=lock.info())))
        if lock.is_async and not request.force_sync_commit:
            return kv.CheckTxnStatusResponse(lock_ttl=lock.ttl_ms, lock_info=lock.info())
        if lock.is_over(request.current_ts):
            self.end(key, ROLLED_BACK)
            return kv.CheckTxnStatusResponse(action=kv.TTLExpireRollback)
        if lock.min_commit_ts and request.caller_start_ts >= lock.min_commit_ts:
            self.locks[key] = lock = replace(lock, min_commit_ts=request.caller_start_ts + 1)
        return kv.CheckTxnStatusResponse(lock_ttl=lock.ttl_ms, lock_info=lock.info())

    def _check_missing(self, start_ts: int, key: bytes, request: Any) -> Any:
        if (start_ts, key) in self.ends:
            return kv.CheckTxnStatusResponse(commit_version=self.ends[start_ts, key])
        if not request.rollback_if_not_exist:
            return kv.CheckTxnStatusResponse(error=kv.KeyError(txn_not_found=kv.TxnNotFound(start_ts=start_ts, primary_key=key)))
        self.ends[start_ts, key] = ROLLED_BACK
        return kv.CheckTxnStatusResponse(action=kv.LockNotExistRollback)

    def mvcc(self, request: Any) -> Any:
        """A rollback's commit_ts is its start_ts."""
        writes = [
            kv.MvccWrite(type=kv.Put if commit_ts else kv.Rollback, start_ts=start_ts, commit_ts=commit_ts or start_ts)
            for (start_ts, key), commit_ts in self.ends.items()
            if key == request.key
        ]
        return kv.MvccGetByKeyResponse(info=kv.MvccInfo(writes=writes))

    def check_secondaries(self, request: Any) -> Any:
        result = []
        for key in request.keys:
            lock = self._mine(key, request.start_version)
            if lock is None:
                return kv.CheckSecondaryLocksResponse(commit_ts=self.ends.setdefault((request.start_version, key), ROLLED_BACK))
            result.append(lock.info())
        return kv.CheckSecondaryLocksResponse(locks=result)

    def resolve(self, request: Any) -> Any:
        for key in request.keys:
            lock, place = self._mine(key, request.start_version), (request.start_version, key)
            if lock is not None:
                if lock.min_commit_ts > request.commit_version > 0:
                    return kv.ResolveLockResponse(error=kv.KeyError(abort="commit_ts is below min_commit_ts"))
                self.end(key, request.commit_version)
            elif self.ends.setdefault(place, request.commit_version) != request.commit_version:
                return kv.ResolveLockResponse(error=kv.KeyError(abort=f"{place} ended with {self.ends[place]}"))
        return kv.ResolveLockResponse()

    def _mine(self, key: bytes, start_ts: int) -> Lock | None:
        lock = self.locks.get(key)
        return lock if lock is not None and lock.start_ts == start_ts else None

    def holders(self, keys: Callable[[bytes], bool]) -> Iterable[int]:
        return (it.start_ts for it in self.locks.values() if it.kind in (kv.Put, kv.Del) and keys(it.key))
