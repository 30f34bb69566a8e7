"""What a task writes with, in this process: one holder for each transactional id, kept warm between tasks.

    claim ─► rows ─► settle (before what may not be seen ahead of them) ─► commit: the slot, which says that the task is done

What keeps whoever else tries away is in two ways (ways.py): the broker's fence (fenced.py), or looking, where there are no
transactions (checked.py). Of two that do one task at once, one is fenced; it waits for the other's slot, which is its own answer.
"""

from __future__ import annotations

import atexit
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from threading import Lock

from sidecar.core.model import Seq
from sidecar.errors import OwnershipLost, SinkError
from spark_merge.contract import Outcome
from spark_merge.sinks.kafka.output import Output
from spark_merge.sinks.kafka.position import Control, Found, PositionReader, Term
from spark_merge.sinks.kafka.producer import IdempotentProducer, Record

TWIN_MAX_S = 20.0
"""How long a task waits for the slot of whoever fenced it; then the batch is tried again by the next owner."""


def check_owner(control: Control | None, term: Term, output: Output) -> Control:
    """Raises OwnershipLost."""
    if control is None or control.term != term:
        found = "nobody" if control is None else control.owner
        raise OwnershipLost(f"{output} has owner {found}, this is {term.owner}", hint="nothing: the later owner goes on")
    return control


class Holder(ABC):
    """For one task at a time (`held`)."""

    def __init__(self, output: Output, number: int, term: Term) -> None:
        self.term = term
        self.lock = Lock()
        self._output, self._number = output, number
        self._partition = 1 + number
        self._producer: IdempotentProducer | None = None
        self._position: PositionReader | None = None
        self._accepted = Seq(-1)

    @property
    def producer(self) -> IdempotentProducer:
        assert self._producer is not None, "a task's rows come after its claim"
        return self._producer

    @abstractmethod
    def claim(self, batch: Seq, task: str, start: int, topics: Mapping[str, int]) -> Outcome | None:
        """What the task answered; None: it is to be written. `start`: from where the batch's slots are. `topics`: those that it writes,
        with their partitions. Raises OwnershipLost, SinkError."""

    @abstractmethod
    def write(self, records: Iterable[Record]) -> None:
        """Raises Fenced, OwnershipLost, SinkError."""

    @abstractmethod
    def settle(self) -> None:
        """Before what is not to be seen ahead of the rows written so far."""

    @abstractmethod
    def commit(self, batch: Seq, outcome: Outcome, *, key: bytes) -> None:
        """The slot, by which the task is done, and with it or before it all rows. Raises Fenced, SinkError."""

    def abort(self) -> None:
        if self._producer is not None and not self._producer.abort():
            self.drop()

    def drop(self) -> None:
        if self._producer is not None:
            self._producer.close()
            self._producer = None

    def close(self) -> None:
        self.drop()
        if self._position is not None:
            with suppress(RuntimeError):  # it is closed
                self._position.close()
            self._position = None

    def of_a_twin(self, batch: Seq, task: str, start: int) -> Outcome:
        """Of who fenced this. Raises OwnershipLost, SinkError."""
        self.drop()
        deadline_s = time.monotonic() + TWIN_MAX_S
        with self._reader() as reader:
            while time.monotonic() < deadline_s:
                self._look(reader, batch, start)
                if (done := self._known(batch, task)) is not None:
                    return done
                time.sleep(0.1)
        raise SinkError(f"{self._output}: task {task} was fenced off by one that has not done it", hint="nothing: it is tried again")

    @abstractmethod
    def _look(self, reader: PositionReader, batch: Seq, start: int) -> None:
        """At who the owner is, and what is done. Raises OwnershipLost."""

    @abstractmethod
    def _known(self, batch: Seq, task: str) -> Outcome | None:
        """By the last look. A task of a batch that is accepted is done, with nothing to say any more."""

    def _owned(self, reader: PositionReader, start: int) -> Found:
        """What is at the position, which is this owner's. Raises OwnershipLost."""
        found = reader.control_and_slots(self._partition, start)
        accepted = check_owner(found.control, self.term, self._output).accepted
        self._accepted = accepted.seq if accepted else Seq(-1)
        return found

    @contextmanager
    def _reader(self) -> Iterator[PositionReader]:
        """The same one again, unless it failed."""
        reader, self._position = self._position, None
        reader = reader or PositionReader(self._output.cluster, self._output.position_topic)
        try:
            yield reader
        except BaseException:
            with suppress(RuntimeError):
                reader.close()
            raise
        self._position = reader


_held: dict[tuple[str, str], Holder] = {}
_holding = Lock()


@contextmanager
def held(kind: type[Holder], output: Output, number: int, term: Term) -> Iterator[Holder]:
    """This process's holder of the id, for one task at a time. The holder of an earlier term is closed; a task of an earlier term gets one
    of its own, which is closed behind it."""
    place, former = (output.cluster.brokers, output.transactional_id(number)), None
    with _holding:
        found = _held.get(place)
        if found is None or found.term < term:
            former, found = found, kind(output, number, term)
            _held[place] = found
        elif found.term > term:
            found = kind(output, number, term)
    if former is not None:
        _close_if_free(former)
    try:
        with found.lock:
            yield found
    finally:
        with _holding:
            is_kept = _held.get(place) is found
        if not is_kept:
            _close_if_free(found)


def _close_if_free(holder: Holder) -> None:
    """The task that is at work with it closes it when it ends. One that still waits for it opens it again."""
    if holder.lock.acquire(blocking=False):
        try:
            holder.close()
        finally:
            holder.lock.release()


def release() -> None:
    """Close what no task is at work with: at the process's end at the latest, for librdkafka's threads may not outlive the interpreter."""
    with _holding:
        found = list(_held.values())
        _held.clear()
    for holder in found:
        _close_if_free(holder)


atexit.register(release)
