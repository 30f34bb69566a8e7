"""What TiKV sends about one region becomes committed writes: a prewrite has the value, its commit only the two timestamps.

    scan    COMMITTED (whole writes) and PREWRITE (what is open), in no order, mixed with what happens meanwhile; INITIALIZED ends it
    live    PREWRITE … COMMIT | ROLLBACK by (start_ts, key); COMMITTED where one round trip was enough (1PC)

- Before INITIALIZED a commit may come before its prewrite, or have none because the scan sent it as COMMITTED: it waits until then.
- A transaction's heartbeat repeats its prewrite as a PUT without a value: never in place of one that is there, and no match before
  INITIALIZED. A pipelined transaction prewrites a key again with each flush: the highest generation counts.
- Complete to `checkpoint_ts` from the start: what is at or below it is dropped. After that a write at or below a resolved mark is a
  broken promise, and a commit without a prewrite a lost value: both raise. A mark that falls is not: TiKV sends one mark for a
  group of regions, the lowest of theirs. It is dropped, and so is one before INITIALIZED.
- Prewrites are held as long as their transactions are open; `held_bytes` counts them.

From tiflow cdc/kv/matcher.go, shared_region_worker.go; tikv components/cdc/src/{delegate,endpoint}.rs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, NoReturn, Protocol

from sidecar.shared.errors import MessageUnreadable
from sidecar.shared.model.nouns import CommitTs
from sidecar.shared.rowcodec.key_values import KeyRange, KvEntry

PREWRITE, COMMIT, ROLLBACK, COMMITTED, INITIALIZED = 1, 2, 3, 4, 5
PUT, DELETE = 1, 2
"""cdcpb.Event.LogType and cdcpb.Event.Row.OpType."""

_LOG_TYPES = {PREWRITE: "PREWRITE", COMMIT: "COMMIT", ROLLBACK: "ROLLBACK", COMMITTED: "COMMITTED", INITIALIZED: "INITIALIZED"}

_REPORT = "start the sidecar again, which reads on from its log; if it stops here again, report this with the TiKV version"


class EventRow(Protocol):
    """cdcpb.Event.Row, as protobuf or as anything else."""

    @property
    def start_ts(self) -> int: ...

    @property
    def commit_ts(self) -> int: ...

    @property
    def type(self) -> int: ...

    @property
    def op_type(self) -> int: ...

    @property
    def key(self) -> bytes: ...

    @property
    def value(self) -> bytes: ...

    @property
    def old_value(self) -> bytes: ...

    @property
    def generation(self) -> int: ...


class _Prewrite(NamedTuple):
    value: bytes
    old: bytes
    generation: int


class _Waiting(NamedTuple):
    """A commit or rollback that came before INITIALIZED. `commit_ts` 0: a rollback."""

    commit_ts: int
    start_ts: int
    key: bytes
    op_type: int


class RegionMatcher:
    """One subscription of one region. `range`: the requested keys, raw. After an error it must not be used any more."""

    __slots__ = (
        "_early_commits",
        "_early_rollbacks",
        "_open",
        "checkpoint_ts",
        "held_bytes",
        "initialized",
        "range",
        "region",
        "resolved_ts",
    )

    def __init__(self, region: int, range: KeyRange, checkpoint_ts: CommitTs) -> None:
        self.region = region
        self.range = range
        self.checkpoint_ts = checkpoint_ts
        self.resolved_ts = checkpoint_ts
        self.initialized = False
        self.held_bytes = 0
        self._open: dict[tuple[int, bytes], _Prewrite] = {}
        self._early_commits: list[_Waiting] = []
        self._early_rollbacks: list[_Waiting] = []

    def entries(self, rows: Iterable[EventRow]) -> Sequence[KvEntry]:
        """What is committed by these rows. Raises MessageUnreadable, naming region, key and timestamps."""
        entries: list[KvEntry] = []
        for row in rows:
            kind = row.type
            if kind == INITIALIZED:
                self._initialize(entries)
                continue
            key, start_ts = row.key, row.start_ts
            if not self.range.start <= key < self.range.end:
                self._refuse(kind, key, start_ts, row.commit_ts, f"outside the range [{self.range.start.hex()}, {self.range.end.hex()})")
            if kind == PREWRITE:
                self._prewrite(start_ts, key, row)
            elif kind == COMMIT:
                if (self.initialized or self._matches_early(start_ts, key)) and (prewrite := self._take(start_ts, key)) is not None:
                    self._add(entries, kind, row.commit_ts, start_ts, key, row.op_type, prewrite.value, prewrite.old)
                elif self.initialized:
                    self._refuse(kind, key, start_ts, row.commit_ts, "without a prewrite")
                else:
                    self._early_commits.append(_Waiting(row.commit_ts, start_ts, key, row.op_type))
            elif kind == COMMITTED:
                self._add(entries, kind, row.commit_ts, start_ts, key, row.op_type, row.value, row.old_value)
            elif kind == ROLLBACK:
                if self.initialized:
                    self._take(start_ts, key)
                else:
                    self._early_rollbacks.append(_Waiting(0, start_ts, key, row.op_type))
            else:
                self._refuse(kind, key, start_ts, row.commit_ts, f"of log type {kind}, which is not known")
        return entries

    def resolve(self, ts: CommitTs) -> bool:
        """A resolved mark came. Whether it completes more than was complete: then `resolved_ts` is that."""
        if not self.initialized or ts <= self.resolved_ts:
            return False
        self.resolved_ts = ts
        return True

    def _prewrite(self, start_ts: int, key: bytes, row: EventRow) -> None:
        place = (start_ts, key)
        value, generation = row.value, row.generation
        before = self._open.get(place)
        if before is not None:
            if generation < before.generation or (not value and row.op_type != DELETE):
                return
            self.held_bytes -= len(key) + len(before.value) + len(before.old)
        old = row.old_value
        self._open[place] = _Prewrite(value, old, generation)
        self.held_bytes += len(key) + len(value) + len(old)

    def _matches_early(self, start_ts: int, key: bytes) -> bool:
        """Without a value it may be a heartbeat's, and of a later flush the prewrite may be still to come."""
        prewrite = self._open.get((start_ts, key))
        return prewrite is not None and bool(prewrite.value) and not prewrite.generation

    def _take(self, start_ts: int, key: bytes) -> _Prewrite | None:
        prewrite = self._open.pop((start_ts, key), None)
        if prewrite is not None:
            self.held_bytes -= len(key) + len(prewrite.value) + len(prewrite.old)
        return prewrite

    def _initialize(self, entries: list[KvEntry]) -> None:
        self.initialized = True
        for early in self._early_commits:
            prewrite = self._take(early.start_ts, early.key)
            if prewrite is not None and (prewrite.value or early.op_type != PUT):  # else a heartbeat's alone: the scan sent the write whole
                self._add(entries, COMMIT, early.commit_ts, early.start_ts, early.key, early.op_type, prewrite.value, prewrite.old)
        for early in self._early_rollbacks:
            self._take(early.start_ts, early.key)
        self._early_commits, self._early_rollbacks = [], []

    def _add(
        self, entries: list[KvEntry], kind: int, commit_ts: int, start_ts: int, key: bytes, op_type: int, value: bytes, old: bytes
    ) -> None:
        if commit_ts <= self.checkpoint_ts:
            return
        if commit_ts <= self.resolved_ts:
            self._refuse(kind, key, start_ts, commit_ts, f"late, for the region was resolved to {self.resolved_ts}")
        if op_type != (PUT if value else DELETE):
            what = {PUT: "PUT", DELETE: "DELETE"}.get(op_type, f"operation {op_type}")
            self._refuse(kind, key, start_ts, commit_ts, f"a {what} with a value of {len(value)} bytes")
        entries.append(KvEntry(CommitTs(commit_ts), start_ts, key, value, old, self.region))

    def _refuse(self, kind: int, key: bytes, start_ts: int, commit_ts: int, what: str) -> NoReturn:
        name = _LOG_TYPES.get(kind, "row")
        raise MessageUnreadable(
            f"TiKV's region {self.region} sent a {name} of key {key.hex() or '(empty)'},"
            f" start_ts {start_ts}, commit_ts {commit_ts}: it is {what}",
            hint=_REPORT,
        )
