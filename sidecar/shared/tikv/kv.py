"""TiKV's calls of a snapshot's rows, of locks and of ends of transactions, each to the leader of the region that has the keys. One try:
the caller calls again later.

- PD is queried for the region at each use: a remembered answer is old just when a region is in trouble.
- An answer of the region's that it cannot serve, and a store that cannot be reached, are FeedLost. What TiKV says of a key or a
  transaction and nobody expects is MessageUnreadable: no fate may be read out of such an answer.
- Keys of a keyspace (API v2) have it in front, and the request says so; TiKV refuses them otherwise.
- Not for several threads at once.

From tikv src/server/service/kv.rs, src/storage/mod.rs (check_api_version); client-go internal/locate.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import grpc

from sidecar.shared.errors import FeedLost, MessageUnreadable
from sidecar.shared.model.nouns import CommitTs
from sidecar.shared.rowcodec.key_values import KeyRange
from sidecar.shared.tikv.channel import Connect, refusal, status_text
from sidecar.shared.tikv.pd import PdClient, Store
from sidecar.shared.tikv.regions import Region, RegionPart, cut, holds
from ticdc_dump.tikv import kvrpcpb_pb2, metapb_pb2, tikvpb_pb2_grpc

CALL_MAX_S = 10.0
"""For one answer; a leader gives it in milliseconds, and after this the caller may request it again."""

SCAN_MAX_S = 60.0
"""For rows: a store that is busy takes its time (client-go's ReadTimeoutMedium)."""

LOCKS_MAX = 1024
"""Of one scan, as TiCDC asks."""

_KEYSPACE_MARK, _KEYSPACE_BYTES = b"x", 4


class KvCalls:
    """Locks are kvrpcpb.LockInfo. All raise FeedLost, FeedUnsuitable, MessageUnreadable."""

    def __init__(self, pd: PdClient, connect: Connect) -> None:
        self._pd = pd
        self._connect = connect
        self._channels: dict[str, Any] = {}
        self._stores: dict[int, Store] = {}
        self._closed = False

    def forget_stores(self) -> None:
        """PD is queried again for where they are."""
        self._stores.clear()

    def parts(self, wanted: KeyRange) -> Sequence[tuple[KeyRange, Region]]:
        return [(part.range, _served(part)) for part in cut(wanted, self._pd.regions(wanted.start, wanted.end))]

    def by_region(self, keys: Iterable[bytes]) -> Sequence[tuple[Region, list[bytes]]]:
        """Each key once, with those of its region; the first key's region first."""
        groups: list[tuple[Region, list[bytes]]] = []
        for key in dict.fromkeys(keys):
            mine = next((group for region, group in groups if holds(region, key)), None)
            if mine is not None:
                mine.append(key)
            else:
                groups.append((self._region(key), [key]))
        return groups

    def scan_locks(self, region: Region, within: KeyRange, *, max_ts: int) -> Sequence[Any]:
        """At most LOCKS_MAX, in the order of their keys, of transactions that began at `max_ts` or before. One alone where it stands in
        memory yet, as of an async commit that is being prewritten."""
        request = kvrpcpb_pb2.ScanLockRequest(max_version=max_ts, start_key=within.start, end_key=within.end, limit=LOCKS_MAX)
        answer = self._ask(region, "KvScanLock", request, within.start, answering_error="locked")
        return [answer.error.locked] if answer.HasField("error") else list(answer.locks)

    def rows(self, region: Region, within: KeyRange, *, read_ts: CommitTs, limit: int, reverse: bool = False) -> Any:
        """ScanResponse: at most `limit` pairs as of `read_ts`, in the order of their keys, from the last one down if `reverse`; where a
        lock stands, its error in place of a pair, or of them all. Blocks that are read drive nothing out of TiKV's cache."""
        start, end = (within.end, within.start) if reverse else within
        request = kvrpcpb_pb2.ScanRequest(start_key=start, end_key=end, limit=limit, version=read_ts, reverse=reverse)
        request.context.not_fill_cache = True
        request.context.priority = kvrpcpb_pb2.Low
        return self._ask(region, "KvScan", request, within.start, answering_error="locked")

    def transaction(self, lock: Any, now_ts: CommitTs, *, rolls_back_if_gone: bool = False, as_sync: bool = False) -> Any:
        """CheckTxnStatusResponse about `lock`'s transaction. TiKV rolls back one whose TTL is over, but no async commit unless
        `as_sync`. None: it has neither a primary lock nor an end, and has been given none, for want of `rolls_back_if_gone`."""
        request = kvrpcpb_pb2.CheckTxnStatusRequest(
            primary_key=lock.primary_lock,
            lock_ts=lock.lock_version,
            caller_start_ts=0,
            current_ts=now_ts,
            rollback_if_not_exist=rolls_back_if_gone,
            force_sync_commit=as_sync,
            verify_is_primary=True,
        )
        answering_error = "" if rolls_back_if_gone else "txn_not_found"
        answer = self._ask(self._region(lock.primary_lock), "KvCheckTxnStatus", request, lock.primary_lock, answering_error=answering_error)
        return None if answer.HasField("error") else answer

    def secondaries(self, region: Region, keys: Sequence[bytes], start_ts: int) -> Any:
        """CheckSecondaryLocksResponse. Ends the transaction, rolled back, if one of the keys has neither a lock nor an end."""
        request = kvrpcpb_pb2.CheckSecondaryLocksRequest(keys=keys, start_version=start_ts)
        return self._ask(region, "KvCheckSecondaryLocks", request, keys[0])

    def end(self, region: Region, keys: Sequence[bytes], start_ts: int, *, commit_ts: int) -> None:
        """Commits a transaction's locks of these keys, or rolls them back: `commit_ts` 0."""
        request = kvrpcpb_pb2.ResolveLockRequest(start_version=start_ts, commit_version=commit_ts, keys=keys)
        self._ask(region, "KvResolveLock", request, keys[0])

    def writes(self, key: bytes) -> Sequence[Any]:
        """kvrpcpb.MvccWrite of each transaction that ended at this key, as far as they are kept."""
        return list(self._ask(self._region(key), "MvccGetByKey", kvrpcpb_pb2.MvccGetByKeyRequest(key=key), key).info.writes)

    def close(self) -> None:
        """From any thread: what is under way ends as FeedLost, and so does what follows."""
        self._closed = True
        channels, self._channels = self._channels, {}
        for channel in list(channels.values()):
            channel.close()

    def _region(self, key: bytes) -> Region:
        return self.parts(KeyRange(key, key + b"\0"))[0][1]

    def _ask(self, region: Region, name: str, request: Any, key: bytes, *, answering_error: str = "") -> Any:
        """`answering_error`: the KeyError that is an answer."""
        assert region.leader_store is not None
        store = self._stores.get(region.leader_store) or self._pd.store(region.leader_store)
        if store is None:
            raise FeedLost(f"PD knows no store {region.leader_store}, which is to lead region {region.id}", hint=_SEE_STORES)
        self._stores[region.leader_store] = store
        where = f"TiKV store {store.id} ({store.address}), called for {name} of region {region.id},"
        request.context.MergeFrom(_context(region, key))
        channels = self._channels
        channel: Any = channels.get(store.address) or channels.setdefault(store.address, self._connect(store.address))
        if self._closed:
            channel.close()
            raise FeedLost(f"{where} is not called any more: its caller ends", hint=_SEE_STORES)
        try:
            stub = tikvpb_pb2_grpc.TikvStub(channel)  # type: ignore[no-untyped-call]  # generated without types
            answer = getattr(stub, name)(request, timeout=SCAN_MAX_S if name == "KvScan" else CALL_MAX_S)
        except ValueError as error:  # gRPC's, for a channel that has just been closed
            raise FeedLost(f"{where} was interrupted: {error}", hint=_SEE_STORES) from error
        except grpc.RpcError as error:
            channels.pop(store.address, None)
            channel.close()  # one that failed waits before it connects again
            self.forget_stores()
            raise refusal(error, where) or FeedLost(f"{where} does not answer: {status_text(error)}", hint=_SEE_STORES) from error
        if answer.HasField("region_error"):
            self.forget_stores()
            raise FeedLost(f"{where} cannot: {_text(answer.region_error)}", hint=_SEE_STORES)
        if isinstance(answer.error, str):
            said = answer.error
        elif not answer.HasField("error") or (answering_error and answer.error.HasField(answering_error)):
            return answer
        else:
            said = _text(answer.error)
        if said:
            raise MessageUnreadable(f"{where} says: {said}", hint=_REPORT)
        return answer


def _served(part: RegionPart) -> Region:
    if part.region is None:
        raise FeedLost(
            f"PD knows no region, or no leader of it, for keys [{part.range.start.hex()}, {part.range.end.hex()})", hint=_SEE_STORES
        )
    return part.region


def _context(region: Region, key: bytes) -> Any:
    context = kvrpcpb_pb2.Context(
        region_id=region.id,
        region_epoch=metapb_pb2.RegionEpoch(conf_ver=region.conf_ver, version=region.version),
        peer=metapb_pb2.Peer(id=region.leader_peer, store_id=region.leader_store),
        request_source="ticdc-dump",
    )
    if key.startswith(_KEYSPACE_MARK):
        context.api_version = kvrpcpb_pb2.V2
        context.keyspace_id = int.from_bytes(key[1:_KEYSPACE_BYTES])
    return context


def _text(error: Any) -> str:
    return " ".join(str(error).split()) or "an error of an unknown kind"


_SEE_STORES = "see PD and this TiKV store; the sidecar tries again automatically"
_REPORT = "end this transaction by reading its rows in TiDB; if it comes again, report this with the TiKV version"
