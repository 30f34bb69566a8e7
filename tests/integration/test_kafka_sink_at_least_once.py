"""The Kafka sink without transactions on a real broker: nothing is lost, each attempt is in order, only a batch that is done again is there
twice, and a replaced owner stops.

Consumers read all that is there, committed or not. `rows` of a place omit repeats, by the header that says where a record is from: the rest
must be the stream of a sink with transactions.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from sidecar.shared.errors import OwnershipLost, SinkError
from sidecar.shared.model.nouns import TableName
from spark_merge.port.contract import Outcome
from spark_merge.sinks.kafka import holder as holders
from spark_merge.sinks.kafka import sink
from spark_merge.sinks.kafka.client import SinkCluster
from spark_merge.sinks.kafka.holder import IdHolder
from spark_merge.sinks.kafka.position import CONTROL, PositionReader
from spark_merge.sinks.kafka.producer import IdempotentProducer, KafkaRecord, TransactionalProducer
from spark_merge.sinks.kafka.sink import KafkaSink
from spark_merge.sinks.registry import open_sink
from spark_merge.testing import histories
from spark_merge.testing.places import Here, Place, Shown, accepted
from spark_merge.testing.sink_port import SinkPort
from spark_merge.testing.story import Died, Story, before_each, die_after_each, opened_at_once
from tests.integration.test_kafka_sink import SCHEMAS, topic_of
from tests.support.kafka_feeds import new_topic
from tests.support.kafka_output import Read, decoded, read_all, without_repeats
from tests.support.services.kafka import KafkaBroker
from tests.support.standing import check_a_freeze_costs_time_only

pytestmark = pytest.mark.xdist_group("kafka-sink")


@pytest.fixture(autouse=True)
def _both_cuts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some chunks among the live rows, others in stages of their own."""
    monkeypatch.setattr(sink, "FEW_ROWS", 3)


def place_at(broker: KafkaBroker) -> Place:
    topic = new_topic()
    uri = f"kafka://{broker.bootstrap}/{topic}?protocol=canal-json&partition-num=2&transactions=false"

    def rows() -> dict[TableName, list[Shown]]:
        records = read_all(broker.bootstrap, [topic], committed=False)
        return decoded(without_repeats(records), "canal-json", SCHEMAS).rows

    return Place(uri, lambda log_id: open_sink(uri, log_id=log_id), rows)


def all_of(place: Place) -> list[Read]:
    return read_all(bootstrap_of(place), [topic_of(place)], committed=False)


def bootstrap_of(place: Place) -> str:
    return place.uri.removeprefix("kafka://").partition("/")[0]


