"""What a task writes with, in this process: one holder for each transactional id, whose producer stays connected between tasks.

`IdHolder` carries out what `Claims` decides (claims.py), in the way of its `WriteMode` (write_modes.py). The order of a task's steps is in
writer.py.
"""

from __future__ import annotations

import atexit
import math
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from threading import Lock
from typing import assert_never

from sidecar.shared.model.nouns import Seq
from spark_merge.port.contract import Outcome
from spark_merge.sinks.kafka.claims import (
    ClaimEvent,
    Claims,
    ClaimState,
    ClaimStep,
    Committed,
    Failed,
    FencedOff,
    TaskAnswer,
    TaskBegun,
    TaskRequested,
)
from spark_merge.sinks.kafka.client import Fenced
from spark_merge.sinks.kafka.output import Output
from spark_merge.sinks.kafka.position import PositionReader
from spark_merge.sinks.kafka.position_records import CLAIM_KEY, PositionRead, SinkTerm, Slot, check_term
from spark_merge.sinks.kafka.producer import IdempotentProducer, KafkaRecord
from spark_merge.sinks.kafka.write_modes import write_mode

CHECK_EVERY_S = 1.0
"""Without a fence: between two reads of the position while a task writes. So long a replaced owner writes on."""

TWIN_EVERY_S = 0.1


class IdHolder:
    """For one task at a time (`IdHolders.held`)."""

    def __init__(self, output: Output, number: int, term: SinkTerm) -> None:
        self.term = term
        self.lock = Lock()
        self._output, self._id = output, output.transactional_id(number)
        self._partition = 1 + number
        self._mode = write_mode(output)
        self._claims = Claims(term, output=str(output), name=self._id, is_fenced=self._mode.is_fenced)
        self._connected: IdempotentProducer | None = None
        self._reader: PositionReader | None = None
        self._check_at_s = math.inf

    @property
    def producer(self) -> IdempotentProducer:
        assert self._connected is not None, "a task's rows come after its claim"
        return self._connected

    # ---- the steps of a task, in this order ---------------------------------------------------------------------------

    def claim(self, requested: TaskRequested) -> Outcome | None:
        """The answer of a task that is done; None: it is to be written. Raises Fenced, OwnershipLost, SinkError."""
        return self._proceed(requested)

    def write(self, records: Iterable[KafkaRecord]) -> None:
        """Raises Fenced, OwnershipLost, SinkError."""
        self.producer.write(records if self._mode.is_fenced else self._checked(records))

    def settle(self) -> None:
        """Before records that must not be visible ahead of those written so far. Raises Fenced, SinkError."""
        self._mode.settle(self.producer)

    def commit(self, batch: Seq, outcome: Outcome, *, key: bytes) -> None:
        """Write the slot, under `key`: the task is done. Raises Fenced, SinkError."""
        self._mode.commit(self.producer, self._own_record(key, Slot(batch, outcome).to_bytes()))
        self._proceed(Committed(outcome))

    def answer_of_twin(self) -> Outcome:
        """Of the instance that fenced this one, when it has done the task. Raises OwnershipLost, SinkError."""
        self._disconnect()
        answer = self._proceed(FencedOff())
        assert answer is not None
        return answer

    def abort(self) -> None:
        """After any other error in one of the steps."""
        self._proceed(Failed(is_kept=self._connected is not None and self._connected.abort()))
        if self._claims.state is ClaimState.FREE:
            self._disconnect()

    def close(self) -> None:
        self._disconnect()
        self._proceed(Failed(is_kept=False))
        if self._reader is not None:
            with suppress(RuntimeError):  # it is closed
                self._reader.close()
            self._reader = None

    def close_if_free(self) -> None:
        """A task that is at work with it closes it when it ends. A task that still waits for it connects it again."""
        if self.lock.acquire(blocking=False):
            try:
                self.close()
            finally:
                self.lock.release()

    # ---- what Claims decides ------------------------------------------------------------------------------------------

    def _proceed(self, event: ClaimEvent) -> Outcome | None:
        """Up to the task's answer, or to where the caller continues. Raises Fenced if it is to write no further."""
        while True:
            match self._claims.handle(event, now_s=time.monotonic()):
                case ClaimStep.TAKE_ID:
                    event = self._take_id()
                case ClaimStep.READ_POSITION:
                    event = self._read_position()
                case ClaimStep.READ_AGAIN:
                    time.sleep(TWIN_EVERY_S)
                    event = self._read_position()
                case ClaimStep.BEGIN_TASK:
                    event = self._begin()
                case ClaimStep.WRITE_ROWS | ClaimStep.AWAIT_TASK:
                    return None
                case ClaimStep.STOP_WRITING:
                    raise Fenced("another instance has done the task")
                case TaskAnswer(outcome):
                    return outcome
                case never:
                    assert_never(never)

    def _take_id(self) -> PositionRead:
        with self._position() as reader:
            check_term(reader.control(), self.term, self._output)
        self._connected = self._mode.connect(self._output, self._id)
        try:
            return self._read_position()
        except BaseException:
            self._disconnect()
            raise

    def _begin(self) -> ClaimEvent:
        try:
            self._mode.begin(self.producer, self._own_record(CLAIM_KEY, b""))
        except Fenced:
            self._disconnect()
            return FencedOff()
        return TaskBegun()

    def _checked(self, records: Iterable[KafkaRecord]) -> Iterator[KafkaRecord]:
        """These, while the position says that the task is this instance's."""
        for record in records:
            if time.monotonic() > self._check_at_s:
                self._proceed(self._read_position())
            yield record

    def _read_position(self) -> PositionRead:
        with self._position() as reader:
            read = reader.control_and_slots(self._partition, self._claims.read_from)
        self._check_at_s = time.monotonic() + CHECK_EVERY_S
        return read

    def _own_record(self, key: bytes, value: bytes) -> KafkaRecord:
        return self._output.position_topic, self._partition, key, value, None

    def _disconnect(self) -> None:
        if self._connected is not None:
            self._connected.close()
            self._connected = None

    @contextmanager
    def _position(self) -> Iterator[PositionReader]:
        """The same reader again, unless it failed."""
        reader, self._reader = self._reader, None
        reader = reader or PositionReader(self._output.cluster, self._output.position_topic)
        try:
            yield reader
        except BaseException:
            with suppress(RuntimeError):
                reader.close()
            raise
        self._reader = reader


