"""A recording's key-values, pulled again: the puller's stand-in for a cluster, and its clock beside it.

    kv/entries.parquet ─► by key range, in commit order ─► parts that advance independently ─► KvEntry, Pulled

- A wanted range is cut into parts at keys of its own, as regions cut it. Each continues automatically, some way ahead of the others: an
  entry comes before the Pulled that covers it, in any order with those near it, and perhaps more than once.
- At full speed, or at `speed` times the recorded time: an entry is there when its commit_ts's time has come.
- A range that is wanted later gets its history from its ts on, in a go.
- `inject` commits a row of the watermark table, above all that was pulled of it. `now_ts` is later than all that was pulled of any
  range, between recorded commits, never on one: the cluster is ahead of its feed.
- `resends`: so many times everything is interrupted and each part comes again from somewhat before where it was.
- After the last recorded entry a range is idle, as TiKV's are: it is pulled up to a rising ts.

What is above the recording's `end_ts` is omitted: the recorder had not everything of it.
"""

from __future__ import annotations

import json
import time
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from operator import attrgetter
from random import Random

import pyarrow.parquet as pq

from sidecar.feeds.kv.jobs import DdlJobReader
from sidecar.ports import Clock
from sidecar.replay.feed import AHEAD_COMMITS_MAX, CATCH_UP, IDLE_RESOLVED_EVERY_MS, LEAD_MS, Play
from sidecar.replay.kv_rows import DDL_JOB_TABLE_INFO, row_key, row_value
from sidecar.replay.recorded_line import RowChange
from sidecar.replay.recorded_time import recorded_time, tick
from sidecar.replay.recording import Recording
from sidecar.shared.codecs.kv import CODEC, encode_images, images_of
from sidecar.shared.errors import FeedUnsuitable
from sidecar.shared.model.nouns import MARK_TABLE, CommitTs, MarkKind, physical_ms, ts_at
from sidecar.shared.rowcodec.key_values import DDL_JOB_TABLE_ID, KeyRange, KvEntry, KvEvent, Pulled
from sidecar.shared.rowcodec.kv_key import record_key
from sidecar.shared.rowcodec.kv_layout import KvSnapshot
from sidecar.shared.rowcodec.kv_row import decode_row
from sidecar.shared.rowcodec.kv_table import KvTable, kv_table
from sidecar.shared.schema.ddl import DdlJob, Step
from sidecar.shared.schema.history import SchemaHistory
from sidecar.shared.schema.version import SchemaSnapshot

PARTS_MAX = 3
"""A wanted range is at most so many regions."""

RUN_ENTRIES_MAX = 12
"""Entries of one part in a row, in any order."""

REPEATED_ENTRIES_MAX = 30
"""The longest tail of a part that comes again."""

_commit_ts = attrgetter("commit_ts")


