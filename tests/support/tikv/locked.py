"""A cluster whose resolved ts is held by locks: a transaction is prewritten, and maybe never ended by who began it."""

from __future__ import annotations

from collections.abc import Iterable

from sidecar.shared.rowcodec.key_values import KeyRange
from sidecar.shared.rowcodec.kv_matcher import COMMIT, PREWRITE, ROLLBACK
from tests.support.tikv.cluster import Cluster
from tests.support.tikv.recorded import History, LogRow
from tests.support.tikv.server import TSO_PHYSICAL_MS
from tests.support.tikv.transactions import Lock


def ts(before_now_s: float, logical: int = 0) -> int:
    """A timestamp so long before PD's."""
    return (TSO_PHYSICAL_MS - int(before_now_s * 1000) << 18) + logical


class LockedCluster(Cluster):
    """Everything is resolved up to PD's time but for locks. Nothing comes twice."""

    observed_earlier_max = 1

    def __init__(self, *, keys_of_splits: Iterable[bytes] = (), stores: int = 2) -> None:
        self._log: list[LogRow] = []
        super().__init__(History(self._log, (), {}), keys_of_splits=keys_of_splits, stores=stores)
        self.transactions.ended = self._ended

    def prewrite(self, *locks: Lock) -> None:
        with self.changed:
            self.transactions.lock(*locks)
            self._play(LogRow(PREWRITE, it.key, it.start_ts, 0, it.value, b"") for it in locks)

    def finish(self, key: bytes, commit_ts: int) -> None:
        """By who began the transaction."""
        with self.changed:
            self.transactions.end(key, commit_ts)

    def _ended(self, lock: Lock, commit_ts: int) -> None:
        self._play([LogRow(COMMIT if commit_ts else ROLLBACK, lock.key, lock.start_ts, commit_ts, lock.value, b"")])

    def _play(self, rows: Iterable[LogRow]) -> None:
        self._log += rows
        self.advance(len(self._log) - self.position)

    def resolved_ts(self, range_: KeyRange) -> int:
        return min(self.transactions.holders(range_.__contains__), default=ts(0))

    def earlier_ts(self) -> int:
        return 1