class IdHolders:
    """The holder of each id, in one process. Of several threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._holders: dict[tuple[str, str], IdHolder] = {}

    @contextmanager
    def held(self, output: Output, number: int, term: SinkTerm) -> Iterator[IdHolder]:
        """The holder of the id, for one task at a time. It closes the holder of an earlier term. A task of an earlier term gets one of its
        own, which is closed after the task."""
        place, previous = (output.cluster.brokers, output.transactional_id(number)), None
        with self._lock:
            holder = self._holders.get(place)
            if holder is None or holder.term < term:
                previous, holder = holder, IdHolder(output, number, term)
                self._holders[place] = holder
            elif holder.term > term:
                holder = IdHolder(output, number, term)
        if previous is not None:
            previous.close_if_free()
        try:
            with holder.lock:
                yield holder
        finally:
            with self._lock:
                is_kept = self._holders.get(place) is holder
            if not is_kept:
                holder.close_if_free()

    def release(self) -> None:
        """Close what no task is at work with."""
        with self._lock:
            holders = list(self._holders.values())
            self._holders.clear()
        for holder in holders:
            holder.close_if_free()


OF_PROCESS = IdHolders()
"""A task comes pickled and finds here what an earlier one left connected. Closed at the process's end at the latest, for librdkafka's
threads must not outlive the interpreter."""
atexit.register(OF_PROCESS.release)
