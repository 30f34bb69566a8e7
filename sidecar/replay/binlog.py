"""A recording's pumps, read again: a stand-in for what a drainer reads, and the cluster's clock beside it.

    pumps/{node id}.bin.gz ─► one lane a pump, in its order ─► transactions, DDLs, fakes;   lane `pumps` ─► who has joined

- Each pump continues automatically, in batches, as a seed decides, some way ahead of the others by the times at which its answers came:
  where one stood while it was recorded, it stands here.
- A pump that came while it was recorded joins when the registry is read after its coming. What `pumps` resolves was requested before.
- `resends`: so many times all connections break, and each pump streams again from somewhat before where it was.
- `inject` commits a row of the watermark table, through some pump. `now_ts` is later than all that was streamed, between recorded
  commits, never on one.
- A pump that has nothing left sends fakes, with rising ts.

What is above the recording's `end_ts` is omitted, and so is what is not above its start.
"""

from __future__ import annotations

import gzip
import json
import struct
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from sidecar.feeds.binlog.jobs import BinlogJobs, DdlBinlog
from sidecar.feeds.binlog.joining import PUMPS_LANE, lane_of
from sidecar.feeds.binlog.rows import BinlogRows
from sidecar.feeds.kv.schemas import KvSchemas
from sidecar.ports import Clock
from sidecar.replay.binlog_rows import transaction
from sidecar.replay.feed import (
    AHEAD_COMMITS_MAX,
    CATCH_UP,
    IDLE_RESOLVED_EVERY_MS,
    LEAD_MS,
    NO_TS,
    RESEND_MESSAGES_MAX,
    RUN_MESSAGES_MAX,
    Play,
)
from sidecar.replay.kv import mark_table_of, snapshot_at_start
from sidecar.replay.net_rows import FalseDelete, net_rows, without_false_deletes
from sidecar.replay.recorded_line import RowChange
from sidecar.replay.recorded_time import recorded_time, tick
from sidecar.replay.recording import Recording
from sidecar.shared.codecs.binlog import CODEC, BinlogCodec
from sidecar.shared.codecs.kv import encode_resolved
from sidecar.shared.errors import FeedUnsuitable
from sidecar.shared.model.nouns import Change, CommitTs, Lane, MarkKind, Message, physical_ms, ts_at
from sidecar.shared.rowcodec.kv_layout import KvSnapshot
from sidecar.shared.rowcodec.kv_table import KvTable
from sidecar.shared.schema.ddl import DdlJob
from sidecar.shared.schema.history import SchemaHistory
from sidecar.shared.ticdc.changefeed import FeedFilter
from sidecar.shared.ticdc.ddl_rules import DdlRules
from ticdc_dump.binlog.binlog_pb2 import Binlog, Rollback

_SIZE = struct.Struct("<I")


class Frame(NamedTuple):
    """`due_ts`: when it came, as a TSO."""

    due_ts: CommitTs
    commit_ts: CommitTs
    payload: bytes


class RecordedPump(NamedTuple):
    """`joined_ts`: when it came online, 0: before the recording's start."""

    node_id: str
    joined_ts: CommitTs
    frames: Sequence[Frame]


