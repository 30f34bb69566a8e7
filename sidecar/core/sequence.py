"""Commit-ts order out of lanes that advance independently.

    R = min over lanes of the last resolved ts;   released: everything with commit_ts < R, as (after_ts, R - 1]

- Strictly below R: TiCDC's classic architecture may send a DDL with commit_ts == R after resolved R.
- A lane that has not sent its first resolved mark holds R (a lane must join before it counts): the caller reads the
  feed's lanes after the marks arrived and hands them to `release`.
- At one commit_ts: deletes, puts, then the DDL; arrival last. Two arrivals of one change at one commit_ts are one.
- What is ahead of the clock by more than `newest_ts` says is nobody's yet: one mark from the future would make repeats of all that
  follows. What is below `start_ts` is another changefeed's, which had the topic before. Both stop.
- R never goes back. A lane's resolved that goes back is a restart of TiCDC: what comes again at or below `after_ts` is
  counted as a repeat and dropped.
- A lane that the feed reads no more is forgotten (`forget_ended`), but for what is held of it.
- A segment ends before a DDL's commit_ts and at it. So a consumer that cuts batches at segments cuts them at DDLs, and one that stops at
  a DDL has everything below it.
- Memory is bounded: past `held_bytes_max` what is held goes, sorted, to a spill run; runs are merged on release.

It does not know what a row means, what a mark is, or where bytes come from.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from collections.abc import Sequence as Envelopes
from dataclasses import dataclass, field
from heapq import merge
from itertools import chain
from operator import itemgetter
from typing import Protocol

from sidecar.shared.errors import FeedUnsuitable, MessageUnreadable
from sidecar.shared.model.nouns import Change, CommitTs, Ddl, Envelope, Lane, Message, Resolved, Segment, TableName, utc
from sidecar.shared.sql.lexer import begins

BEGIN_AGAIN = (
    "what is lost cannot be read again: deploy/RETENTION.md has the steps (a new log, empty targets, a dump); before that, give the topic a"
    " longer retention.ms than the sidecar may ever be stopped"
)
"""Of each gap that retention, or a topic that was deleted, has made."""
CHANGE_OVERHEAD_BYTES = 370
"""What a held change costs beside its key and value (measured with sys.getsizeof: tuple, two ints, two bytes objects, and a place in
_LaneWaits)."""

_order = itemgetter(0, 1)  # Change.commit_ts, Change.rank
_commit_ts = itemgetter(0)
_rank = itemgetter(1)

NO_TS = CommitTs(0)
"""Below every TSO."""

NO_TS_YET = CommitTs(2**64)
"""Above every TSO."""

SPARE_TS = 1024
"""Segments that can be written before the next resolved mark comes; less than a hundredth of a millisecond of TSO's time."""


class Spill(Protocol):
    """Where sorted runs of changes go when memory is full."""

    def write(self, run: list[Change]) -> Iterator[Change]:
        """Store the run and return a reader of it, once, in order. Its space is freed when the reader ends."""


@dataclass(slots=True)
class _Run:
    """A spilled run: the next change and the rest, and the oldest position a lane has in it."""

    head: Change | None
    rest: Iterator[Change]
    positions: dict[Lane, int]

    def take(self, upto_ts: CommitTs) -> Iterator[Change]:
        while self.head is not None and self.head.commit_ts <= upto_ts:
            yield self.head
            self.head = next(self.rest, None)


@dataclass(slots=True)
class _LaneWaits:
    """The lowest position of what one lane has sent and is not released. A change costs one step, however much is held and however long:
    positions rise within a lane. `_places`: (position, ts), both rising. A change whose ts is not above all before it is no place, as one
    of a lower position is released no sooner."""

    _places: deque[tuple[int, CommitTs]] = field(default_factory=deque)

    def add(self, position: int, ts: CommitTs) -> None:
        places = self._places
        if places and position < places[-1][0]:  # of a later lane of that name
            self._places = places = deque((min(position, before), at) for before, at in places)
        if not places or ts > places[-1][1]:
            places.append((position, ts))

    def oldest(self, upto_ts: CommitTs) -> int | None:
        """Of what is above `upto_ts`, which never goes back."""
        places = self._places
        while places and places[0][1] <= upto_ts:
            places.popleft()
        return places[0][0] if places else None


