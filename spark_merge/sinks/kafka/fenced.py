"""With transactions: what it takes to write a task once, whoever else tries.

    take: look at control (a later owner? then stop) ─► init the id ─► look at control again ─► read what the batch has in the slots
    task: begin ─► a claim, which only the one who holds the id can write ─► rows ─► the slot ─► commit

- A former task that inits before the next owner does is fenced by that one; one that inits after it sees it in control, and stops. What it
  has fenced by that takes the id again: it is found out by the claim, before a row is read.
- While the claim succeeds nobody else has had the id, so what this process knows of the slots holds. Producers stay warm between tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sidecar.core.model import Seq
from sidecar.errors import SinkError
from spark_merge.contract import Outcome
from spark_merge.sinks.kafka.client import Fenced
from spark_merge.sinks.kafka.holder import Holder, check_owner
from spark_merge.sinks.kafka.output import Output
from spark_merge.sinks.kafka.position import CLAIM_KEY, PositionReader, Slot, Term
from spark_merge.sinks.kafka.producer import Record, TransactionalProducer

CLAIMS_MAX = 3


class FencedHolder(Holder):
    def __init__(self, output: Output, number: int, term: Term) -> None:
        super().__init__(output, number, term)
        self._batch = Seq(-1)
        self._done: dict[str, Outcome] = {}

    def claim(self, batch: Seq, task: str, start: int, topics: Mapping[str, int]) -> Outcome | None:  # noqa: ARG002 - for checked.py
        for _ in range(CLAIMS_MAX):
            if self._producer is None:
                self._take(batch, start)
            if batch > self._batch:
                self._batch, self._done = batch, {}
            if (done := self._known(batch, task)) is not None:
                return done
            try:
                self.producer.begin()
                self.producer.write([Record(self._output.position_topic, self._partition, CLAIM_KEY, b"")])
                self.producer.flush()
                return None
            except Fenced:
                self.drop()
        raise SinkError(
            f"{self._output}: transactional id {self._output.transactional_id(self._number)} is taken by another again and again",
            hint="end whatever else writes with this position topic",
        )

    def write(self, records: Iterable[Record]) -> None:
        self.producer.write(records)

    def settle(self) -> None:
        """Nothing is seen before the commit."""

    def commit(self, batch: Seq, outcome: Outcome, *, key: bytes) -> None:
        """The rows and the slot, all or nothing."""
        self.producer.write([Record(self._output.position_topic, self._partition, key, Slot(batch, outcome).to_bytes())])
        self.producer.commit()
        self._done[outcome.task] = outcome

    def _take(self, batch: Seq, start: int) -> None:
        with self._reader() as reader:
            check_owner(reader.control(), self.term, self._output)
            producer = TransactionalProducer(self._output.cluster, self._output.transactional_id(self._number), dict(self._output.producer))
            producer.take()
            self._producer = producer
            try:
                self._look(reader, batch, start)
            except BaseException:
                self.drop()
                raise

    def _look(self, reader: PositionReader, batch: Seq, start: int) -> None:
        found = self._owned(reader, start)
        self._batch, self._done = batch, {slot.outcome.task: slot.outcome for slot in found.slots if slot.batch == batch}

    def _known(self, batch: Seq, task: str) -> Outcome | None:
        if batch <= self._accepted or batch < self._batch:
            return Outcome(task, {})
        return self._done.get(task)