class BinlogRecording:
    """The binlogs of one recording. Raises FeedUnsuitable for one without any."""

    codec = CODEC

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        folder = recording.folder / "pumps"
        try:
            result = json.loads((folder / "pumps.json").read_bytes())["pumps"]
            self.pumps = tuple(self._pump(folder, one) for one in result)
        except (OSError, ValueError, KeyError, struct.error) as error:
            raise FeedUnsuitable(
                f"the recording {recording.folder} has no binlogs that can be read: {error!r}", hint="choose one that has pumps/pumps.json"
            ) from error

    def _pump(self, folder: Path, value: dict[str, Any]) -> RecordedPump:
        node_id, joined_ts = value["node_id"], CommitTs(int(value["first_seen_online_update_ts"]))
        with gzip.open(folder / f"{node_id}.arrivals.jsonl.gz") as lines:
            arrivals_ms = [json.loads(line)[0] for line in lines]
        frames: list[Frame] = []
        for at_ms, payload in zip(arrivals_ms, _payloads(folder / f"{node_id}.bin.gz"), strict=True):
            commit_ts = CommitTs(Binlog.FromString(payload).commit_ts)
            if self.recording.start_ts < commit_ts <= self.recording.end_ts:
                frames.append(Frame(max(commit_ts, ts_at(at_ms), frames[-1].due_ts if frames else commit_ts), commit_ts, payload))
        return RecordedPump(node_id, joined_ts if joined_ts > self.recording.start_ts else CommitTs(0), frames)

    # ---- what a RecordedHistory is made of --------------------------------------------------------------------------

    def snapshot(self) -> KvSnapshot:
        return snapshot_at_start(self.recording)

    def jobs(self) -> list[DdlJob]:
        queue = BinlogJobs(self.metas.get, wait_max_s=0.0)
        binlogs = {binlog.commit_ts: binlog for binlog in self._binlogs if binlog.ddl_job_id}
        ddls = (
            DdlBinlog(CommitTs(ts), one.ddl_job_id, one.ddl_schema_state, one.ddl_query.decode()) for ts, one in sorted(binlogs.items())
        )
        return [job for ddl in ddls if (job := queue.job(ddl)) is not None]

    def rows(self, schemas: SchemaHistory[KvTable]) -> Sequence[RowChange]:  # noqa: ARG002  # rows are of several versions of a table
        return self._true_rows[0]

    @property
    def false_deletes(self) -> Sequence[FalseDelete]:
        return self._true_rows[1]

    @cached_property
    def _true_rows(self) -> tuple[Sequence[RowChange], Sequence[FalseDelete]]:
        changes = net_rows(self.schemas(), self.jobs(), self.changes, self.recording.end_ts)
        return (changes, ()) if self.recording.ddls else without_false_deletes(self.recording, changes)

    def schemas(self) -> KvSchemas:
        rules = DdlRules.of(FeedFilter(rules=("*.*",)), new_architecture=False)
        return KvSchemas(self.snapshot, rules, rows=BinlogRows())

    @cached_property
    def changes(self) -> Sequence[Change]:
        """The row events of every transaction, once, by commit_ts, in their order."""
        codec, by_ts = BinlogCodec(lambda: self.mark_table), {}
        for pump in self.pumps:
            for frame in pump.frames:
                if not Binlog.FromString(frame.payload).ddl_job_id:
                    message = Message(lane_of(pump.node_id), frame.commit_ts, None, frame.payload)
                    by_ts[frame.commit_ts] = [one for one in codec.envelopes(message) if isinstance(one, Change)]
        return [change for _, changes in sorted(by_ts.items()) for change in changes]

    @cached_property
    def _binlogs(self) -> Sequence[Binlog]:
        return [Binlog.FromString(frame.payload) for pump in self.pumps for frame in pump.frames]

    @cached_property
    def metas(self) -> Mapping[int, bytes]:
        """`job_meta` of the DDL jobs, by id."""
        path = self.recording.folder / "schema" / "ddl_history.jsonl"
        try:
            jobs = [json.loads(line) for line in path.read_text().splitlines()]
            return {one["job_id"]: one["job_meta"].encode() for one in jobs}
        except (OSError, ValueError, KeyError) as error:
            raise FeedUnsuitable(f"{path} does not hold the DDL jobs: {error!r}", hint="give the folder of a whole recording") from error

    # ---- marks ------------------------------------------------------------------------------------------------------

    @cached_property
    def mark_table(self) -> KvTable:
        return mark_table_of(self.snapshot(), self.recording)

    def encode_mark(
        self,
        *,
        commit_ts: int,
        row_id: int,
        changefeed_id: str,
        uuid: str,
        kind: MarkKind,
        previous: tuple[str, MarkKind] | None,
        now_ms: int,
    ) -> tuple[bytes | None, bytes]:
        """The binlog of one version of the watermark row; for `RecordedPumps.inject`."""

        def image(uuid: str, kind: MarkKind) -> dict[str, int | str]:
            named: dict[str, int | str] = {"id": row_id, "changefeed_id": changefeed_id, "unique_identifier": uuid, "event_type": int(kind)}
            return named | {"create_time": now_ms // 1000, "update_time": now_ms // 1000}

        before = None if previous is None else image(*previous)
        return None, transaction(self.mark_table, CommitTs(commit_ts), before, image(uuid, kind))


def _payloads(path: Path) -> Iterator[bytes]:
    data, at = gzip.decompress(path.read_bytes()), 0
    while at < len(data):
        (size,) = _SIZE.unpack_from(data, at)
        at += _SIZE.size + size
        yield data[at - size : at]


@dataclass(eq=False, slots=True)
class _Stream:
    """`frames` in commit order; below `next` they are delivered. `recorded`: of the recording. `streamed_ts`: the highest ts that was."""

    lane: Lane
    joined_ts: CommitTs
    frames: list[Frame]
    next: int = 0
    streamed_ts: CommitTs = NO_TS

    def due_ts(self) -> CommitTs | None:
        return self.frames[self.next].due_ts if self.next < len(self.frames) else None


class RecordedPumps:
    """sidecar.feeds.binlog.feed.Pumps over a recording. Equal plays and calls give equal messages.

    `config`: what encodes marks, as a feed's (sidecar.replay.source.Cluster). `clock` is needed for recorded time only.
    """

    def __init__(
        self,
        recording: BinlogRecording,
        play: Play | None = None,
        *,
        clock: Clock | None = None,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        self.config = recording
        self.play = play or Play()
        self.durable_ts = CommitTs(0)
        result = recording.recording
        self._end_ts = result.end_ts
        self._streams = [_Stream(lane_of(pump.node_id), pump.joined_ts, list(pump.frames)) for pump in recording.pumps]
        self._commits = sorted({frame.commit_ts for stream in self._streams for frame in stream.frames})
        self._recorded = sum(len(stream.frames) for stream in self._streams)
        self._taken_ts = set(self._commits)
        self._random = Random(self.play.seed)
        self._lead = ts_at(self._random.randint(*LEAD_MS))
        self._breaks = sorted(self._random.randrange(1, self._recorded + 1) for _ in range(self.play.resends))
        self._delivered = 0
        self._joined: set[Lane] = set()
        self._requested_ts = self._played_ts = self._now_ts = self._first_ts = result.start_ts
        self._time = recorded_time(self.play.speed, clock, wait)

    # ---- what a drainer reads ---------------------------------------------------------------------------------------

    def lanes(self) -> frozenset[Lane]:
        return frozenset([PUMPS_LANE, *self._joined])

    def seek(self, positions: Mapping[Lane, int]) -> None:
        """A new connection has still to see who is there."""
        from_ts = positions[PUMPS_LANE]
        self._joined.clear()
        for stream in self._streams:
            stream.next = bisect_right(stream.frames, from_ts, key=_commit_ts)

    def poll(self, *, timeout_s: float) -> Sequence[Message]:
        self._break_if_due()
        if self._time is not None and not self._ready():
            self._time.let_pass(self._missing_ms(), timeout_s=timeout_s)
        messages: list[Message] = []
        room = self._random.randint(1, self.play.batch_messages_max)
        if any(self._is_behind(stream) for stream in self._streams):
            room *= CATCH_UP
        while len(messages) < room and (ready := self._ready()):
            stream, run = self._random.choice(ready), self._random.randint(1, min(room - len(messages), RUN_MESSAGES_MAX))
            while run and stream in ready:
                messages.append(self._deliver(stream))
                run, ready = run - 1, self._ready()
        messages += self._fakes()
        return [*messages, *self._look()]

    def acknowledge(self, durable_ts: CommitTs) -> None:
        self.durable_ts = max(self.durable_ts, durable_ts)

    def close(self) -> None:
        """Nothing is open."""

    # ---- the cluster behind it --------------------------------------------------------------------------------------

    @property
    def exhausted(self) -> bool:
        return all(stream.next == len(stream.frames) for stream in self._streams)

    def played_part(self) -> float:
        """How much of the recording has been streamed since the last seek, 0 to 1."""
        return sum(stream.next for stream in self._streams) / max(1, sum(len(stream.frames) for stream in self._streams))

    def now_ts(self) -> CommitTs:
        """The cluster's time: later than before and than all that was streamed, between recorded commits, never on one."""
        if self._time is not None:
            return self._tick(self._clock_ts())
        commits = bisect_right(self._commits, self._played_ts) + self._random.randint(0, AHEAD_COMMITS_MAX)
        return self._tick(self._commits[min(commits, len(self._commits)) - 1] if commits and self._commits else 0)

    def reached_ms(self) -> int:
        """The cluster's time, in milliseconds since 1970; asking does not advance it."""
        return physical_ms(max(self._now_ts, self._played_ts, self._clock_ts()))

    def inject(self, commit_ts: CommitTs, key: bytes | None, value: bytes) -> None:  # noqa: ARG002  # a binlog has none
        """Raises ValueError for a commit_ts that a pump has streamed by."""
        stream = self._random.choice([stream for stream in self._streams if stream.joined_ts < commit_ts])
        if commit_ts <= stream.streamed_ts:
            raise ValueError(f"commit_ts {commit_ts} is late: {stream.lane} has streamed up to {stream.streamed_ts}")
        at = bisect_left(stream.frames, commit_ts, lo=stream.next, key=_commit_ts)
        due_ts = stream.frames[min(at, len(stream.frames) - 1)].due_ts if stream.frames else commit_ts
        stream.frames.insert(at, Frame(due_ts, commit_ts, value))

    # ---- playing ----------------------------------------------------------------------------------------------------

    def _deliver(self, stream: _Stream) -> Message:
        frame = stream.frames[stream.next]
        stream.next += 1
        self._delivered += 1
        stream.streamed_ts = max(stream.streamed_ts, frame.commit_ts)
        self._played_ts = max(self._played_ts, frame.commit_ts)
        return Message(stream.lane, frame.commit_ts, None, frame.payload)

    def _fakes(self) -> list[Message]:
        """Of pumps, when none has anything left: no real one is idle for long while others are busy."""
        if not self.exhausted:
            return []
        made = []
        for stream in self._streams:
            if stream.lane in self._joined:
                stream.streamed_ts = self._tick(max(self._clock_ts(), self._end_ts))
                fake = Binlog(tp=Rollback, start_ts=stream.streamed_ts, commit_ts=stream.streamed_ts)
                made.append(Message(stream.lane, stream.streamed_ts, None, fake.SerializeToString()))
        return made

    def _look(self) -> list[Message]:
        """A TSO, then the registry."""
        to_come = [stream.joined_ts for stream in self._streams if stream.lane not in self._joined]
        idle_ts = self._end_ts if self.exhausted else min(to_come, default=0) if not self._ready() else 0
        requested_ts = self._tick(max(self._clock_ts(), idle_ts))
        self._joined |= {stream.lane for stream in self._streams if stream.joined_ts <= requested_ts}
        return [Message(PUMPS_LANE, requested_ts, None, encode_resolved(requested_ts))]

    def _ready(self) -> list[_Stream]:
        """Whose next binlog is there: its time has come, or it does not run too far ahead of the other pumps."""
        waiting = [(stream, due_ts) for stream in self._streams if stream.lane in self._joined and (due_ts := stream.due_ts()) is not None]
        slowest = min((due_ts for _, due_ts in waiting), default=0)
        until = self._clock_ts() if self._time is not None else slowest + self._lead
        return [stream for stream, due_ts in waiting if due_ts <= until]

    def _is_behind(self, stream: _Stream) -> bool:
        """Whether it streams again what it has streamed before."""
        return stream.next < len(stream.frames) and stream.frames[stream.next].commit_ts <= stream.streamed_ts

    def _break_if_due(self) -> None:
        while self._breaks and self._delivered >= self._breaks[0]:
            del self._breaks[0]
            for stream in self._streams:
                stream.next -= self._random.randint(0, min(stream.next, RESEND_MESSAGES_MAX))

    # ---- time -------------------------------------------------------------------------------------------------------

    def _clock_ts(self) -> CommitTs:
        """Recorded time as it goes by; 0 at full speed."""
        return CommitTs(0) if self._time is None else CommitTs(self._first_ts + ts_at(self._time.passed_ms()))

    def _missing_ms(self) -> int:
        """Until something is there."""
        now_ts = self._clock_ts()
        due = [due_ts for stream in self._streams if (due_ts := stream.due_ts()) is not None]
        return physical_ms(min(due, default=now_ts + ts_at(IDLE_RESOLVED_EVERY_MS)) - now_ts)

    def _tick(self, not_before: int) -> CommitTs:
        self._now_ts = tick(max(self._now_ts, self._played_ts, not_before), self._taken_ts)
        return self._now_ts


def _commit_ts(frame: Frame) -> CommitTs:
    return frame.commit_ts
