"""The Kafka sink on a real broker: the port's suite, and what only a sink of transactions has to withstand."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from sidecar.shared.errors import OwnershipLost, SinkError
from sidecar.shared.model.nouns import TableName, TableSchema
from spark_merge.delivery.batches import Delivery
from spark_merge.sinks.kafka import sink
from spark_merge.sinks.kafka.output import LIVE
from spark_merge.sinks.kafka.position import PositionReader
from spark_merge.sinks.kafka.producer import TransactionalProducer
from spark_merge.sinks.kafka.sink import KafkaSink
from spark_merge.sinks.kafka.writer import KafkaWriter
from spark_merge.sinks.registry import holds_rows, open_sink
from spark_merge.testing import histories
from spark_merge.testing.places import Here, Place, Shown
from spark_merge.testing.sink_port import SinkPort
from spark_merge.testing.story import Died, Story, before_each, die_after_each, opened_at_once
from tests.support.kafka_feeds import new_topic
from tests.support.kafka_output import decoded, read_all
from tests.support.services.kafka import KafkaBroker
from tests.support.standing import check_a_freeze_costs_time_only, check_a_worker_waits

pytestmark = pytest.mark.xdist_group("kafka-sink")

RESULT_DONE = 3
"""The step of a task before which it knows that it is the owner, and not yet what is done."""

SCHEMAS = {
    name: TableSchema(name, histories.COLUMNS, ("id", "part"), definition=histories.DEFINITION)
    for name in (TableName("s", f"t{number}") for number in range(histories.TABLES))
}


@pytest.fixture(autouse=True)
def _both_cuts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some chunks among the live rows, others in stages of their own."""
    monkeypatch.setattr(sink, "FEW_ROWS", 3)


def place_at(broker: KafkaBroker, parameters: str = "partition-num=2") -> Place:
    """A topic of its own, with the position beside it."""
    topic = new_topic()
    uri = f"kafka://{broker.bootstrap}/{topic}?protocol=canal-json&{parameters}"

    def rows() -> dict[TableName, list[Shown]]:
        return decoded(read_all(broker.bootstrap, [topic]), "canal-json", SCHEMAS).rows

    return Place(uri, lambda log_id: open_sink(uri, log_id=log_id), rows)


class TestKafka(SinkPort):
    @pytest.fixture
    def place(self, broker: KafkaBroker) -> Place:
        return place_at(broker)

    def test_a_batch_that_0_4_has_begun_is_compared_by_its_digest(self, story: Story) -> None:
        """Its record has no manifest."""
        sink = story.place.sink()
        assert isinstance(sink, KafkaSink)
        story.begin(sink)
        begun = sink._progress.begun
        assert begun is not None
        for log in ("another log's", begun.log):
            sink = story.place.sink()
            assert isinstance(sink, KafkaSink)
            sink.open(epoch=None)
            sink._position.change(replace(sink._progress, begun=replace(begun, manifest="", log=log)))
            if log != begun.log:
                with pytest.raises(SinkError, match="has begun other segments"):
                    story.delivery().deliver()
        story.finish()
        story.check_end()

    def test_what_was_begun_is_done_again_as_it_was(self, story: Story) -> None:
        sink = story.place.sink()
        batch, work = story.begin(sink)
        assert isinstance(batch.writer, KafkaWriter)
        assert batch.writer.batch == batch.heads[-1].seq
        work[0].carry_out()
        standing = story.place.sink().open(epoch=None)
        assert standing.begun is not None
        assert standing.begun.seq == batch.heads[-1].seq
        delivered = story.delivery(segments_max=1).deliver()
        assert delivered is not None
        assert [segment.seq for segment in delivered.segments] == [head.seq for head in batch.heads]
        story.finish()
        story.check_end()


