"""The Kafka sink without transactions on a real broker: the port's suite, deaths between and inside its steps, former workers that wake up.

Consumers read all that is there, committed or not; each look checks that no row is there twice and that nothing goes back in a partition.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType  # type: ignore[attr-defined]  # not for mypy

from sidecar.core.model import TableName
from sidecar.errors import OwnershipLost, SinkError
from spark_merge.contract import Outcome
from spark_merge.delivery import Delivery
from spark_merge.sinks.kafka import checked, sink
from spark_merge.sinks.kafka import holder as holders
from spark_merge.sinks.kafka.checked import CheckedHolder
from spark_merge.sinks.kafka.client import Cluster
from spark_merge.sinks.kafka.ending import HEADER
from spark_merge.sinks.kafka.position import CONTROL, PositionReader
from spark_merge.sinks.kafka.producer import IdempotentProducer, Record, TransactionalProducer
from spark_merge.sinks.kafka.sink import KafkaSink
from spark_merge.sinks.kafka.tails import WRITER_HEADER, Tails
from spark_merge.sinks.registry import open_sink
from tests.contract.sink_port import Died, SinkPort, Story, before_each, die_after_each, opened_at_once
from tests.integration.test_kafka_sink import SCHEMAS, topic_of
from tests.support import histories
from tests.support.kafka_feeds import new_topic
from tests.support.kafka_output import decoded, read_all
from tests.support.services.kafka import KafkaBroker
from tests.support.sinks import Here, Place, Shown, accepted
from tests.support.standing import check_a_freeze_costs_time_only

pytestmark = pytest.mark.xdist_group("kafka-sink")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    with KafkaBroker(tmp_path_factory.mktemp("kafka")) as running:
        yield running


@pytest.fixture(autouse=True)
def _both_cuts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some chunks among the live rows, others in stages of their own; who died does not write on."""
    monkeypatch.setattr(sink, "FEW_ROWS", 3)
    monkeypatch.setattr(checked, "TAKE_OVER_S", 0.0)


def place_at(broker: KafkaBroker, parameters: str = "", topic: str = "") -> Place:
    topic = topic or new_topic()
    uri = f"kafka://{broker.bootstrap}/{topic}?protocol=canal-json&partition-num=2&transactions=false{parameters}"

    def rows() -> dict[TableName, list[Shown]]:
        return decoded(read_all(broker.bootstrap, [topic], committed=False), "canal-json", SCHEMAS).rows

    return Place(uri, lambda log_id: open_sink(uri, log_id=log_id), rows)