@dataclass(slots=True)
class Sequence:
    """Feed it with `accept`, empty it with `release`. `identity` is equal for two arrivals of one change (codecs/contract).

    `after_ts`: everything at or below it is in the log already. `newest_ts`: nothing above it can be yet, by the caller's clock.
    `start_ts`: where the changefeed began; no change of its own is below. Sizes in bytes are of key, value and overhead.
    """

    identity: Callable[[Change], Hashable]
    spill: Spill
    after_ts: CommitTs
    held_bytes_max: int
    positions: dict[Lane, int] = field(default_factory=dict)
    start_ts: CommitTs = NO_TS
    newest_ts: CommitTs = NO_TS_YET
    resolved: dict[Lane, CommitTs] = field(default_factory=dict)
    gaps: set[Lane] = field(default_factory=set)
    repeats: int = 0
    spilled_rows: int = 0
    held_bytes: int = 0
    _lowest_ts: CommitTs = NO_TS_YET
    _spared_ts: CommitTs = NO_TS
    _read: dict[Lane, int] = field(default_factory=dict)
    _held: list[Change] = field(default_factory=list)
    """Sorted up to `_arrived`, then as it came."""
    _arrived: int = 0
    _waits: dict[Lane, _LaneWaits] = field(default_factory=dict)
    """Of what was held after a release. Neither of spilled rows nor of DDLs."""
    _ddls: list[Ddl] = field(default_factory=list)
    _runs: list[_Run] = field(default_factory=list)

    def accept(self, lane: Lane, position: int, envelopes: Iterable[Envelope]) -> None:
        """Take what the message at `position` of `lane` held."""
        after_ts, newest_ts, hold, size, lowest_ts = self.after_ts, self.newest_ts, self._held.append, 0, self._lowest_ts
        for envelope in envelopes:
            if isinstance(envelope, Change):
                if after_ts < envelope[0] <= newest_ts:
                    hold(envelope)
                    if envelope[0] < lowest_ts:
                        lowest_ts = envelope[0]
                    size += len(envelope[4]) + len(envelope[5]) + CHANGE_OVERHEAD_BYTES
                elif envelope[0] > newest_ts:
                    raise _from_the_future(lane, position, envelope[0])
                else:
                    self.repeats += 1
            elif isinstance(envelope, Resolved):
                if envelope.ts > newest_ts:
                    raise _from_the_future(lane, position, envelope.ts)
                self.resolved[envelope.lane] = envelope.ts
            elif envelope.commit_ts > newest_ts:
                raise _from_the_future(lane, position, envelope.commit_ts)
            elif envelope.commit_ts > after_ts:
                if envelope.commit_ts < self.start_ts:
                    raise _of_another(lane, position, envelope.commit_ts, self.start_ts)
                self._ddls.append(envelope)
            else:
                self.repeats += 1
        if lowest_ts < self.start_ts:
            raise _of_another(lane, position, lowest_ts, self.start_ts)
        if lane not in self._read:
            self.positions.setdefault(lane, position)  # a new log names where each lane began, even if its first segment ends at a DDL
        self._read[lane] = position + 1
        self._lowest_ts = lowest_ts
        self.held_bytes += size
        if self.held_bytes > self.held_bytes_max:
            self._spill()

    def join_after_gap(self, lane: Lane, position: int, envelopes: Envelopes[Envelope]) -> None:
        """The lane came after the log began, and begins here with what retention has left of it. A message without envelopes says nothing
        of what is gone: the next one does. Raises FeedUnsuitable unless that was all at or below `after_ts`, or of a table before the one
        that is made here. (A change above a mark may stand before it, by as long as TiCDC was behind: retention is taken to be longer.)"""
        if not envelopes:
            self.gaps.add(lane)
            return
        self.gaps.discard(lane)
        if any(_ts(one) <= self.after_ts for one in envelopes) or _makes_a_table(envelopes[0]):
            return
        oldest_ts = _ts(envelopes[0])
        raise FeedUnsuitable(
            f"{Message(lane, position, None, None).at()}: the lane came after the log began, and its oldest message is of TSO {oldest_ts} "
            f"({utc(oldest_ts)}), above the log's position {self.after_ts}: retention has removed what is between",
            hint=BEGIN_AGAIN,
        )

    def forget_ended(self, read: Collection[Lane]) -> None:
        """Forget each lane that is not in `read`: those that the feed reads after a poll, also the ones that R does not wait for. Neither a
        lane that has ended nor a later one of its name loses anything by that:

        - Its `resolved` holds nobody: `upto` asks only for the feed's lanes. One that comes back has to join again before R moves.
        - Its position is of no use: nobody reads on in a lane that has ended, so no segment names it. One that comes back begins at a
          position of its own, which the first message says. Kept, the old position would be taken for one in the later lane.
        - What is held of it stays and is released: order and repeats go by commit_ts, not by lanes. Where rows of a later lane of its name
          are held beside it, the lower position counts: too old is safe.
        """
        self.gaps.intersection_update(read)
        for known in (self.resolved, self.positions, self._read):
            for lane in [lane for lane in known if lane not in read]:
                del known[lane]

    def upto(self, lanes: Collection[Lane], *, sparing: bool = False) -> CommitTs | None:
        """R - 1, the highest position that may be released; None while a lane has still to join or nothing is new. `sparing`: or less of
        it where that holds no change back, so that empty segments, each with a ts of its own, can follow before the lanes advance. Resolved
        marks may come seconds apart, and what a segment can carry besides changes is not to wait for them."""
        if not lanes or any(lane not in self.resolved for lane in lanes):
            return None
        upto_ts = CommitTs(min(self.resolved[lane] for lane in lanes) - 1)
        if upto_ts <= self.after_ts:
            return None
        return self._spared(upto_ts) if sparing and not self._runs else upto_ts

    def _spared(self, upto_ts: CommitTs) -> CommitTs:
        if upto_ts - self.after_ts <= SPARE_TS and upto_ts != self._spared_ts:
            return upto_ts
        self._spared_ts = upto_ts
        held = (self._held if self._lowest_ts <= upto_ts else (), self._ddls)
        change_ts = max((one.commit_ts for each in held for one in each if one.commit_ts <= upto_ts), default=NO_TS)
        return max(CommitTs(upto_ts - SPARE_TS), change_ts, CommitTs(self.after_ts + 1))

    def release(self, upto_ts: CommitTs, *, even_if_empty: bool) -> Iterator[Segment]:
        """The segments up to `upto_ts` (from `upto`), in order. Each one's changes are read before the next is requested.

        Yields nothing, and moves nothing, where there are no rows and no DDLs, unless `even_if_empty`.
        """
        of_ddls = {ddl.commit_ts for ddl in self._ddls if ddl.commit_ts <= upto_ts}
        if not of_ddls and not self._has_rows(upto_ts) and not even_if_empty:
            return
        cuts = sorted(of_ddls | {CommitTs(ts - 1) for ts in of_ddls})
        self._note_arrived(above_ts=cuts[0] if cuts else upto_ts)
        self._sort_held()
        for cut in cuts:
            if cut in of_ddls or self._has_rows(cut):
                yield self._segment(cut, dict(self.positions))
        if upto_ts > self.after_ts and (even_if_empty or of_ddls or self._has_rows(upto_ts)):
            yield self._segment(upto_ts, self._oldest_held(upto_ts))

    def _segment(self, upto_ts: CommitTs, positions: dict[Lane, int]) -> Segment:
        """Cut one segment off. Between DDL cuts the positions of before are kept: they are older, so they are safe."""
        end = bisect_right(self._held, upto_ts, key=_commit_ts)
        taken, self._held = self._held[:end], self._held[end:]
        self._arrived = len(self._held)
        self._lowest_ts = self._held[0].commit_ts if self._held else NO_TS_YET
        ddls = {(TableName(ddl.schema, ddl.table).folded(), ddl.query): ddl for ddl in self._ddls if ddl.commit_ts == upto_ts}
        self._ddls = [ddl for ddl in self._ddls if ddl.commit_ts > upto_ts]
        self.held_bytes -= sum(map(_size, taken))
        rows: Iterable[Change] = taken
        if self._runs:
            rows = chain(merge(*(run.take(upto_ts) for run in self._runs), taken, key=_order), self._forget_empty_runs())
        segment = Segment(self.after_ts, upto_ts, self._distinct(rows), tuple(ddls.values()), positions)
        self.after_ts, self.positions = upto_ts, positions
        return segment

    def _distinct(self, changes: Iterable[Change]) -> Iterator[Change]:
        """Omit second arrivals. An identity is made only where a commit_ts holds changes that look alike: of one table and rank, with
        values of one length (two arrivals of one change have that)."""
        first: Change | None = None
        alike: dict[tuple[object, ...], Change | None] = {}
        seen: set[Hashable] = set()
        for change in changes:
            if first is None or change[0] != first[0]:
                if alike:
                    alike, seen = {}, set()
                first = change
                yield change
                continue
            if not alike:
                alike[_looks(first)] = first
            looks = _looks(change)
            if looks not in alike:
                alike[looks] = change
            else:
                other, alike[looks] = alike[looks], None
                if other is not None:
                    seen.add(self.identity(other))
                identity = self.identity(change)
                if identity in seen:
                    self.repeats += 1
                    continue
                seen.add(identity)
            yield change

    def _sort_held(self) -> None:
        """By commit_ts, then rank, then arrival: two stable sorts by one integer each, four times as quick as one by both."""
        self._held.sort(key=_rank)
        self._held.sort(key=_commit_ts)

    def _has_rows(self, upto_ts: CommitTs) -> bool:
        return self._lowest_ts <= upto_ts or any(run.head is not None and run.head.commit_ts <= upto_ts for run in self._runs)

    def _oldest_held(self, upto_ts: CommitTs) -> dict[Lane, int]:
        """Where to read on, per lane: its oldest change above `upto_ts`, else what comes next. A run keeps the oldest
        position of all it held: too old is safe, what comes again is dropped as a repeat. A lane
        that has said nothing stays where it was. One that has ended has no position, whatever is held of it."""
        oldest = self.positions | self._read
        for run in self._runs:
            for lane, position in run.positions.items():
                if position < oldest.get(lane, 0):
                    oldest[lane] = position
        for lane, waits in list(self._waits.items()):
            if (waiting := waits.oldest(upto_ts)) is None:
                del self._waits[lane]
            elif waiting < oldest.get(lane, 0):
                oldest[lane] = waiting
        for ddl in self._ddls:
            if ddl.commit_ts > upto_ts and ddl.position < oldest.get(ddl.lane, 0):
                oldest[ddl.lane] = ddl.position
        return oldest

    def _note_arrived(self, *, above_ts: CommitTs) -> None:
        """What came since the last release and stays now: each change once, however long it is held."""
        waits = self._waits
        for change in self._held[self._arrived :]:
            if change[0] > above_ts:
                if (of_lane := waits.get(change.lane)) is None:
                    of_lane = waits[change.lane] = _LaneWaits()
                of_lane.add(change.position, change[0])
        self._arrived = len(self._held)

    def _spill(self) -> None:
        self._sort_held()
        positions: dict[Lane, int] = {}
        for change in self._held:
            positions[change.lane] = min(positions.get(change.lane, change.position), change.position)
        reader = self.spill.write(self._held)
        self._runs.append(_Run(next(reader, None), reader, positions))
        self.spilled_rows += len(self._held)
        self._held, self.held_bytes, self._lowest_ts = [], 0, NO_TS_YET
        self._arrived = 0
        self._waits.clear()

    def _forget_empty_runs(self) -> Iterator[Change]:
        """Runs after the last of the segment's rows: no rows of its own."""
        self._runs = [run for run in self._runs if run.head is not None]
        yield from ()