class KvRecording:
    """The key-values of one recording. Raises FeedUnsuitable for one without any."""

    codec = CODEC

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        path = recording.folder / "kv" / "entries.parquet"
        if not path.is_file():
            raise FeedUnsuitable(f"the recording {recording.folder} has no key-values", hint="choose one that has kv/entries.parquet")
        table = pq.read_table(path, columns=["op", "key", "value", "old_value", "start_ts", "commit_ts", "region_id"])
        rows = {
            (commit_ts, key): KvEntry(CommitTs(commit_ts), start_ts, key, value or b"", old or b"", region)
            for op, key, value, old, start_ts, commit_ts, region in zip(*(column.to_pylist() for column in table.columns), strict=True)
            if op != "resolved" and recording.start_ts < commit_ts <= recording.end_ts
        }
        self.entries: Sequence[KvEntry] = [rows[place] for place in sorted(rows)]

    def snapshot(self) -> KvSnapshot:
        return snapshot_at_start(self.recording)

    def jobs(self) -> list[DdlJob | Step]:
        jobs = DdlJobReader(kv_table(DDL_JOB_TABLE_INFO, schema="mysql"))
        for entry in self.entries:
            if record_key(entry.key).table_id == DDL_JOB_TABLE_ID:
                jobs.take(entry)
        return jobs.upto(self.recording.end_ts)

    def rows(self, schemas: SchemaHistory[KvTable]) -> Iterator[RowChange]:
        for entry in self.entries:
            physical_id = record_key(entry.key).table_id
            version = schemas.table_at(physical_id, entry.commit_ts - 1)
            if version is not None and version.description.schema.key and (entry.value or entry.old):
                table, key = version.description, entry.key
                before = tuple(decode_row(table, key, entry.old, at_rest=True)) if entry.old else None
                after = tuple(decode_row(table, key, entry.value)) if entry.value else None
                yield RowChange(entry.commit_ts, version.name, physical_id, before, after)

    @cached_property
    def mark_table(self) -> KvTable:
        return mark_table_of(self.snapshot(), self.recording)

    def encode_mark(
        self,
        *,
        commit_ts: int,  # noqa: ARG002 - the entry has it; the other protocols' rows hold it
        row_id: int,
        changefeed_id: str,
        uuid: str,
        kind: MarkKind,
        previous: tuple[str, MarkKind] | None,
        now_ms: int,
    ) -> tuple[bytes | None, bytes]:
        """Key and value, as the log has them (shared/codecs/kv.py), of one version of the watermark row; for `RecordedPuller.inject`."""

        def image(uuid: str, kind: MarkKind) -> bytes:
            texts: dict[str, int | str] = {"changefeed_id": changefeed_id, "unique_identifier": uuid, "event_type": int(kind)}
            return row_value(self.mark_table, texts | {"create_time": now_ms // 1000, "update_time": now_ms // 1000})

        old = b"" if previous is None else image(*previous)
        return row_key(self.mark_table.id, row_id), encode_images(image(uuid, kind), old)


def snapshot_at_start(recording: Recording) -> KvSnapshot:
    """The tables at `start_ts`."""
    folder = recording.folder / "schema" / str(recording.start_ts)
    try:
        schemas = [
            SchemaSnapshot(
                item["id"],
                item["db_name"]["O"],
                [json.loads(path.read_bytes()) for path in sorted(folder.glob(f"{item['db_name']['O']}.*.json"))],
            )
            for item in json.loads((folder / "schemas.json").read_bytes())
        ]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FeedUnsuitable(f"{folder} does not hold the tables: {error!r}", hint="give the folder of a whole recording") from error
    return KvSnapshot(recording.start_ts, schemas, DDL_JOB_TABLE_INFO, new_collation=True)


def mark_table_of(snapshot: KvSnapshot, recording: Recording) -> KvTable:
    """Raises FeedUnsuitable for a recording without it."""
    infos = (info for schema in snapshot.schemas if schema.name == MARK_TABLE.schema for info in schema.tables)
    info = next((info for info in infos if info["name"]["O"] == MARK_TABLE.table), None)
    if info is None:
        raise FeedUnsuitable(f"the recording {recording.folder} has no {MARK_TABLE}", hint="choose one with a dump")
    return kv_table(info, schema=MARK_TABLE.schema)


@dataclass(eq=False, slots=True)
class _Part:
    """A region's share of a wanted range. `entries` in commit order; below `next` they are delivered. `upto_ts`: pulled."""

    range: KeyRange
    entries: list[KvEntry]
    upto_ts: CommitTs
    next: int = 0

    def next_ts(self) -> CommitTs | None:
        return self.entries[self.next].commit_ts if self.next < len(self.entries) else None


class RecordedPuller:
    """sidecar.ports.Puller over a recording. Equal plays and calls give equal events.

    `config`: what encodes marks, as a feed's (sidecar.replay.source.Cluster). `clock` is needed for recorded time only.
    """

    def __init__(
        self, recording: KvRecording, play: Play | None = None, *, clock: Clock | None = None, wait: Callable[[float], None] = time.sleep
    ) -> None:
        self.config = recording
        self.play = play or Play()
        self.durable: dict[KeyRange, CommitTs] = {}
        self._recording = recording.recording
        self._entries = list(recording.entries)
        self._recorded = len(self._entries)
        self._commits = sorted({entry.commit_ts for entry in self._entries})
        self._taken_ts = set(self._commits)
        self._random = Random(self.play.seed)
        self._lead = ts_at(self._random.randint(*LEAD_MS))
        self._restarts = sorted(self._random.randrange(1, self._recorded + 1) for _ in range(self.play.resends))
        self._delivered = 0
        self._wanted: dict[KeyRange, tuple[CommitTs, list[_Part]]] = {}
        self._queue: list[KvEvent] = []
        self._played_ts = self._now_ts = self._first_ts = self._recording.start_ts
        self._time = recorded_time(self.play.speed, clock, wait)

    # ---- the port ---------------------------------------------------------------------------------------------------

    def want(self, wanted: Mapping[KeyRange, CommitTs]) -> None:
        for ended in self._wanted.keys() - wanted.keys():
            del self._wanted[ended]
            self.durable.pop(ended, None)
        self._queue = [event for event in self._queue if self._is_wanted(event)]
        for begun, from_ts in wanted.items():
            if begun not in self._wanted:
                self._wanted[begun] = (from_ts, self._cut(begun, from_ts))

    def poll(self, *, timeout_s: float) -> Sequence[KvEvent]:
        self._restart_if_due()
        if self._time is not None and not self._ready():
            self._time.let_pass(self._missing_ms(), timeout_s=timeout_s)
        room = self._random.randint(1, self.play.batch_messages_max)
        if any(self._is_behind(part) for part in self._parts()):
            room *= CATCH_UP
        events, self._queue = self._queue, []
        for _ in range(room):
            ready = self._ready()
            if not ready:
                break
            events += self._step(self._random.choice(ready))
        return events

    def acknowledge(self, durable: Mapping[KeyRange, CommitTs]) -> None:
        for key_range, ts in durable.items():
            if key_range in self._wanted:
                self.durable[key_range] = max(ts, self.durable.get(key_range, CommitTs(0)))

    def close(self) -> None:
        """Nothing is open."""

    # ---- the cluster behind it --------------------------------------------------------------------------------------

    @property
    def exhausted(self) -> bool:
        """All of what is wanted has been pulled to the end of the recording."""
        return all(part.upto_ts >= self._recording.end_ts for part in self._parts())

    def played_part(self) -> float:
        """How much of the recording has been pulled of what is wanted, 0 to 1."""
        first, end = self._first_ts, self._recording.end_ts
        upto_ts = min((part.upto_ts for part in self._parts()), default=first)
        return min(max((upto_ts - first) / (end - first), 0.0), 1.0)

    def now_ts(self) -> CommitTs:
        """The cluster's time: later than before and than all that was pulled, between recorded commits, never on one."""
        if self._time is not None:
            return self._tick(self._clock_ts())
        commits = bisect_right(self._commits, self._played_ts) + self._random.randint(0, AHEAD_COMMITS_MAX)
        return self._tick(self._commits[min(commits, len(self._commits)) - 1] if commits and self._commits else 0)

    def reached_ms(self) -> int:
        """The cluster's time, in milliseconds since 1970; asking does not advance it."""
        return physical_ms(max(self._now_ts, self._played_ts, self._clock_ts()))

    def inject(self, commit_ts: CommitTs, key: bytes | None, value: bytes) -> None:
        """A row of the watermark table is committed; `key` and `value` as `encode_mark` made them.

        Raises ValueError for a commit_ts up to which its range has been pulled.
        """
        assert key is not None
        images = images_of(value)
        entry = KvEntry(commit_ts, commit_ts - 1, key, images.new, images.old)
        insort(self._entries, entry, key=_commit_ts)
        for part in self._parts():
            if key in part.range:
                if commit_ts <= part.upto_ts:
                    raise ValueError(f"commit_ts {commit_ts} is late: {part.upto_ts} is pulled")
                part.entries.insert(bisect_left(part.entries, commit_ts, lo=part.next, key=_commit_ts), entry)

    # ---- playing ----------------------------------------------------------------------------------------------------

    def _parts(self) -> Iterator[_Part]:
        for _, parts in self._wanted.values():
            yield from parts

    def _cut(self, wanted: KeyRange, from_ts: CommitTs) -> list[_Part]:
        entries = [entry for entry in self._entries if entry.commit_ts > from_ts and entry.key in wanted]
        keys = sorted({entry.key for entry in entries if entry.key > wanted.start})
        cuts = self._random.sample(keys, min(len(keys), self._random.randrange(PARTS_MAX)))
        edges = [wanted.start, *sorted(cuts), wanted.end]
        return [
            _Part(KeyRange(start, end), [entry for entry in entries if start <= entry.key < end], from_ts) for start, end in pairwise(edges)
        ]

    def _step(self, part: _Part) -> list[KvEvent]:
        """A run of entries, some of them twice; then perhaps how far the part is."""
        horizon = self._horizon()
        near = part.entries[part.next : part.next + self._random.randint(0, RUN_ENTRIES_MAX)]
        run = [entry for entry in near if entry.commit_ts <= horizon]
        part.next += len(run)
        self._delivered += len(run)
        events: list[KvEvent] = list(run)
        if run and self._random.random() < 0.1:
            events.append(self._random.choice(run))
        self._random.shuffle(events)
        self._played_ts = max([self._played_ts, *(entry.commit_ts for entry in run)])
        if not run or self._random.random() < 0.5:
            events += self._advance(part)
        return events

    def _advance(self, part: _Part) -> list[KvEvent]:
        next_ts = part.next_ts()
        highest = self._idle_ts(part) if next_ts is None else min(CommitTs(next_ts - 1), self._horizon())
        if highest <= part.upto_ts:
            return []
        at_once = next_ts is None or self._random.random() < 0.5
        part.upto_ts = CommitTs(highest if at_once else self._random.randint(part.upto_ts + 1, highest))
        self._played_ts = max(self._played_ts, part.upto_ts)
        return [Pulled(part.range, part.upto_ts)]

    def _idle_ts(self, part: _Part) -> CommitTs:
        """Up to the end of the recording, as fast as the others go; after that the cluster's time, which nothing can precede."""
        horizon = self._horizon()
        return horizon if part.upto_ts < self._recording.end_ts else max(horizon, self._tick(self._clock_ts()))

    def _horizon(self) -> CommitTs:
        """Up to where a part may go: its time has come, or it does not run too far ahead of the slowest one."""
        if self._time is not None:
            return CommitTs(max(self._clock_ts(), self._first_ts))
        slowest = min((part.upto_ts for part in self._parts()), default=self._first_ts)
        return CommitTs(min(slowest + self._lead, max(self._recording.end_ts, self._now_ts)))

    def _ready(self) -> list[_Part]:
        horizon, end = self._horizon(), self._recording.end_ts
        parts = [part for part in self._parts() if part.upto_ts < horizon]
        if parts or any(part.upto_ts < end for part in self._parts()):
            return parts
        if self._time is not None:
            idle = ts_at(IDLE_RESOLVED_EVERY_MS)
            return [part for part in self._parts() if part.upto_ts + idle <= self._clock_ts()]
        return list(self._parts())

    def _is_behind(self, part: _Part) -> bool:
        """Whether it reads again what was pulled before it was wanted, or once more after a crash."""
        return part.upto_ts + 2 * self._lead < self._played_ts

    def _restart_if_due(self) -> None:
        while self._restarts and self._delivered >= self._restarts[0]:
            del self._restarts[0]
            for part in self._parts():
                tail = self._random.randint(0, min(part.next, REPEATED_ENTRIES_MAX))
                self._queue += part.entries[part.next - tail : part.next]

    def _is_wanted(self, event: KvEvent) -> bool:
        return isinstance(event, KvEntry) and any(event.key in wanted for wanted in self._wanted)

    # ---- time -------------------------------------------------------------------------------------------------------

    def _clock_ts(self) -> CommitTs:
        """Recorded time as it goes by; 0 at full speed."""
        return CommitTs(0) if self._time is None else CommitTs(self._first_ts + ts_at(self._time.passed_ms()))

    def _missing_ms(self) -> int:
        """Until something is there."""
        next_ts = min((ts for part in self._parts() if (ts := part.next_ts()) is not None), default=None)
        now_ts = self._clock_ts()
        return physical_ms((next_ts or now_ts + ts_at(IDLE_RESOLVED_EVERY_MS)) - now_ts)

    def _tick(self, not_before: int) -> CommitTs:
        self._now_ts = tick(max(self._now_ts, self._played_ts, not_before), self._taken_ts)
        return self._now_ts
