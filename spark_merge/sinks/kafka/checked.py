"""Without transactions (`transactions=false`): what a broker would fence is looked at, and what cannot be looked at is told.

    open    an opening record: from it on no state of a former term counts (position.py::standing) ─► read what stood before it
    write   a state ─► read: is it ours?      so who was overtaken knows it before it does anything by that state
    task    look ─► a claim: where the partitions end ─► look ─► rows, looking again each LOOK_EVERY_S ─► the slot, when all is acknowledged

- A task that finds no claim of itself is the first, and reads nothing. One that finds one keeps its ends, waits until who wrote it has
  looked again, reads the output from there, and leaves out what it finds: of each partition that is a beginning of the task's records
  (producer.py), so what is written goes on behind it.
- Of two attempts in one term the one that claimed last goes on; one of a former term finds the later one in control.
- What nothing holds off: a process that is frozen between a look and what follows. When it wakes up, up to QUEUE_KBYTES_MAX of rows that it
  had begun to send are written again, behind rows of its successor; and what a broker had received and not yet written when the task
  was begun again. Its states and slots do no harm: the ones do not count, the others are true.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from sidecar.core.model import Seq
from sidecar.errors import SinkError
from spark_merge.contract import Outcome
from spark_merge.sinks.kafka.client import Fenced
from spark_merge.sinks.kafka.holder import Holder
from spark_merge.sinks.kafka.output import Output
from spark_merge.sinks.kafka.position import CLAIM_KEY, CONTROL, Claim, Control, PositionReader, Slot, Term
from spark_merge.sinks.kafka.producer import IdempotentProducer, Record
from spark_merge.sinks.kafka.tails import WRITER_HEADER, Tails

LOOK_EVERY_S = 1.0
TAKE_OVER_S = 2 * LOOK_EVERY_S
"""For a former attempt that lives, to look again and to stop."""

_log = logging.getLogger("spark_merge.sinks.kafka")


class CheckedControl:
    """`ways.ControlWriter`, by looking."""

    def __init__(self, output: Output, reader: PositionReader) -> None:
        self._output, self._reader = output, reader
        self._producer = IdempotentProducer(output.cluster, output.control_id, output.producer)

    def take(self, owned: Callable[[], Control]) -> Control:
        _log.warning(
            "%s is written without transactions: rows come at least once, and a worker that is frozen and wakes up may write some again, "
            "behind later ones",
            self._output,
        )
        return self._stands(replace(owned(), token=uuid.uuid4().hex, opening=True))

    def write(self, control: Control) -> None:
        self._stands(control)

    def fence(self, count: int) -> None:
        """A former term's tasks look for themselves."""

    def close(self) -> None:
        self._producer.close()

    def _stands(self, control: Control) -> Control:
        """What holds with `control` written. Raises Fenced, SinkError."""
        self._producer.begin()
        self._producer.write([Record(self._output.position_topic, CONTROL, control.key, control.to_bytes())])
        self._producer.commit()
        found = self._reader.control()
        if found is None or found.term < control.term:
            raise SinkError(
                f"{self._output}: what was written to {self._output.position_topic} is not seen there",
                hint="nothing: what a worker with transactions has left open there ends within ten minutes, and it is tried again",
            )
        if found.term > control.term:
            raise Fenced(f"{self._output} has been opened by another")
        return found


class CheckedHolder(Holder):
    def __init__(self, output: Output, number: int, term: Term) -> None:
        super().__init__(output, number, term)
        self._tails: Tails | None = None
        self._upto = 0
        self._slots: dict[tuple[Seq, str], Outcome] = {}
        self._claims: list[Claim] = []
        self._mine: Claim | None = None
        self._there: dict[tuple[str, int], set[bytes]] = {}
        self._look_at_s = 0.0
        self._unsettled = False

    def claim(self, batch: Seq, task: str, start: int, topics: Mapping[str, int]) -> Outcome | None:
        self._slots = {place: outcome for place, outcome in self._slots.items() if place[0] >= batch}
        self._claims = [claim for claim in self._claims if claim.batch >= batch]
        self._there, self._mine, self._unsettled = {}, None, False
        with self._reader() as reader:
            self._look(reader, batch, start)
        if (done := self._known(batch, task)) is not None:
            return done
        if self._producer is None:
            self._producer = IdempotentProducer(self._output.cluster, self._output.transactional_id(self._number), self._output.producer)
        former = self._claims_of(batch, task)
        ends = former[0].ends if former else self._tail().ends(topics)
        self._mine = Claim(batch, task, self.term.token, uuid.uuid4().hex, ends)
        self._producer.begin()
        self._write_own(CLAIM_KEY, self._mine.to_bytes())
        self._check()
        if (first := self._claims_of(batch, task)[0]) != self._mine:
            time.sleep(TAKE_OVER_S)
            self._check()
            self._there = self._tail().origins(first.ends, writer=self._output.position_topic)
        return None

    def write(self, records: Iterable[Record]) -> None:
        self.producer.write(self._left(records))

    def settle(self) -> None:
        if self._unsettled:
            self.producer.flush()
            self._unsettled = False

    def commit(self, batch: Seq, outcome: Outcome, *, key: bytes) -> None:
        self.producer.commit()
        self._write_own(key, Slot(batch, outcome).to_bytes())

    def abort(self) -> None:
        super().abort()
        self._close_tails()

    def close(self) -> None:
        super().close()
        self._close_tails()

    def _left(self, records: Iterable[Record]) -> Iterator[Record]:
        """Those that are not there, while this is the one who writes."""
        there, writer = self._there, (WRITER_HEADER, self._output.position_topic.encode())
        for record in records:
            if time.monotonic() > self._look_at_s:
                self._check()
            headers = record.headers or []
            if there and headers[0][1] in there.get((record.topic, record.partition), ()):
                continue
            self._unsettled = True
            yield record._replace(headers=[*headers, writer])

    def _write_own(self, key: bytes, value: bytes) -> None:
        self.producer.write([Record(self._output.position_topic, self._partition, key, value)])
        self.producer.flush()

    def _check(self) -> None:
        """Raises OwnershipLost, Fenced for one that is not the last to have claimed its task."""
        assert self._mine is not None
        batch, task = self._mine.batch, self._mine.task
        with self._reader() as reader:
            self._look(reader, batch, self._upto)
        ours = [claim for claim in self._claims_of(batch, task) if claim.by == self.term.token]
        if ours[-1:] != [self._mine]:
            raise Fenced(f"task {task} has been begun by another")

    def _look(self, reader: PositionReader, batch: Seq, start: int) -> None:
        found = self._owned(reader, max(start, self._upto))
        self._upto = found.upto
        self._slots |= {(slot.batch, slot.outcome.task): slot.outcome for slot in found.slots if slot.batch >= batch}
        self._claims += [claim for claim in found.claims if claim.batch >= batch]
        self._look_at_s = time.monotonic() + LOOK_EVERY_S

    def _known(self, batch: Seq, task: str) -> Outcome | None:
        return Outcome(task, {}) if batch <= self._accepted else self._slots.get((batch, task))

    def _claims_of(self, batch: Seq, task: str) -> list[Claim]:
        return [claim for claim in self._claims if (claim.batch, claim.task) == (batch, task)]

    def _tail(self) -> Tails:
        self._tails = self._tails or Tails(self._output.cluster, group=self._output.position_topic)
        return self._tails

    def _close_tails(self) -> None:
        if self._tails is not None:
            self._tails.close()
            self._tails = None
