"""TiCDC's Kafka topics as a feed: a lane is a partition, `kafka/{topic}/{partition}`, a position is a Kafka offset.

**A lane must join before R may overtake it.** So what completes a round of all lanes is held until the source has returned its tables
and the brokers their topics, both requested after it came (`rounds`); without an answer R waits.

    start     where reading begins, without a gap        reading   the consumer: messages in order, the outage clock
    rounds    what may be released, what is queried      asking    the question, in the background
    commits   offsets for operators, written and never read

`poll` does not wait for the source or the brokers: it returns within its timeout, or ANSWER_WAIT_S a step. `lanes` sends no request.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sidecar.feeds.kafka.asking import Asking
from sidecar.feeds.kafka.client import Cluster
from sidecar.feeds.kafka.commits import OffsetCommits
from sidecar.feeds.kafka.lanes import PartitionKey, TableTopics, lane_of, of_topics, partition_of
from sidecar.feeds.kafka.reading import KafkaSettings, TopicReading
from sidecar.feeds.kafka.rounds import TOPICS_AGAIN_S, Rounds
from sidecar.feeds.kafka.start import Start, WantedStart
from sidecar.ports import NO_READ_ENDS, NOT_KNOWN, Clock
from sidecar.shared.errors import FeedLost
from sidecar.shared.model.nouns import Lane, Message, ReadEnd

ANSWER_WAIT_S = 0.1
"""How long a poll waits for the topics that it needs; a broker nearby takes about 2 ms. Then the next poll continues to wait."""


class _SystemClock:
    def now_s(self) -> float:
        return time.monotonic()


@dataclass(frozen=True, slots=True)
class _Open:
    """From a seek to the next, or to the close."""

    reading: TopicReading
    rounds: Rounds
    asking: Asking
    commits: OffsetCommits


class KafkaFeed:
    """sidecar.ports.Feed over all partitions of `topics()`, those of the tables where the log is, and `present()`, those of the tables
    that the source has now. `topics` is cheap. `present` may wait for the source and raise: `seek` waits for it, after that a thread of
    its own calls it, R waits as long as the source cannot be reached, and `poll` raises what no retry helps. None: the same
    topics, all of them marked.

    A topic that does not exist is no lane yet: TiCDC makes topics when their first table comes. One thread calls all but the
    constructor.

    Raises ConfigError for settings that cannot be used; FeedLost when no broker answers for OUTAGE_MAX_S. After an error
    only `seek` and `close` may follow.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        topics: Callable[[], frozenset[str]],
        *,
        present: Callable[[], TableTopics] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.group = settings.group
        self._settings = settings
        self._topics = topics
        self._present = present or self._of_log
        self._by_table = present is not None
        self._clock = clock or _SystemClock()
        self._cluster = Cluster(settings.brokers, settings.client, settings.group)
        self._open: _Open | None = None

    def lanes(self) -> frozenset[Lane]:
        """As of the topics read after all that was delivered had arrived; empty before `seek`. Asks nobody."""
        return frozenset() if self._open is None else self._open.rounds.lanes(self._topics())

    def ends(self) -> Mapping[Lane, int]:
        """Of the partitions that exist. Waits, and raises, as `seek`."""
        start = Start(self._cluster, self._clock, WantedStart({}, self._topics() | self._present().all, frozenset()))
        return {lane_of(partition): end for partition, end in start.ends.items()}

    def incarnations(self) -> Mapping[Lane, str]:
        """The ids of the topics."""
        return {} if self._open is None else self._open.rounds.incarnations()

    def read_ends(self) -> Mapping[Lane, ReadEnd]:
        """With the messages that are held; none before `seek`."""
        return {} if self._open is None else {lane_of(partition): end for partition, end in self._open.reading.read_ends().items()}

    def seek(
        self,
        positions: Mapping[Lane, int],
        incarnations: Mapping[Lane, str] = NOT_KNOWN,
        read_ends: Mapping[Lane, ReadEnd] = NO_READ_ENDS,
    ) -> None:
        """Waits for the source, the brokers, and then for leaders, FIRST_ANSWER_MAX_S each. Empty positions: a new log, from what is
        there.

        Raises FeedUnsuitable for a gap, a topic that was created again, a partition that lost what was read of it, or where the brokers
        refuse; FeedLost, and changes nothing, if none answers.
        """
        wanted = of_topics(positions)
        at_log, present = self._topics(), self._present()
        may_go = frozenset(topic for topic, _ in wanted) - at_log - present.all if self._by_table else frozenset[str]()
        ids = {partition_of(lane)[0]: topic_id for lane, topic_id in incarnations.items() if topic_id}
        ends = {partition_of(lane): end for lane, end in read_ends.items()}
        start = Start(self._cluster, self._clock, WantedStart(wanted, at_log | present.all, may_go, ids, ends))
        self._end()
        now_s = self._clock.now_s()
        commits = OffsetCommits(self._cluster.note, now_s=now_s)
        reading = TopicReading(self._cluster, self._settings, commits.done)
        rounds = Rounds(start.topics, at_log=at_log, present=present, now_s=now_s)
        self._open = _Open(reading, rounds, Asking(self._cluster, self._present if self._by_table else None), commits)
        reading.join(start.positions, after_gap=start.after_gap, read_ends=start.read_ends)

    def poll(self, *, timeout_s: float) -> Sequence[Message]:
        """Raises FeedUnsuitable for a gap, a topic that is gone, or where the brokers refuse; FeedLost after an outage; and what
        `present` raised and no retry helps."""
        assert self._open is not None, "poll comes after seek"
        reading, rounds, asking = self._open.reading, self._open.rounds, self._open.asking
        self._cluster.check()
        self._open.commits.send_if_due(reading.commit, now_s=self._clock.now_s())
        released: Sequence[Message] = ()
        if not rounds.held:
            released = rounds.take(reading.take(timeout_s), now_s=self._clock.now_s())
        if not rounds.held:
            self._learn(self._open, wait_s=0.0)
            return released
        pause_s = min(timeout_s, TOPICS_AGAIN_S)
        self._learn(self._open, wait_s=max(pause_s, ANSWER_WAIT_S))
        if rounds.is_answered:
            return rounds.release(self._read_to_end(self._open))
        if not asking.waits_for():
            self._cluster.check(wait_s=pause_s)
        return ()

    def acknowledge(self, positions: Mapping[Lane, int]) -> None:
        for partition, position in of_topics(positions).items():
            if self._open is not None and partition in self._open.reading.positions:
                self._open.commits.acknowledge(partition, position)

    def still_because(self) -> str:
        """For people, when no lane moves: whom a complete round waits for; empty if there is none. Called by who calls `poll`."""
        waits_for = self._open.asking.waits_for() if self._open is not None and self._open.rounds.held else ""
        return f"waits for {waits_for}" if waits_for else ""

    def close(self) -> None:
        """Waits a second at most for the source, and one for the brokers. The feed can be used again after `seek`."""
        if self._open is not None:
            self._open.commits.send(self._open.reading.commit, now_s=self._clock.now_s())
            self._end()
        self._cluster.close()

    def _of_log(self) -> TableTopics:
        return TableTopics(self._topics(), self._topics())

    def _learn(self, at: _Open, *, wait_s: float) -> None:
        """Ask if it is time to, and take in what has been answered."""
        now_s = self._clock.now_s()
        if question := at.rounds.ask(self._topics(), now_s=now_s):
            at.asking.begin(question)
        answer = at.asking.answer(wait_s=wait_s)
        if answer is None:
            return
        if answer.existing is None:
            at.reading.unanswered(now_s)
        else:
            at.reading.answered()
        learned = at.rounds.learn(answer, now_s=now_s)
        at.reading.leave(learned.left)
        at.commits.forget(learned.left)
        at.reading.begin(learned.joined)

    def _read_to_end(self, at: _Open) -> frozenset[PartitionKey]:
        """Which of the unmarked ones are; none where the brokers cannot tell: R waits, and the next round asks again."""
        try:
            ends = self._cluster.available(at.rounds.unmarked())
        except FeedLost:
            return frozenset()
        return frozenset(partition for partition, (_, end) in ends.items() if at.reading.positions[partition] >= end)

    def _end(self) -> None:
        if self._open is not None:
            ending, self._open = self._open, None
            ending.asking.close()
            ending.reading.close()