class TestAtLeastOnce(SinkPort):
    @pytest.fixture
    def place(self, broker: KafkaBroker) -> Place:
        return place_at(broker)

    def test_a_consumer_sees_a_mark_when_the_brokers_have_all_rows_before_it(self, story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
        """Of every partition, not of the mark's alone."""
        marks: list[KafkaRecord] = []

        def rows_under_way(holder: IdHolder, record: KafkaRecord) -> None:
            if record[4] is not None and record[4][0][1].startswith(b"resolved"):
                marks.append(record)
                if marks[-2:-1] == [] or marks[-2][4] != record[4]:
                    assert len(holder.producer._producer) == 0

        at_each_record(monkeypatch, rows_under_way)
        story.finish()
        assert len(marks) == 2 * histories.SEGMENTS


def at_each_record(monkeypatch: pytest.MonkeyPatch, act: Callable[[IdHolder, KafkaRecord], object]) -> None:
    """Before the holder checks whether the record is to be written."""
    write = IdHolder.write

    def passing(holder: IdHolder, records: Iterable[KafkaRecord]) -> Iterator[KafkaRecord]:
        for record in records:
            act(holder, record)
            yield record

    monkeypatch.setattr(IdHolder, "write", lambda holder, records: write(holder, passing(holder, records)))


@pytest.fixture
def story(tmp_path: Path, broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> Story:
    monkeypatch.setattr(histories, "TABLES", 3)
    return Story(tmp_path, place_at(broker), seed=7)


def test_a_worker_that_dies_anywhere_loses_nothing(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some steps later each time: each record, and all other reads and writes at Kafka. Every other worker has sent all records that it
    had given to Kafka's client."""
    abort, lives = IdempotentProducer.abort, itertools.count()

    def send_and_abort(producer: IdempotentProducer) -> bool:
        producer._producer.flush(60)
        return abort(producer)

    @contextmanager
    def dying(at: int) -> Iterator[None]:
        passed = itertools.count()

        def die(*_: object) -> None:
            if next(passed) == at:
                raise Died

        with monkeypatch.context() as patch:
            before_each(patch, die, IdempotentProducer, "begin", "flush", "commit")
            before_each(patch, die, PositionReader, "control", "control_and_slots")
            at_each_record(patch, die)
            patch.setattr(IdempotentProducer, "abort", send_and_abort if next(lives) % 2 else abort)
            yield

    assert die_after_each(story, dying, range(5, 4000, 11)) > 5


@pytest.mark.parametrize("at", [1, 5])
def test_a_batch_that_is_done_again_comes_again_whole(story: Story, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    """In each partition: a beginning of the first attempt, then all of the second one, and each other batch once."""
    batch, work = story.begin(story.place.sink())
    passed = itertools.count()

    def die(holder: IdHolder, _: KafkaRecord) -> None:
        if next(passed) == at:
            holder.producer.flush()
            raise Died

    with monkeypatch.context() as patch:
        at_each_record(patch, die)
        with pytest.raises(Died):
            work[0].carry_out()
    first = all_of(story.place)
    assert len(first) == at
    story.finish()
    story.check_end()
    results = all_of(story.place)
    for partition in (0, 1):
        before = [record.origin for record in first if record.partition == partition]
        after = [record.origin for record in results if record.partition == partition][len(before) :]
        assert after[: len(before)] == before
        assert len(after) == len(set(after))
    assert {int(record.origin[1]) for record in first} <= {head.seq for head in batch.heads}


def test_a_task_that_is_done_is_not_sent_again(story: Story) -> None:
    _, work = story.begin(story.place.sink())
    work[0].carry_out()
    first = all_of(story.place)
    story.finish()
    results = all_of(story.place)
    assert first
    assert len(results) == len(without_repeats(results))


@pytest.mark.parametrize("delivers", [False, True], ids=["opened", "delivered"])
def test_a_replaced_owner_that_was_frozen_in_a_task_stops(story: Story, monkeypatch: pytest.MonkeyPatch, delivers: bool) -> None:
    """For longer than CHECK_EVERY_S, and another owner has opened, or has done the batch too."""
    _, work = story.begin(story.place.sink())
    passed, before = itertools.count(), list[Read]()

    def overtaken(holder: IdHolder, _: KafkaRecord) -> None:
        if next(passed) == 7:
            holder.producer.flush()
            successor = story.delivery(segments_max=1)
            if delivers:
                successor.deliver()
            before.extend(all_of(story.place))

    monkeypatch.setattr(holders, "CHECK_EVERY_S", 0.0)
    with monkeypatch.context() as patch:
        at_each_record(patch, overtaken)
        with pytest.raises(OwnershipLost):
            work[0].carry_out()
    assert before
    assert all_of(story.place) == before, "it writes nothing when it wakes up"
    story.finish()
    story.check_end()


def test_of_two_attempts_at_one_task_the_one_that_finds_it_done_stops(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    """In two processes, of one owner. It answers what the other did."""
    sink = story.place.sink()
    batch, work = story.begin(sink)
    passed, outcomes = itertools.count(), list[Outcome]()

    def done_by_another(holder: IdHolder, _: KafkaRecord) -> None:
        if next(passed) == 7:
            holder.producer.flush()
            monkeypatch.setattr(holders.OF_PROCESS, "_holders", {})  # another process
            outcomes.append(work[0].carry_out())

    monkeypatch.setattr(holders, "CHECK_EVERY_S", 0.0)
    with monkeypatch.context() as patch:
        at_each_record(patch, done_by_another)
        outcomes.append(work[0].carry_out())
    assert outcomes[0] == outcomes[1]
    results = all_of(story.place)
    assert len(results) == len(without_repeats(results)) + 7
    sink.accept(batch, [outcomes[0], *Here().run(work[1:])])
    story.finish()
    story.check_end()


def test_two_that_open_at_once_are_one_owner_and_one_that_lost(story: Story) -> None:
    """No broker tells them apart; the one that lost does nothing."""
    delivered = 0
    for delivery in opened_at_once(story):
        with suppress(OwnershipLost):
            while delivery.deliver():
                delivered += 1
    assert delivered
    story.check_end()


def test_a_state_that_a_replaced_owner_writes_late_does_not_count(story: Story) -> None:
    sink = story.place.sink()
    assert isinstance(sink, KafkaSink)
    story.begin(sink)
    state = sink._store.control
    story.finish()
    woken = IdempotentProducer(sink.output.cluster, "woken", {})
    woken.begin()
    woken.write([(sink.output.position_topic, CONTROL, state.key, state.to_bytes(), None)])
    woken.commit()
    woken.close()
    assert accepted(story.place.sink()) == histories.SEGMENTS - 1
    assert story.delivery().deliver() is None


def test_a_record_that_is_refused_is_followed_by_none(broker: KafkaBroker) -> None:
    """Though each goes in a request of its own, and the first one's failure is not known when the next is sent."""
    topic = new_topic()
    broker.create_topic(topic, 1, {"max.message.bytes": "1000"})
    producer = IdempotentProducer(SinkCluster.of(broker.bootstrap, {}), "one", {"batch.num.messages": "1"})
    producer.begin()
    producer.write([(topic, 0, b"", b"x" * size, None) for size in (10, 5000, 10, 10)])
    with pytest.raises(SinkError, match="MSG_SIZE_TOO_LARGE"):
        producer.commit()
    producer.abort()
    producer.close()
    assert [len(record.value or b"") for record in read_all(broker.bootstrap, [topic], committed=False)] == [10]


def test_a_broker_that_is_frozen_for_a_while_costs_time_only(story: Story, broker: KafkaBroker) -> None:
    check_a_freeze_costs_time_only(story, broker)


def test_what_was_begun_without_transactions_is_ended_without(story: Story) -> None:
    """Between two batches either way continues where the other was."""
    with_transactions = story.place.uri.replace("&transactions=false", "")
    _, work = story.begin(story.place.sink())
    work[0].carry_out()
    with pytest.raises(SinkError, match="has begun segments 0 to 1 without transactions") as refused:
        open_sink(with_transactions, log_id="log-1").open(epoch=None)
    assert "transactions=false" in refused.value.hint
    story.delivery(segments_max=2).deliver()
    story.delivery(open_sink(with_transactions, log_id="log-1"), segments_max=2).deliver()
    story.finish()
    story.check_end()


def test_a_transaction_that_was_left_open_in_control_is_waited_for(story: Story) -> None:
    """By a worker with transactions that has died: what comes after it is not visible, and this is no later owner."""
    sink = story.place.sink()
    assert isinstance(sink, KafkaSink)
    story.delivery(sink, segments_max=2).deliver()
    left = TransactionalProducer(sink.output.cluster, "left", {})
    left.take()
    left.begin()
    left.write([(sink.output.position_topic, CONTROL, b"of a dead one", b"", None)])
    left.flush()
    with pytest.raises(SinkError, match="is not visible there"):
        story.place.sink().open(epoch=None)
    assert left.abort()
    left.close()
    story.finish()
    story.check_end()
