"""A position in Kafka has its leader epoch: what was read and is gone is noticed, however far the partition has grown since."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import pytest
from confluent_kafka import KafkaError
from hypothesis import given
from hypothesis import strategies as st

from sidecar.adapters.memory.clock import MemoryClock
from sidecar.feeds.kafka import client as client_module
from sidecar.feeds.kafka import reading as reading_module
from sidecar.feeds.kafka.lanes import PartitionKey, Topic
from sidecar.feeds.kafka.reading import KafkaSettings, TopicReading
from sidecar.feeds.kafka.start import Start, WantedStart
from sidecar.feeds.kafka.truncation import check_still_there
from sidecar.shared.errors import FeedLost, FeedUnsuitable
from sidecar.shared.model.nouns import ReadEnd

PARTITION = ("t", 0)


@dataclass
class Partition:
    """As its leader has it: each message is a number of its own and its epoch; each epoch begins at the end that its leader had."""

    messages: list[tuple[int, int]] = field(default_factory=list)
    begins: dict[int, int] = field(default_factory=lambda: {0: 0})
    first: int = 0
    written: int = 0

    @property
    def end(self) -> int:
        return len(self.messages)

    def write(self, count: int) -> None:
        for _ in range(count):
            self.written += 1
            self.messages.append((self.written, max(self.begins)))

    def elect(self, kept: int) -> None:
        """A leader that has `kept` messages; all of them, if the election is clean."""
        del self.messages[kept:]
        epoch = max(self.begins) + 1
        self.begins = {known: begin for known, begin in self.begins.items() if begin < self.end or begin == known == 0} | {epoch: self.end}
        self.first = min(self.first, self.end)

    def end_of(self, epoch: int) -> int:
        """Kafka's OffsetForLeaderEpoch."""
        return min((begin for later, begin in self.begins.items() if later > epoch), default=self.end)

    def read_end(self, position: int) -> ReadEnd:
        return ReadEnd(position, self.messages[position - 1][1])


@dataclass
class Cluster:
    """With one topic of one partition."""

    partition: Partition
    away: bool = False

    def ask(self, _: frozenset[str]) -> Cluster:
        return self

    def wait(self, _: float) -> bool:
        return True

    def topics(self) -> dict[str, Topic]:
        return {"t": Topic("id", 1)}

    def available(self, partitions: Sequence[PartitionKey]) -> dict[PartitionKey, tuple[int, int]]:
        return dict.fromkeys(partitions, (self.partition.first, self.partition.end))

    def continues_at(self, read_ends: Mapping[PartitionKey, ReadEnd]) -> dict[PartitionKey, int]:
        """As librdkafka does with a reset to the earliest offset."""
        if self.away:
            raise FeedLost("nobody answers", hint="wait")
        result = {}
        for partition, end in read_ends.items():
            at = min(end.position, self.partition.end_of(end.epoch))
            result[partition] = at if at >= self.partition.first else self.partition.first
        return result

    def answered(self) -> None: ...

    def check(self, *, wait_s: float = 0.0) -> None: ...

    def broker_count(self) -> int:
        return 1

    def note(self, _: object) -> None: ...


def start(partition: Partition, position: int, read_end: ReadEnd | None) -> str:
    """What it stops with; empty: it reads."""
    ends = {} if read_end is None else {PARTITION: read_end}
    wanted = WantedStart({PARTITION: position}, frozenset({"t"}), frozenset(), {"t": "id"}, ends)
    try:
        Start(Cluster(partition), MemoryClock(0.0), wanted)  # type: ignore[arg-type]  # it has what is called
    except FeedUnsuitable as error:
        return str(error)
    return ""


@st.composite
def lives(draw: st.DrawFn) -> tuple[Partition, list[int], int, ReadEnd]:
    """A partition after elections, clean and unclean ones; which messages were read of it at some moment, and from where it is read on."""
    partition = Partition()
    numbers = st.integers(0, 6)
    partition.write(draw(st.integers(1, 8)))
    for _ in range(draw(st.integers(0, 2))):
        partition.elect(draw(st.integers(0, partition.end)))
        partition.write(draw(st.integers(1, 6)))
    reached = draw(st.integers(1, partition.end))
    numbers_read, read_end = [number for number, _ in partition.messages[:reached]], partition.read_end(reached)
    position = draw(st.integers(0, reached))
    for _ in range(draw(st.integers(0, 3))):
        partition.write(draw(numbers))
        partition.elect(draw(st.sampled_from([partition.end, draw(st.integers(0, partition.end))])))
        partition.write(draw(st.integers(0, 12)))
    return partition, numbers_read, position, read_end


