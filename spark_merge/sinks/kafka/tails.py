"""Where the output's partitions end, and what of ours is behind an earlier end: committed or not, whoever else writes there."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from confluent_kafka import OFFSET_END, Consumer, KafkaError, KafkaException, TopicPartition

from sidecar.errors import SinkError
from sidecar.process.progress import progressed
from spark_merge.sinks.kafka.client import OUTAGE_MAX_S, Cluster, passing, patiently, raised
from spark_merge.sinks.kafka.ending import HEADER

WRITER_HEADER = "ticdc-dump-position"
"""Of each record that is written without transactions: the position topic, for two logs in one topic have like HEADERs."""

AT_ONCE_ROWS = 1_000


class Tails:
    """One thread. What is read is held as headers: some 150 bytes of each record that one task had written before."""

    def __init__(self, cluster: Cluster, *, group: str) -> None:
        self._cluster = cluster
        self._consumer: Any = cluster.connect(
            Consumer,
            {
                "group.id": group, "enable.auto.commit": "false", "isolation.level": "read_uncommitted", "enable.partition.eof": "true",
                "auto.offset.reset": "earliest", "fetch.wait.max.ms": "1",
            },
        )  # fmt: skip

    def ends(self, topics: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
        """By topic, of the first so many partitions; a request a broker. Raises SinkError."""
        places = [TopicPartition(topic, number, OFFSET_END) for topic, count in topics.items() for number in range(count)]
        asked = patiently(
            self._cluster,
            self._consumer,
            lambda timeout_s: self._ends(places, timeout_s),
            f"where the partitions of {', '.join(topics)} end",
        )
        return {topic: tuple(asked[topic, number] for number in range(count)) for topic, count in topics.items()}

    def origins(self, since: Mapping[str, tuple[int, ...]], *, writer: str) -> dict[tuple[str, int], set[bytes]]:
        """The HEADERs of the records of `writer` from these offsets on, by partition. Raises SinkError."""
        ends = self.ends({topic: len(offsets) for topic, offsets in since.items()})
        left = {
            (topic, number): ends[topic][number]
            for topic, offsets in since.items()
            for number, offset in enumerate(offsets)
            if offset != ends[topic][number]
        }
        found: dict[tuple[str, int], set[bytes]] = {place: set() for place in left}
        self._consumer.assign([TopicPartition(topic, number, since[topic][number]) for topic, number in left])
        deadline_s = time.monotonic() + OUTAGE_MAX_S
        while left:
            messages = self._consumer.consume(AT_ONCE_ROWS, 0.1)
            if messages:
                progressed()
                deadline_s = time.monotonic() + OUTAGE_MAX_S
            elif time.monotonic() > deadline_s:
                raise SinkError(f"Kafka at {self._cluster.brokers} does not answer for {min(left)}", hint="start the brokers")
            for message in messages:
                self._take(message, writer, found, left)
        self._consumer.unassign()
        return found

    def close(self) -> None:
        self._consumer.close()

    def _take(self, message: Any, writer: str, found: Mapping[tuple[str, int], set[bytes]], left: dict[tuple[str, int], int]) -> None:
        place = (message.topic(), message.partition())
        error = message.error()
        if error is None:
            headers = dict(message.headers() or ())
            if headers.get(WRITER_HEADER) == writer.encode() and HEADER in headers:
                found[place].add(headers[HEADER])
            if message.offset() + 1 == left.get(place):
                del left[place]
        elif error.code() == KafkaError._PARTITION_EOF:
            left.pop(place, None)
        elif not passing(error):
            raise raised(error, f"what {place[0]}/{place[1]} ends with")

    def _ends(self, places: list[TopicPartition], timeout_s: float) -> dict[tuple[str, int], int]:
        found = self._consumer.offsets_for_times(places, timeout_s)
        for place in found:
            if place.error is not None:
                raise KafkaException(place.error)
        return {(place.topic, place.partition): place.offset for place in found}
