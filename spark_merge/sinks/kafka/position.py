"""Where the sink is, in a topic of ours beside the output: compacted, one partition for each who writes, so that no one's open transaction
hides another's records.

    partition 0          control: the last record is all there is to know (`Control`), written by the control id alone
    partition 1 + n      slots of transactional id n: what its tasks have done (`Slot`), committed with their rows

Group offsets would expire, their metadata is small, and a record of ours in the output would meet consumers that do not know it.

- All is read as committed. Of a transaction that is committed the records come a moment later, so a read waits for what is under way,
  within a bound: a dead writer's transaction is under way until the next one takes its id.
- A control record of a former term does not count after one of a later term: who cannot be fenced (checked.py) may write one.
- The last control record is found from the partition's end, and by who has seen one before from there; a batch's slots are read from where
  they began (`Begun.slots_from`).
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeAlias

import msgspec
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from sidecar.core.model import Seq, TableName
from sidecar.errors import SinkError
from sidecar.process.progress import progressed
from spark_merge.contract import Accepted, Outcome, Owner, Rows
from spark_merge.sinks.kafka.client import OUTAGE_MAX_S, Cluster, passing, patiently, raised

VERSION = 1
CONTROL = 0
STATE_KEY, CLAIM_KEY = b"state", b"claim"

UNDER_WAY_MAX_S = 2.0
"""How long a read waits for transactions whose end is being written: milliseconds, where the brokers are well."""

LOOK_BACK = 64
"""Offsets before the end among which the last control record is looked for first: each state takes two."""

OUTCOME_BYTES_MAX = 256 << 10
"""A slot must fit into a message. Only reports use the counts, and only where a batch is done again."""


@dataclass(frozen=True, slots=True)
class Begun:
    """A batch whose rows may be seen. `log`: a digest of its manifests. `slots_from`: by transactional id, from where its slots are; their
    number and `few_rows` are what its cut is made with (`cut.stages`)."""

    first: Seq
    last: Seq
    log: str
    slots_from: tuple[int, ...]
    few_rows: int


class Term(NamedTuple):
    """Who writes, from one opening to the next. `token`: tells apart two who open at once, where no broker does; else empty."""

    owner: Owner
    token: str = ""


@dataclass(frozen=True, slots=True)
class Control:
    """`partitions`: of each topic that has been written, how many are used, for ever: a row stays in its partition. `token`: of its term.
    `opening`: it begins a term, which goes on with what stood before it, whatever it says itself."""

    log_id: str
    protocol: str
    owner: Owner
    accepted: Accepted | None = None
    begun: Begun | None = None
    partitions: Mapping[str, int] = field(default_factory=dict)
    version: int = VERSION
    token: str = ""
    opening: bool = False

    @property
    def term(self) -> Term:
        return Term(self.owner, self.token)

    @property
    def key(self) -> bytes:
        """Of its record. Terms that are not fenced have one each, so that compaction takes none for another's."""
        return b" ".join(filter(None, (STATE_KEY, self.token.encode())))

    def to_bytes(self) -> bytes:
        return msgspec.json.encode(self)

    @classmethod
    def of(cls, data: bytes, *, where: str) -> Control:
        """Raises SinkError."""
        try:
            found = msgspec.json.decode(data, type=cls)
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            raise SinkError(
                f"{where} holds something else than this sink's position: {error}",
                hint="name another position-topic=, or run the ticdc-dump that wrote it",
            ) from error
        if found.version != VERSION:
            raise SinkError(f"{where} is of version {found.version}, this is {VERSION}", hint="run the ticdc-dump that wrote it")
        return found


class _Counts(msgspec.Struct, array_like=True):
    seq: Seq
    schema: str
    table: str
    log: int
    dump: int
    dropped: int


@dataclass(frozen=True, slots=True)
class Slot:
    """`batch`: the last segment of the batch that the task is of."""

    batch: Seq
    outcome: Outcome

    def to_bytes(self) -> bytes:
        counts = [_Counts(seq, *table, *rows) for (seq, table), rows in self.outcome.counts.items()]
        data = self._encoded(counts)
        return data if len(data) <= OUTCOME_BYTES_MAX else self._encoded([])

    def _encoded(self, counts: list[_Counts]) -> bytes:
        return zlib.compress(msgspec.json.encode([self.batch, self.outcome.task, counts]), 1)

    @classmethod
    def of(cls, data: bytes) -> Slot:
        batch, task, counts = msgspec.json.decode(zlib.decompress(data), type=tuple[Seq, str, list[_Counts]])
        by_table = {(one.seq, TableName(one.schema, one.table)): Rows(one.log, one.dump, one.dropped) for one in counts}
        return cls(batch, Outcome(task, by_table))


@dataclass(frozen=True, slots=True)
class Claim:
    """Of who begins a task without a transaction. `by`: the token of its term; `attempt`: its own. `ends`: of each topic where the
    partitions ended when the task was begun first."""

    batch: Seq
    task: str
    by: str
    attempt: str
    ends: Mapping[str, tuple[int, ...]]

    def to_bytes(self) -> bytes:
        return zlib.compress(msgspec.json.encode(self), 1)

    @classmethod
    def of(cls, data: bytes) -> Claim:
        return msgspec.json.decode(zlib.decompress(data), type=cls)


