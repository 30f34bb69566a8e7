"""A recorded Kafka changefeed, played again: the feed port's in-memory twin, and the cluster's clock beside it.

Each partition is a lane; a position is an index in the lane's list, and what has been played never changes its position.
New messages (marks, what TiCDC sends again, resolved marks when idle) go into the part that has not been played.

- Order inside a lane is kept; lanes advance independently, in batches, as a seed decides, some way ahead of each other.
- At full speed, or at `speed` times the recorded time: a message is there when its time has come.
- `inject` puts a row before its lane's first resolved mark with ts >= commit_ts, so it is never late.
- `now_ts` is later than all that any lane has played: the cluster is ahead of its feed.
- `resends`: so many times TiCDC restarts and sends the tails of the lanes again, resolved marks that go back among them.
- `late_lanes`: a lane comes into being just before another lane's resolved mark reaches its first row. Any later would
  break TiCDC's promise: R, which could not wait for a lane that was not there, would have passed that row.
- After its last recorded message a lane is idle as TiCDC's are: resolved marks with rising ts.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple
from zlib import crc32

import cramjam

from sidecar.ports import NO_READ_ENDS, NOT_KNOWN, Clock
from sidecar.replay.recorded_time import RecordedTime, recorded_time, tick
from sidecar.replay.recording import FeedConfig, RecordedMessage, Recording
from sidecar.shared.codecs.contract import Codec
from sidecar.shared.errors import FeedError
from sidecar.shared.model.nouns import MARK_TABLE, CommitTs, Lane, Message, ReadEnd, Resolved, physical_ms, ts_at

NO_TS = CommitTs(0)

RUN_MESSAGES_MAX = 4
"""Messages of one lane in a row, before another lane may follow in the batch."""

LEAD_MS = (200, 5000)
"""How much recorded time a lane may run ahead of the slowest one, at full speed: the seed chooses between these."""

AHEAD_COMMITS_MAX = 100
"""How many recorded commits the cluster's clock may be ahead of what was played, at full speed."""

CATCH_UP = 50
"""How much larger batches are after a crash, while what was played before is read again: it lies there, as in Kafka."""

RESEND_MESSAGES_MAX = 30
"""The longest tail of a lane that comes again after a restart of TiCDC."""

IDLE_RESOLVED_EVERY_MS = 1000
"""TiCDC sends a resolved mark about once a second; at full speed each poll of an idle feed brings one."""

_PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    "none": bytes,
    "snappy": lambda value: bytes(cramjam.snappy.compress_raw(value)),
    "lz4": lambda value: bytes(cramjam.lz4.compress(value)),
}


@dataclass(frozen=True, slots=True)
class Play:
    """How a feed is played. `speed`: recorded seconds a second, None for full speed. `batch_messages_max` is small, so
    that a short recording is many polls long and a dump meets changes in its windows."""

    seed: int = 0
    speed: float | None = None
    resends: int = 0
    late_lanes: bool = False
    batch_messages_max: int = 2


class _Entry(NamedTuple):
    """`time_ms`: when it is there, in recorded time. `rows_ts`: commit_ts of its changes and DDLs. `resolved_ts`: the ts
    of the resolved mark it is. `has_mark`: a row of the watermark table is in it."""

    time_ms: int
    key: bytes | None
    value: bytes | None
    rows_ts: tuple[CommitTs, ...]
    resolved_ts: CommitTs | None
    has_mark: bool


@dataclass(slots=True)
class _Lane:
    """`next`: what is delivered next. `played`: below it positions are fixed. `recorded_end`: after the last recorded one.
    `idle_ms`: when it got its last resolved mark for being idle."""

    name: Lane
    entries: list[_Entry]
    recorded_end: int
    next: int = 0
    played: int = 0
    idle_ms: int = 0

    def insert(self, at: int, entries: Sequence[_Entry]) -> None:
        self.entries[at:at] = entries
        if at < self.recorded_end:
            self.recorded_end += len(entries)

    def is_drained(self) -> bool:
        return self.next == len(self.entries)


