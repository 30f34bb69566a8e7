"""Where reading begins: which topics exist, and from which offset each of their partitions is read. It waits, with bounds.

- Nothing is skipped. Below the first offset (retention passed) and above the end (a topic made anew) is a gap, and so is a lane
  without its offset 0 that was not there when the log began. Only a new log begins at what is there.
- A topic made anew while nobody looked, and longer by now than the position, cannot be told from the old one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sidecar.errors import FeedLost
from sidecar.feeds.kafka.client import Cluster
from sidecar.feeds.kafka.lanes import PartitionKey, Topic, gap, gone
from sidecar.ports import Clock

FIRST_ANSWER_MAX_S = 10.0
"""For a first answer of the brokers, and for the topics that the log names; then again for their leaders."""

LOOK_S = 0.1
"""While an answer is under way, between two looks at what a person must repair."""

AGAIN_S = 0.2
"""After an answer of no use."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """`positions`: of the log, empty for a new one. `topics`: of the tables. `may_go`: topics that the log names and that may be gone."""

    positions: Mapping[PartitionKey, int]
    topics: frozenset[str]
    may_go: frozenset[str]


class Start:
    """`topics`: those that exist; `positions`: of each partition of them.

    Raises FeedUnsuitable for a gap, or where the brokers refuse; FeedLost if none answers.
    """

    def __init__(self, cluster: Cluster, clock: Clock, wanted: Wanted) -> None:
        self._cluster, self._clock = cluster, clock
        self.topics = self._first_answer(wanted.topics, {topic for topic, _ in wanted.positions})
        there = [(topic, number) for topic, found in self.topics.items() for number in range(found.partitions)]
        if lost := sorted(partition for partition in wanted.positions.keys() - set(there) if partition[0] not in wanted.may_go):
            raise gone(lost[0], self.topics.get(lost[0][0]))
        self.positions: dict[PartitionKey, int] = {}
        for partition, (first, end) in self._available(there).items():
            position = wanted.positions.get(partition, 0) if wanted.positions else first
            if not first <= position <= end:
                raise gap(partition, position, first, end)
            self.positions[partition] = position

    def _first_answer(self, topics: frozenset[str], named: set[str]) -> dict[str, Topic]:
        """Which of both exist; of `topics` those that the log names are waited for."""
        until_s = self._clock.now_s() + FIRST_ANSWER_MAX_S
        found: dict[str, Topic] | None = None
        while True:
            asked = self._cluster.ask(topics | named)
            while not asked.wait(LOOK_S) and self._clock.now_s() < until_s:
                self._cluster.check()
            if asked.wait(0.0) and (told := asked.topics()) is not None:
                found = told
            if found is not None and named & topics <= found.keys():
                self._cluster.answered()
                return found
            if self._clock.now_s() >= until_s:
                if found is None:
                    raise self._cluster.lost(FIRST_ANSWER_MAX_S)
                return found
            self._cluster.check(wait_s=AGAIN_S)

    def _available(self, partitions: list[PartitionKey]) -> dict[PartitionKey, tuple[int, int]]:
        """Asked again while a partition is without a leader."""
        until_s = self._clock.now_s() + FIRST_ANSWER_MAX_S
        while True:
            try:
                return self._cluster.available(partitions)
            except FeedLost:
                if self._clock.now_s() >= until_s:
                    raise
            self._cluster.check(wait_s=AGAIN_S)
