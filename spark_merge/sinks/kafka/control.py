"""Writes control: who the owner is, what is begun and what is accepted. One writer for each term, in two ways (`Output.transactions`).

    FencedControl     the broker fences off the previous owner, by the transactional id of control
    CheckedControl    an opening record begins the term: from it on no state of an earlier term counts (`current_control`). Each state is
                      read back after it was written, so a replaced owner stops before it acts by that state

One position topic serves both ways, and may change from one to the other between two batches.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from sidecar.errors import SinkError
from spark_merge.sinks.kafka.client import Fenced
from spark_merge.sinks.kafka.output import Output
from spark_merge.sinks.kafka.position import CONTROL, PositionReader
from spark_merge.sinks.kafka.position_records import Control
from spark_merge.sinks.kafka.producer import IdempotentProducer, KafkaRecord, TransactionalProducer

_log = logging.getLogger("spark_merge.sinks.kafka")


class ControlWriter(Protocol):
    """Of one term. Each call raises Fenced if another owner has begun a term, and SinkError; after an error it is of no use any more."""

    def begin_term(self, next_control: Callable[[], Control]) -> Control:
        """`next_control` reads the state and makes this worker its owner. Returns the state that is written."""

    def write(self, control: Control) -> None: ...

    def fence_tasks(self, count: int) -> None:
        """End what tasks of earlier terms do under the first `count` transactional ids. Readers must see this term's control before."""

    def close(self) -> None: ...


class FencedControl:
    def __init__(self, output: Output) -> None:
        self._output = output
        self._producer = TransactionalProducer(output.cluster, output.control_id, output.producer)

    def begin_term(self, next_control: Callable[[], Control]) -> Control:
        self._producer.start()
        self._producer.take()
        control = next_control()  # the open transaction of the previous owner has ended
        if control.token and control.begun:
            raise SinkError(
                f"{self._output} has begun segments {control.begun.first} to {control.begun.last} without transactions",
                hint="set transactions=false until they are accepted, then remove it",
            )
        control = replace(control, token="")
        self.write(control)
        return control

    def write(self, control: Control) -> None:
        _write(self._producer, self._output, control)

    def fence_tasks(self, count: int) -> None:
        output = self._output
        producers = [TransactionalProducer(output.cluster, output.transactional_id(number), output.producer) for number in range(count)]
        for producer in producers:
            producer.start()
        for producer in producers:
            producer.take()
            producer.close()

    def close(self) -> None:
        self._producer.close()


class CheckedControl:
    def __init__(self, output: Output, reader: PositionReader) -> None:
        self._output, self._reader = output, reader
        self._producer = IdempotentProducer(output.cluster, output.control_id, output.producer)

    def begin_term(self, next_control: Callable[[], Control]) -> Control:
        _log.warning("%s is written without transactions: rows come at least once (deploy/KAFKA-SINK.md)", self._output)
        return self._written(replace(next_control(), token=uuid.uuid4().hex, opening=True))

    def write(self, control: Control) -> None:
        self._written(control)

    def fence_tasks(self, count: int) -> None:
        """Tasks of earlier terms read control, and stop."""

    def close(self) -> None:
        self._producer.close()

    def _written(self, control: Control) -> Control:
        """The state with `control` written. Raises Fenced, SinkError."""
        _write(self._producer, self._output, control)
        current = self._reader.control()
        if current is None or current.term < control.term:
            raise SinkError(
                f"{self._output}: what was written to {self._output.position_topic} is not visible there",
                hint="nothing: a transaction that a dead worker left open there ends within ten minutes, and the sink tries again",
            )
        if current.term > control.term:
            raise Fenced(f"{self._output} has been opened by another owner")
        return current


def _write(producer: IdempotentProducer, output: Output, control: Control) -> None:
    producer.begin()
    producer.write([KafkaRecord(output.position_topic, CONTROL, control.key, control.to_bytes())])
    producer.commit()


def control_writer(output: Output, reader: PositionReader) -> ControlWriter:
    return FencedControl(output) if output.transactions else CheckedControl(output, reader)