class RecordingFeed:
    """sidecar.ports.Feed over one Kafka changefeed of a recording. Equal plays and calls give equal messages.

    `clock` is needed for recorded time only; `wait` lets time pass while no message is there. Opening reads every message
    and raises what the feed's codec raises.
    """

    def __init__(
        self,
        recording: Recording,
        config: FeedConfig,
        play: Play | None = None,
        *,
        clock: Clock | None = None,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        self.config = config
        self.play = play or Play()
        self.committed: dict[Lane, int] = {}
        codec = config.codec()
        self._lanes = {name: _lane(name, messages, codec) for name, messages in recording.messages(config).items()}
        entries = [entry for lane in self._lanes.values() for entry in lane.entries]
        self._commits = sorted({ts for entry in entries for ts in entry.rows_ts})
        self._taken_ts = {*self._commits, *(entry.resolved_ts for entry in entries)}
        self._mark_lane = self._find_mark_lane()
        self._unborn = self._find_late_lanes() if self.play.late_lanes else {}
        self._random = Random(self.play.seed)
        self._lead_ms = self._random.randint(*LEAD_MS)
        self._restarts = sorted(self._random.randrange(1, len(entries)) for _ in range(self.play.resends))
        self._delivered = 0
        self._played_ts = self._now_ts = recording.start_ts
        self._played_resolved_ts = NO_TS
        self._time = recorded_time(self.play.speed, clock, wait)
        self._first_ms = min((entry.time_ms for entry in entries), default=0)

    # ---- the port ---------------------------------------------------------------------------------------------------

    def lanes(self) -> frozenset[Lane]:
        return frozenset(name for name in self._lanes if name not in self._unborn)

    def ends(self) -> Mapping[Lane, int]:
        """A recording is played from its beginning."""
        return {}

    def incarnations(self) -> Mapping[Lane, str]:
        """A recording does not change."""
        return dict.fromkeys(self._lanes, "")

    def read_ends(self) -> Mapping[Lane, ReadEnd]:
        """None: a recording does not change."""
        return NO_READ_ENDS

    def seek(
        self,
        positions: Mapping[Lane, int],
        incarnations: Mapping[Lane, str] = NOT_KNOWN,  # noqa: ARG002  # as `incarnations`
        read_ends: Mapping[Lane, ReadEnd] = NO_READ_ENDS,  # noqa: ARG002  # there are none
    ) -> None:
        """Raises FeedError, and moves nothing, for a lane or a position that this feed does not have."""
        for name, position in positions.items():
            lane = self._lanes.get(name)
            if lane is None or not 0 <= position <= len(lane.entries):
                held = "no such lane" if lane is None else f"{len(lane.entries)} messages"
                raise FeedError(
                    f"cannot read on from {name}@{position}: the recording has {held}",
                    hint="give a log that was made from this feed in this process, or start with a new log",
                )
        for lane in self._lanes.values():
            lane.next = positions.get(lane.name, 0)
            self._note_played(lane)
        for name in positions:
            self._unborn.pop(name, None)

    def poll(self, *, timeout_s: float) -> Sequence[Message]:
        self._restart_if_due()
        self._resolve_idle_lanes()
        if self._time is not None and not self._ready():
            self._time.let_pass(self._next_ms() - self._now_ms(self._time), timeout_s=timeout_s)
            self._resolve_idle_lanes()
        return self._batch()

    def acknowledge(self, positions: Mapping[Lane, int]) -> None:
        for name, position in positions.items():
            self.committed[name] = max(position, self.committed.get(name, 0))

    # ---- the cluster behind it --------------------------------------------------------------------------------------

    @property
    def exhausted(self) -> bool:
        """All recorded messages have been delivered since the last seek behind them."""
        return all(lane.next >= lane.recorded_end for lane in self._lanes.values())

    def played_part(self) -> float:
        """How much of the recorded messages has been delivered at least once, 0 to 1."""
        played = sum(min(lane.played, lane.recorded_end) for lane in self._lanes.values())
        return played / sum(lane.recorded_end for lane in self._lanes.values())

    def now_ts(self) -> CommitTs:
        """The cluster's time: later than before and than all that was played, between recorded commits, never on one."""
        if self._time is not None:
            return self._tick(ts_at(self._now_ms(self._time)))
        commits = bisect_right(self._commits, self._played_ts) + self._random.randint(0, AHEAD_COMMITS_MAX)
        return self._tick(self._commits[min(commits, len(self._commits)) - 1] if commits else 0)

    def reached_ms(self) -> int:
        """The cluster's time, in milliseconds since 1970; asking does not advance it."""
        return self._now_ms(self._time) if self._time else physical_ms(max(self._now_ts, self._played_ts))

    def inject(self, commit_ts: CommitTs, key: bytes | None, value: bytes) -> None:
        """A row of the watermark table is committed at `commit_ts`; `key` and `value` are one uncompressed message.

        Raises ValueError for a commit_ts that a lane's resolved mark has passed: TiCDC would have sent it before.
        """
        if commit_ts <= self._played_resolved_ts:
            raise ValueError(f"commit_ts {commit_ts} is late: {self._played_resolved_ts} is resolved")
        lane = self._mark_lane
        unplayed = range(lane.played, len(lane.entries))
        at = next((at for at in unplayed if (lane.entries[at].resolved_ts or NO_TS) >= commit_ts), len(lane.entries))
        time_ms = lane.entries[min(at, len(lane.entries) - 1)].time_ms
        lane.insert(at, [_Entry(time_ms, key, self._packed(value), (commit_ts,), None, True)])

    # ---- playing ----------------------------------------------------------------------------------------------------

    def _batch(self) -> list[Message]:
        messages: list[Message] = []
        room = self._random.randint(1, self.play.batch_messages_max)
        if any(lane.next < lane.played for lane in self._lanes.values()):
            room *= CATCH_UP
        while len(messages) < room and (ready := self._ready()):
            lane = self._random.choice(ready)
            run = self._random.randint(1, min(room - len(messages), RUN_MESSAGES_MAX))
            while run and lane in ready:
                messages.append(self._deliver(lane))
                run, ready = run - 1, self._ready()
        return messages

    def _born(self) -> list[_Lane]:
        return [lane for lane in self._lanes.values() if lane.name not in self._unborn]

    def _ready(self) -> list[_Lane]:
        """Lanes whose next message is there: its time has come, or it does not run too far ahead of the other lanes."""
        waiting = [(lane, lane.entries[lane.next].time_ms) for lane in self._born() if not lane.is_drained()]
        slowest_ms = min((time_ms for _, time_ms in waiting), default=0)
        until_ms = self._now_ms(self._time) if self._time else slowest_ms + self._lead_ms
        return [lane for lane, time_ms in waiting if time_ms <= until_ms]

    def _deliver(self, lane: _Lane) -> Message:
        entry = lane.entries[lane.next]
        message = Message(lane.name, lane.next, entry.key, entry.value)
        lane.next += 1
        self._delivered += 1
        self._note_played(lane)
        return message

    def _note_played(self, lane: _Lane) -> None:
        for entry in lane.entries[lane.played : lane.next]:
            resolved_ts = entry.resolved_ts or NO_TS
            self._played_ts = max(self._played_ts, *entry.rows_ts, resolved_ts)
            self._played_resolved_ts = max(self._played_resolved_ts, resolved_ts)
        lane.played = max(lane.played, lane.next)
        self._unborn = {name: first_ts for name, first_ts in self._unborn.items() if first_ts > self._played_resolved_ts}

    def _restart_if_due(self) -> None:
        while self._restarts and self._delivered >= self._restarts[0]:
            del self._restarts[0]
            for lane in self._lanes.values():
                tail = self._random.randint(0, min(lane.played, RESEND_MESSAGES_MAX))
                again = lane.entries[lane.played - tail : lane.played]
                lane.insert(lane.played, [entry._replace(time_ms=lane.entries[lane.played - 1].time_ms) for entry in again])

    def _resolve_idle_lanes(self) -> None:
        """One resolved mark for every lane that has nothing left: no row can come to it but marks, which are later."""
        if all(lane.is_drained() for lane in self._born()):
            self._unborn = {}
        now_ms = self._now_ms(self._time) if self._time else None
        drained = [lane for lane in self._born() if lane.is_drained()]
        idle = [lane for lane in drained if now_ms is None or now_ms >= lane.idle_ms + IDLE_RESOLVED_EVERY_MS]
        if idle:
            ts = self._tick(ts_at(now_ms or 0))
            key, value = self.config.module.encode_resolved(ts, physical_ms(ts))
            for lane in idle:
                lane.idle_ms = lane.entries[-1].time_ms if now_ms is None else now_ms
                lane.entries.append(_Entry(lane.idle_ms, key, self._packed(value), (), ts, False))

    def _tick(self, not_before: int) -> CommitTs:
        self._now_ts = tick(max(self._now_ts, self._played_ts, not_before), self._taken_ts)
        return self._now_ts

    def _now_ms(self, time: RecordedTime) -> int:
        return self._first_ms + time.passed_ms()

    def _next_ms(self) -> int:
        """When the next message will be there."""
        born = self._born()
        return min(lane.idle_ms + IDLE_RESOLVED_EVERY_MS if lane.is_drained() else lane.entries[lane.next].time_ms for lane in born)

    def _packed(self, value: bytes) -> bytes:
        """Compressed as the changefeed does it."""
        return self.config.module.packed(value, _PACKERS[self.config.compression.lower()])

    def _find_mark_lane(self) -> _Lane:
        """Where the recorded marks are; without any, where TiCDC's dispatch by table puts them."""
        number = crc32("".join(MARK_TABLE).encode()) % self.config.partitions
        by_table = self._lanes[self.config.lane(number)]
        return next((lane for lane in self._lanes.values() if any(entry.has_mark for entry in lane.entries)), by_table)

    def _find_late_lanes(self) -> dict[Lane, CommitTs]:
        """Lanes that come into being while the feed runs, with their first commit_ts; the marks' lane is there at once."""
        others = [lane for lane in self._lanes.values() if lane is not self._mark_lane]
        return {
            lane.name: min(ts for entry in lane.entries for ts in entry.rows_ts) for lane in others if any(e.rows_ts for e in lane.entries)
        }


def _lane(name: Lane, messages: Sequence[RecordedMessage], codec: Codec) -> _Lane:
    """The broker's timestamps may step back; a message is not there before the one it follows."""
    entries: list[_Entry] = []
    for position, (time_ms, key, value) in enumerate(messages):
        envelopes = codec.envelopes(Message(name, position, key, value))
        rows = [envelope for envelope in envelopes if not isinstance(envelope, Resolved)]
        resolved_ts = max((envelope.ts for envelope in envelopes if isinstance(envelope, Resolved)), default=None)
        has_mark = any((row.schema, row.table) == MARK_TABLE for row in rows)
        there_ms = max(time_ms, entries[-1].time_ms) if entries else time_ms
        entries.append(_Entry(there_ms, key, value, tuple(row.commit_ts for row in rows), resolved_ts, has_mark))
    return _Lane(name, entries, recorded_end=len(entries))
