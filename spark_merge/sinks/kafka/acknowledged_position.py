"""The position without transactions, which no broker fences: in the same records and the same topic as with them (position.py).

- An opening record begins a term, under a key of its own: from it on no state of an earlier term counts (`current_control`).
- Each state is read back after it was written, so a replaced owner stops before it acts by that state.
- Tasks of earlier terms read control, and stop (claims.py).
- One position topic serves both ways, and may change from one to the other between two batches.
"""

from __future__ import annotations

import logging
import uuid
from dataclasses import replace

from sidecar.shared.errors import SinkError
from spark_merge.sinks.kafka.client import Fenced
from spark_merge.sinks.kafka.output import Output
from spark_merge.sinks.kafka.position import ControlStore
from spark_merge.sinks.kafka.position_records import Control
from spark_merge.sinks.kafka.producer import IdempotentProducer

_log = logging.getLogger("spark_merge.sinks.kafka")


class AcknowledgedControlStore(ControlStore):
    def _begins_term(self, control: Control) -> Control:
        _log.warning("%s is written without transactions: rows come at least once (deploy/KAFKA-SINK.md)", self._output)
        return replace(control, token=uuid.uuid4().hex, opening=True)

    def _write(self, producer: IdempotentProducer, control: Control) -> Control:
        super()._write(producer, control)
        current = self.reader.control()
        if current is None or current.term < control.term:
            raise SinkError(
                f"{self.place}: what was written to {self._output.position_topic} is not visible there",
                hint="nothing: a transaction that a dead worker left open there ends within ten minutes, and the sink tries again",
            )
        if current.term > control.term:
            raise Fenced(f"{self.place} has been opened by another owner")
        return current

    def _end_tasks(self, count: int) -> None:
        """They read control."""


def control_store(output: Output) -> ControlStore:
    return ControlStore(output) if output.transactions else AcknowledgedControlStore(output)
