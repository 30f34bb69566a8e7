"""What a producer says of a failure: its cause."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException

from sidecar.shared.errors import SinkError
from spark_merge.sinks.kafka.client import SinkCluster
from spark_merge.sinks.kafka.producer import IdempotentProducer


class RefusingProducer:
    """Its first record is too large, which is known when the second one comes; the report of it waits for a poll."""

    def __init__(self) -> None:
        self.report: Any = None

    def produce(self, *record: Any, headers: Any) -> None:
        if self.report is not None:
            raise KafkaException(KafkaError(KafkaError._STATE, f"Unable to produce message {headers}: Local: Erroneous state"))
        *_, self.report = record

    def poll(self, timeout_s: float) -> None:
        if timeout_s:
            self.report(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE), RefusedMessage())


class RefusedMessage:
    def __len__(self) -> int:
        return 5000

    def topic(self) -> str:
        return "t"

    def partition(self) -> int:
        return 1


def test_the_record_that_failed_is_named_by_the_call_that_fails_after_it() -> None:
    cluster = SimpleNamespace(brokers="b:9092", connect=lambda *_: RefusingProducer(), raised=SinkCluster("b:9092").raised)
    producer = IdempotentProducer(cast(SinkCluster, cluster), "one", {})
    with pytest.raises(SinkError, match=r"a row for t/1 of 5000 bytes: MSG_SIZE_TOO_LARGE"):
        producer.write([("t", 1, b"", b"x", None), ("t", 1, b"", b"y", None)])
