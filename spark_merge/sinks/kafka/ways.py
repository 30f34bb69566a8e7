"""The two ways to write, by `Output.transactions`: brokers fence off a former worker (here, holder.py), or it is looked for (checked.py).

One position topic serves both, and may go from one to the other between two batches.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from sidecar.errors import SinkError
from spark_merge.sinks.kafka.checked import CheckedControl, CheckedHolder
from spark_merge.sinks.kafka.fenced import FencedHolder
from spark_merge.sinks.kafka.holder import Holder
from spark_merge.sinks.kafka.output import Output
from spark_merge.sinks.kafka.position import CONTROL, Control, PositionReader
from spark_merge.sinks.kafka.producer import Record, TransactionalProducer


class ControlWriter(Protocol):
    """Of one term. Each call raises Fenced when another has begun one, SinkError; then it is of no use any more."""

    def take(self, owned: Callable[[], Control]) -> Control:
        """Begin the term. `owned`: reads what stands, as this worker's. Returns what stands then, written."""

    def write(self, control: Control) -> None: ...

    def fence(self, count: int) -> None:
        """Hold off what former terms' tasks are at, under any of so many ids. After control is seen by readers."""

    def close(self) -> None: ...


class FencedControl:
    """By the epoch of its transactional id."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._producer = TransactionalProducer(output.cluster, output.control_id, output.producer)

    def take(self, owned: Callable[[], Control]) -> Control:
        self._producer.start()
        self._producer.take()
        control = owned()  # what was under way is done or undone
        if control.token and control.begun:
            raise SinkError(
                f"{self._output} has begun segments {control.begun.first} to {control.begun.last} without transactions",
                hint="set transactions=false until they are accepted, then leave it out",
            )
        control = replace(control, token="")
        self.write(control)
        return control

    def write(self, control: Control) -> None:
        self._producer.begin()
        self._producer.write([Record(self._output.position_topic, CONTROL, control.key, control.to_bytes())])
        self._producer.commit()

    def fence(self, count: int) -> None:
        output = self._output
        producers = [TransactionalProducer(output.cluster, output.transactional_id(number), output.producer) for number in range(count)]
        for producer in producers:
            producer.start()
        for producer in producers:
            producer.take()
            producer.close()

    def close(self) -> None:
        self._producer.close()


def control_of(output: Output, reader: PositionReader) -> ControlWriter:
    return FencedControl(output) if output.transactions else CheckedControl(output, reader)


def holder_of(output: Output) -> type[Holder]:
    return FencedHolder if output.transactions else CheckedHolder
