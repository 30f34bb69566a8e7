"""The end of the feed: its newest messages, and then what comes from now on, read as the sidecar itself would read it.

- It reads with the product's own feed and codec, so what it can read the sidecar can; what stops the sidecar is raised here.
- Nothing is acknowledged and no group is joined: a sidecar that runs does not notice.
- Bounded: RECENT_MESSAGES over all partitions are looked back at, and CHANGES_KEPT rows are kept.
- One thread at a time uses it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from time import monotonic

from sidecar.feeds.kafka.lanes import PartitionKey
from sidecar.ports import Feed
from sidecar.shared.codecs.contract import Codec
from sidecar.shared.model.nouns import MARK_TABLE, Change, CommitTs, Lane, Resolved, TableName

RECENT_MESSAGES = 20_000
"""Most messages of a quiet changefeed are resolved marks: an hour of them, so that rows are among them."""
RECENT_A_PARTITION = 20, 2_000
CHANGES_KEPT = 5_000
POLL_S = 0.2

Bounds = Mapping[PartitionKey, tuple[int, int]]
"""As `Cluster.available`: the first offset and the end of each partition."""


class Tail:
    """`resolved` has the last resolved mark of each lane since `begin`; `marks` the commit_ts of each watermark row by uuid;
    `changes` the newest rows of `kept_tables`, oldest first; `tables` every table that a row was of. `names`: TiDB's, of tables that the
    feed calls otherwise."""

    def __init__(
        self, feed: Feed, codec: Codec, *, kept_tables: frozenset[TableName], names: Mapping[TableName, TableName] | None = None
    ) -> None:
        self.codec = codec
        self.resolved: dict[Lane, CommitTs] = {}
        self.marks: dict[str, CommitTs] = {}
        self.changes: deque[Change] = deque(maxlen=CHANGES_KEPT)
        self.tables: set[TableName] = set()
        self.messages = 0
        self._feed = feed
        self._kept_tables = kept_tables
        self._names = names or {}

    def lanes(self) -> frozenset[Lane]:
        return self._feed.lanes()

    def look_back(self, bounds: Bounds, *, timeout_s: float) -> bool:
        """Read the newest messages; False if the time was not enough for all of them. Raises what reading the feed raises."""
        least, most = RECENT_A_PARTITION
        count = max(least, min(most, RECENT_MESSAGES // max(1, len(bounds))))
        start = {key: max(first, end - count) for key, (first, end) in bounds.items()}
        self._seek(start)
        left = {_lane(key): end for key, (_, end) in bounds.items() if start[key] < end}
        give_up_s = monotonic() + timeout_s
        while left and monotonic() < give_up_s:
            for lane, position in self._take().items():
                if lane in left and position + 1 >= left[lane]:
                    del left[lane]
        return not left

    def begin(self, bounds: Bounds) -> None:
        """Go to the end: what counts from here on is new."""
        self._seek({key: end for key, (_, end) in bounds.items()})
        self.resolved = {}

    def watch(self, enough: Callable[[], bool], *, timeout_s: float) -> bool:
        """Read until `enough`; False if it is not when the time is up."""
        give_up_s = monotonic() + timeout_s
        while not enough():
            if monotonic() > give_up_s:
                return False
            self._take()
        return True

    def _seek(self, start: Mapping[PartitionKey, int]) -> None:
        self._feed.seek({_lane(key): position for key, position in start.items()})

    def _take(self) -> dict[Lane, int]:
        """The last position of each lane that was read."""
        read: dict[Lane, int] = {}
        for message in self._feed.poll(timeout_s=POLL_S):
            self.messages += 1
            read[message.lane] = message.position
            for envelope in self.codec.envelopes(message):
                if isinstance(envelope, Resolved):
                    self.resolved[envelope.lane] = max(envelope.ts, self.resolved.get(envelope.lane, CommitTs(0)))
                elif isinstance(envelope, Change):
                    self._note(envelope)
        return read

    def _note(self, change: Change) -> None:
        name = TableName(change.schema, change.table)
        name = self._names.get(name, name)
        if name == MARK_TABLE:
            mark = self.codec.mark(change)
            if mark is not None:
                self.marks[mark.uuid] = mark.commit_ts
            return
        self.tables.add(name)
        if name in self._kept_tables:
            self.changes.append(change._replace(schema=name.schema, table=name.table))


def _lane(key: PartitionKey) -> Lane:
    return Lane(f"kafka/{key[0]}/{key[1]}")
