"""One librdkafka consumer from its assignment to its close: what is taken of its queue, in order, and how long nothing came.

- Partitions are assigned, never balanced. Between two messages of one nothing is missing (TiCDC writes no transactions, its topics
  are not compacted): a hole stops, and so does an offset that is not there any more, or is another message's (truncation).
- One that nobody has read begins at its oldest message. What retention has removed before that may be a gap: the message says so.
- What is fetched and not yet taken, and what is taken at once, is bounded in bytes.
- It must not know rounds, tables, or when a lane counts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition

from sidecar.feeds.kafka.client import OUTAGE_MAX_S, Cluster, common_settings, consume, consumer_settings, open_client, places, refusal
from sidecar.feeds.kafka.lanes import PartitionKey, gap, hole, lane_of, not_there
from sidecar.feeds.kafka.truncation import check_still_there
from sidecar.shared.errors import FeedLost, FeedUnsuitable
from sidecar.shared.model.nouns import Lane, Message, ReadEnd
from sidecar.shared.process.background import Background

POLL_MESSAGES_MAX = 5_000
"""Of one poll: what the pipeline takes in some tens of milliseconds, so that it comes back to the dump and to operators."""

TAKEN_PART = 4
"""A poll ends at this part of `queue_bytes_max`; what it took last may be all that waited, another quarter."""

SLICE_MESSAGES = 500
"""Taken from librdkafka at once, between two looks at the bytes."""

CLOSE_WAIT_S = 1.0


@dataclass(frozen=True, slots=True)
class KafkaSettings:
    """`brokers`: host:port, separated by commas. `client`: TLS, SASL and network settings of librdkafka. `queue_bytes_max` bounds what
    is fetched and not yet taken, and what a poll returns (one message may be larger)."""

    brokers: str
    group: str
    queue_bytes_max: int
    client: Mapping[str, str] = field(default_factory=dict)


class TopicReading:
    """`positions`: of each partition that is read, what comes next. Raises ConfigError for settings, FeedLost if nobody answers."""

    def __init__(self, cluster: Cluster, settings: KafkaSettings, on_commit: Callable[..., None]) -> None:
        self.positions: dict[PartitionKey, int] = {}
        self._cluster = cluster
        self._group = settings.group
        self._queue_bytes_max = settings.queue_bytes_max
        self._lanes: dict[PartitionKey, Lane] = {}
        self._read_before: dict[PartitionKey, ReadEnd] = {}  # up to there messages come again
        self._epochs: dict[PartitionKey, int | None] = {}  # of the last message
        self._fresh: dict[PartitionKey, bool] = {}  # those that nobody has read: whether what is there is after a gap
        self._silent_since_s: float | None = None
        bounds = consumer_settings(group=settings.group, queue_bytes_max=settings.queue_bytes_max, brokers=cluster.broker_count())
        common = common_settings(settings.brokers, settings.client)
        self._consumer = open_client(Consumer, common | bounds | {"error_cb": cluster.note, "on_commit": on_commit})

    def begin(self, partitions: Iterable[PartitionKey]) -> None:
        """Read these too, from what is there of their beginning."""
        joined = frozenset(partitions)
        self._fresh |= dict.fromkeys(joined, False)
        self.join(dict.fromkeys(joined, 0))

    def join(
        self,
        start: Mapping[PartitionKey, int],
        *,
        after_gap: Collection[PartitionKey] = (),
        read_ends: Mapping[PartitionKey, ReadEnd] = MappingProxyType({}),
    ) -> None:
        """Read these too, from there on; what was before it in those `after_gap` is gone and was not read. `read_ends`: how far they were
        read before."""
        if start:
            self._read_before |= read_ends
            self._fresh |= dict.fromkeys(after_gap, True)
            self.positions |= start
            self._lanes |= {partition: lane_of(partition) for partition in start}
            self._consumer.incremental_assign(places(start, read_ends))

    def leave(self, partitions: Iterable[PartitionKey]) -> None:
        if left := list(partitions):
            self._consumer.incremental_unassign([TopicPartition(*partition) for partition in left])
            for partition in left:
                del self.positions[partition], self._lanes[partition]
                for known in (self._fresh, self._epochs, self._read_before):
                    known.pop(partition, None)

    def read_ends(self) -> dict[PartitionKey, ReadEnd]:
        """Of those whose messages have an epoch."""
        now = {key: ReadEnd(self.positions[key], epoch) for key, epoch in self._epochs.items() if epoch is not None}
        return now | {key: max(before, now.get(key, before)) for key, before in self._read_before.items()}

    def take(self, timeout_s: float) -> list[Message]:
        """What is there, in order inside each lane: one message is waited for, the rest is taken as it is.

        Raises FeedUnsuitable for a gap, a hole, or where the brokers refuse.
        """
        taken: list[Message] = []
        lanes, positions, fresh, epochs = self._lanes, self.positions, self._fresh, self._epochs
        bytes_left = self._queue_bytes_max // TAKEN_PART
        records = consume(self._consumer, 1, timeout_s)
        while records:
            for record in records:
                if record.error() is not None:
                    self._check_record(record)
                    continue
                partition, position = (record.topic(), record.partition()), record.offset()
                if position != positions[partition]:
                    raise hole(partition, positions[partition], position)
                positions[partition], epochs[partition] = position + 1, record.leader_epoch()
                key, value = record.key(), record.value()
                bytes_left -= len(key or b"") + len(value or b"")
                taken.append(Message(lanes[partition], position, key, value, partition in fresh and self._follows_gap(partition)))
            if len(taken) >= POLL_MESSAGES_MAX or bytes_left <= 0:
                break
            records = consume(self._consumer, SLICE_MESSAGES, 0.0)
        if taken:
            self._silent_since_s = None
        return taken

    def _follows_gap(self, partition: PartitionKey) -> bool:
        """For the first time; whether it is after a gap."""
        return self._fresh.pop(partition)

    def commit(self, positions: Mapping[PartitionKey, int]) -> None:
        """Begin to; `on_commit` receives how it went."""
        self._consumer.commit(offsets=places(positions, self.read_ends()), asynchronous=True)

    def close(self) -> None:
        """A commit to a broker that is gone holds librdkafka's close for up to a minute: then it ends behind us."""
        Background(lambda _: self._consumer.close(), name="kafka-feed-close").close(CLOSE_WAIT_S)

    # ---- the outage clock -------------------------------------------------------------------------------------------

    def answered(self) -> None:
        """The brokers did: they are there. So are they where messages come."""
        self._silent_since_s = None
        self._cluster.answered()

    def unanswered(self, now_s: float) -> None:
        """Raises after OUTAGE_MAX_S of nothing else."""
        self._silent_since_s = now_s if self._silent_since_s is None else self._silent_since_s
        silent_s = now_s - self._silent_since_s
        if silent_s > OUTAGE_MAX_S:
            raise self._cluster.lost(silent_s)

    # ---- librdkafka -------------------------------------------------------------------------------------------------

    def _check_record(self, record: Any) -> None:
        error: KafkaError = record.error()
        partition = (record.topic(), record.partition())
        if error.code() == KafkaError._AUTO_OFFSET_RESET:
            if partition not in self._fresh:
                raise self._gap(partition, error)
            first, end = self._cluster.available([partition])[partition]
            self._consumer.incremental_unassign([TopicPartition(*partition)])
            self.join({partition: first}, after_gap=[partition] if first < end else [])
            return
        if refused := refusal(error, f"reading {lane_of(partition)}" if record.topic() else f"consumer group {self._group}"):
            raise refused

    def _gap(self, partition: PartitionKey, error: KafkaError) -> FeedUnsuitable:
        """No retry helps, also where no broker answers: a later start knows less of what was read than this process."""
        position = self.positions[partition]
        try:
            check_still_there(self._cluster, {key: end for key, end in self.read_ends().items() if key == partition})
            return gap(partition, position, *self._cluster.available([partition])[partition])
        except FeedLost:
            return not_there(partition, position, error.str())
