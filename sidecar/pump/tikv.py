"""TiKV as the pump asks it: where a transaction's primary key was written, and how the transaction stands."""

from __future__ import annotations

from collections.abc import Sequence

from sidecar.pump.lost import LostStatus, LostWrite
from sidecar.shared.config import TikvSection
from sidecar.shared.model.nouns import CommitTs
from sidecar.shared.tikv.channel import connector
from sidecar.shared.tikv.kv import KvCalls
from sidecar.shared.tikv.pd import PdClient
from ticdc_dump.tikv import kvrpcpb_pb2


class TikvCalls:
    """Connections of its own. Raises FeedLost, FeedUnsuitable, MessageUnreadable."""

    def __init__(self, section: TikvSection) -> None:
        self._pd = PdClient(section, named="pump", tls="cluster_tls")
        self._calls = KvCalls(self._pd, connector(section.tls, named="pump.cluster_tls"))

    def mvcc_by_key(self, key: bytes) -> Sequence[LostWrite]:
        return [
            LostWrite(write.start_ts, 0 if write.type == kvrpcpb_pb2.Rollback else write.commit_ts) for write in self._calls.writes(key)
        ]

    def txn_status(self, key: bytes, start_ts: int, now_ts: CommitTs) -> LostStatus:
        lock = kvrpcpb_pb2.LockInfo(primary_lock=key, lock_version=start_ts)
        transaction = self._calls.transaction(lock, now_ts, rolls_back_if_gone=True)
        return LostStatus(transaction.commit_version, lives=transaction.lock_ttl > 0)

    def close(self) -> None:
        self._calls.close()
        self._pd.close()
