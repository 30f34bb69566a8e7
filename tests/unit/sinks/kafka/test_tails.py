"""Where partitions end: an answer with an error for one partition is an error of the whole question."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, TopicPartition

from sidecar.errors import SinkError
from spark_merge.sinks.kafka.client import Cluster
from spark_merge.sinks.kafka.tails import Tails


class Answers:
    """A consumer whose answers have these errors, one after another, and then none."""

    def __init__(self, *codes: int) -> None:
        self.codes = list(codes)

    def offsets_for_times(self, places: list[TopicPartition], _: float) -> list[Any]:
        error = KafkaError(self.codes.pop(0)) if self.codes else None
        return [SimpleNamespace(topic=place.topic, partition=place.partition, offset=7, error=error) for place in places]

    def poll(self, _: float) -> None:
        """Nothing comes."""


def tails(*codes: int) -> Tails:
    cluster = SimpleNamespace(brokers="b:9092", connect=lambda *_: Answers(*codes), refusal=lambda: None)
    return Tails(cast(Cluster, cluster), group="g")


def test_a_partition_whose_leader_changes_is_asked_for_again() -> None:
    """As after a broker was frozen or restarted."""
    changing = (KafkaError.UNKNOWN_LEADER_EPOCH, KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE)
    assert tails(*changing).ends({"t": 2}) == {"t": (7, 7)}


def test_a_partition_that_may_not_be_read_is_an_error() -> None:
    with pytest.raises(SinkError, match="TOPIC_AUTHORIZATION_FAILED") as error:
        tails(KafkaError.TOPIC_AUTHORIZATION_FAILED).ends({"t": 1})
    assert "grant this user" in error.value.hint
