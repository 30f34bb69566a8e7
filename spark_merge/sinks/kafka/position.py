"""Reads and writes the sink's position, in a topic of its own beside the output: compacted, one partition for each writer, so that an open
transaction of one writer hides no record of another. The records are in position_records.py.

    partition 0          control: the last record is the whole state (`Control`), written by the control id alone
    partition 1 + n      slots of transactional id n: which tasks are done (`Slot`), committed with their rows

Group offsets would expire, and their metadata is small. A record of ours in the output would reach consumers that do not know it.

    opening    read control: as before? → take the control id → read control: as before? → write the next owner's → wait until readers see
               it → end what tasks of earlier terms do
    change     write the next state; a writer that is fenced has lost the output

- There is one writer for each term: the broker fences off the previous owner, by the transactional id of control. Without transactions
  there is no fence: acknowledged_position.py.
- Two workers that open at once fence each other. The one that is fenced before it has written its state gives up.
- All is read as committed. The records of a transaction appear a moment after its commit, so a read waits for open transactions, within a
  bound: the transaction of a dead writer stays open until the next one takes its id.
- The last control record is searched from the partition's end; a reader that has read one before starts there. A batch's slots are read
  from where they began (`TopicBatch.slots_from`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from sidecar.shared.errors import OutcomeUnknown, OwnershipLost, SinkError
from sidecar.shared.process.patience import patience_s
from sidecar.shared.process.progress import progressed
from spark_merge.sinks.kafka.client import OUTAGE_MAX_S, Fenced, passing
from spark_merge.sinks.kafka.output import CHUNK_PARTS, Output
from spark_merge.sinks.kafka.position_records import STATE_KEY, Control, PositionRead, TopicBatch, check_term, current_control, slots_of
from spark_merge.sinks.kafka.producer import IdempotentProducer, TransactionalProducer
from spark_merge.sinks.kafka.topics import TopicReader, make
from spark_merge.sinks.kafka.write_modes import write_mode
from spark_merge.sinks.kit.position import Missed, OutputState, Stored

CONTROL = 0

OPEN_TRANSACTIONS_MAX_S = 2.0
"""How long a read waits for transactions whose end is being written: milliseconds, if the brokers are well."""

LOOK_BACK = 64
"""Offsets before the end in which the last control record is searched first: each state takes two."""

_log = logging.getLogger("spark_merge.sinks.kafka")

_PositionRecord: TypeAlias = "tuple[int, int, bytes | None, bytes | None]"
"""Partition, offset, key and value of a record."""


class PositionReader(TopicReader):
    """Of the topic `name`. One thread."""

    _seen: int | None = None

    def control(self) -> Control | None:
        """The last state, None where there is none. Raises SinkError."""
        return self._read(None, 0).control

    def control_and_slots(self, partition: int, start: int) -> PositionRead:
        """The last state, and the slots of `partition` from `start` on. Raises SinkError."""
        return self._read(partition, start)

    def _read(self, partition: int | None, start: int) -> PositionRead:
        where, slots_from = f"position topic {self.name}", {} if partition is None else {partition: start}
        low, back = 0, LOOK_BACK
        if self._seen is None:
            low, end = self.edges(self.name, CONTROL)
            self._seen = max(low, end - back)
        while True:
            records = list(self._since({CONTROL: self._seen, **slots_from}))
            states = (
                (at, Control.of(value, where=where))
                for number, at, key, value in records
                if number == CONTROL and value and key is not None and key.startswith(STATE_KEY)
            )
            current = current_control(states)
            if self._seen <= low or (current is not None and not current[1].opening):
                break
            back *= 8
            self._seen = max(low, self._seen - back)
        self._seen = None if current is None else current[0]
        return PositionRead(
            None if current is None else replace(current[1], opening=False),
            slots_of(((key, value) for number, _, key, value in records if number == partition), where=where),
            max((at + 1 for number, at, *_ in records if number == partition), default=start),
        )

    def _since(self, starts: Mapping[int, int]) -> Iterator[_PositionRecord]:
        """Committed records from these offsets on, to the end of what is committed or in an open transaction."""
        left, silent_s, open_s = set(starts), None, None
        self._consumer.assign([TopicPartition(self.name, partition, offset) for partition, offset in starts.items()])
        while left:
            message = self._consumer.poll(0.1)
            now_s = time.monotonic()
            if message is None:
                silent_s = silent_s or now_s + patience_s(OUTAGE_MAX_S)
                if now_s > silent_s:
                    raise SinkError(
                        f"Kafka at {self._cluster.brokers} does not answer for {self.name}/{min(left)}", hint="start the brokers"
                    )
                continue
            silent_s = None
            progressed()
            partition = message.partition()
            if message.error() is None:
                yield partition, message.offset(), message.key(), message.value()
            elif message.error().code() == KafkaError._PARTITION_EOF:
                open_s = open_s or now_s + OPEN_TRANSACTIONS_MAX_S
                self._consumer.incremental_unassign([TopicPartition(self.name, partition)])
                if now_s > open_s or message.offset() >= self._high(partition):
                    left.remove(partition)
                else:
                    time.sleep(0.002)
                    self._consumer.incremental_assign([TopicPartition(self.name, partition, message.offset())])
            elif not passing(message.error()):
                raise self._cluster.raised(message.error(), f"position topic {self.name}")

    def _high(self, partition: int) -> int:
        """The offset after the last record, committed or not, as the last answer had it."""
        try:
            return int(self._consumer.get_watermark_offsets(TopicPartition(self.name, partition), cached=True)[1])
        except KafkaException as error:
            raise self._cluster.raised(error.args[0], f"position topic {self.name}") from error


@dataclass(frozen=True, slots=True)
class TopicProgress:
    """`begun`, `partitions`: as of `Control`."""

    begun: TopicBatch | None = None
    partitions: Mapping[str, int] = field(default_factory=dict)


class ControlStore:
    """`PositionStore` in the position topic of `output`, with transactions. Holds connections until `close`."""

    def __init__(self, output: Output) -> None:
        self.place = str(output)
        self._output = output
        self._reader: PositionReader | None = None
        self._producer: IdempotentProducer | None = None
        self._control: Control | None = None
        self._lost: OwnershipLost | None = None

    @property
    def control(self) -> Control:
        """As this store wrote it last."""
        assert self._control is not None, "open comes first"
        return self._control

    @property
    def reader(self) -> PositionReader:
        if self._reader is None:
            self._reader = PositionReader(self._output.cluster, self._output.position_topic)
        return self._reader

    def read(self) -> Stored[TopicProgress] | None:
        control = self._read_control()
        if control is None:
            return None
        progress = TopicProgress(control.begun, control.partitions)
        detail = None if progress == TopicProgress() else progress
        return Stored(OutputState(control.log_id, control.owner, control.accepted, detail), control)

    def compare_and_swap(
        self,
        before: Stored[TopicProgress] | None,
        after: OutputState[TopicProgress],
        payload: None = None,  # noqa: ARG002 - the port's
    ) -> Stored[TopicProgress] | Missed:
        if before is None or before.state.owner != after.owner:
            try:
                return self._open(before, after)
            except OutcomeUnknown as unknown:
                _log.warning("%s; the position is read again", unknown)
                return Missed.UNKNOWN
        if before.version != self._control:
            return Missed.CONFLICT
        if self._producer is None:
            raise self._lost or SinkError(f"{self.place} is not open", hint="start the worker again")
        control = _with(self.control, after)
        with self._until_fenced():
            self._write(self._producer, control)
        self._control = control
        return Stored(after, control)

    def slots_from(self) -> tuple[int, ...]:
        """For each transactional id, the offset after its last slot."""
        reader, topic = self.reader, self._output.position_topic
        return reader.ends(topic, range(1, reader.partitions(topic)))

    def close(self) -> None:
        self._disconnect()
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    # ---- a term ------------------------------------------------------------------------------------------------------

    def _open(self, before: Stored[TopicProgress] | None, after: OutputState[TopicProgress]) -> Stored[TopicProgress] | Missed:
        expected, output = None if before is None else before.version, self._output
        if self._read_control() != expected:
            return Missed.CONFLICT  # before anything of a later owner is fenced
        self._disconnect()
        ids = self._count_ids()
        with self._until_fenced():
            self._lost, self._producer = None, write_mode(output).connect(output, output.control_id)
            known = self._read_control()  # the open transaction of the previous owner has ended
            if known != expected:
                self._disconnect()
                return Missed.CONFLICT
            control = _with(known or Control(after.log_id, output.protocol, after.owner), after)
            self._control = self._write(self._producer, self._begins_term(control))
            self._await_own_control()
            self._end_tasks(ids)
        return Stored(after, self._control)

    def _begins_term(self, control: Control) -> Control:
        if control.token and control.begun:
            raise SinkError(
                f"{self.place} has begun segments {control.begun.first} to {control.begun.last} without transactions",
                hint="set transactions=false until they are accepted, then remove it",
            )
        return replace(control, token="")

    def _write(self, producer: IdempotentProducer, control: Control) -> Control:
        """The state with `control` written. Raises Fenced if another owner has begun a term, SinkError."""
        producer.begin()
        producer.write([(self._output.position_topic, CONTROL, control.key, control.to_bytes(), None)])
        producer.commit()
        return control

    def _await_own_control(self) -> None:
        """Wait until every reader of control sees this owner. Raises OwnershipLost, SinkError."""
        deadline_s = time.monotonic() + OUTAGE_MAX_S
        while (control := self._read_control()) is None or control.owner < self.control.owner:
            if time.monotonic() > deadline_s:
                raise SinkError(f"{self.place}: the new owner is not visible in {self._output.position_topic}", hint="look at the brokers")
        check_term(control, self.control.term, self.place)

    def _end_tasks(self, count: int) -> None:
        """End what tasks of earlier terms do under the first `count` transactional ids. Readers must see this term's control before."""
        output = self._output
        producers = [TransactionalProducer(output.cluster, output.transactional_id(number), output.producer) for number in range(count)]
        for producer in producers:
            producer.start()
        for producer in producers:
            producer.take()
            producer.close()

    @contextmanager
    def _until_fenced(self) -> Iterator[None]:
        """After an error the producer is of no use any more."""
        try:
            yield
        except Fenced as fenced:
            self._lost = OwnershipLost(f"{self.place} has been opened by a later owner", hint="nothing: the later owner continues")
            self._disconnect()
            raise self._lost from fenced
        except BaseException:
            self._disconnect()
            raise

    def _disconnect(self) -> None:
        if self._producer is not None:
            self._producer.close()
            self._producer = None

    # ---- the topic ---------------------------------------------------------------------------------------------------

    def _read_control(self) -> Control | None:
        """Raises SinkError for messages in another protocol."""
        control = self.reader.control() if self.reader.partitions(self._output.position_topic) else None
        if control is not None and control.protocol != self._output.protocol:
            raise SinkError(
                f"{self.place} holds messages in {control.protocol}, this is {self._output.protocol}",
                hint=f"set protocol={control.protocol}, or give the sink another topic and dump again",
            )
        return control

    def _count_ids(self) -> int:
        """How many transactional ids tasks use; each has a partition for its slots. Creates the position topic if it does not exist."""
        topic, reader = self._output.position_topic, self.reader
        if not reader.partitions(topic):
            compacted = {"cleanup.policy": "compact"}
            make(self._output.cluster, topic, 2 + CHUNK_PARTS, replicas=self._output.replicas, config=compacted)
        count = reader.partitions(topic)
        deadline_s = time.monotonic() + OUTAGE_MAX_S
        while not count and time.monotonic() < deadline_s:
            time.sleep(0.05)
            count = reader.partitions(topic)
        if count < 3:
            raise SinkError(
                f"position topic {topic} has {count} partitions, and needs 3 or more: control, live rows, dumps' rows",
                hint="remove it, if it is nobody's, and let the sink make it; or name another one with position-topic=",
            )
        return count - 1


def _with(control: Control, state: OutputState[TopicProgress]) -> Control:
    progress = state.detail or TopicProgress()
    begun, partitions = progress.begun, progress.partitions
    return replace(control, log_id=state.log_id, owner=state.owner, accepted=state.accepted, begun=begun, partitions=partitions)
