"""The output's topics: made where they are missing, as TiCDC does, and how many partitions of each are written.

- A topic that is missing is made with `partition-num` partitions and `replication-factor` replicas, unless `auto-create-topic=false`.
- A topic without rows (debezium_topics.py) is made with one partition, and one of it is written.
- Of the default topic `partition-num` partitions are written where the URI names it, of every other topic all that it has.
- What was written once stays: a row's partition is a function of the count, so a topic that is given more partitions continues with those
  that it had. One that has fewer was made again, and is refused.

Source: pingcap/tiflow pkg/sink/kafka/options.go, cdc/sink/dmlsink/mq/manager/kafka_manager.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # exported, but not for mypy

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import TableName, TableSchema
from sidecar.shared.ticdc.dispatch import Router
from spark_merge.port.contract import has_rows
from spark_merge.sinks.kafka.client import OUTAGE_MAX_S, REQUEST_TIMEOUT_S, SinkCluster, patiently
from spark_merge.sinks.kafka.output import Output

PARTITIONS_OF_A_TOPIC = 3
"""Of one that is made without `partition-num`: TiCDC's."""


class TopicReader:
    """Asks the cluster about its topics, by a consumer that is connected until `close`. It reads as the group `name`, and commits nothing.
    One thread. Each call raises SinkError."""

    def __init__(self, cluster: SinkCluster, name: str, *, isolation: str = "read_committed") -> None:
        """`isolation`: with read_uncommitted a partition's end is behind the records of open transactions too."""
        self.name, self._cluster = name, cluster
        ours = {"auto.offset.reset": "earliest", "fetch.wait.max.ms": "1", "isolation.level": isolation}
        self._consumer = consumer_of(cluster, name, ours)

    def partitions(self, topic: str) -> int:
        """How many the topic has, 0 if it is not there."""
        answer = self._requested(lambda timeout_s: self._consumer.list_topics(topic, timeout_s), f"topic {topic}").topics[topic]
        if answer.error is not None and answer.error.code() not in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC):
            raise self._cluster.raised(answer.error, f"topic {topic}")
        return len(answer.partitions)

    def edges(self, topic: str, partition: int) -> tuple[int, int]:
        """The offset of its first record and the one behind its last."""
        place, what = TopicPartition(topic, partition), f"the offsets of {topic}/{partition}"
        edges: tuple[int, int] = self._requested(lambda timeout_s: self._consumer.get_watermark_offsets(place, timeout_s), what)
        return edges

    def ends(self, topic: str, partitions: Sequence[int]) -> tuple[int, ...]:
        """Of each the offset after its last committed record."""
        return tuple(self.edges(topic, partition)[1] for partition in partitions)

    def is_empty(self, topic: str) -> bool:
        return all(low == high for low, high in (self.edges(topic, number) for number in range(self.partitions(topic))))

    def close(self) -> None:
        self._consumer.close()

    def _requested(self, call: Callable[[float], Any], what: str) -> Any:
        return patiently(self._cluster, self._consumer, call, what)


def consumer_of(cluster: SinkCluster, group: str, settings: Mapping[str, str]) -> Any:
    """Of committed records, and of each partition's end."""
    ours = {"group.id": group, "enable.auto.commit": "false", "isolation.level": "read_committed", "enable.partition.eof": "true"}
    return cluster.connect(Consumer, {**ours, **settings})


def check_apart(router: Router, tables: Mapping[TableName, TableSchema]) -> None:
    """Of a protocol whose topics have a table's rows alone: a key, and a registry's schemas, have the topic's name, and no table's. Kafka
    takes two names that differ in `.` and `_` only for one. Raises SinkError for two tables whose topics are one."""
    taken: dict[str, TableName] = {}
    for name in sorted(name for name, schema in tables.items() if has_rows(schema)):
        topic = router.topic(name)
        if (other := taken.setdefault(topic.replace(".", "_"), name)) != name:
            into = router.topic(other)
            where = f"topic {topic}" if into == topic else f"topics {into} and {topic}, which are one to Kafka"
            raise SinkError(
                f"rows of {other} and of {name} go to {where}; a topic can have the rows of one table alone",
                hint=f"give {name} a dispatcher of its own in the file of config=, with another topic",
            )


def partitions_of(output: Output, reader: TopicReader, topics: Iterable[str], known: Mapping[str, int]) -> dict[str, int]:
    """`known` and those of `topics` that are not in it, made if need be. Raises SinkError."""
    partitions = dict(known)
    for topic in sorted(set(topics)):
        there = reader.partitions(topic)
        if topic in known and there < known[topic]:
            raise SinkError(
                f"topic {topic} has {there} partitions, and {known[topic]} of it have been written",
                hint="somebody has made it again: give the sink another topic and position-topic, and dump again",
            )
        if topic not in known:
            partitions[topic] = _used(output, topic, there or _made(output, topic))
    return partitions


def _used(output: Output, topic: str, there: int) -> int:
    if topic in output.router.without_rows:
        return 1
    requested = output.partition_num if topic == output.topic else None
    if requested is not None and requested > there:
        raise SinkError(
            f"topic {topic} has {there} partitions, partition-num is {requested}",
            hint=f"set partition-num to {there} or less, or give the topic more partitions",
        )
    return requested or there


def _made(output: Output, topic: str) -> int:
    if not output.auto_create:
        raise SinkError(f"topic {topic} does not exist", hint="make it, or set auto-create-topic=true")
    count = 1 if topic in output.router.without_rows else output.partition_num or PARTITIONS_OF_A_TOPIC
    make(output.cluster, topic, count, replicas=output.replicas, config={})
    return count


def make(cluster: SinkCluster, topic: str, partitions: int, *, replicas: int, config: Mapping[str, str]) -> None:
    """Returns when the cluster knows it; another may have made it meanwhile. Raises SinkError."""
    admin: Any = cluster.connect(AdminClient, {})
    new = NewTopic(topic, partitions, replicas, config=dict(config))
    made = admin.create_topics([new], operation_timeout=REQUEST_TIMEOUT_S, request_timeout=OUTAGE_MAX_S)[topic]
    try:
        made.result()
        patiently(cluster, admin, lambda timeout_s: _led(admin, topic, partitions, timeout_s), f"topic {topic}, which has just been made")
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise cluster.raised(error.args[0], f"to make topic {topic} with {partitions} partitions and {replicas} replicas") from error


def _led(admin: Any, topic: str, partitions: int, timeout_s: float) -> None:
    """Raises KafkaException while not each partition has a leader."""
    result = admin.list_topics(topic, timeout_s).topics[topic].partitions
    if len(result) < partitions or any(partition.leader < 0 for partition in result.values()):
        raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))
