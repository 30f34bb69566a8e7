"""How a task's rows and its slot become visible: in one transaction, or as they are acknowledged (`transactions=false`).

TransactionalMode    rows and slot are committed together, and a broker fences off every other instance of the id: exactly once
AcknowledgedMode     the brokers have all rows before resolved marks follow, and before the slot says that the task is done. A task
                     that is done again sends its rows again: at least once
"""

from __future__ import annotations

from typing import Protocol

from spark_merge.sinks.kafka.output import Output
from spark_merge.sinks.kafka.producer import IdempotentProducer, KafkaRecord, TransactionalProducer


class WriteMode(Protocol):
    """Without state. Each call raises Fenced if another instance has the id, and SinkError."""

    @property
    def is_fenced(self) -> bool:
        """Whether a broker fences off other instances. Where it does not, a task reads the position while it writes."""

    def connect(self, output: Output, name: str) -> IdempotentProducer:
        """A producer with the transactional id `name`, which is its one instance if the mode is fenced."""

    def begin(self, producer: IdempotentProducer, claim: KafkaRecord) -> None:
        """Begin a task. In a fenced mode `claim` proves that nobody else has had the id."""

    def settle(self, producer: IdempotentProducer) -> None:
        """Returns when what comes next cannot be visible before what was written so far."""

    def commit(self, producer: IdempotentProducer, slot: KafkaRecord) -> None:
        """All rows and the slot are durable and visible, the slot not before the rows."""


class TransactionalMode:
    is_fenced = True

    def connect(self, output: Output, name: str) -> IdempotentProducer:
        producer = TransactionalProducer(output.cluster, name, output.producer)
        producer.take()
        return producer

    def begin(self, producer: IdempotentProducer, claim: KafkaRecord) -> None:
        producer.begin()
        producer.write([claim])
        producer.flush()

    def settle(self, producer: IdempotentProducer) -> None:
        """Nothing is visible before the commit."""

    def commit(self, producer: IdempotentProducer, slot: KafkaRecord) -> None:
        producer.write([slot])
        producer.commit()


class AcknowledgedMode:
    is_fenced = False

    def connect(self, output: Output, name: str) -> IdempotentProducer:
        return IdempotentProducer(output.cluster, name, output.producer)

    def begin(self, producer: IdempotentProducer, claim: KafkaRecord) -> None:  # noqa: ARG002 - there is no fence to prove
        producer.begin()

    def settle(self, producer: IdempotentProducer) -> None:
        producer.flush()

    def commit(self, producer: IdempotentProducer, slot: KafkaRecord) -> None:
        producer.flush()
        producer.write([slot])
        producer.commit()


def write_mode(output: Output) -> WriteMode:
    return TransactionalMode() if output.transactions else AcknowledgedMode()
