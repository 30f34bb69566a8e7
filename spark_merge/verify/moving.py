"""The keys that the log changes between two positions: a difference in one of them says nothing, for the two sides were read at different
moments.

    LogKeys: each segment once, for all checks ─► Moving: of one table, from a position on

A key of a change in `(low_ts, ∞)` of the segments that are in the log counts, and so does a key of a dump's chunk whose window closes
there: the sink may have received the chunk or not.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from sidecar.shared.log import storage
from sidecar.shared.log.layout import manifest_name
from sidecar.shared.log.manifest import Manifest
from sidecar.shared.log.skips import skipped_rows
from sidecar.shared.log.storage import Folder
from sidecar.shared.model.nouns import CommitTs, Seq, TableName, TableSchema
from spark_merge.delivery.batches import JobSettings
from spark_merge.log.read import LoggedSchemas, new_manifests, whole_pages
from spark_merge.log.segments import Segments, SegmentSource
from spark_merge.port.contract import Head
from spark_merge.port.keys import key_text

MANIFESTS_AT_ONCE = 200
ROWS_AT_ONCE = 20_000
"""Of segments that are passed without a word to the gate: a second of one core."""
KEYS_KEPT_MAX = 2_000_000
"""Of segments that were passed: a check that asks for one that is not kept any more reads it again. About 100 MB."""
KEYS_OF_TABLE = 32
"""What a table's arrays of a segment take beside their keys, in keys: 1.5 KB, measured. With few changes it is nearly all."""

_NO_KEYS = pa.array([], pa.string())


@dataclass(frozen=True, slots=True)
class PassedSegment:
    """`keys` (merge.key_text) and `commit_ts` of each change, and `dumped`, the keys of due chunks, by table; of the compared tables only.
    `schemas`: before and after its DDLs."""

    seq: Seq
    upto_ts: CommitTs
    schemas: tuple[LoggedSchemas, ...]
    keys: dict[TableName, pa.Array]
    commit_ts: dict[TableName, pa.Array]
    dumped: dict[TableName, pa.Array]

    @property
    def weight(self) -> int:
        """What it takes, in keys."""
        tables = [*self.keys.values(), *self.dumped.values()]
        return sum(map(len, tables)) + KEYS_OF_TABLE * len(tables)


class LogKeys:
    """Of one log, for several threads. `tables`: those that are compared. `gate`: as of CheckContext."""

    def __init__(self, settings: JobSettings, tables: Collection[TableName], *, gate: Callable[[float], object] = lambda _: None) -> None:
        self.settings, self._tables, self._gate = settings, frozenset(tables), gate
        self._lock = Lock()
        self._kept: OrderedDict[Seq, PassedSegment] = OrderedDict()
        self._weight = 0
        self._end = _Look(Seq(-1), float("-inf"))

    def after(self, seq: Seq | None) -> Iterator[PassedSegment]:
        """The segments after this one that are in the log now; None: all. Raises what reading and decoding the log raises."""
        end, began_s = self._last(seq), time.monotonic()
        while seq is None or seq < end:
            segments = self._next(seq)
            self._gate(time.monotonic() - began_s)
            yield from (one for one in segments if one.seq <= end)
            if not segments:
                return
            seq, began_s = segments[-1].seq, time.monotonic()

    def _last(self, seq: Seq | None) -> Seq:
        """The log's last segment, as of now or later: it is looked for from `seq` on, in steps that double and then halve."""
        now_s = time.monotonic()
        with self._lock:
            if self._end.began_s < now_s:
                began_s, log = time.monotonic(), self.settings.log
                if seq is None:
                    first = new_manifests(log, after=None, limit=1)
                    seq = first[0].seq if first else Seq(-1)
                self._end = _Look(_last_of(log, max(seq, self._end.seq)), began_s)
                if self._end.seq == seq:
                    new_manifests(log, after=seq, limit=1)  # raises where there should be one
            return self._end.seq

    def _next(self, seq: Seq | None) -> list[PassedSegment]:
        with self._lock:
            if seq is not None and (kept := self._kept.get(Seq(seq + 1))) is not None:
                return [kept]
            manifests = new_manifests(self.settings.log, after=seq, limit=MANIFESTS_AT_ONCE)
            segments = list(self._passed(_at_once(manifests)))
            for one in segments:
                if one.seq not in self._kept:
                    self._kept[one.seq] = one
                    self._weight += one.weight
            while self._weight > KEYS_KEPT_MAX and len(self._kept) > 1:
                _, gone = self._kept.popitem(last=False)
                self._weight -= gone.weight
            return segments

    def _passed(self, manifests: Sequence[Manifest]) -> Iterator[PassedSegment]:
        load, log = partial(LoggedSchemas, self.settings.log), self.settings.log
        schemas = {one.seq: (load(one.schemas), load(one.next_schemas or one.schemas)) for one in manifests}
        heads = {one.seq: Head(one, *schemas[one.seq]) for one in manifests}
        skips = skipped_rows(log) if heads else {}
        source = SegmentSource(
            log, heads, self.settings.server_tz, self.settings.ambiguous, {seq: skips[seq] for seq in skips.keys() & heads.keys()}
        )
        segments = Segments(source, raw=False)
        for seq, head in heads.items():
            keys, commit_ts = dict[TableName, pa.Array](), dict[TableName, pa.Array]()
            for table in self._tables & segments.tables(segments.part(seq)).keys() & head.schemas.keys():
                rows = pa.concat_tables([item.select(["key", "commit_ts"]) for item in segments.decoded(seq, table)])
                keys[table], commit_ts[table] = rows["key"].combine_chunks(), rows["commit_ts"].combine_chunks()
            dumped = dict[TableName, pa.Array]()
            for due in head.due_chunks():
                if due.table in self._tables:
                    chunk = self._of_chunk(head.schemas[due.table], due.path)
                    dumped[due.table] = pa.concat_arrays([dumped.get(due.table, _NO_KEYS), chunk])
            yield PassedSegment(seq, head.upto_ts, schemas[seq], keys, commit_ts, dumped)

    def _of_chunk(self, schema: TableSchema, path: str) -> pa.Array:
        with storage.open_to_read(self.settings.log, path) as file:
            rows = whole_pages(file).read(columns=list(schema.key))
        return key_text([rows.column(name) for name in schema.key]).combine_chunks()


