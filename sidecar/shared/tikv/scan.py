"""Rows of a range of keys as of a timestamp: a snapshot, read as every reader in TiDB reads it.

    ranges ──► PD: the next regions ──► KvScan at `read_ts`, some rows a call ──► keys and values, in the order of the keys
                     ▲                        ├─ a lock: resolved if its client is dead, else waited for
                     └── after a rest ────────┴─ region or store in trouble

- All rows of one `read_ts` are of one moment, however long reading them takes: what is committed at or below it when the scan meets it
  cannot change, and TiKV lets nothing commit there after that.
- These are all rows, by any writer. TiKV's change feed from ts 0 is no such source: it omits rows whose newest version MODIFY COLUMN has
  rewritten or Lightning has imported (tikv components/cdc/src/delegate.rs, txn_source.rs).
- TiKV bounds an answer by rows alone, and makes it whole in its memory. So calls begin small in each region, and each asks for twice as
  many rows as the one before at most, by what those weighed; after a failure for a quarter. What narrow rows of one region allow says
  nothing of another, and no answer is larger than a region.
- A failure is one call's: it is tried again from the last key that came, by what PD then says, for `outage_max_s`.
- One thread; `interrupt` from any, and for good.

From client-go txnkv/txnsnapshot/scan.go; tikv src/storage/mod.rs (scan), src/storage/mvcc/reader/scanner.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, ParamSpec, TypeVar

from sidecar.shared.config import TikvSection
from sidecar.shared.errors import FeedLost, MessageUnreadable, SourceError, SourceLost
from sidecar.shared.model.nouns import CommitTs
from sidecar.shared.process.patience import patience_s
from sidecar.shared.rowcodec.key_values import KeyRange
from sidecar.shared.tikv.channel import connector
from sidecar.shared.tikv.kv import KvCalls
from sidecar.shared.tikv.locks import LockResolver, waits_for
from sidecar.shared.tikv.pd import SCAN_REGIONS_MAX, PdClient
from sidecar.shared.tikv.regions import Region, borders, cut, holds

P = ParamSpec("P")
T = TypeVar("T")

CALL_ROWS_FIRST, CALL_ROWS_MAX = 64, 1024
CALL_BYTES = 2 << 20
"""Of the rows of one call, about."""

REGIONS_AHEAD = 64
"""Of one question to PD: a chunk seldom reaches into more, a table has thousands."""

READ_S_MAX = 5.0
"""A chunk ends behind the range in which it has come to this: a table can have thousands of partitions, each a call or more."""

REST_FIRST_S, REST_MAX_S = 0.02, 1.0


class ScannedRows(NamedTuple):
    """In the order of their keys. `whole`: there are no more in the ranges; else `upto`, if it is not None, is the range up to whose end
    there are none."""

    keys: Sequence[bytes]
    values: Sequence[bytes]
    whole: bool
    upto: KeyRange | None = None


class _Locked(Exception):
    """`locks` stand in the way of a read at `read_ts`, of the first key that did not come."""

    def __init__(self, locks: Sequence[Any], read_ts: CommitTs) -> None:
        super().__init__(f"{len(locks)} locks")
        self.locks, self.read_ts = locks, read_ts


class SnapshotScan:
    """`cluster_id`: of the cluster that it must be; 0: any. `stopped`: nobody wants the rest. Raises ConfigError for settings that cannot
    be used; its methods SourceLost where the cluster does not serve the keys for `outage_max_s`, SourceError where it is another cluster,
    FeedUnsuitable and MessageUnreadable as KvCalls does."""

    def __init__(self, section: TikvSection, *, cluster_id: int = 0, stopped: Callable[[], bool] = lambda: False) -> None:
        self._outage_max_s = section.outage_max_s
        self._cluster_id = cluster_id
        self._pd = PdClient(section)
        self._calls = KvCalls(self._pd, connector(section.tls))
        self._stopped = stopped
        self._regions: Sequence[Region] = ()
        self._call_rows = CALL_ROWS_FIRST
        self._call_region = 0

    def now_ts(self) -> CommitTs:
        """A timestamp above all that is committed at the call."""
        try:
            known = self._pd.cluster_id()
            if self._cluster_id not in (0, known):
                what = f"PD {', '.join(self._pd.endpoints)} is of cluster {known}, and the changefeed reads cluster {self._cluster_id}"
                raise SourceError(what, hint="set tikv.pd to PD of the cluster that the changefeed reads")
            return self._pd.tso()
        except FeedLost as error:
            raise SourceLost(error.message, hint=error.hint) from error

    def rows(self, ranges: Sequence[KeyRange], read_ts: CommitTs, *, rows_max: int, bytes_max: int) -> ScannedRows:
        """The first rows of the ranges, which rise: at most `rows_max`, and a call's more than `bytes_max` of keys and values."""
        keys: list[bytes] = []
        values: list[bytes] = []
        size, until_s = 0, time.monotonic() + READ_S_MAX
        for range_ in ranges:
            at = range_.start
            while at < range_.end:
                left = rows_max - len(keys)
                if left <= 0 or size > bytes_max or self._stopped():
                    return ScannedRows(keys, values, whole=False)
                if keys:
                    left = min(left, 1 + (bytes_max - size) * len(keys) // size)
                answered, at = self._tried(self._call, KeyRange(at, range_.end), ranges[-1].end, read_ts, left)
                keys += answered.keys
                values += answered.values
                size += self._weigh(answered)
            if time.monotonic() > until_s and range_ is not ranges[-1]:
                return ScannedRows(keys, values, whole=False, upto=range_)
        return ScannedRows(keys, values, whole=True)

    def last_key(self, ranges: Sequence[KeyRange], read_ts: CommitTs) -> bytes | None:
        """The highest key of the ranges that has a row. None: there is none, or none was met in READ_S_MAX."""
        until_s = time.monotonic() + READ_S_MAX
        for range_ in reversed(ranges):
            last = self._tried(self._last_of, range_, read_ts, until_s)
            if last is not None or self._stopped() or time.monotonic() > until_s:
                return last
        return None

    def borders(self, ranges: Sequence[KeyRange]) -> Sequence[bytes]:
        """Where ranges begin, but the first, and regions inside of them: raw keys that rise; regions that PD reports in READ_S_MAX."""
        until_s = time.monotonic() + READ_S_MAX

        def regions_from(key: bytes) -> Sequence[Region]:
            if self._stopped() or time.monotonic() > until_s:
                return ()
            return self._tried(self._pd.regions, key, ranges[-1].end, at_most=SCAN_REGIONS_MAX)

        return [*borders(ranges, regions_from)][1:]

    def interrupt(self) -> None:
        """End the call that is under way, and let none follow."""
        self._calls.close()

    def close(self) -> None:
        self._calls.close()
        self._pd.close()

    # ---- one call ---------------------------------------------------------------------------------------------------

    def _call(self, wanted: KeyRange, end: bytes, read_ts: CommitTs, rows_max: int) -> tuple[ScannedRows, bytes]:
        """Rows from the start of `wanted` on, and where the next ones begin. `end`: of all that is to be read."""
        region = self._region_of(wanted.start, end)
        (part, *_) = cut(wanted, [region])
        if region.id != self._call_region:
            self._call_region, self._call_rows = region.id, min(self._call_rows, CALL_ROWS_FIRST)
        limit = max(1, min(rows_max, self._call_rows))
        rows = _unlocked(self._calls.rows(region, part.range, read_ts=read_ts, limit=limit), read_ts)
        return rows, part.range.end if len(rows.keys) < limit and rows.whole else rows.keys[-1] + b"\0"

    def _last_of(self, within: KeyRange, read_ts: CommitTs, until_s: float) -> bytes | None:
        for part, region in reversed(self._calls.parts(within)):
            if self._stopped() or time.monotonic() > until_s:
                return None
            if (rows := _unlocked(self._calls.rows(region, part, read_ts=read_ts, limit=1, reverse=True), read_ts)).keys:
                return rows.keys[0]
        return None

    def _region_of(self, key: bytes, end: bytes) -> Region:
        """The one that has the key, by PD's last answer or by a new one, about the regions up to `end`."""
        region = _holder(self._regions, key)
        if region is None:
            self._regions = self._pd.regions(key, end, at_most=REGIONS_AHEAD)
            region = _holder(self._regions, key)
        if region is None:
            raise FeedLost(f"PD knows no region, or no leader of it, for key {key.hex()}", hint=_SEE_STORES)
        return region

    def _weigh(self, rows: ScannedRows) -> int:
        size = sum(map(len, rows.keys)) + sum(map(len, rows.values))
        if rows.keys:
            self._call_rows = max(1, min(2 * self._call_rows, CALL_ROWS_MAX, CALL_BYTES * len(rows.keys) // size))
        return size

    # ---- again ------------------------------------------------------------------------------------------------------

    def _tried(self, call: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
        """What the call returns, tried again while a region, a store, PD or a lock stands in its way."""
        give_up_s, rest_s = time.monotonic() + patience_s(self._outage_max_s), REST_FIRST_S
        while True:
            try:
                return call(*given, **named)
            except (FeedLost, _Locked) as error:
                why, hint = self._resolved(error) if isinstance(error, _Locked) else self._not_served(error)
                if not why:
                    continue
                if self._stopped() or time.monotonic() + rest_s > give_up_s:
                    raise SourceLost(why, hint=hint) from error
                if isinstance(error, FeedLost):
                    self._regions, self._call_rows = (), max(1, self._call_rows // 4)
                    self._calls.forget_stores()
            time.sleep(rest_s)
            rest_s = min(2 * rest_s, REST_MAX_S)

    def _not_served(self, error: FeedLost) -> tuple[str, str]:
        return f"no store has served this read for {self._outage_max_s:g} s; last: {error.message}", error.hint

    def _resolved(self, locked: _Locked) -> tuple[str, str]:
        """End what dead clients left. Why one stands yet, and the way out; empty: none does. One that is not listed may be in memory."""
        first = locked.locks[0]
        keys = sorted(lock.key for lock in locked.locks)
        try:
            resolver = LockResolver(self._calls, self._pd.tso())
            resolved, reason = resolver.resolve(KeyRange(keys[0], keys[-1] + b"\0"), locked.read_ts)
            if not reason and not resolved:
                reason = waits_for(first, first.lock_ttl)
            return reason and f"this read {reason}; it was tried for {self._outage_max_s:g} s", _WAITS_HINT
        except FeedLost as error:
            return self._not_served(error)


def _holder(regions: Sequence[Region], key: bytes) -> Region | None:
    return next((region for region in regions if region.leader_store is not None and holds(region, key)), None)


def _unlocked(answer: Any, read_ts: CommitTs) -> ScannedRows:
    """The rows before the first lock; `whole`: there is none. Raises _Locked where there is no row before it.

    A lock has no value, and every row has one: so the errors, which cost a look at each pair, are looked for only where one is missing.
    """
    if answer.HasField("error"):
        raise _Locked([answer.error.locked], read_ts)
    pairs = answer.pairs
    keys, values = [pair.key for pair in pairs], [pair.value for pair in pairs]
    if b"" not in values:
        return ScannedRows(keys, values, whole=True)
    errors = {number: pair.error for number, pair in enumerate(pairs) if pair.HasField("error")}
    if odd := [error for error in errors.values() if not error.HasField("locked")]:
        raise MessageUnreadable(f"TiKV says of a row that is read: {' '.join(str(odd[0]).split())}", hint=_REPORT)
    if 0 in errors:
        raise _Locked([error.locked for error in errors.values()], read_ts)
    end = min(errors, default=len(keys))
    return ScannedRows(keys[:end], values[:end], whole=not errors)


_REPORT = "use dumpresume; if it comes again, report this with the TiKV version"
_SEE_STORES = "see PD and this TiKV store; the dump tries again automatically"
_WAITS_HINT = (
    "end this transaction, or wait for it: it has prewritten rows that the dump is to read, and may commit them yet; "
    "information_schema.cluster_tidb_trx has its session, KILL TIDB ends it"
)