class Found(NamedTuple):
    """`upto`: the offset behind the last of the records that `slots` and `claims` were in."""

    control: Control | None
    slots: list[Slot]
    claims: list[Claim]
    upto: int


def standing(records: Iterable[tuple[int, Control]]) -> tuple[int, Control] | None:
    """What holds after these records, and the offset of the one that says it."""
    found: tuple[int, Control] | None = None
    for offset, control in records:
        if found is None or (control.term >= found[1].term and not control.opening):
            found = offset, control
        elif control.term > found[1].term:
            found = found[0], replace(found[1], owner=control.owner, token=control.token, log_id=control.log_id)
    return found


_Place: TypeAlias = "tuple[int, int, bytes | None, bytes | None]"
"""Partition, offset, key and value of a record."""


def _is_state(key: bytes | None) -> bool:
    return key is not None and key.startswith(STATE_KEY)


def _found(control: Control | None, records: Sequence[_Place], partition: int | None, start: int) -> Found:
    there = [(at, key, value) for place, at, key, value in records if place == partition and value]
    slots = [Slot.of(value) for _, key, value in there if key != CLAIM_KEY and value]
    claims = [Claim.of(value) for _, key, value in there if key == CLAIM_KEY and value]
    return Found(control, slots, claims, max((at + 1 for place, at, *_ in records if place == partition), default=start))


class PositionReader:
    """Of the topic `name`. One thread."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.name, self._cluster = name, cluster
        self._consumer: Any = cluster.connect(
            Consumer,
            {
                "group.id": name, "enable.auto.commit": "false", "isolation.level": "read_committed", "enable.partition.eof": "true",
                "auto.offset.reset": "earliest", "fetch.wait.max.ms": "1",
            },
        )  # fmt: skip
        self._seen: int | None = None

    def partitions(self, topic: str) -> int:
        """How many the topic has, 0 if it is not there. Raises SinkError."""
        found = self._asked(lambda timeout_s: self._consumer.list_topics(topic, timeout_s), f"topic {topic}").topics[topic]
        if found.error is not None and found.error.code() not in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC):
            raise raised(found.error, f"topic {topic}")
        return len(found.partitions)

    def ends(self, topic: str, partitions: Sequence[int]) -> tuple[int, ...]:
        """Of each the offset after its last committed record."""
        return tuple(self._edges(topic, partition)[1] for partition in partitions)

    def is_empty(self, topic: str) -> bool:
        return all(low == high for low, high in (self._edges(topic, number) for number in range(self.partitions(topic))))

    def control(self) -> Control | None:
        """The last state, None where there is none."""
        return self._control_and(None, 0).control

    def control_and_slots(self, partition: int, start: int) -> Found:
        """The last state, and the slots and claims of `partition` from `start` on."""
        return self._control_and(partition, start)

    def _control_and(self, partition: int | None, start: int) -> Found:
        others = {} if partition is None else {partition: start}
        low, back = 0, LOOK_BACK
        if self._seen is None:
            low, end = self._edges(self.name, CONTROL)
            self._seen = max(low, end - back)
        while True:
            found = list(self._since({CONTROL: self._seen, **others}))
            last = standing((at, self._state(value)) for place, at, key, value in found if place == CONTROL and value and _is_state(key))
            at_start = self._seen <= low
            if last is not None and (at_start or not last[1].opening):
                self._seen = last[0]
                return _found(replace(last[1], opening=False), found, partition, start)
            if at_start:
                self._seen = None
                return _found(None, found, partition, start)
            back *= 8
            self._seen = max(low, self._seen - back)

    def _state(self, value: bytes) -> Control:
        return Control.of(value, where=f"position topic {self.name}")

    def close(self) -> None:
        self._consumer.close()

    def _asked(self, call: Callable[[float], Any], what: str) -> Any:
        return patiently(self._cluster, self._consumer, call, what)

    def _edges(self, topic: str, partition: int) -> tuple[int, int]:
        place = TopicPartition(topic, partition)
        found: tuple[int, int] = self._asked(
            lambda timeout_s: self._consumer.get_watermark_offsets(place, timeout_s), f"the offsets of {topic}/{partition}"
        )
        return found

    def _since(self, starts: Mapping[int, int]) -> Iterator[_Place]:
        """Partition, offset, key and value of committed records from these offsets on, to the end of what is committed or under way."""
        left, silent_s, under_way_s = set(starts), None, None
        self._consumer.assign([TopicPartition(self.name, partition, offset) for partition, offset in starts.items()])
        while left:
            message = self._consumer.poll(0.1)
            now_s = time.monotonic()
            if message is None:
                silent_s = silent_s or now_s + OUTAGE_MAX_S
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
                under_way_s = under_way_s or now_s + UNDER_WAY_MAX_S
                self._consumer.incremental_unassign([TopicPartition(self.name, partition)])
                if now_s > under_way_s or message.offset() >= self._high(partition):
                    left.remove(partition)
                else:
                    time.sleep(0.002)
                    self._consumer.incremental_assign([TopicPartition(self.name, partition, message.offset())])
            elif not passing(message.error()):
                raise raised(message.error(), f"position topic {self.name}")

    def _high(self, partition: int) -> int:
        """The offset after the last record, committed or not, as the last answer had it."""
        try:
            return int(self._consumer.get_watermark_offsets(TopicPartition(self.name, partition), cached=True)[1])
        except KafkaException as error:
            raise raised(error.args[0], f"position topic {self.name}") from error