class _Look(NamedTuple):
    """For the log's end: what it was, and when the look began."""

    seq: Seq
    began_s: float


def _last_of(log: Folder, seq: Seq) -> Seq:
    """Segments have consecutive numbers, and those from `seq` on are kept."""
    step = 1
    while storage.exists(log, manifest_name(Seq(seq + step))):
        seq, step = Seq(seq + step), 2 * step
    while step > 1:
        step //= 2
        if storage.exists(log, manifest_name(Seq(seq + step))):
            seq = Seq(seq + step)
    return seq


def _at_once(manifests: Sequence[Manifest]) -> Sequence[Manifest]:
    """The first of them, one at least."""
    rows = 0
    for number, manifest in enumerate(manifests, 1):
        rows += manifest.rows
        if rows >= ROWS_AT_ONCE:
            return manifests[:number]
    return manifests


class Moving:
    """Of one table, from segment `after` on. `keys`: all that were changed in the segments that `follow` has passed."""

    def __init__(self, log: LogKeys, schema: TableSchema, *, after: Seq | None, low_ts: CommitTs, keys: pa.Array | None = None) -> None:
        """`schema`: of the table after segment `after`. `keys`: those that are known to be moving by then."""
        self._log, self.table, self._low_ts = log, schema.name, low_ts
        self._schema = schema
        self._keys: list[pa.Array] = [] if keys is None else [keys]
        self.seq = after
        self.upto_ts = low_ts
        self.altered = False
        """A DDL has changed the table, or removed it."""

    @property
    def keys(self) -> pa.Array:
        self._keys = [pc.unique(pa.concat_arrays([_NO_KEYS, *self._keys]))]
        return self._keys[0]

    def follow(self) -> CommitTs:
        """Pass the segments that are in the log now, and none that comes meanwhile: else it would not end where the log grows faster than
        it can be followed. Returns to where. Raises as `LogKeys.after`."""
        for passed in self._log.after(self.seq):
            self.altered |= any(self._is_another(schemas.get(self.table)) for schemas in passed.schemas)
            if (keys := passed.keys.get(self.table)) is not None:
                self._keys.append(keys.filter(pc.greater(passed.commit_ts[self.table], self._low_ts)))
            if (dumped := passed.dumped.get(self.table)) is not None:
                self._keys.append(dumped)
            self.seq, self.upto_ts = passed.seq, passed.upto_ts
        return self.upto_ts

    def _is_another(self, schema: TableSchema | None) -> bool:
        return schema is None or schema.undefined() != self._schema.undefined()