class TestChecked(SinkPort):
    @pytest.fixture
    def place(self, broker: KafkaBroker) -> Place:
        return place_at(broker)

    def test_a_consumer_sees_a_mark_when_the_brokers_have_all_rows_before_it(self, story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
        """Of every partition, not of the mark's alone."""
        marks: list[Record] = []

        def rows_under_way(holder: CheckedHolder, record: Record) -> None:
            if record.headers is not None and record.headers[0][1].startswith(b"resolved"):
                marks.append(record)
                if marks[-2:-1] == [] or marks[-2].headers != record.headers:
                    assert len(holder.producer._producer) == 0

        at_each_record(monkeypatch, rows_under_way)
        story.finish()
        assert len(marks) == 2 * histories.SEGMENTS


def at_each_record(monkeypatch: pytest.MonkeyPatch, act: Callable[[CheckedHolder, Record], object]) -> None:
    """Before it is looked whether it is to be written."""
    write = CheckedHolder.write

    def passing(holder: CheckedHolder, records: Iterable[Record]) -> Iterator[Record]:
        for record in records:
            act(holder, record)
            yield record

    monkeypatch.setattr(CheckedHolder, "write", lambda holder, records: write(holder, passing(holder, records)))


def steps(monkeypatch: pytest.MonkeyPatch, act: Callable[[int], object]) -> list[CheckedHolder]:
    """`act` before each step of tasks and of control, with its number: all that is read and written at Kafka, and each record. Gives the
    holders that have come to a record."""
    passed, holders = itertools.count(), list[CheckedHolder]()

    def record(holder: CheckedHolder, _: Record) -> None:
        if holder not in holders:
            holders.append(holder)
        act(next(passed))

    def step() -> None:
        act(next(passed))

    before_each(monkeypatch, step, IdempotentProducer, "begin", "flush", "commit")
    before_each(monkeypatch, step, PositionReader, "control", "control_and_slots")
    before_each(monkeypatch, step, Tails, "ends", "origins")
    at_each_record(monkeypatch, record)
    return holders


@pytest.fixture
def story(tmp_path: Path, broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> Story:
    monkeypatch.setattr(histories, "TABLES", 3)
    return Story(tmp_path, place_at(broker), seed=7)


def test_a_worker_that_dies_anywhere_leaves_what_the_next_one_goes_on_behind(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some steps later each time; of what it had given to Kafka's client all has come by then, or what was on its way alone."""
    abort, lives = IdempotentProducer.abort, itertools.count()

    def sent(producer: IdempotentProducer) -> bool:
        producer._producer.flush(60)
        return abort(producer)

    @contextmanager
    def dying(at: int) -> Iterator[None]:
        def die(number: int) -> None:
            if number == at:
                raise Died

        with monkeypatch.context() as patch:
            steps(patch, die)
            patch.setattr(IdempotentProducer, "abort", sent if next(lives) % 2 else abort)
            yield

    assert die_after_each(story, dying, range(5, 4000, 11)) > 5


@pytest.mark.parametrize("at", range(1, 28, 3))
def test_a_former_task_that_was_frozen_anywhere_and_wakes_up_writes_nothing(story: Story, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    """For longer than LOOK_EVERY_S; what it had given to Kafka's client was sent. Another owner has opened, and done the batch or not."""
    _, work = story.begin(story.place.sink())
    went_on: list[Delivery] = []

    def overtaken(number: int) -> None:
        if number != at:
            return
        for holder in former:
            holder.producer._producer.flush(60)
        went_on.append(story.delivery(segments_max=1))
        if at % 2:
            went_on[-1].deliver()

    monkeypatch.setattr(checked, "LOOK_EVERY_S", 0.0)
    with monkeypatch.context() as patch:
        former = steps(patch, overtaken)
        with suppress(OwnershipLost):
            work[0].carry_out()
    assert went_on
    story.check_beginning()
    while went_on[0].deliver():
        pass
    story.check_end()


def test_of_two_attempts_at_one_task_the_later_one_goes_on(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    """In two processes, of one owner. The former one finds it out by the claim, and answers what the other did."""
    sink = story.place.sink()
    batch, work = story.begin(sink)
    outcomes: list[Outcome] = []

    def taken_over(number: int) -> None:
        if number == 12:
            for holder in former:
                holder.producer._producer.flush(60)
            monkeypatch.setattr(holders, "_held", {})  # another process
            outcomes.append(work[0].carry_out())

    monkeypatch.setattr(checked, "LOOK_EVERY_S", 0.0)
    with monkeypatch.context() as patch:
        former = steps(patch, taken_over)
        outcomes.append(work[0].carry_out())
    assert former
    assert outcomes[0] == outcomes[1]
    sink.accept(batch, [outcomes[0], *Here().run(work[1:])])
    story.finish()
    story.check_end()


def test_two_that_open_at_once_are_one_owner_and_one_that_lost(story: Story) -> None:
    """No broker tells them apart; who lost does nothing."""
    went_on = 0
    for delivery in opened_at_once(story):
        with suppress(OwnershipLost):
            while delivery.deliver():
                went_on += 1
    assert went_on
    story.check_end()


def test_what_a_frozen_worker_had_begun_to_send_comes_again_and_takes_nothing_back(story: Story) -> None:
    """What nothing holds off: its rows are seen twice, its state and its slot do not count, the successor goes on."""
    sink = story.place.sink()
    assert isinstance(sink, KafkaSink)
    batch, work = story.begin(sink)
    before = sink._control
    story.finish(segments_max=2)
    story.check_end()
    topic = topic_of(story.place)
    record = next(record for record in read_all(bootstrap_of(story.place), [topic], committed=False) if record.origin[0] == "log")
    woken = IdempotentProducer(sink.output.cluster, "woken", {})
    woken.begin()
    woken.write([
        Record(topic, record.partition, record.key, record.value, [(HEADER, " ".join(record.origin).encode())]),
        Record(sink.output.position_topic, CONTROL, before.key, before.to_bytes()),
    ])  # fmt: skip
    woken.commit()
    woken.close()
    with pytest.raises(AssertionError, match=r"goes back|there twice|covers it"):
        story.place.rows()
    assert accepted(story.place.sink()) == histories.SEGMENTS - 1
    with pytest.raises(OwnershipLost):
        work[0].carry_out()
    assert story.delivery().deliver() == []
    assert batch.heads


def test_a_row_that_is_too_large_is_named_before_anything_of_its_transaction_and_the_rest_goes_on_behind(
    tmp_path: Path, broker: KafkaBroker
) -> None:
    topic = new_topic()
    story = Story(tmp_path, place_at(broker, "&max-message-bytes=300", topic), seed=7)
    with pytest.raises(SinkError, match=r"the row of s\.t\d+ with key .* makes a message of \d+ bytes, max-message-bytes is 300"):
        story.finish()
    story.check_beginning()
    story.place = place_at(broker, "", topic)
    story.finish()
    story.check_end()


def test_a_record_that_is_refused_is_followed_by_none(broker: KafkaBroker) -> None:
    """Though each goes in a request of its own, and nobody has heard of the first one's failure when the next is sent."""
    topic = new_topic()
    broker.create_topic(topic, 1, {"max.message.bytes": "1000"})
    producer = IdempotentProducer(Cluster.of(broker.bootstrap, {}), "one", {"batch.num.messages": "1"})
    producer.begin()
    producer.write([Record(topic, 0, b"", b"x" * size) for size in (10, 5000, 10, 10)])
    with pytest.raises(SinkError, match="MSG_SIZE_TOO_LARGE"):
        producer.commit()
    producer.abort()
    producer.close()
    assert [len(record.value or b"") for record in read_all(broker.bootstrap, [topic], committed=False)] == [10]


def test_what_the_topic_does_not_take_comes_when_it_takes_it(tmp_path: Path, broker: KafkaBroker) -> None:
    topic = new_topic()
    story = Story(tmp_path, place_at(broker, topic=topic), seed=7)
    broker.create_topic(topic, 2, {"max.message.bytes": "450"})
    with pytest.raises(SinkError, match="MSG_SIZE_TOO_LARGE"):
        story.finish()
    story.check_beginning()
    more = ConfigEntry("max.message.bytes", "100000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[more])
    broker.admin().incremental_alter_configs([resource])[resource].result(30)
    story.finish()
    story.check_end()


def test_a_broker_that_is_frozen_for_a_while_costs_time_only(story: Story, broker: KafkaBroker) -> None:
    check_a_freeze_costs_time_only(story, broker)


def test_what_was_begun_without_transactions_is_ended_without(story: Story) -> None:
    """Between two batches either way goes on where the other was."""
    topic = topic_of(story.place)
    with_transactions = f"kafka://{bootstrap_of(story.place)}/{topic}?protocol=canal-json&partition-num=2"
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
    """By a worker with transactions that has died: what comes after it is not seen, and this is no later owner."""
    sink = story.place.sink()
    assert isinstance(sink, KafkaSink)
    story.delivery(sink, segments_max=2).deliver()
    left = TransactionalProducer(sink.output.cluster, "left", {})
    left.take()
    left.begin()
    left.write([Record(sink.output.position_topic, CONTROL, b"of a dead one", b"")])
    left.flush()
    with pytest.raises(SinkError, match="is not seen there"):
        story.place.sink().open(epoch=None)
    assert left.abort()
    left.close()
    story.finish()
    story.check_end()


def test_what_another_wrote_into_the_topic_is_not_taken_for_ours(broker: KafkaBroker) -> None:
    """Another log's rows have like headers: each leaves out its own."""
    topic = new_topic()
    broker.create_topic(topic, 2)
    cluster = Cluster.of(broker.bootstrap, {})
    tails = Tails(cluster, group="tails")
    before = tails.ends({topic: 2})
    producer = IdempotentProducer(cluster, "two", {})
    producer.begin()
    for writer, ordinal in (("a", 1), ("b", 2), ("a", 3)):
        headers = [(HEADER, b"log 0 %d insert" % ordinal), (WRITER_HEADER, writer.encode())]
        producer.write([Record(topic, 1, b"", b"", headers)])
    producer.write([Record(topic, 0, b"", b"", [(HEADER, b"log 0 4 insert")])])
    producer.commit()
    assert before == {topic: (0, 0)}
    assert tails.ends({topic: 2}) == {topic: (1, 3)}
    assert tails.origins(before, writer="a") == {(topic, 0): set(), (topic, 1): {b"log 0 1 insert", b"log 0 3 insert"}}
    assert tails.origins({topic: (0, 2)}, writer="a") == {(topic, 0): set(), (topic, 1): {b"log 0 3 insert"}}
    tails.close()
    producer.close()


def bootstrap_of(place: Place) -> str:
    return place.uri.removeprefix("kafka://").partition("/")[0]
