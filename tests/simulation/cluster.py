"""A small TiDB with TiCDC and Kafka in memory, driven by one random generator: everything that a real one may do to us.

TiDB is away now and then, for whoever asks it by SQL: statements that it did not answer it carries out later, or never.

Writes with equal commit_ts, key changes (split into delete and insert, as TiCDC does), lanes that advance by themselves,
rows out of order between keys, retries that double messages, restarts of TiCDC that send again and let resolved marks go
back, lanes that join late. The history of every key is kept: it is the truth.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random

import pymysql

from sidecar.ports import NO_READ_ENDS, NOT_KNOWN
from sidecar.shared.codecs import canal_json
from sidecar.shared.model.nouns import MARK_TABLE, Column, CommitTs, Lane, MarkKind, Message, ReadEnd, TableName, TableSchema
from tests.support.mark_table import MarkTable, Row

CHANGEFEED = "sim"
COLUMNS = (Column("id", "text"), Column("v", "text"))
MESSAGE_TIME_MS = 1_700_000_000_000


def schema_of(table: TableName) -> TableSchema:
    return TableSchema(table, COLUMNS, ("id",))


@dataclass(frozen=True, slots=True)
class Sent:
    """A message on its way: `key` is what orders it against others of the same row."""

    commit_ts: CommitTs
    row: str
    key: bytes | None
    value: bytes


@dataclass
class Cluster:
    rng: Random
    tables: tuple[TableName, ...]
    ts: int = 1_000_000
    checkpoint: int = 1_000_000
    lanes: list[list[tuple[bytes | None, bytes]]] = field(default_factory=list)
    history: dict[TableName, dict[str, list[tuple[int, str | None]]]] = field(default_factory=dict)
    mark_table: MarkTable = field(default_factory=lambda: MarkTable({CHANGEFEED: ("0" * 32, int(MarkKind.HIGH))}))
    away: int = 0
    late_marks: int = 0
    _late: list[Callable[[], int]] = field(default_factory=list)
    lanes_known: int = 0
    _log: list[Sent] = field(default_factory=list)
    _sent_to: int = 0

    def __post_init__(self) -> None:
        self.history = {table: {} for table in self.tables}
        for table in self.tables:
            for number in range(self.rng.randrange(25)):
                self.history[table][f"{number:03d}"] = [(self.ts - self.rng.randrange(1000), f"old{number}")]
        self.mark_table.updated = self._capture_mark
        self.lanes = [[] for _ in range(self.rng.randint(1, 4))]
        self.lanes_known = len(self.lanes)

    # ---- TiDB ------------------------------------------------------------------------------------------------------

    def next_ts(self) -> CommitTs:
        self.ts += self.rng.randint(1, 20)
        return CommitTs(self.ts)

    def value_at(self, table: TableName, key: str, ts: int) -> str | None:
        versions = self.history[table].get(key, [])
        end = bisect_right(versions, ts, key=lambda version: version[0])
        return versions[end - 1][1] if end else None

    def state_at(self, table: TableName, ts: int) -> dict[str, str]:
        result = ((key, self.value_at(table, key, ts)) for key in self.history[table])
        return {key: value for key, value in result if value is not None}

    def transact(self) -> None:
        """One transaction of a few rows; now and then two of them with the same commit_ts."""
        ts = CommitTs(self.ts) if self._log and self._log[-1].commit_ts == self.ts and self.rng.random() < 0.1 else self.next_ts()
        if ts <= self.checkpoint:
            ts = self.next_ts()
        taken = {sent.row for sent in self._log[-20:] if sent.commit_ts == ts}
        for _ in range(self.rng.randint(1, 4)):
            table, key = self.rng.choice(self.tables), f"{self.rng.randrange(40):03d}"
            other = f"{self.rng.randrange(40):03d}"
            if {f"{table}/{key}", f"{table}/{other}"} & taken or key == other:
                continue
            taken |= {f"{table}/{key}", f"{table}/{other}"}
            self._change(table, key, other, ts)

    def _change(self, table: TableName, key: str, other: str, ts: CommitTs) -> None:
        old, value = self.value_at(table, key, ts), f"{ts}-{self.rng.randrange(1000)}"
        if old is None:
            self._put(table, key, None, value, ts)
        elif self.rng.random() < 0.25:
            self._delete(table, key, old, ts)
        elif self.rng.random() < 0.15 and self.value_at(table, other, ts) is None:
            self._delete(table, key, old, ts)
            self._put(table, other, None, value, ts)
        else:
            self._put(table, key, old, value, ts)

    def _put(self, table: TableName, key: str, old: str | None, value: str, ts: CommitTs) -> None:
        self.history[table].setdefault(key, []).append((ts, value))
        kind = "INSERT" if old is None else "UPDATE"
        before = None if old is None else [{"id": key, "v": old}]
        self._capture(table, key, ts, {"type": kind, "data": [{"id": key, "v": value}], "old": before})

    def _delete(self, table: TableName, key: str, old: str, ts: CommitTs) -> None:
        self.history[table][key].append((ts, None))
        self._capture(table, key, ts, {"type": "DELETE", "data": [{"id": key, "v": old}], "old": None})

    def _capture(self, table: TableName, key: str, ts: CommitTs, event: dict[str, object]) -> None:
        value = {"id": 0, "database": table.schema, "table": table.table, "isDdl": False, "ts": self.rng.randrange(10**6), "sql": ""}
        self._log.append(Sent(ts, f"{table}/{key}", b"", json.dumps(value | event | {"_tidb": {"commitTs": ts}}).encode()))

    def rows(self, sql: str, values: Sequence[object] | None = None) -> tuple[tuple[str], ...]:
        """As a session has it. Raises what a client says when nobody answers."""
        if self.away:
            raise pymysql.err.OperationalError(2013, "Lost connection")
        return self.mark_table.rows(sql, values)

    def change(self, sql: str, values: Sequence[object]) -> int:
        """As `rows`."""
        if not self.away:
            return self.mark_table.change(sql, values)
        if self.rng.random() < 0.5:
            self._late.append(partial(self.mark_table.change, sql, values))
        raise pymysql.err.OperationalError(2013, "Lost connection")

    def pass_time(self) -> None:
        """An outage begins, goes on or ends; what nobody waits for any more is carried out."""
        if self.away:
            self.away -= 1
        elif self.rng.random() < 0.02:
            self.away = self.rng.randint(1, 40)
        while self._late and self.rng.random() < 0.2:
            self.late_marks += self._late.pop(0)()

    def _capture_mark(self, changefeed: str, before: Row, after: Row) -> None:
        ts, (uuid, kind) = self.next_ts(), after
        key, value = canal_json.encode_mark(
            commit_ts=ts,
            row_id=1,
            changefeed_id=changefeed,
            uuid=uuid,
            kind=MarkKind(kind),
            previous=(before[0], MarkKind(before[1])),
            now_ms=MESSAGE_TIME_MS,
        )
        self._log.append(Sent(ts, f"{MARK_TABLE}/1", key, value))

    # ---- TiCDC -----------------------------------------------------------------------------------------------------

    def lane_names(self) -> list[Lane]:
        return [Lane(f"kafka/sim/{number}") for number in range(len(self.lanes))]

    def replicate(self) -> None:
        """Send some of what is committed; then, all up to a ts being sent, say so in every lane TiCDC knows of."""
        upto = min(len(self._log), self._sent_to + self.rng.randrange(12))
        batch = self._log[self._sent_to : upto]
        by_row: dict[str, list[Sent]] = {}
        for sent in batch:
            by_row.setdefault(sent.row, []).append(sent)
        while by_row:
            row = self.rng.choice(sorted(by_row))
            self._produce(by_row[row].pop(0))
            if not by_row[row]:
                del by_row[row]
        self._sent_to = upto
        if self.rng.random() < 0.5:
            self._resolve()

    def settle(self) -> None:
        """Nobody writes any more: send everything, and let an idle TiCDC's resolved marks advance."""
        while self._sent_to < len(self._log):
            self.replicate()
        self.next_ts()
        self.lanes_known = len(self.lanes)
        self._resolve()

    def restart_ticdc(self) -> None:
        """TiCDC dies and sends again from an earlier checkpoint: repeated rows, resolved marks that go back."""
        self.checkpoint = max(1_000_000, self.checkpoint - self.rng.randrange(400))
        self._sent_to = bisect_right(self._log, self.checkpoint, key=lambda sent: sent.commit_ts)
        self.lanes_known = len(self.lanes)
        for number in range(self.lanes_known):
            self._mark_resolved(number, self.checkpoint)

    def add_lane(self) -> None:
        """A partition is added. TiCDC learns of it later, and only then feeds it rows and resolved marks."""
        self.lanes.append([])

    def _resolve(self) -> None:
        unsent = self._log[self._sent_to].commit_ts if self._sent_to < len(self._log) else self.ts + 1
        self.checkpoint = max(self.checkpoint, unsent - 1)
        if self.rng.random() < 0.3:
            self.lanes_known = len(self.lanes)
        for number in range(self.lanes_known):
            self._mark_resolved(number, self.checkpoint)

    def _mark_resolved(self, lane: int, ts: int) -> None:
        self.lanes[lane].append(canal_json.encode_resolved(CommitTs(ts), MESSAGE_TIME_MS))

    def _produce(self, sent: Sent) -> None:
        lane = self.lanes[sum(sent.row.encode()) % self.lanes_known]
        for _ in range(2 if self.rng.random() < 0.05 else 1):
            lane.append((sent.key, sent.value))


