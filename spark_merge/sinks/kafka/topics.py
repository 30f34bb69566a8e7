"""The output's topics: made where they are missing, as TiCDC does, and how many partitions of each are written.

- A topic that is missing is made with `partition-num` partitions and `replication-factor` replicas, unless `auto-create-topic=false`.
- Of the default topic `partition-num` partitions are written where the URI names it, of every other topic all that it has.
- What was written once stays: a row's partition is a function of the count, so a topic that is given more partitions goes on with those it
  had. One that has fewer was made again, and is refused.

Source: pingcap/tiflow pkg/sink/kafka/options.go, cdc/sink/dmlsink/mq/manager/kafka_manager.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # exported, but not for mypy

from sidecar.errors import SinkError
from spark_merge.sinks.kafka.client import OUTAGE_MAX_S, REQUEST_TIMEOUT_S, SinkCluster, patiently
from spark_merge.sinks.kafka.output import Output
from spark_merge.sinks.kafka.position import PositionReader

PARTITIONS_OF_A_TOPIC = 3
"""Of one that is made without `partition-num`: TiCDC's."""


def partitions_of(output: Output, reader: PositionReader, topics: Iterable[str], known: Mapping[str, int]) -> dict[str, int]:
    """`known` and those of `topics` that are not in it, made if need be. Raises SinkError."""
    found = dict(known)
    for topic in sorted(set(topics)):
        there = reader.partitions(topic)
        if topic in known and there < known[topic]:
            raise SinkError(
                f"topic {topic} has {there} partitions, and {known[topic]} of it have been written",
                hint="somebody has made it again: give the sink another topic and position-topic, and dump again",
            )
        if topic not in known:
            found[topic] = _used(output, topic, there or _made(output, topic))
    return found


def _used(output: Output, topic: str, there: int) -> int:
    asked = output.partition_num if topic == output.topic else None
    if asked is not None and asked > there:
        raise SinkError(
            f"topic {topic} has {there} partitions, partition-num is {asked}",
            hint=f"set partition-num to {there} or less, or give the topic more partitions",
        )
    return asked or there


def _made(output: Output, topic: str) -> int:
    if not output.auto_create:
        raise SinkError(f"topic {topic} does not exist", hint="make it, or set auto-create-topic=true")
    count = output.partition_num or PARTITIONS_OF_A_TOPIC
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
    found = admin.list_topics(topic, timeout_s).topics[topic].partitions
    if len(found) < partitions or any(partition.leader < 0 for partition in found.values()):
        raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))
