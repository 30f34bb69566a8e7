"""Ends that TiDB did not send: it died, or its commit binlog was lost. TiKV knows them.

    the front has waited LOST_S ──► TiKV's writes at each prewrite key that has waited so long, all of them at once
        a write of its start_ts           committed, or rolled back: a binlog of ours says so, and the stream continues
        none, younger than OLD_S          queried again after LOST_S: it may be prewriting, or TiDB is about to say
        none, older                       the transaction's status: TiKV rolls back one that is dead, and then it is gone
                                          a lock that lives: queried again after LOST_S

- Ages are PD's time, not this machine's. Ends are written to the storage like TiDB's own, so that a restart need not ask again.
- What TiKV does not answer is queried again. Nothing is decided that TiKV does not say.
- A rolled back transaction is dropped, counted and logged.

From pingcap/tidb-binlog pump/storage/storage.go (resolve), which asks for one after another, a second each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock, local
from typing import NamedTuple, Protocol

from sidecar.pump.record import COMMIT, PREWRITE, ROLLBACK, made
from sidecar.pump.storage import PumpReader, Storage
from sidecar.shared.errors import StorageFull, TicdcDumpError
from sidecar.shared.model.nouns import CommitTs
from ticdc_dump.binlog import binlog_pb2

LOST_S = 1.0
OLD_S = 600
REQUESTED_AT_ONCE = 8
"""Connections to TiKV. An answer takes a millisecond."""


class LostWrite(NamedTuple):
    """`commit_ts` 0: rolled back."""

    start_ts: int
    commit_ts: int


class LostStatus(NamedTuple):
    """`lives`: neither committed nor rolled back. `commit_ts` 0: rolled back, if it does not live."""

    commit_ts: int
    lives: bool


class Tikv(Protocol):
    """By one thread. Both raise TicdcDumpError for what is not answered."""

    def mvcc_by_key(self, key: bytes) -> Sequence[LostWrite]:
        """Of every transaction that ended at this raw key and is kept."""

    def txn_status(self, key: bytes, start_ts: int, now_ts: CommitTs) -> LostStatus:
        """Of the transaction with this primary key. Rolls back one whose lock is out of time at `now_ts`, or that has none."""

    def close(self) -> None: ...


Notice = Callable[..., None]
"""A line of the log: what, and its values by name."""


@dataclass(slots=True)
class LostTally:
    """`committed`, `rolled_back`: ends that TiKV reported. `status_queries`: the real pump's query_tikv_count. `unanswered`: errors."""

    committed: int = 0
    rolled_back: int = 0
    status_queries: int = 0
    unanswered: int = 0


class Lost:
    """`look` by one thread. `connect`: a connection for each thread that asks."""

    def __init__(self, storage: Storage, connect: Callable[[], Tikv], tso: Callable[[], CommitTs], notice: Notice) -> None:
        self._storage, self._connect, self._tso, self._notice = storage, connect, tso, notice
        self.tally = LostTally()
        self._own = local()
        self._made: list[Tikv] = []
        self._lock = Lock()
        self._pool = ThreadPoolExecutor(REQUESTED_AT_ONCE, thread_name_prefix="pump-lost")
        self._reader = storage.reader()

    def look(self) -> int:
        """Returns how many ends it added. Failures of TiKV or PD, and a full disk, are logged, and pass."""
        held = self._storage.held(longer_than_s=LOST_S)
        if not held:
            return 0
        try:
            now_ts = self._tso()
        except TicdcDumpError as error:
            self._notice("PD does not tell the time: lost commits wait", error=error.message)
            return 0
        keys = [(waiting.start_ts, _key(self._reader, waiting.start_ts)) for waiting in held]
        number = 0
        for (start_ts, _), fate in zip(keys, self._pool.map(lambda it: self._fate(it[0], it[1], now_ts), keys), strict=True):
            if isinstance(fate, TicdcDumpError):
                self.tally.unanswered += 1
                self._notice("TiKV does not tell the end of a transaction", start_ts=start_ts, error=fate.message)
            elif fate is not None:
                number += self._end(start_ts, fate)
        return number

    def close(self) -> None:
        self._pool.shutdown()
        for one in self._made:
            one.close()
        self._reader.close()

    def _fate(self, start_ts: int, key: bytes, now_ts: CommitTs) -> int | TicdcDumpError | None:
        """Its commit_ts, 0: rolled back; None: neither yet."""
        try:
            tikv = self._tikv()
            ended = [write for write in tikv.mvcc_by_key(key) if write.start_ts == start_ts]
            if ended and (ended[0].commit_ts == 0 or ended[0].commit_ts > start_ts):
                return ended[0].commit_ts
            if seconds(now_ts) - seconds(start_ts) <= OLD_S:
                return None
            status = tikv.txn_status(key, start_ts, now_ts)
        except TicdcDumpError as error:
            return error
        with self._lock:
            self.tally.status_queries += 1
        return None if status.lives else status.commit_ts

    def _end(self, start_ts: int, commit_ts: int) -> bool:
        """False: there was no room for it."""
        try:
            self._storage.write(made(COMMIT if commit_ts else ROLLBACK, start_ts, commit_ts))
        except StorageFull as error:
            self._notice("there is no room for the end of a transaction that TiKV reported", start_ts=start_ts, error=error.message)
            return False
        if commit_ts:
            self.tally.committed += 1
            self._notice("TiKV had a lost commit", start_ts=start_ts, commit_ts=commit_ts)
        else:
            self.tally.rolled_back += 1
            self._notice("a transaction without an end was rolled back, and is dropped", start_ts=start_ts)
        return True

    def _tikv(self) -> Tikv:
        tikv: Tikv | None = getattr(self._own, "tikv", None)
        if tikv is None:
            self._own.tikv = tikv = self._connect()
            with self._lock:
                self._made.append(tikv)
        return tikv


def seconds(ts: int) -> int:
    """A TSO's, as pumps compare them."""
    return (ts >> 18) // 1000


def _key(reader: PumpReader, start_ts: int) -> bytes:
    prewrite = reader.binlog_at(start_ts)
    assert prewrite is not None
    assert prewrite.kind == PREWRITE
    return bytes(binlog_pb2.Binlog.FromString(prewrite.payload).prewrite_key)
