"""A made cluster's state: regions with leaders and epochs, a log that all of them play, and the faults of one.

The log is a recording's history; `advance` moves the cluster along it. A `Session` is one client's stream to one store, and `pump`
gives the messages that it is owed: the incremental scan of each subscription in any order, mixed with what is live, heartbeats of
open transactions, resolved marks by groups of regions. Everything goes by one seeded choice and under one lock.

What a subscription is owed follows tikv components/cdc (delegate.rs): observed from some place of the log on, scanned at a later
one, so that commits come without prewrites, and writes twice.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from threading import Condition
from typing import Any

from sidecar.shared.rowcodec.key_values import KeyRange
from sidecar.shared.rowcodec.kv_matcher import COMMIT, COMMITTED, INITIALIZED, PREWRITE, PUT, ROLLBACK
from sidecar.shared.tikv.regions import decoded, encoded
from tests.support.tikv.recorded import History, LogRow
from tests.support.tikv.transactions import Transactions
from ticdc_dump.tikv import cdcpb_pb2, errorpb_pb2, metapb_pb2

Row: Any = cdcpb_pb2.Event.Row
"""Its stub takes no plain numbers."""

CLUSTER_ID = 7_710_454_519_564_276_754
SCAN_ROWS = 200
OBSERVED_EARLIER_MAX = 30
HEARTBEAT_PART, ODD_MARK_PART, LATE_PART = 0.2, 0.1, 0.5
"""How often, of the chances there are."""


@dataclass(frozen=True)
class Region:
    """Borders are memcomparable-encoded; empty: none."""

    id: int
    start: bytes
    end: bytes
    conf_ver: int
    version: int
    leader: int

    def meta(self) -> Any:
        return metapb_pb2.Region(
            id=self.id,
            start_key=self.start,
            end_key=self.end,
            region_epoch=metapb_pb2.RegionEpoch(conf_ver=self.conf_ver, version=self.version),
            peers=[self.peer()],
        )

    def peer(self) -> Any:
        return metapb_pb2.Peer(id=self.id * 10 + self.leader, store_id=self.leader)


@dataclass
class Subscription:
    """`at`: the place in the log that is sent next. `scan`: rows not sent yet; None after INITIALIZED."""

    request_id: int
    region_id: int
    range: KeyRange
    at: int
    scan: list[Any] | None
    sent_ts: int = 0


@dataclass
class Session:
    """`owed`: errors and late rows, before anything else."""

    store: int
    cluster_id: int
    subscriptions: dict[tuple[int, int], Subscription] = field(default_factory=dict)
    owed: list[Any] = field(default_factory=list)
    broken: bool = False


class Cluster:
    """All of it under `changed`."""

    observed_earlier_max = OBSERVED_EARLIER_MAX
    """By so many rows, less one, may a scan be behind the place that its subscription is observed from: they come twice."""

    def __init__(self, history: History, *, stores: int = 2, seed: int = 0, keys_of_splits: Iterable[bytes] = ()) -> None:
        self.history = history
        self.changed = Condition()
        self.random = random.Random(seed)
        self.stores = set(range(1, stores + 1))
        self.store_cluster_ids: dict[int, int] = {}
        self.pd_leader = 0
        self.position = 0
        self.idle_ts = 0
        """What the resolved ts has advanced without a row of the log, as that of a cluster without writes does."""
        self.refusals: list[Any] = []
        """Errors for the next registrations, one each."""
        self.sessions: list[Session] = []
        self.transactions = Transactions()
        """Those of clients that died; all others in the log have ended well."""
        self._locks: dict[tuple[int, bytes], LogRow] = {}
        self._committed: dict[bytes, list[LogRow]] = defaultdict(list)
        self._last_id = 0
        self.regions = [Region(self._id(), b"", b"", 1, 1, min(self.stores))]
        for key in keys_of_splits:
            self.split(key)

    def _id(self) -> int:
        self._last_id += 1
        return self._last_id

    # ---- the log ----------------------------------------------------------------------------------------------------

    @property
    def is_at_end(self) -> bool:
        return self.position == len(self.history.log)

    def advance(self, rows: int) -> None:
        with self.changed:
            end = min(self.position + rows, len(self.history.log))
            for row in self.history.log[self.position : end]:
                place = (row.start_ts, row.key)
                if row.kind == PREWRITE:
                    self._locks[place] = row
                else:
                    self._locks.pop(place, None)
                if row.kind in (COMMIT, COMMITTED):
                    self._committed[_table_of(row.key)].append(row)
            self.position = end
            self.changed.notify_all()

    def rest(self, ms: int) -> None:
        """Time passes, and nothing is written. Only at the end of the log, whose rows have their own times."""
        assert self.is_at_end
        with self.changed:
            self.idle_ts += ms << 18
            self.changed.notify_all()

    def open_rows(self) -> list[LogRow]:
        """Prewrites of the log that have no end yet."""
        return list(self._locks.values())

    # ---- regions ----------------------------------------------------------------------------------------------------

    def region_at(self, key: bytes) -> Region:
        """`key` encoded."""
        return self.regions[bisect_right(self.regions, key, key=lambda region: region.start) - 1]

    def split(self, key: bytes) -> None:
        """At a raw key. The new region is the left one, as in TiKV by default."""
        with self.changed:
            old = self.region_at(encoded(key))
            if old.start == encoded(key):
                return
            left = Region(self._id(), old.start, encoded(key), old.conf_ver, old.version + 1, old.leader)
            self._replace([old], [left, replace(old, start=encoded(key), version=old.version + 1)])

    def merge(self, number: int) -> None:
        """The region at `number` is merged into the next one; its leader goes there, too."""
        with self.changed:
            if number + 1 < len(self.regions):
                left, right = self.regions[number : number + 2]
                self._replace([left, right], [replace(right, start=left.start, version=max(left.version, right.version) + 1)])

    def change_peers(self, number: int) -> None:
        with self.changed:
            old = self.regions[number]
            self._replace([old], [replace(old, conf_ver=old.conf_ver + 1)])

    def lead(self, number: int, store: int) -> None:
        """Another store leads the region from now on."""
        with self.changed:
            old = self.regions[number]
            self.regions[number] = new = replace(old, leader=store)
            error = cdcpb_pb2.Error(not_leader=errorpb_pb2.NotLeader(region_id=old.id, leader=new.peer()))
            self._end({old.id}, error)

    def _replace(self, old: list[Region], new: list[Region]) -> None:
        at = self.regions.index(old[0])
        self.regions[at : at + len(old)] = new
        gone = {region.id for region in old} - {region.id for region in new}
        changed = {region.id for region in old} - gone
        self._end(changed, cdcpb_pb2.Error(epoch_not_match=errorpb_pb2.EpochNotMatch(current_regions=[it.meta() for it in new])))
        for region_id in gone:
            self._end({region_id}, cdcpb_pb2.Error(region_not_found=errorpb_pb2.RegionNotFound(region_id=region_id)))

    def end(self, number: int, error: Any) -> None:
        """The region's subscriptions end with `error`; the region stays as it is."""
        with self.changed:
            self._end({self.regions[number].id}, error)

    def _end(self, region_ids: set[int], error: Any) -> None:
        for session in self.sessions:
            for place, it in list(session.subscriptions.items()):
                if it.region_id in region_ids:
                    session.owed.append(_error(it.request_id, it.region_id, error))
                    if self.random.random() < LATE_PART:
                        session.owed += self._late(it)
                    del session.subscriptions[place]
        self.changed.notify_all()

    def _late(self, it: Subscription) -> list[Any]:
        """What a scan that ran beside the error may still send."""
        rows = [_row(row, COMMITTED) for row in self._committed[_table_of(it.range.start)][:1]]
        rows.append(Row(type=INITIALIZED))
        return [cdcpb_pb2.ChangeDataEvent(events=[_entries(it, rows)])]

    def break_streams(self, store: int | None = None) -> None:
        """Of one store, or of all."""
        with self.changed:
            for session in self.sessions:
                session.broken = session.broken or store in (None, session.store)
            self.changed.notify_all()

    # ---- a client's stream ------------------------------------------------------------------------------------------

    def register(self, session: Session, request: Any) -> None:
        """`changed` is held."""
        region = next((region for region in self.regions if region.id == request.region_id), None)
        error = self._refusal(session, request, region)
        if error is not None:
            session.owed.append(_error(request.request_id, request.region_id, error))
        else:
            range_ = KeyRange(decoded(request.start_key), decoded(request.end_key))
            scan = [_row(row, COMMITTED) for row in self._committed[_table_of(range_.start)] if row.commit_ts > request.checkpoint_ts]
            scan += [_row(row, PREWRITE) for row in self._locks.values()]
            scan = [row for row in scan if row.key in range_]
            self.random.shuffle(scan)
            at = max(0, self.position - self.random.randrange(self.observed_earlier_max))
            made = Subscription(request.request_id, request.region_id, range_, at, scan)
            session.subscriptions[request.request_id, request.region_id] = made
        self.changed.notify_all()

    def _refusal(self, session: Session, request: Any, region: Region | None) -> Any:
        if request.header.cluster_id != session.cluster_id:
            mismatch = cdcpb_pb2.ClusterIDMismatch(current=session.cluster_id, request=request.header.cluster_id)
            return cdcpb_pb2.Error(cluster_id_mismatch=mismatch)
        if self.refusals:
            return self.refusals.pop(0)
        if (request.request_id, request.region_id) in session.subscriptions:
            return cdcpb_pb2.Error(duplicate_request=cdcpb_pb2.DuplicateRequest(region_id=request.region_id))
        if region is None:
            return cdcpb_pb2.Error(region_not_found=errorpb_pb2.RegionNotFound(region_id=request.region_id))
        if region.leader != session.store:
            return cdcpb_pb2.Error(not_leader=errorpb_pb2.NotLeader(region_id=region.id, leader=region.peer()))
        if (region.conf_ver, region.version) != (request.region_epoch.conf_ver, request.region_epoch.version):
            return cdcpb_pb2.Error(epoch_not_match=errorpb_pb2.EpochNotMatch(current_regions=[region.meta()]))
        return None

    def deregister(self, session: Session, request: Any) -> None:
        """`changed` is held."""
        for place in list(session.subscriptions):
            if place[0] == request.request_id and request.region_id in (0, place[1]):
                del session.subscriptions[place]

    def pump(self, session: Session) -> list[Any]:
        """The messages that it is owed now; empty: nothing before something changes. `changed` is held."""
        messages, session.owed = session.owed, []
        for it in session.subscriptions.values():
            rows = [_row(row, row.kind) for row in self.history.log[it.at : self.position] if row.key in it.range]
            it.at = self.position
            if it.scan is not None:
                rows = self._mixed(rows, self._scanned(it))
            if it.scan == []:
                it.scan = None
                rows.append(Row(type=INITIALIZED))
            if rows:
                rows += self._heartbeat(it)
            while rows:
                count = self.random.randrange(1, 80)
                messages.append(cdcpb_pb2.ChangeDataEvent(events=[_entries(it, rows[:count])]))
                rows = rows[count:]
        return messages + self._marks(session)

    def _mixed(self, live: list[Any], scanned: list[Any]) -> list[Any]:
        """The scan's anywhere among the live ones, which keep their order."""
        mixed = list(live)
        for row in scanned:
            mixed.insert(self.random.randrange(len(mixed) + 1), row)
        return mixed

    def _scanned(self, it: Subscription) -> list[Any]:
        if not it.scan:
            return []
        count = self.random.randrange(1, SCAN_ROWS)
        rows, it.scan = it.scan[:count], it.scan[count:]
        return rows

    def _heartbeat(self, it: Subscription) -> list[Any]:
        """A prewrite again, without its value."""
        if self.random.random() > HEARTBEAT_PART:
            return []
        locks = [lock for lock in self._locks.values() if lock.value and lock.key in it.range]
        if not locks:
            return []
        lock = self.random.choice(locks)
        fake = Row(start_ts=lock.start_ts, type=PREWRITE, op_type=PUT, key=lock.key, old_value=lock.old)
        return [fake]

    def _marks(self, session: Session) -> list[Any]:
        """One ts for all regions of a request id that have a new one; at times a lower one after it, as in a group with a slow region."""
        earlier_ts = self.earlier_ts()
        due: dict[tuple[int, int], list[int]] = defaultdict(list)
        for it in session.subscriptions.values():
            resolved_ts = self.resolved_ts(it.range)
            if it.scan is None and it.sent_ts < resolved_ts:
                it.sent_ts = resolved_ts
                due[it.request_id, resolved_ts].append(it.region_id)
        marks = []
        for (request_id, ts), regions in due.items():
            if self.random.random() < ODD_MARK_PART:
                events = [cdcpb_pb2.Event(region_id=region, request_id=request_id, resolved_ts=earlier_ts) for region in regions]
                marks.append(cdcpb_pb2.ChangeDataEvent(events=events))
            marks.append(_mark(request_id, regions, ts))
            if self.random.random() < ODD_MARK_PART:
                marks.append(_mark(request_id, regions, earlier_ts))
        return marks

    def resolved_ts(self, range_: KeyRange) -> int:
        """Up to where the log, as far as it is played, has all commits of these keys."""
        return self.history.resolved[self.position] + self.idle_ts

    def earlier_ts(self) -> int:
        """A ts that all keys were resolved to at some time."""
        return self.history.resolved[max(0, self.position - self.random.randrange(1, 50))]

    def tell(self, rows: Iterable[Any]) -> None:
        """Rows that the log does not have, to each subscription that is initialized."""
        with self.changed:
            for session in self.sessions:
                for it in session.subscriptions.values():
                    if it.scan is None:
                        session.owed.append(cdcpb_pb2.ChangeDataEvent(events=[_entries(it, list(rows))]))
            self.changed.notify_all()


def _mark(request_id: int, regions: list[int], ts: int) -> Any:
    return cdcpb_pb2.ChangeDataEvent(resolved_ts=cdcpb_pb2.ResolvedTs(regions=regions, ts=ts, request_id=request_id))


def _table_of(key: bytes) -> bytes:
    return key[: 15 if key[:1] == b"x" else 11]


def _row(row: LogRow, kind: int) -> Any:
    with_value = kind in (PREWRITE, COMMITTED)
    return Row(
        start_ts=row.start_ts,
        commit_ts=row.commit_ts if kind in (COMMIT, COMMITTED) else 0,
        type=kind,
        op_type=row.op_type if kind != ROLLBACK else 0,
        key=row.key,
        value=row.value if with_value else b"",
        old_value=row.old if with_value else b"",
    )


def _entries(it: Subscription, rows: list[Any]) -> Any:
    return cdcpb_pb2.Event(region_id=it.region_id, request_id=it.request_id, entries=cdcpb_pb2.Event.Entries(entries=rows))


def _error(request_id: int, region_id: int, error: Any) -> Any:
    return cdcpb_pb2.ChangeDataEvent(events=[cdcpb_pb2.Event(region_id=region_id, request_id=request_id, error=error)])