class SimFeed:
    """The cluster's Kafka as a Feed: any lane's next messages, in any interleaving of the lanes."""

    def __init__(self, cluster: Cluster, rng: Random) -> None:
        self.cluster = cluster
        self.rng = rng
        self.positions: dict[Lane, int] = {}

    def lanes(self) -> frozenset[Lane]:
        return frozenset(self.cluster.lane_names())

    def ends(self) -> Mapping[Lane, int]:
        return {}

    def incarnations(self) -> Mapping[Lane, str]:
        return dict.fromkeys(self.cluster.lane_names(), "")

    def read_ends(self) -> Mapping[Lane, ReadEnd]:
        return NO_READ_ENDS

    def seek(
        self,
        positions: Mapping[Lane, int],
        incarnations: Mapping[Lane, str] = NOT_KNOWN,
        read_ends: Mapping[Lane, ReadEnd] = NO_READ_ENDS,
    ) -> None:
        self.positions = dict(positions)

    def poll(self, *, timeout_s: float) -> Sequence[Message]:
        messages = []
        for lane, stored in zip(self.cluster.lane_names(), self.cluster.lanes, strict=True):
            start = self.positions.get(lane, 0)
            end = min(len(stored), start + self.rng.randrange(15))
            messages += [Message(lane, position, *stored[position]) for position in range(start, end)]
            self.positions[lane] = end
        return messages

    def acknowledge(self, positions: Mapping[Lane, int]) -> None:
        pass
