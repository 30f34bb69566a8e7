"""Reads the sink's position from a topic of its own beside the output: compacted, one partition for each writer, so that an open
transaction of one writer hides no record of another.

    partition 0          control: the last record is the whole state (`Control`), written by the control id alone (control.py)
    partition 1 + n      slots of transactional id n: which tasks are done (`Slot`), committed with their rows

Group offsets would expire, and their metadata is small. A record of ours in the output would reach consumers that do not know it.

- All is read as committed. The records of a transaction appear a moment after its commit, so a read waits for open transactions, within a
  bound: the transaction of a dead writer stays open until the next one takes its id.
- The last control record is searched from the partition's end; a reader that has read one before starts there. A batch's slots are read
  from where they began (`Begun.slots_from`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from sidecar.errors import SinkError
from sidecar.process.patience import patience_s
from sidecar.process.progress import progressed
from spark_merge.sinks.kafka.client import OUTAGE_MAX_S, SinkCluster, passing, patiently
from spark_merge.sinks.kafka.position_records import STATE_KEY, Control, PositionRead, current_control, slots_of

CONTROL = 0

OPEN_TRANSACTIONS_MAX_S = 2.0
"""How long a read waits for transactions whose end is being written: milliseconds, if the brokers are well."""

LOOK_BACK = 64
"""Offsets before the end in which the last control record is searched first: each state takes two."""


_PositionRecord: TypeAlias = "tuple[int, int, bytes | None, bytes | None]"
"""Partition, offset, key and value of a record."""


def _is_state(key: bytes | None) -> bool:
    return key is not None and key.startswith(STATE_KEY)


class PositionReader:
    """Of the topic `name`. One thread."""

    def __init__(self, cluster: SinkCluster, name: str) -> None:
        self.name, self._cluster = name, cluster
        self._consumer: Any = cluster.connect(
            Consumer,
            {
                "group.id": name, "enable.auto.commit": "false", "isolation.level": "read_committed", "enable.partition.eof": "true",
                "auto.offset.reset": "earliest", "fetch.wait.max.ms": "1",
            },
        )  # fmt: skip
        self._seen: int | None = None

    def partitions(self, topic: str) -> int:
        """How many the topic has, 0 if it is not there. Raises SinkError."""
        answer = self._asked(lambda timeout_s: self._consumer.list_topics(topic, timeout_s), f"topic {topic}").topics[topic]
        if answer.error is not None and answer.error.code() not in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC):
            raise self._cluster.raised(answer.error, f"topic {topic}")
        return len(answer.partitions)

    def ends(self, topic: str, partitions: Sequence[int]) -> tuple[int, ...]:
        """Of each the offset after its last committed record."""
        return tuple(self.edges(topic, partition)[1] for partition in partitions)

    def is_empty(self, topic: str) -> bool:
        return all(low == high for low, high in (self.edges(topic, number) for number in range(self.partitions(topic))))

    def control(self) -> Control | None:
        """The last state, None where there is none. Raises SinkError."""
        return self._read(None, 0).control

    def control_and_slots(self, partition: int, start: int) -> PositionRead:
        """The last state, and the slots of `partition` from `start` on. Raises SinkError."""
        return self._read(partition, start)

    def _read(self, partition: int | None, start: int) -> PositionRead:
        slots_from = {} if partition is None else {partition: start}
        low, back = 0, LOOK_BACK
        if self._seen is None:
            low, end = self.edges(self.name, CONTROL)
            self._seen = max(low, end - back)
        while True:
            records = list(self._since({CONTROL: self._seen, **slots_from}))
            states = ((at, self._state(value)) for number, at, key, value in records if number == CONTROL and value and _is_state(key))
            current = current_control(states)
            at_start = self._seen <= low
            if at_start or (current is not None and not current[1].opening):
                break
            back *= 8
            self._seen = max(low, self._seen - back)
        self._seen = None if current is None else current[0]
        return PositionRead(
            None if current is None else replace(current[1], opening=False),
            slots_of((key, value) for number, _, key, value in records if number == partition),
            max((at + 1 for number, at, *_ in records if number == partition), default=start),
        )

    def _state(self, value: bytes) -> Control:
        return Control.of(value, where=f"position topic {self.name}")

    def close(self) -> None:
        self._consumer.close()

    def _asked(self, call: Callable[[float], Any], what: str) -> Any:
        return patiently(self._cluster, self._consumer, call, what)

    def edges(self, topic: str, partition: int) -> tuple[int, int]:
        """The offset of its first record and the one behind its last."""
        place, what = TopicPartition(topic, partition), f"the offsets of {topic}/{partition}"
        edges: tuple[int, int] = self._asked(lambda timeout_s: self._consumer.get_watermark_offsets(place, timeout_s), what)
        return edges

    def _since(self, starts: Mapping[int, int]) -> Iterator[_PositionRecord]:
        """Committed records from these offsets on, to the end of what is committed or in an open transaction."""
        left, silent_s, open_s = set(starts), None, None
        self._consumer.assign([TopicPartition(self.name, partition, offset) for partition, offset in starts.items()])
        while left:
            message = self._consumer.poll(0.1)
            now_s = time.monotonic()
            if message is None:
                silent_s = silent_s or now_s + patience_s(OUTAGE_MAX_S)
                if now_s > silent_s:
                    raise SinkError(
                        f"Kafka at {self._cluster.brokers} does not answer for {self.name}/{min(left)}", hint="start the brokers"
                    )
                continue
            silent_s = None
            progressed()
            partition = message.partition()
            if message.error() is None:
                yield partition, message.offset(), message.key(), message.value()
            elif message.error().code() == KafkaError._PARTITION_EOF:
                open_s = open_s or now_s + OPEN_TRANSACTIONS_MAX_S
                self._consumer.incremental_unassign([TopicPartition(self.name, partition)])
                if now_s > open_s or message.offset() >= self._high(partition):
                    left.remove(partition)
                else:
                    time.sleep(0.002)
                    self._consumer.incremental_assign([TopicPartition(self.name, partition, message.offset())])
            elif not passing(message.error()):
                raise self._cluster.raised(message.error(), f"position topic {self.name}")

    def _high(self, partition: int) -> int:
        """The offset after the last record, committed or not, as the last answer had it."""
        try:
            return int(self._consumer.get_watermark_offsets(TopicPartition(self.name, partition), cached=True)[1])
        except KafkaException as error:
            raise self._cluster.raised(error.args[0], f"position topic {self.name}") from error