@given(lives())
def test_a_start_stops_exactly_where_something_that_was_read_is_gone(life: tuple[Partition, list[int], int, ReadEnd]) -> None:
    partition, numbers_read, position, read_end = life
    now = [number for number, _ in partition.messages]
    same = next((at for at, number in enumerate(numbers_read) if now[at : at + 1] != [number]), len(numbers_read))
    problem = start(partition, position, read_end)
    if same == len(numbers_read):
        assert not problem
    else:
        assert f"Its messages at {same} to {read_end.position} (exclusive) are gone" in problem


@given(lives())
def test_the_epoch_of_what_was_read_later_serves_for_a_position_too(life: tuple[Partition, list[int], int, ReadEnd]) -> None:
    """As librdkafka is given it: a position is lost exactly where the messages before it are."""
    partition, numbers_read, position, read_end = life
    now = [number for number, _ in partition.messages]
    assert (partition.end_of(read_end.epoch) >= position) == (now[:position] == numbers_read[:position])


def test_the_error_names_all_that_an_operator_needs() -> None:
    partition = Partition()
    partition.write(9)
    partition.elect(4)
    partition.write(20)
    problem = start(partition, 7, ReadEnd(9, 0))
    for part in (
        "kafka/t/0",
        "topic t, partition 0",
        "read to 9",
        "epoch 0",
        "4 to 9 (exclusive)",
        "unclean.leader.election",
        "new log",
    ):
        assert part in problem, part


def test_a_loss_while_reading_stops_for_good_also_where_no_broker_can_be_queried(consumer: Consumer) -> None:
    """librdkafka has said it once; the next start knows less of what was read."""
    partition = Partition()
    partition.write(9)
    cluster = Cluster(partition)
    of = reading(cluster)
    of.join({PARTITION: 0})
    for lost, says in ((False, "at 4 to 9 (exclusive) are gone"), (True, "cannot be read from 9: as librdkafka says")):
        of.positions[PARTITION] = 0
        consumer.records = [
            *(Record(at, 0) for at in range(9)),
            Record(0, None, KafkaError(KafkaError._AUTO_OFFSET_RESET, "as librdkafka says")),
        ]
        if not lost:
            partition.elect(4)
            partition.write(20)
        cluster.away = lost
        with pytest.raises(FeedUnsuitable, match=re.escape(says)) as stop:
            of.take(0.0)
        assert not stop.value.retryable


def test_without_an_epoch_offsets_alone_count() -> None:
    """Of a log of 0.4 or before."""
    partition = Partition()
    partition.write(9)
    partition.elect(4)
    assert "cannot be read from 7" in start(partition, 7, None)
    partition.write(20)
    assert start(partition, 7, None) == ""


def test_what_retention_has_removed_is_no_loss_of_the_end() -> None:
    partition = Partition()
    partition.write(9)
    partition.elect(9)
    partition.write(20)
    for first, position in product(range(0, 12, 3), range(1, 10)):
        partition.first = first
        check_still_there(Cluster(partition), {PARTITION: ReadEnd(9, 0)})  # type: ignore[arg-type]  # it has what is called
        assert ("retention has removed" in start(partition, position, ReadEnd(9, 0))) == (position < first)


@dataclass
class Record:
    at: int
    epoch: int | None
    of_error: KafkaError | None = None

    def error(self) -> KafkaError | None:
        return self.of_error

    def topic(self) -> str:
        return PARTITION[0]

    def partition(self) -> int:
        return PARTITION[1]

    def offset(self) -> int:
        return self.at

    def leader_epoch(self) -> int | None:
        return self.epoch

    def key(self) -> bytes:
        return b""

    value = key


@dataclass
class Consumer:
    """Of librdkafka: `calls` are what it was given."""

    records: list[Record] = field(default_factory=list)
    calls: list[tuple[int, int | None]] = field(default_factory=list)

    def consume(self, count: int, _: float) -> list[Record]:
        taken, self.records = self.records[:count], self.records[count:]
        return taken

    def incremental_assign(self, places: list[Any]) -> None:
        self.calls += [(place.offset, place.leader_epoch) for place in places]

    def incremental_unassign(self, _: list[Any]) -> None: ...

    def commit(self, *, offsets: list[Any], asynchronous: bool) -> None:
        assert asynchronous
        self.incremental_assign(offsets)


