"""What is said of an error of Kafka's: by which brokers, and whether they refuse or do not answer."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from sidecar.shared.errors import SinkError
from spark_merge.sinks.kafka.client import Fenced, SinkCluster

CLUSTER = SinkCluster("broker:9092,other:9092")


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (KafkaError._TRANSPORT, "Kafka at broker:9092,other:9092 does not answer for topic orders: _TRANSPORT: "),
        (KafkaError._ALL_BROKERS_DOWN, "Kafka at broker:9092,other:9092 does not answer for topic orders: "),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "Kafka at broker:9092,other:9092 refuses topic orders: TOPIC_AUTHORIZATION_FAILED: "),
    ],
)
def test_an_error_names_the_brokers_and_says_whether_they_refuse_or_do_not_answer(code: int, says: str) -> None:
    result = CLUSTER.raised(KafkaError(code), "topic orders")
    assert isinstance(result, SinkError)
    assert result.message.startswith(says)


def test_another_instance_is_no_error_for_an_operator() -> None:
    assert isinstance(CLUSTER.raised(KafkaError(KafkaError.PRODUCER_FENCED), "x"), Fenced)
