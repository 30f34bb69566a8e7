"""What a made cluster returns for a read at a timestamp: the newest version at or below it of each key, as its log has them so far.

A lock of a transaction that began by then stands in place of its key's pair, where it may be a part of the snapshot yet: those of the log,
which end as it advances, and those of dead clients. Written from tikv src/storage/mvcc/reader/scanner/forward.rs.
"""

from __future__ import annotations

from typing import Any

from sidecar.shared.rowcodec.kv_matcher import COMMIT, COMMITTED
from tests.support.tikv.cluster import Cluster
from tests.support.tikv.recorded import History, LogRow
from ticdc_dump.tikv import kvrpcpb_pb2 as kv

TTL_MS = 1 << 40
"""Of a lock of the log: its client lives."""


def newest(history: History, position: int, version: int) -> dict[bytes, bytes]:
    """The slow rule: values by key, of the log before `position`."""
    rows: dict[bytes, LogRow] = {}
    for row in history.log[:position]:
        if (
            row.kind in (COMMIT, COMMITTED)
            and row.commit_ts <= version
            and (row.key not in rows or rows[row.key].commit_ts < row.commit_ts)
        ):
            rows[row.key] = row
    return {key: row.value for key, row in rows.items() if row.value}


class Snapshots:
    """Of one cluster, whose `changed` is held. `locks_in_memory`: for the next reads, one each: an async commit's, before it is written."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._known: tuple[tuple[int, int], list[tuple[bytes, bytes]]] | None = None
        self.locks_in_memory: list[Any] = []

    def scan(self, request: Any) -> Any:
        if self.locks_in_memory:
            return kv.ScanResponse(error=kv.KeyError(locked=self.locks_in_memory.pop(0)))
        low, high = (request.end_key, request.start_key) if request.reverse else (request.start_key, request.end_key)
        pairs = {key: kv.KvPair(key=key, value=value) for key, value in self._rows(request.version) if low <= key < high}
        for lock in self.locks(request.version):
            if low <= lock.key < high:
                pairs[lock.key] = kv.KvPair(error=kv.KeyError(locked=lock))
        return kv.ScanResponse(pairs=[pairs[key] for key in sorted(pairs, reverse=request.reverse)[: request.limit]])

    def locks(self, version: int) -> list[Any]:
        of_log = [
            kv.LockInfo(
                primary_lock=row.key, lock_version=row.start_ts, key=row.key, lock_ttl=TTL_MS, lock_type=kv.Put if row.value else kv.Del
            )
            for row in self._cluster.open_rows()
            if row.start_ts <= version
        ]
        dead = self._cluster.transactions.locks.values()
        return of_log + [it.info() for it in dead if it.start_ts <= version and it.kind in (kv.Put, kv.Del)]

    def _rows(self, version: int) -> list[tuple[bytes, bytes]]:
        place = (self._cluster.position, version)
        if self._known is None or self._known[0] != place:
            self._known = place, list(newest(self._cluster.history, *place).items())
        return self._known[1]
