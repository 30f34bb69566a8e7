"""A real broker whose partitions lose their ends and grow again: noticed at a start, and while they are read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product

import pytest

from sidecar.feeds.kafka.client import Cluster, Replication
from sidecar.shared.errors import FeedUnsuitable
from sidecar.shared.model.nouns import Lane, ReadEnd
from tests.support.kafka_feeds import Open, feeds, lane, new_topic, numbered, poll_for_ever, poll_until, read
from tests.support.services.kafka import STRANGER, KafkaBroker

pytestmark = pytest.mark.xdist_group("kafka-truncation")

READ = 6


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    with KafkaBroker(tmp_path_factory.mktemp("kafka"), secured=True) as running:
        yield running


@pytest.fixture
def open_feed(broker: KafkaBroker) -> Iterator[Open]:
    with feeds(broker.bootstrap) as opener:
        yield opener


def written(broker: KafkaBroker) -> str:
    """A topic of READ messages, each in a batch of its own."""
    topic = new_topic()
    broker.create_topic(topic, 1)
    for record in numbered(0, 0, READ):
        broker.write(topic, [record])
    return topic


def as_read(open_feed: Open, topic: str) -> tuple[Mapping[Lane, str], Mapping[Lane, ReadEnd]]:
    """What the log has of it."""
    feed = open_feed(topic)
    feed.seek({})
    read(feed, READ)
    kept = feed.incarnations(), feed.read_ends()
    feed.close()
    assert kept[1] == {lane(topic): ReadEnd(READ, 0)}
    return kept


def stopped_with(open_feed: Open, topic: str, position: int, kept: tuple[Mapping[Lane, str], Mapping[Lane, ReadEnd]]) -> str:
    feed = open_feed(topic)
    try:
        feed.seek({lane(topic): position}, *kept)
    except FeedUnsuitable as error:
        return str(error)
    finally:
        feed.close()
    return ""


def test_a_start_stops_where_what_was_read_is_gone_however_long_the_partition_is(broker: KafkaBroker, open_feed: Open) -> None:
    cases = {written(broker): case for case in product((0, 3, READ), (0, 2, 8))}  # what is kept, what comes after it
    kept = {topic: as_read(open_feed, topic) for topic in cases}
    broker.kill()
    for topic, (end, _) in cases.items():
        broker.cut_off(topic, end)
    broker.start()
    for topic, (end, more) in cases.items():
        broker.write(topic, numbered(0, 100, 100 + more))
        for position in (2, READ):
            reported = stopped_with(open_feed, topic, position, kept[topic])
            expected = f"{lane(topic)} lost its end: .* read to {READ}, in leader epoch 0. .* at {end} to {READ} .exclusive"
            if end == READ:
                assert reported == "", "the broker was restarted, and nothing is lost"
            else:
                with pytest.raises(FeedUnsuitable, match=expected):
                    raise FeedUnsuitable(reported, hint="")


def test_of_an_epoch_that_the_leader_does_not_know_all_is_gone(broker: KafkaBroker, open_feed: Open) -> None:
    """As after a restore of brokers from an older copy, whose epochs are lower."""
    topic = written(broker)
    made, _ = as_read(open_feed, topic)
    reported = stopped_with(open_feed, topic, 2, (made, {lane(topic): ReadEnd(READ - 1, 99)}))
    assert f"leader epoch 99. Its messages at 0 to {READ - 1} (exclusive) are gone" in reported


@pytest.mark.parametrize("more", [0, 20])
def test_a_loss_while_reading_stops(broker: KafkaBroker, open_feed: Open, more: int) -> None:
    topic = written(broker)
    kept = as_read(open_feed, topic)
    having_read, waiting = open_feed(topic), open_feed(topic)  # the second has only what the log says
    having_read.seek({})
    read(having_read, READ)
    waiting.seek({lane(topic): READ}, *kept)
    assert not waiting.poll(timeout_s=1)
    broker.stop()
    broker.cut_off(topic, 4)
    broker.start()
    broker.write(topic, numbered(0, 100, 100 + more))
    for feed in (having_read, waiting):
        with pytest.raises(FeedUnsuitable, match=rf"{lane(topic)} lost its end: .* at 4 to {READ} .exclusive"):
            poll_for_ever(feed)


def test_reading_continues_over_a_clean_restart(broker: KafkaBroker, open_feed: Open) -> None:
    topic = written(broker)
    feed = open_feed(topic)
    feed.seek({})
    read(feed, READ)
    broker.kill()
    broker.start()
    broker.write(topic, numbered(0, READ, READ + 1))
    poll_until(feed, lambda: feed.read_ends()[lane(topic)].position == READ + 1)
    assert feed.read_ends()[lane(topic)].epoch > 0


def test_the_topics_replication_is_read_and_who_may_not_is_refused(broker: KafkaBroker) -> None:
    topic, unclean = new_topic(), new_topic()
    broker.create_topic(topic, 1, {"min.insync.replicas": "2"})
    broker.create_topic(unclean, 3, {"unclean.leader.election.enable": "true"})
    assert Cluster(broker.bootstrap, {}).replication({topic, unclean}) == {
        topic: Replication(1, 2, unclean=False),
        unclean: Replication(1, 1, unclean=True),
    }
    user, password = STRANGER
    login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": user, "sasl.password": password}
    with pytest.raises(FeedUnsuitable, match="AUTHORIZATION_FAILED"):
        Cluster(broker.sasl, login).replication({topic})
