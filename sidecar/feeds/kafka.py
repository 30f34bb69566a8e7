"""TiCDC's Kafka topics as a feed: a lane is a partition, `kafka/{topic}/{partition}`, a position is a Kafka offset.

- Partitions are assigned, never balanced. The group's offsets are written for operators (lag) and never read.
- Nothing is skipped. Below the first offset (retention passed), above the end (a topic made anew) and between two messages
  (TiCDC writes no transactions, its topics are not compacted) is a gap, and so is a lane without its offset 0 that was
  not there when the log began. Only a new log begins at what is there.
- **A lane must join before R may pass it by.** TiCDC sends resolved mark T, in any lane, after every change <= T was
  written, so the lane of each was there before that mark. Before R moves to T every lane has delivered something since
  the first mark >= T came. So the topics are read again whenever *every* lane has delivered since the last time, and `poll`
  keeps the messages that complete such a round until the answer is there. `lanes` asks nobody; without an answer R waits.
  An answer is as good as the broker that gives it: one that lags behind its controller leaves a new partition out.
- The topics of the source's present tables are read too (`present`): the DDL that makes or renames a table comes in the table's
  own topic. They are asked for in each round, so after mark T came, when the table is there.
- TiCDC marks a topic only as long as it has a table. One that has none at present leaves R alone in each round in which it was
  read up to an end that was asked for after the round's messages came: nothing <= T is behind it.
- Else a lane never leaves. Its topic gone, smaller, or made anew (another topic id, or an end below the position) stops. A
  topic made anew while nobody looked, and longer by now than the position, cannot be told from the old one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from threading import Thread
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from sidecar.core.model import Lane, Message
from sidecar.errors import FeedLost, FeedUnsuitable
from sidecar.feeds.kafka_client import (
    OUTAGE_MAX_S,
    Cluster,
    PartitionKey,
    Topic,
    TopicsAnswer,
    common_settings,
    consumer_settings,
    open_client,
    refusal,
)
from sidecar.feeds.kafka_lanes import START_ANEW, gap, gone, hole, lane_of, partition_of
from sidecar.ports import Clock

POLL_MESSAGES_MAX = 5_000
"""Of one poll: what the pipeline takes in some tens of milliseconds, so that it comes back to the dump and to operators."""

TAKEN_PART = 4
"""A poll ends at this part of `queue_bytes_max`; what it took last may be all that waited, another quarter."""

SLICE_MESSAGES = 500
"""Taken from librdkafka at once, between two looks at the bytes."""

TOPICS_EVERY_S = 5.0
"""Without messages of every lane the topics are read again so often: for what appears, what is gone, and for a sign of life."""

TOPICS_AGAIN_S = 0.2
"""After an answer of no use, and while there is no lane at all."""

ANSWER_WAIT_S = 0.1
"""How long a poll waits for the topics that it needs; a broker nearby takes about 2 ms. Then the next poll goes on waiting."""

FIRST_ANSWER_MAX_S = 10.0
"""How long `seek` waits for a first answer, and for the topics that the log names."""

GONE_MAX_S = 10.0
"""A topic that is there and that brokers do not know for so long is gone. Shorter: one of them is just starting."""

COMMIT_EVERY_S = 1.0
CLOSE_WAIT_S = 1.0


class _SystemClock:
    def now_s(self) -> float:
        return time.monotonic()


class KafkaFeed:
    """sidecar.ports.Feed over all partitions of `topics()`, those of the tables where the log is, and `present()`, those of the tables
    that the source has now. `topics` is cheap; `present` may wait for the source and raise SourceLost; None: the same topics.

    A topic that does not exist is no lane yet: TiCDC makes topics when their first table comes. `queue_bytes_max` bounds what
    is fetched and not yet taken, and what a poll returns (one message may be larger). One thread calls all but the constructor.

    Raises ConfigError for settings that cannot be used; FeedLost when no broker answers for OUTAGE_MAX_S. After an error
    only `seek` and `close` may follow.
    """

    def __init__(
        self,
        brokers: str,
        topics: Callable[[], frozenset[str]],
        *,
        client: Mapping[str, str],
        group: str,
        queue_bytes_max: int,
        present: Callable[[], frozenset[str]] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._topics = topics
        self._present = present or topics
        self._client = dict(client)
        self.group = group
        self._queue_bytes_max = queue_bytes_max
        self._clock = clock or _SystemClock()
        self._cluster = Cluster(brokers, client)
        self._consumer: Any = None
        self._forget()

    def _forget(self) -> None:
        self._lanes: dict[PartitionKey, Lane] = {}
        self._next: dict[PartitionKey, int] = {}
        self._known: dict[str, Topic] = {}
        self._unheard: set[PartitionKey] = set()
        self._with_tables: frozenset[str] = frozenset()
        self._at_end: set[PartitionKey] = set()
        self._asking: tuple[frozenset[str], frozenset[str]] = frozenset(), frozenset()
        self._asked_for: frozenset[str] = frozenset()
        self._kept: list[Message] = []
        self._asked: TopicsAnswer | None = None
        self._ask_at_s = self._clock.now_s()
        self._gone_since_s: float | None = None
        self._silent_since_s: float | None = None
        self._acknowledged: dict[PartitionKey, int] = {}
        self._committed: dict[PartitionKey, int] = {}
        self._committing = False
        self._commit_at_s = self._clock.now_s()

    # ---- the port ---------------------------------------------------------------------------------------------------

    def lanes(self) -> frozenset[Lane]:
        """As of the topics read after all that was delivered had arrived; empty before `seek`. Asks nobody.

        A topic that got its first table by a DDL in the log, and that nobody was asked for yet, holds R as a lane without marks.
        """
        if self._consumer is None:
            return frozenset()
        unasked = {lane_of((topic, 0)) for topic in self._topics() - self._asked_for}
        return frozenset(unasked | {lane for partition, lane in self._lanes.items() if partition not in self._at_end})

    def seek(self, positions: Mapping[Lane, int]) -> None:
        """Waits for the brokers, and then for leaders, FIRST_ANSWER_MAX_S each. Empty positions: a new log, from what is there.

        Raises FeedUnsuitable for a gap, or where the brokers refuse; FeedLost, and changes nothing, if none answers.
        """
        wanted = {partition_of(lane): position for lane, position in positions.items()}
        at_log, with_tables = self._topics(), self._present()
        known = self._first_answer(at_log | with_tables, {topic for topic, _ in wanted})
        there = [(topic, number) for topic, found in known.items() for number in range(found.partitions)]
        may_go = set() if self._present is self._topics else {topic for topic, _ in wanted} - at_log - with_tables
        if lost := sorted(partition for partition in wanted.keys() - set(there) if partition[0] not in may_go):
            raise gone(lost[0], known.get(lost[0][0]))
        available = self._available(there)
        start = {}
        for key, (first, end) in available.items():
            start[key] = wanted.get(key, 0) if wanted else first
            if not first <= start[key] <= end:
                raise gap(key, start[key], first, end)
        self._stop_reading()
        self._forget()
        bounds = consumer_settings(group=self.group, queue_bytes_max=self._queue_bytes_max, brokers=self._cluster.broker_count())
        settings = common_settings(self._cluster.brokers, self._client) | bounds
        settings |= {"error_cb": self._cluster.note, "on_commit": self._note_commit}
        self._consumer = open_client(Consumer, settings)
        self._known, self._with_tables, self._asked_for = known, with_tables, at_log | with_tables
        self._read_from(start)

    def poll(self, *, timeout_s: float) -> Sequence[Message]:
        """Raises FeedUnsuitable for a gap, a topic that is gone, or where the brokers refuse; FeedLost after an outage."""
        self._cluster.check()
        self._commit_if_due()
        if self._topics() - self._asked_for:
            self._ask_at_s = min(self._ask_at_s, self._clock.now_s())
        if not self._kept:
            taken = self._take(timeout_s)
            if self._unheard or not taken:
                self._read_topics(wait_s=0.0)
                return taken
            self._kept, self._asked, self._ask_at_s = taken, None, self._clock.now_s()  # what was asked before they came is too old
        if not self._read_topics(wait_s=ANSWER_WAIT_S):
            self._cluster.check(wait_s=min(timeout_s, TOPICS_AGAIN_S))
            return []
        self._end_round()
        taken, self._kept = self._kept, []
        return taken

    def acknowledge(self, positions: Mapping[Lane, int]) -> None:
        for lane, position in positions.items():
            key = partition_of(lane)
            if key in self._next:
                self._acknowledged[key] = max(position, self._acknowledged.get(key, 0))

    def close(self) -> None:
        """Waits a second at most. The feed can be used again after `seek`."""
        if self._consumer is not None:
            self._commit_if_due(at_once=True)
            self._stop_reading()

    # ---- messages ---------------------------------------------------------------------------------------------------

    def _take(self, timeout_s: float) -> list[Message]:
        """What is there, in order inside each lane: one message is waited for, the rest is taken as it is."""
        taken: list[Message] = []
        lanes, following, unheard = self._lanes, self._next, self._unheard
        bytes_left = self._queue_bytes_max // TAKEN_PART
        records = self._consume(1, timeout_s)
        while records:
            for record in records:
                if record.error() is not None:
                    self._check_record(record)
                    continue
                partition, position = (record.topic(), record.partition()), record.offset()
                if position != following[partition]:
                    raise hole(partition, following[partition], position)
                following[partition] = position + 1
                unheard.discard(partition)
                key, value = record.key(), record.value()
                bytes_left -= len(key or b"") + len(value or b"")
                taken.append(Message(lanes[partition], position, key, value))
            if len(taken) >= POLL_MESSAGES_MAX or bytes_left <= 0:
                break
            records = self._consume(SLICE_MESSAGES, 0.0)
        if taken:
            self._silent_since_s = None
        return taken

    def _consume(self, count: int, timeout_s: float) -> list[Any]:
        try:
            found: list[Any] = self._consumer.consume(count, timeout_s)
        except KafkaException as error:
            if refused := refusal(error.args[0], "reading"):
                raise refused from error
            return []
        return found

    def _check_record(self, record: Any) -> None:
        error: KafkaError = record.error()
        partition = (record.topic(), record.partition())
        if error.code() == KafkaError._AUTO_OFFSET_RESET:
            first, end = self._cluster.available([partition])[partition]
            raise gap(partition, self._next[partition], first, end)
        if refused := refusal(error, f"reading {lane_of(partition)}" if record.topic() else f"consumer group {self.group}"):
            raise refused

    def _read_from(self, start: Mapping[PartitionKey, int]) -> None:
        self._lanes |= {partition: lane_of(partition) for partition in start}
        self._next |= start
        self._unheard |= start.keys()
        self._consumer.incremental_assign([TopicPartition(*partition, position) for partition, position in start.items()])

    def _stop_reading(self) -> None:
        """A commit to a broker that is gone holds librdkafka's close for up to a minute: then it ends behind us."""
        if self._consumer is not None:
            closing = Thread(target=self._consumer.close, name="kafka-feed-close", daemon=True)
            closing.start()
            closing.join(CLOSE_WAIT_S)
            self._consumer = None

    # ---- topics -----------------------------------------------------------------------------------------------------

    def _first_answer(self, topics: frozenset[str], named: set[str]) -> dict[str, Topic]:
        """Which of both exist; of `topics` those that the log names are waited for."""
        until_s = self._clock.now_s() + FIRST_ANSWER_MAX_S
        found: dict[str, Topic] | None = None
        while True:
            asked = self._cluster.ask(topics | named)
            while not asked.wait(ANSWER_WAIT_S) and self._clock.now_s() < until_s:
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
            self._cluster.check(wait_s=TOPICS_AGAIN_S)

    def _available(self, partitions: list[PartitionKey]) -> dict[PartitionKey, tuple[int, int]]:
        """Asked again while a partition is without a leader."""
        until_s = self._clock.now_s() + FIRST_ANSWER_MAX_S
        while True:
            try:
                return self._cluster.available(partitions)
            except FeedLost:
                if self._clock.now_s() >= until_s:
                    raise
            self._cluster.check(wait_s=TOPICS_AGAIN_S)

    def _read_topics(self, *, wait_s: float) -> bool:
        """Whether an answer has come now, all of it is taken in, and it can be trusted. Asks if it is time to."""
        now_s = self._clock.now_s()
        if self._asked is None:
            if now_s < self._ask_at_s:
                return False
            self._asking = self._topics(), self._present()
            self._asked = self._cluster.ask(frozenset().union(*self._asking) | self._known.keys())
        if not self._asked.wait(wait_s):
            return False
        found, self._asked = self._asked.topics(), None
        self._ask_at_s = now_s + TOPICS_AGAIN_S
        if found is None:
            self._check_silence(now_s)
            return False
        self._silent_since_s = None
        self._cluster.answered()
        if self._something_isgone(found, now_s):
            return False
        if self._next:
            self._ask_at_s = now_s + TOPICS_EVERY_S
        self._follow_tables()
        self._join(found)
        return True

    def _follow_tables(self) -> None:
        """Topics that have tables hold R, from now on; those that have none any more are left out when the next round ends."""
        at_log, with_tables = self._asking
        came = {partition for partition in self._next if partition[0] in with_tables - self._with_tables}
        self._with_tables, self._asked_for = with_tables, at_log | with_tables
        self._at_end -= came
        self._unheard = {partition for partition in self._unheard | came if partition[0] in with_tables}

    def _end_round(self) -> None:
        """Every lane has delivered, and the topics were read after that."""
        self._unheard = {partition for partition in self._next if partition[0] in self._with_tables}
        without_tables = self._next.keys() - self._unheard
        self._at_end = set()
        if without_tables:
            try:
                ends = self._cluster.available(without_tables)
            except FeedLost:
                return  # R waits; the next round asks again
            self._at_end = {partition for partition, (_, end) in ends.items() if self._next[partition] >= end}

    def _join(self, found: Mapping[str, Topic]) -> None:
        """What was not there when the log began, or when this process did, is read from its very beginning."""
        joined = {
            (name, number): 0
            for name, topic in found.items()
            if name in self._known or name in self._asked_for
            for number in range(self._known[name].partitions if name in self._known else 0, topic.partitions)
        }
        self._known |= {name: topic for name, topic in found.items() if name in self._known or name in self._asked_for}
        if joined:
            self._read_from(joined)

    def _something_isgone(self, found: Mapping[str, Topic], now_s: float) -> bool:
        tables = frozenset().union(*self._asking)
        for name, known in list(self._known.items()):
            topic = found.get(name)
            if name not in tables and (topic is None or topic.id != known.id) and self._leave(name):
                continue
            if topic is not None and topic.id is not None and known.id is not None and topic.id != known.id:
                raise FeedUnsuitable(
                    f"topic {name} was deleted and made anew (its id was {known.id} and is {topic.id}): what was in it is lost",
                    hint=START_ANEW,
                )
            if topic is None or topic.partitions < known.partitions:
                self._gone_since_s = now_s if self._gone_since_s is None else self._gone_since_s
                if now_s - self._gone_since_s > GONE_MAX_S:
                    raise gone((name, topic.partitions if topic else 0), topic)
                return True
        self._gone_since_s = None
        return False

    def _leave(self, name: str) -> bool:
        """Forget a topic without tables that was deleted, if all of it was read."""
        partitions = [partition for partition in self._next if partition[0] == name]
        if not self._at_end.issuperset(partitions):
            return False
        self._consumer.incremental_unassign([TopicPartition(*partition) for partition in partitions])
        del self._known[name]
        for partition in partitions:
            self._at_end.discard(partition)
            for kept in (self._lanes, self._next, self._acknowledged, self._committed):
                kept.pop(partition, None)
        return True

    def _check_silence(self, now_s: float) -> None:
        self._silent_since_s = now_s if self._silent_since_s is None else self._silent_since_s
        silent_s = now_s - self._silent_since_s
        if silent_s > OUTAGE_MAX_S:
            raise self._cluster.lost(silent_s)

    def _commit_if_due(self, *, at_once: bool = False) -> None:
        """One at a time: while the brokers are away commits would only queue up."""
        now_s = self._clock.now_s()
        if self._acknowledged != self._committed and (at_once or (now_s >= self._commit_at_s and not self._committing)):
            self._committed, self._committing, self._commit_at_s = dict(self._acknowledged), True, now_s + COMMIT_EVERY_S
            offsets = [TopicPartition(*partition, position) for partition, position in self._committed.items()]
            self._consumer.commit(offsets=offsets, asynchronous=True)

    def _note_commit(self, error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        """What is lost in an outage is committed again with the next one; a refusal is raised by the next poll."""
        self._committing = False
        for failure in (error, *(partition.error for partition in partitions)):
            if failure is not None:
                self._cluster.note(failure)
                self._committed = {}
