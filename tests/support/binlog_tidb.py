"""A TiDB with TiDB-Binlog: transactions of rows, each with its commit_ts from the made PD, kept in all their versions, and sent to pumps.

    locks on its rows ─► start_ts ─► prewrite binlog ─► commit_ts, and visible ─► commit binlog
                                          │                    │                       │
                                     to a pump, or two     in the made TiKV       may be lost

- What becomes of a transaction and of its binlogs is its `Fate`. The made TiKV knows the end of each, so a pump can ask for what it lacks.
- Snapshots are exact: taking a commit_ts and becoming visible are one step, and so are taking a snapshot's ts and what it sees.
- `committed` is the truth: what every reader must tell, once, in this order.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from threading import Condition
from typing import NamedTuple

import pyarrow as pa

from sidecar.shared.model.nouns import CommitTs, TableName, TableSchema, ts_at
from tests.support.binlog_encoder import Event, prewrite_value
from tests.support.binlog_tables import Key, Row, Table, tables
from tests.support.eventually import PATIENCE_S
from tests.support.kv_encoder import memcomparable_int, row_key
from tests.support.pump_client.client import PumpClient
from tests.support.tikv.cluster import Cluster
from tests.support.tikv.recorded import History
from tests.support.tikv.server import TikvServers
from tests.support.tikv.transactions import ROLLED_BACK, Lock
from ticdc_dump.binlog.binlog_pb2 import Binlog, Commit, Prewrite, Rollback

LIVES_MS, DEAD_MS = 3_600_000, 3_000
"""Of locks: those of a TiDB that is there, and of one that died."""


class TickingServers(TikvServers):
    """A made TiKV without data behind a PD whose clock goes, `ahead_ms` before ours. `etcd`: behind PD's address."""

    def __init__(self, etcd: str) -> None:
        self.ahead_ms = 0
        super().__init__(Cluster(History([], (), {})), etcd=etcd)

    def now_ms(self) -> int:
        self.physical_ms = max(self.physical_ms, time.time_ns() // 1_000_000 + self.ahead_ms)
        return self.physical_ms


class Fate(Enum):
    """COMMITTED as it should be; LOST: its commit binlog; DOUBLED: answers to its prewrite were lost until every pump had it, and one of
    them its commit; ROLLED_BACK; FORGOTTEN: rolled back, and that was lost; DEAD: TiDB died with it, and its lock runs out."""

    COMMITTED = "committed"
    LOST = "lost"
    DOUBLED = "doubled"
    ROLLED_BACK = "rolled back"
    FORGOTTEN = "forgotten"
    DEAD = "dead"


COMMITS = (Fate.COMMITTED, Fate.LOST, Fate.DOUBLED)


class Written(NamedTuple):
    """One change of a row."""

    table: Table
    old: Row | None
    new: Row | None

    @property
    def place(self) -> Place:
        row = self.old if self.new is None else self.new
        assert row is not None
        return self.table.name, self.table.key(row)


Place = tuple[TableName, Key]


@dataclass(frozen=True)
class Committed:
    """`pumps`: that took its prewrite, the last one with its end. `net`: its rows before and after it."""

    commit_ts: CommitTs
    start_ts: int
    pumps: Sequence[str]
    net: Mapping[Place, Written]


@dataclass
class BinlogTidb:
    """For any thread. `fates`: of how many transactions a pump has the prewrite."""

    servers: TickingServers
    client: PumpClient
    tables: dict[TableName, Table] = field(default_factory=tables)
    committed: list[Committed] = field(default_factory=list)
    fates: Counter[Fate] = field(default_factory=Counter)
    _changed: Condition = field(default_factory=Condition)
    _locked: set[Place] = field(default_factory=set)
    _versions: dict[Place, list[tuple[CommitTs, Row | None]]] = field(default_factory=lambda: defaultdict(list))

    # ---- reading ----------------------------------------------------------------------------------------------------

    def now(self) -> CommitTs:
        """A TSO that everything visible is at or below, and all that is to come above."""
        with self._changed:
            return self._tso()

    def rows(self, name: TableName, at_ts: int) -> list[Row]:
        with self._changed:
            results = [_at(versions, at_ts) for (table, _), versions in self._versions.items() if table == name]
        return [row for row in results if row is not None]

    def await_commits(self, count: int, of: Callable[[Committed], bool] = lambda _: True) -> None:
        """So many more than now, of those that `of` means."""
        with self._changed:
            began = len(self.committed)
            assert self._changed.wait_for(lambda: sum(map(of, self.committed[began:])) >= count, PATIENCE_S), "nobody writes"

    # ---- writing ----------------------------------------------------------------------------------------------------

    def fill(self, rows: Iterable[tuple[Table, Row]]) -> None:
        """Rows that are older than every binlog."""
        with self._changed:
            at_ts = self._tso()
            for table, row in rows:
                self._versions[table.name, table.key(row)].append((at_ts, row))

    def transact(self, places: Sequence[Place], make: Callable[[Mapping[Place, Row | None]], Iterable[Written]], fate: Fate) -> int:
        """`make` returns the changes, in their order, from the rows at `places`; it may change no others. How many rows it changed."""
        with self._holding(places):
            start_ts, before = self._begin(places)
            changes = list(make(before))
            if not changes:
                return 0
            primary = row_key(b"p" + memcomparable_int(start_ts))
            with self.servers.cluster.changed:
                ttl_ms = DEAD_MS if fate is Fate.DEAD else LIVES_MS
                self.servers.cluster.transactions.lock(Lock(primary, start_ts, primary, ttl_ms))
            reported = Binlog(
                tp=Prewrite, start_ts=start_ts, prewrite_key=primary, prewrite_value=_prewrite_value(changes)
            ).SerializeToString()
            taken = [self.client.prewrite(start_ts, reported)]
            while fate is Fate.DOUBLED and not {*taken} >= {*self.client.available()}:
                taken.append(self.client.prewrite(start_ts, reported))
            with self._changed:
                self.fates[fate] += 1
            if fate is Fate.DEAD:
                return 0
            commit_ts = self._end(start_ts, primary, taken, changes) if fate in COMMITS else self._undo(start_ts, primary)
        if fate not in (Fate.LOST, Fate.FORGOTTEN):
            end = Commit if fate in COMMITS else Rollback
            self.client.end(start_ts, Binlog(tp=end, start_ts=start_ts, commit_ts=commit_ts, prewrite_key=primary).SerializeToString())
        return len(changes)

    @contextmanager
    def _holding(self, places: Sequence[Place]) -> Iterator[None]:
        with self._changed:
            assert self._changed.wait_for(lambda: self._locked.isdisjoint(places), PATIENCE_S), "a row stays locked"
            self._locked.update(places)
        try:
            yield
        finally:
            with self._changed:
                self._locked.difference_update(places)
                self._changed.notify_all()

    def _begin(self, places: Sequence[Place]) -> tuple[CommitTs, dict[Place, Row | None]]:
        with self._changed:
            start_ts = self._tso()
            return start_ts, {place: _at(self._versions.get(place, []), start_ts) for place in places}

    def _end(self, start_ts: CommitTs, primary: bytes, pumps: Sequence[str], changes: Sequence[Written]) -> CommitTs:
        net: dict[Place, Written] = {}
        for change in changes:
            place = change.place
            net[place] = change if place not in net else change._replace(old=net[place].old)
        with self._changed, self.servers.cluster.changed:
            commit_ts = self._tso()
            self.servers.cluster.transactions.end(primary, commit_ts)
            for place, change in net.items():
                self._versions[place].append((commit_ts, change.new))
            self.committed.append(Committed(commit_ts, start_ts, pumps, net))
            self._changed.notify_all()
        return commit_ts

    def _undo(self, start_ts: CommitTs, primary: bytes) -> CommitTs:
        with self.servers.cluster.changed:
            self.servers.cluster.transactions.end(primary, ROLLED_BACK)
        return CommitTs(0)

    def _tso(self) -> CommitTs:
        return ts_at(*self.servers.timestamp())


@dataclass(frozen=True)
class WrittenTruth:
    """What `sidecar.replay.judge.verify` asks of a truth: the rows at some moments of the load, and at its end."""

    tidb: BinlogTidb
    truth_ts: tuple[CommitTs, ...]
    names: Sequence[TableName]

    @property
    def schemas(self) -> Mapping[TableName, TableSchema]:
        return {name: self.tidb.tables[name].schema for name in self.names}

    def truth(self, tso: CommitTs) -> Mapping[TableName, pa.Table]:
        result = {}
        for name in self.names:
            table = self.tidb.tables[name]
            rows = [table.texts(row) for row in self.tidb.rows(name, tso)]
            columns = [pa.array([row[place] for row in rows], pa.string()) for place in range(len(table.columns))]
            result[name] = pa.table(columns, names=list(table.schema.column_names()))
        return result


def _at(versions: Sequence[tuple[CommitTs, Row | None]], ts: int) -> Row | None:
    return next((row for commit_ts, row in reversed(versions) if commit_ts <= ts), None)


def _prewrite_value(changes: Sequence[Written]) -> bytes:
    by_table: dict[int, list[Event]] = defaultdict(list)
    for change in changes:
        by_table[int(change.table.info["id"])].append(change.table.event(change.old, change.new))
    return prewrite_value(by_table)
