"""KafkaFeed and a broker that dies, freezes and comes back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import stamina

from sidecar.feeds.kafka.reading import POLL_MESSAGES_MAX
from sidecar.shared.errors import FeedLost
from tests.support.kafka_feeds import Hurried, Open, feeds, lane, new_topic, numbered, poll_for_ever, read
from tests.support.services.kafka import KafkaBroker

pytestmark = pytest.mark.xdist_group("kafka-outages")


@pytest.fixture(scope="module")
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    with KafkaBroker(tmp_path_factory.mktemp("mortal")) as running:
        yield running


@pytest.fixture
def broker(mortal: KafkaBroker) -> KafkaBroker:
    """One that a test may kill and leave dead."""
    if not mortal.is_running():
        mortal.start()
    return mortal


@pytest.fixture
def open_feed(broker: KafkaBroker) -> Iterator[Open]:
    with feeds(broker.bootstrap) as opener:
        yield opener


@pytest.fixture
def topic() -> str:
    return new_topic()


def test_a_broker_that_is_killed_and_comes_back_costs_nothing(broker: KafkaBroker, open_feed: Open, topic: str) -> None:
    broker.create_topic(topic, 2)
    broker.write(topic, [*numbered(0, 0, 100), *numbered(1, 0, 100)])
    feed = open_feed(topic)
    feed.seek({})
    messages = read(feed, 150)
    broker.kill()
    for _ in range(5):
        messages += feed.poll(timeout_s=0.2)
    assert feed.lanes() == {lane(topic, 0), lane(topic, 1)}
    broker.start()
    broker.write(topic, [*numbered(0, 100, 200), *numbered(1, 100, 200)])
    messages += read(feed, 400 - len(messages))
    for partition in range(2):
        assert [m.value for m in messages if m.lane == lane(topic, partition)] == [b"%d" % number for number in range(200)]


def test_a_cluster_that_does_not_answer_any_more_is_lost(
    broker: KafkaBroker, open_feed: Open, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.create_topic(topic, 1)
    feed = open_feed(topic, clock=Hurried(20))
    feed.seek({})
    # The short timeout ends with the outage: librdkafka can abort the process if an answer comes just as its request times out (its
    # issue 4605).
    with monkeypatch.context() as hurried, broker.frozen():
        hurried.setattr("sidecar.feeds.kafka.client.REQUEST_TIMEOUT_S", 1.0)
        with pytest.raises(FeedLost, match="no Kafka broker") as lost:
            poll_for_ever(feed)
    assert lost.value.retryable
    broker.write(topic, numbered(0, 0, 1))
    for attempt in stamina.retry_context(on=FeedLost, timeout=60.0, wait_initial=0.2, attempts=None):
        with attempt:  # as terms do: it has no leader at first
            feed.seek({lane(topic): 0})
    assert [m.position for m in read(feed, 1)] == [0]


def test_r_waits_for_a_cluster_that_cannot_list_its_topics(broker: KafkaBroker, open_feed: Open, topic: str) -> None:
    """Messages that complete a round are here, fetched together with the first ones; the answer is not. They wait, calls do not."""
    broker.create_topic(topic, 1)
    broker.write(topic, numbered(0, 0, 3 * POLL_MESSAGES_MAX))
    feed = open_feed(topic)
    feed.seek({})
    messages = read(feed, 1)
    assert len(messages) < 2 * POLL_MESSAGES_MAX
    with broker.frozen():
        assert [list(feed.poll(timeout_s=0.05)) for _ in range(5)] == [[]] * 5, "no poll waits for an answer"
    messages += read(feed, 3 * POLL_MESSAGES_MAX - len(messages))
    assert [m.position for m in messages] == list(range(3 * POLL_MESSAGES_MAX))


def test_a_feed_closes_while_the_broker_is_gone(broker: KafkaBroker, open_feed: Open, topic: str) -> None:
    broker.create_topic(topic, 1)
    broker.write(topic, numbered(0, 0, 3))
    feed = open_feed(topic)
    feed.seek({})
    assert len(read(feed, 3)) == 3
    broker.kill()
    feed.acknowledge({lane(topic): 3})
    feed.close()
