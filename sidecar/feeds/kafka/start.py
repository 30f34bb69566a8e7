"""Where reading begins: which topics exist, and from which offset each of their partitions is read. It waits, with bounds.

- Nothing is skipped. Below the first offset (retention passed) and above the end (a topic created again) is a gap, and so is a partition
  that lost what was read of it, however far it has grown since (truncation). A lane that the log does not name begins at what is there;
  where that is not its beginning, its first message shows whether what is gone was needed.
- A topic created again while nobody looked has another id than the log has for it. Brokers before 2.8 know no ids: there it is a gap only
  while it is shorter than the position.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sidecar.feeds.kafka.client import Cluster
from sidecar.feeds.kafka.lanes import PartitionKey, Topic, gap, gone, re_created
from sidecar.feeds.kafka.truncation import check_still_there
from sidecar.ports import Clock
from sidecar.shared.errors import FeedLost
from sidecar.shared.model.nouns import ReadEnd

FIRST_ANSWER_MAX_S = 10.0
"""For a first answer of the brokers, and for the topics that the log names; then again for their leaders."""

LOOK_S = 0.1
"""While an answer is under way, between two looks at what a person must repair."""

AGAIN_S = 0.2
"""After an answer of no use."""


@dataclass(frozen=True, slots=True)
class WantedStart:
    """`positions`: of the log, empty for a new one. `topics`: of the tables. `may_go`: topics that the log names and that may be gone.
    `ids`: of the log's topics, as far as it knows them. `read_ends`: of the partitions of `positions`, likewise."""

    positions: Mapping[PartitionKey, int]
    topics: frozenset[str]
    may_go: frozenset[str]
    ids: Mapping[str, str] = field(default_factory=dict)
    read_ends: Mapping[PartitionKey, ReadEnd] = field(default_factory=dict)


class Start:
    """`topics`: those that exist; `positions`: of each partition of them; `after_gap`: partitions that the log does not name, and whose
    beginning is gone; `ends`: what its next message will get; `read_ends`: how far those that the log names were read.

    Raises FeedUnsuitable for a gap, a topic created again, or where the brokers refuse; FeedLost if none answers.
    """

    def __init__(self, cluster: Cluster, clock: Clock, wanted: WantedStart) -> None:
        self._cluster, self._clock = cluster, clock
        self.topics = self._first_answer(wanted.topics, {topic for topic, _ in wanted.positions})
        there = [(topic, number) for topic, topic_facts in self.topics.items() for number in range(topic_facts.partitions)]
        if lost := sorted(partition for partition in wanted.positions.keys() - set(there) if partition[0] not in wanted.may_go):
            raise gone(lost[0], self.topics.get(lost[0][0]))
        again = self._re_created(wanted)
        self.positions: dict[PartitionKey, int] = {}
        self.after_gap: set[PartitionKey] = set()
        self.ends: dict[PartitionKey, int] = {}
        ours = {partition for partition in wanted.positions if partition[0] not in again} & set(there)
        self.read_ends = {partition: end for partition, end in wanted.read_ends.items() if partition in ours}
        available = self._available(there)
        check_still_there(cluster, self.read_ends)
        for partition, (first, end) in available.items():
            position = wanted.positions[partition] if partition in ours else first
            if wanted.positions and partition not in ours and 0 < first < end:
                self.after_gap.add(partition)
            if not first <= position <= end:
                raise gap(partition, position, first, end)
            self.positions[partition], self.ends[partition] = position, end

    def _re_created(self, wanted: WantedStart) -> set[str]:
        """Topics that may go, and that others of their names have followed. Raises FeedUnsuitable for any other one."""
        again = {name for name, topic in self.topics.items() if topic.id and wanted.ids.get(name, topic.id) != topic.id}
        for name in sorted(again - wanted.may_go):
            raise re_created(name, wanted.ids[name], self.topics[name])
        return again

    def _first_answer(self, topics: frozenset[str], named: set[str]) -> dict[str, Topic]:
        """Which of both exist; of `topics` those that the log names are waited for."""
        until_s = self._clock.now_s() + FIRST_ANSWER_MAX_S
        answer: dict[str, Topic] | None = None
        while True:
            question = self._cluster.ask(topics | named)
            while not question.wait(LOOK_S) and self._clock.now_s() < until_s:
                self._cluster.check()
            if question.wait(0.0) and (existing := question.topics()) is not None:
                answer = existing
            if answer is not None and named & topics <= answer.keys():
                self._cluster.answered()
                return answer
            if self._clock.now_s() >= until_s:
                if answer is None:
                    raise self._cluster.lost(FIRST_ANSWER_MAX_S)
                return answer
            self._cluster.check(wait_s=AGAIN_S)

    def _available(self, partitions: list[PartitionKey]) -> dict[PartitionKey, tuple[int, int]]:
        """Queried again while a partition is without a leader."""
        until_s = self._clock.now_s() + FIRST_ANSWER_MAX_S
        while True:
            try:
                return self._cluster.available(partitions)
            except FeedLost:
                if self._clock.now_s() >= until_s:
                    raise
            self._cluster.check(wait_s=AGAIN_S)
