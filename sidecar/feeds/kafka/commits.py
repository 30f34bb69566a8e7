"""Acknowledged offsets as the consumer group's, for operators who look at its lag. The feed never reads them: the log is the truth.

What is lost in an outage is committed again with what comes next; a refusal is noted with the cluster, whose next check raises it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from confluent_kafka import KafkaError, TopicPartition

from sidecar.feeds.kafka.lanes import PartitionKey

COMMIT_EVERY_S = 1.0

Send = Callable[[Mapping[PartitionKey, int]], None]


class OffsetCommits:
    """Of one consumer. One commit is under way at a time: while the brokers are away they would only queue up."""

    def __init__(self, note: Callable[[KafkaError], None], *, now_s: float) -> None:
        self._note = note
        self._acknowledged: dict[PartitionKey, int] = {}
        self._sent: dict[PartitionKey, int] = {}
        self._under_way = False
        self._due_s = now_s

    def acknowledge(self, partition: PartitionKey, position: int) -> None:
        self._acknowledged[partition] = max(position, self._acknowledged.get(partition, 0))

    def forget(self, partitions: Iterable[PartitionKey]) -> None:
        for partition in partitions:
            self._acknowledged.pop(partition, None)
            self._sent.pop(partition, None)

    def send_if_due(self, send: Send, *, now_s: float) -> None:
        if now_s >= self._due_s and not self._under_way:
            self.send(send, now_s=now_s)

    def send(self, send: Send, *, now_s: float) -> None:
        """`send` does not wait; how it went comes to `done`."""
        if self._acknowledged != self._sent:
            self._sent, self._under_way, self._due_s = dict(self._acknowledged), True, now_s + COMMIT_EVERY_S
            send(self._sent)

    def done(self, error: KafkaError | None, partitions: Iterable[TopicPartition]) -> None:
        """librdkafka's callback, made by the consumer's own calls."""
        self._under_way = False
        for failure in (error, *(partition.error for partition in partitions)):
            if failure is not None:
                self._note(failure)
                self._sent = {}