@pytest.fixture
def consumer(monkeypatch: pytest.MonkeyPatch) -> Consumer:
    one = Consumer()
    monkeypatch.setattr(reading_module, "open_client", lambda *_: one)
    return one


def reading(cluster: Cluster | None = None) -> TopicReading:
    return TopicReading(cluster or Cluster(Partition()), KafkaSettings("b:1", "g", 1 << 20), lambda *_: None)  # type: ignore[arg-type]  # it has what is called


def test_a_position_goes_to_librdkafka_with_its_epoch_at_the_start_and_in_a_commit(consumer: Consumer) -> None:
    of = reading()
    of.join({PARTITION: 5}, read_ends={PARTITION: ReadEnd(9, 3)})
    consumer.records = [Record(at, 4) for at in range(5, 12)]
    of.take(0.0)
    of.commit({PARTITION: 7})
    assert consumer.calls == [(5, 3), (7, 4)]


def test_how_far_it_was_read_never_goes_back(consumer: Consumer) -> None:
    """While it is read again: of what comes again a loss counts as before."""
    for again in range(8):
        of = reading()
        of.join({PARTITION: 5}, read_ends={PARTITION: ReadEnd(9, 3)})
        consumer.records = [Record(at, 3) for at in range(5, 5 + again)]
        of.take(0.0)
        assert of.read_ends() == {PARTITION: ReadEnd(max(9, 5 + again), 3)}


def test_messages_without_an_epoch_and_what_was_not_read_have_no_end(consumer: Consumer) -> None:
    of = reading()
    of.join({PARTITION: 0, ("t", 1): 0})
    consumer.records = [Record(0, None)]
    of.take(0.0)
    assert of.read_ends() == {}
    consumer.records = [Record(1, 0)]
    of.take(0.0)
    assert of.read_ends() == {PARTITION: ReadEnd(2, 0)}
    of.leave([PARTITION])
    assert of.read_ends() == {}


@dataclass
class SeekingConsumer(Consumer):
    """As librdkafka where it knows the leader: it compares the epoch at a seek, and not at an assignment. Epoch 0 ends at 4."""

    events: list[Record] = field(default_factory=list)

    def incremental_assign(self, places: list[Any]) -> None:
        self.records += [Record(place.offset, None) for place in places]

    def seek(self, place: Any) -> None:
        self.records = [*self.events, Record(4 if place.leader_epoch == 0 else place.offset, None)]

    def poll(self, _: float) -> None: ...

    def close(self) -> None: ...


@pytest.fixture
def seeking(monkeypatch: pytest.MonkeyPatch) -> SeekingConsumer:
    one = SeekingConsumer()
    monkeypatch.setattr(client_module, "open_client", lambda *_: one)
    return one


@pytest.mark.usefixtures("seeking")
def test_the_epoch_is_compared_also_where_the_leader_is_known() -> None:
    for epoch, first in ((0, 4), (1, 9)):
        assert client_module.Cluster("b:1", {}).continues_at({PARTITION: ReadEnd(9, epoch)}) == {PARTITION: first}


def test_only_a_message_or_an_end_says_where_it_continues(seeking: SeekingConsumer, monkeypatch: pytest.MonkeyPatch) -> None:
    seeking.events = [Record(7, None, KafkaError(KafkaError._TRANSPORT)), Record(4, None, KafkaError(KafkaError._PARTITION_EOF))]
    assert client_module.Cluster("b:1", {}).continues_at({PARTITION: ReadEnd(9, 1)}) == {PARTITION: 4}
    seeking.events = [Record(7, None, KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))]
    with pytest.raises(FeedUnsuitable, match="grant"):
        client_module.Cluster("b:1", {}).continues_at({PARTITION: ReadEnd(9, 1)})
    monkeypatch.setattr(client_module, "EPOCHS_MAX_S", -1.0)
    with pytest.raises(FeedLost):
        client_module.Cluster("b:1", {}).continues_at({PARTITION: ReadEnd(9, 1)})
