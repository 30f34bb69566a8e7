"""Raw key-values as a feed: what a puller brings, as lanes of messages (sidecar/shared/codecs/kv.py), one lane a physical table.

    kv/ddl     the table of the DDL jobs: its lane carries the cuts        kv/{physical id}    the rows of a table or a partition

Positions are TSOs. A row's is its lane's resolved ts when it came, so below its commit_ts; a resolved mark's is its ts; a DDL's is its
lane's resolved ts before it was passed. Nothing is lost by reading on from them, for what the sequence stores for a lane is
- the position of its oldest held change or DDL, if any is held: all that are held, and all that have not come, are above it;
- else one more than what it read last, which is r + 1 with r the lane's resolved ts: nothing up to r is still to come, and nothing
  up to r is held.
So all below a lane's stored position is in the log, and all below the lowest of them is, of every lane. That one alone is used, to read
on from and to acknowledge: lanes differ by what is held, which is seconds, and what comes again is dropped. It is never above R, and
what is acknowledged is below it: so no sender must send what it was allowed to forget.

- The lane of a new table comes in the very poll that passes its DDL, resolved up to it: R waits there for what was not requested yet.
- A vanished table's lane stays until the log has passed its DDL: R needs it until then.
- Each lane first sends its start as a resolved mark: everything up to it is in the log already, or came before the table.
- What is at or below its lane's resolved ts is a repeat; what is of a range that is not wanted is left over from one that was.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sidecar.feeds.kv.schemas import KvSchemas
from sidecar.ports import NO_READ_ENDS, NOT_KNOWN, Puller
from sidecar.shared.codecs.kv import encode_ddl, encode_resolved, encode_row
from sidecar.shared.errors import FeedError
from sidecar.shared.model.nouns import CommitTs, Lane, Message, ReadEnd
from sidecar.shared.rowcodec.frontier import Frontier
from sidecar.shared.rowcodec.key_values import DDL_JOB_TABLE_ID, KeyRange, KvEntry, Pulled, rows_of

LANES = "kv"
DDL_LANE = Lane(f"{LANES}/ddl")

_TABLE_BYTES = 9

REPEATS, OF_NOTHING, UNWANTED, IGNORED = "repeats", "deletes of nothing", "not wanted any more", "ignored start-ts"


def lane_of(physical_id: int) -> Lane:
    return Lane(f"{LANES}/{physical_id}")


@dataclass(eq=False, slots=True)
class _Lane:
    """`resolved_ts`: all up to it has been delivered. `highest_ts`: the highest commit_ts that was."""

    name: Lane
    range: KeyRange
    from_ts: CommitTs
    frontier: Frontier
    resolved_ts: CommitTs
    highest_ts: CommitTs

    @classmethod
    def of(cls, name: Lane, range: KeyRange, from_ts: CommitTs) -> _Lane:
        return cls(name, range, from_ts, Frontier(range, from_ts), from_ts, from_ts)

    def mark(self) -> Message:
        return Message(self.name, self.resolved_ts, None, encode_resolved(self.resolved_ts))


@dataclass(slots=True)
class KvFeed:
    """sidecar.ports.Feed. `schemas` has begun or resumed before `seek`, which comes first, once. `keyspace` as in rowcodec.key_values.

    `counts`: entries that make no message, by reason.
    """

    puller: Puller
    schemas: KvSchemas
    keyspace: bytes = b""
    counts: Counter[str] = field(default_factory=Counter)
    _ddl: _Lane = field(init=False)
    _prefix_bytes: int = field(init=False)
    _ignored_start_ts: frozenset[int] = field(init=False)
    _lanes: dict[int, _Lane] = field(default_factory=dict, init=False)
    _by_prefix: dict[bytes, _Lane] = field(default_factory=dict, init=False)
    _starting: list[Message] = field(default_factory=list, init=False)
    _durable_ts: CommitTs = field(default=CommitTs(0), init=False)

    def __post_init__(self) -> None:
        self._ddl = _Lane.of(DDL_LANE, rows_of(DDL_JOB_TABLE_ID, keyspace=self.keyspace), CommitTs(0))
        self._prefix_bytes = len(self.keyspace) + _TABLE_BYTES
        self._ignored_start_ts = self.schemas.ignored_start_ts

    def lanes(self) -> frozenset[Lane]:
        return frozenset([DDL_LANE, *(lane.name for lane in self._lanes.values())])

    def ends(self) -> Mapping[Lane, int]:
        """Positions are TSOs: `seek` goes by the schemas' moment."""
        return {}

    def incarnations(self) -> Mapping[Lane, str]:
        """A physical id is never given twice, so no incarnation is needed."""
        return dict.fromkeys(self.lanes(), "")

    def read_ends(self) -> Mapping[Lane, ReadEnd]:
        """None: positions are TSOs."""
        return NO_READ_ENDS

    def seek(
        self,
        positions: Mapping[Lane, int],
        incarnations: Mapping[Lane, str] = NOT_KNOWN,  # noqa: ARG002  # ids tell enough
        read_ends: Mapping[Lane, ReadEnd] = NO_READ_ENDS,  # noqa: ARG002  # there are none
    ) -> None:
        """All lanes resume from the lowest of the positions. Those of tables that are not there say nothing: what makes such a table comes
        again, or the log has passed its end.

        Raises FeedError for the lane of another feed.
        """
        ids = {_id_of(lane): position for lane, position in positions.items()}
        from_ts = CommitTs(min([self.schemas.since_ts, *(ids[one] - 1 for one in (DDL_JOB_TABLE_ID, *self.schemas.wanted) if one in ids)]))
        self._ddl = _Lane.of(DDL_LANE, self._ddl.range, from_ts)
        self._lanes.clear()
        self._by_prefix = {self._ddl.range.start[: self._prefix_bytes]: self._ddl}
        for physical_id in self.schemas.wanted:
            self._open(physical_id, from_ts)
        self._starting = [lane.mark() for lane in self._by_prefix.values()]
        self.puller.want({})  # a range that stays wanted would not go back
        self._want()

    def poll(self, *, timeout_s: float) -> Sequence[Message]:
        messages, self._starting = self._starting, []
        for event in self.puller.poll(timeout_s=0.0 if messages else timeout_s):
            if isinstance(event, KvEntry):
                self._take(event, messages)
            else:
                self._forward(event, messages)
        return messages

    def acknowledge(self, positions: Mapping[Lane, int]) -> None:
        lanes = self._by_prefix.values()
        if any(lane.name not in positions for lane in lanes):
            return
        durable_ts = CommitTs(min(positions[lane.name] for lane in lanes) - 2)  # `seek` begins no lower
        if durable_ts > self._durable_ts:
            self._durable_ts = durable_ts
            self.puller.acknowledge({lane.range: durable_ts for lane in lanes if durable_ts >= lane.from_ts})
            self._give_up(durable_ts)

    def close(self) -> None:
        """End the puller's connections; never raises."""
        self.puller.close()

    # ---- what comes -------------------------------------------------------------------------------------------------

    def _take(self, entry: KvEntry, messages: list[Message]) -> None:
        commit_ts, start_ts, key, value, old, _ = entry
        lane = self._by_prefix.get(key[: self._prefix_bytes])
        if lane is None:
            self.counts[UNWANTED] += 1
        elif commit_ts <= lane.resolved_ts:
            self.counts[REPEATS] += 1
        elif lane is self._ddl:
            self.schemas.take_job(entry)
        elif not value and not old:
            self.counts[OF_NOTHING] += 1
        elif start_ts in self._ignored_start_ts:
            self.counts[IGNORED] += 1
        else:
            if commit_ts > lane.highest_ts:
                lane.highest_ts = commit_ts
            messages.append(Message(lane.name, lane.resolved_ts, key, encode_row(entry)))

    def _forward(self, pulled: Pulled, messages: list[Message]) -> None:
        lane = self._by_prefix.get(pulled.range.start[: self._prefix_bytes])
        if lane is None:
            return
        lane.frontier.forward(pulled.range, pulled.upto_ts)
        ts = lane.frontier.ts()
        if ts <= lane.resolved_ts:
            return
        if lane is self._ddl:
            for ddl in self.schemas.resolve(ts):
                messages.append(Message(lane.name, lane.resolved_ts, None, encode_ddl(*ddl)))
            messages += self._follow()
        lane.resolved_ts = ts
        messages.append(lane.mark())

    # ---- which ranges -----------------------------------------------------------------------------------------------

    def _follow(self) -> list[Message]:
        """Lanes of tables that have appeared, and where they begin."""
        born = [self._open(one, from_ts) for one, from_ts in self.schemas.wanted.items() if one not in self._lanes]
        if born:
            self._want()
        return [lane.mark() for lane in born]

    def _give_up(self, durable_ts: CommitTs) -> None:
        gone = self.schemas.passed(durable_ts, lambda one: self._lanes[one].highest_ts)
        for physical_id in gone:
            lane = self._lanes.pop(physical_id)
            del self._by_prefix[lane.range.start[: self._prefix_bytes]]
        if gone:
            self._want()

    def _open(self, physical_id: int, from_ts: CommitTs) -> _Lane:
        lane = _Lane.of(lane_of(physical_id), rows_of(physical_id, keyspace=self.keyspace), from_ts)
        self._lanes[physical_id] = self._by_prefix[lane.range.start[: self._prefix_bytes]] = lane
        return lane

    def _want(self) -> None:
        self.puller.want({lane.range: lane.from_ts for lane in self._by_prefix.values()})


def _id_of(lane: Lane) -> int:
    feed, _, name = lane.partition("/")
    if lane == DDL_LANE:
        return DDL_JOB_TABLE_ID
    if feed == LANES and name.isdecimal():
        return int(name)
    raise FeedError(
        f"cannot read on in lane {lane}: the lanes of key-values are {DDL_LANE} and {LANES}/ with the id of a table",
        hint="give the log that this feed has written, or start with a new log",
    )