def _ts(envelope: Envelope) -> CommitTs:
    return envelope.ts if isinstance(envelope, Resolved) else envelope.commit_ts


def _makes_a_table(envelope: Envelope) -> bool:
    return isinstance(envelope, Ddl) and begins(envelope.query, "CREATE")


def _looks(change: Change) -> tuple[object, ...]:
    return change[2].lower(), change[3].lower(), change[1], len(change[5])


def _size(change: Change) -> int:
    return len(change.key) + len(change.value) + CHANGE_OVERHEAD_BYTES


def _from_the_future(lane: Lane, position: int, ts: CommitTs) -> MessageUnreadable:
    return MessageUnreadable(
        f"{Message(lane, position, None, None).at()}: TSO {ts} ({utc(ts)}) is ahead of this machine's clock by more than can be",
        hint="set this machine's clock; if it is right, another cluster's changefeed or a test writes here: give the changefeed a "
        "topic of its own (or the feed's senders the right clock), a new log and new sinks, and dump again",
    )


def _of_another(lane: Lane, position: int, ts: CommitTs, start_ts: CommitTs) -> FeedUnsuitable:
    return FeedUnsuitable(
        f"{Message(lane, position, None, None).at()}: a change at TSO {ts} ({utc(ts)}), below start-ts {start_ts} of the changefeed: it is "
        "another changefeed's, which wrote this topic before, and what was deleted between the two is in neither",
        hint="let the log begin behind it, at the present: what is older the dump brings; or give the changefeed a topic of its own",
    )