@pytest.fixture
def story(tmp_path: Path, broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> Story:
    monkeypatch.setattr(histories, "TABLES", 3)
    return Story(tmp_path, place_at(broker), seed=7)


def test_a_batch_that_was_begun_is_cut_as_it_was_though_this_version_cuts_otherwise(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its tasks have slots by name: another cut would write their rows again."""
    _, work = story.begin(story.place.sink())
    Here().run(work)
    monkeypatch.setattr(sink, "FEW_ROWS", 1_000_000)
    story.finish()
    story.check_end()


def steps_of_a_task(monkeypatch: pytest.MonkeyPatch, at: int, act: Callable[[], object]) -> None:
    """`act` once, before the step of this number: of a task init, control, slots, claim and its flush, rows, slot, commit."""
    passed = itertools.count()

    def step() -> None:
        if next(passed) == at:
            act()

    before_each(monkeypatch, step, TransactionalProducer, "take", "begin", "write", "flush", "commit")
    before_each(monkeypatch, step, PositionReader, "control", "control_and_slots")


def test_a_worker_that_dies_inside_a_task_or_its_own_steps_leaves_what_the_next_one_ends(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step later each time, in the middle of transactions: their rows are seen never or once."""

    def die() -> None:
        raise Died

    @contextmanager
    def dying(at: int) -> Iterator[None]:
        with monkeypatch.context() as patch:
            steps_of_a_task(patch, at, die)
            patch.setattr(TransactionalProducer, "abort", lambda _: False)  # nobody is left to abort it
            yield

    die_after_each(story, dying, range(1, 400, 5))


@pytest.mark.parametrize("at", range(9))
def test_a_previous_task_that_is_frozen_anywhere_and_wakes_up_changes_nothing(
    story: Story, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    """Before it inits, after that, before its commit: meanwhile another owner has opened, and has done the batch or not yet. It may find
    its own slot, filled by the other; it never writes."""
    _, work = story.begin(story.place.sink())
    went_on: list[Delivery] = []

    def overtaken() -> None:
        went_on.append(story.delivery(segments_max=1))
        if at % 2:
            went_on[-1].deliver()

    with monkeypatch.context() as patch:
        steps_of_a_task(patch, at, overtaken)
        with suppress(OwnershipLost):
            work[0].carry_out()
            assert at == RESULT_DONE
    story.check_beginning()
    while went_on[0].deliver():
        pass
    story.check_end()


def test_who_was_fenced_by_a_previous_task_takes_its_id_again(story: Story) -> None:
    """One that found no owner but itself before it froze, and inits when its successor's tasks are warm."""
    sink = story.place.sink()
    assert isinstance(sink, KafkaSink)
    successor = story.delivery(segments_max=1)
    assert successor.deliver()
    previous = TransactionalProducer(sink.output.cluster, sink.output.transactional_id(LIVE), {})
    previous.take()
    while successor.deliver():
        pass
    previous.close()
    story.check_end()


def test_two_that_open_at_once_are_one_owner_and_one_that_lost(story: Story) -> None:
    """Each of them may lose, both never; who won goes on."""
    deliveries = sorted(opened_at_once(story), key=lambda one: one._standing.owner)
    assert deliveries
    for previous in deliveries[:-1]:
        with pytest.raises(OwnershipLost):
            previous.deliver()
    while deliveries[-1].deliver():
        pass
    story.check_end()


def test_a_row_beyond_max_message_bytes_is_named_and_nothing_of_its_transaction_is_seen(tmp_path: Path, broker: KafkaBroker) -> None:
    story = Story(tmp_path, place_at(broker, "max-message-bytes=120"), seed=7)
    with pytest.raises(SinkError, match=r"the row of s\.t\d+ with key .* makes a message of \d+ bytes, max-message-bytes is 120"):
        story.finish()
    assert story.place.rows() == {}


def test_what_the_topic_does_not_take_is_refused_and_not_seen(tmp_path: Path, broker: KafkaBroker) -> None:
    story = Story(tmp_path, place_at(broker), seed=7)
    topic = topic_of(story.place)
    broker.create_topic(topic, 2, {"max.message.bytes": "150"})
    with pytest.raises(SinkError, match="MSG_SIZE_TOO_LARGE"):
        story.finish()
    assert story.place.rows() == {}


def test_a_topic_is_made_as_ticdc_does_or_must_be_there(tmp_path: Path, broker: KafkaBroker) -> None:
    with pytest.raises(SinkError, match=r"topic t-\w+ does not exist"):
        Story(tmp_path / "a", place_at(broker, "auto-create-topic=false"), seed=7).finish()
    story = Story(tmp_path / "b", place_at(broker, "partition-num=5"), seed=7)
    story.finish()
    topic = topic_of(story.place)
    assert len(broker.admin().list_topics(topic).topics[topic].partitions) == 5
    assert {place for (place, *_) in [(record.place,) for record in read_all(broker.bootstrap, [topic])]} == {(topic, n) for n in range(5)}
    existing = Story(tmp_path / "c", place_at(broker, "partition-num=5"), seed=7)
    broker.create_topic(topic_of(existing.place), 3)
    with pytest.raises(SinkError, match="has 3 partitions, partition-num is 5"):
        existing.finish()


def test_a_topic_keeps_the_partitions_that_were_written_and_is_refused_with_fewer(tmp_path: Path, broker: KafkaBroker) -> None:
    story = Story(tmp_path, place_at(broker, ""), seed=7)
    topic = topic_of(story.place)
    broker.create_topic(topic, 2)
    story.delivery(segments_max=2).deliver()
    broker.add_partitions(topic, 4)
    story.delivery(segments_max=2).deliver()
    assert {record.partition for record in read_all(broker.bootstrap, [topic])} == {0, 1}
    broker.delete_topic(topic)
    broker.create_topic(topic, 1)
    with pytest.raises(SinkError, match="has 1 partitions, and 2 of it have been written"):
        story.finish()


def test_who_has_fed_the_topic_before_is_found(broker: KafkaBroker) -> None:
    place = place_at(broker)
    topic = topic_of(place)
    assert not holds_rows(place.uri, log_id="log-1")
    broker.create_topic(topic, 1)
    broker.write(topic, [(0, b"", b"somebody's")])
    assert holds_rows(place.uri, log_id="log-1")


def test_a_broker_that_is_frozen_for_a_while_costs_time_only(story: Story, broker: KafkaBroker) -> None:
    check_a_freeze_costs_time_only(story, broker)


def test_a_worker_whose_only_sink_has_no_broker_waits_for_it(tmp_path: Path, broker: KafkaBroker) -> None:
    check_a_worker_waits(tmp_path, place_at(broker), stop=broker.stop, start=broker.start)


def topic_of(place: Place) -> str:
    return place.uri.partition("?")[0].rpartition("/")[2]
