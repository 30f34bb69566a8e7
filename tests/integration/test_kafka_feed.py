"""KafkaFeed on a real broker: the whole data plane, gaps, lanes that come and go, TLS and SASL, bytes in memory."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from sidecar.adapters.memory.log import MemoryDisk, MemoryLog
from sidecar.adapters.memory.progress import MemoryProgress
from sidecar.adapters.memory.schemas import StillSchemas
from sidecar.pipeline import Outside, Pipeline, PipelineLimits, attach
from sidecar.ports import Feed
from sidecar.replay.feed import RecordingFeed
from sidecar.replay.recording import FeedConfig, Recording
from sidecar.replay.replay import NoSource
from sidecar.shared.errors import FeedUnsuitable
from sidecar.shared.log.spill import MemorySpill
from sidecar.shared.model.nouns import Change, Lane, Seq
from tests.support.eventually import PATIENCE_S
from tests.support.kafka_feeds import (
    QUEUE_BYTES_MAX,
    Hurried,
    Open,
    feeds,
    lane,
    new_topic,
    numbered,
    poll_for_ever,
    poll_until,
    read,
)
from tests.support.recordings import recording
from tests.support.services.kafka import READER, STRANGER, KafkaBroker
from tests.support.services.tls import Authority

pytestmark = pytest.mark.xdist_group("kafka-feed")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    with KafkaBroker(tmp_path_factory.mktemp("kafka"), secured=True) as running:
        yield running


@pytest.fixture
def open_feed(broker: KafkaBroker) -> Iterator[Open]:
    with feeds(broker.bootstrap) as opener:
        yield opener


@pytest.fixture
def topic() -> str:
    return new_topic()


# ---- the data plane -------------------------------------------------------------------------------------------------


class NoRequests:
    def take(self) -> None:
        return None

    def answer(self, refused: object) -> None:
        raise AssertionError("nothing was asked")


def run(feed: Feed, of: Recording, config: FeedConfig, disk: MemoryDisk, until: Callable[[Pipeline], bool]) -> None:
    log = MemoryLog(disk)
    outside = Outside(
        feed=feed,
        codec=config.codec(),
        log=log,
        source=NoSource(),
        schemas=StillSchemas(of.schemas),
        progress=MemoryProgress(),
        requests=NoRequests(),
        clock=Hurried(1.0),
        spill=MemorySpill(),
    )
    epoch = 1 + len(disk.names())
    pipeline = attach(outside, changefeed_id="it", epoch=epoch, limits=PipelineLimits())
    until_s = time.monotonic() + PATIENCE_S
    while not until(pipeline):
        assert time.monotonic() < until_s, f"does not come to its end: {pipeline.lane_lags()}"
        pipeline.step(poll_s=0.1)


def logged(disk: MemoryDisk, upto_ts: int) -> list[Change]:
    log, seq, changes = MemoryLog(disk), 0, []
    while (manifest := log.manifest(Seq(seq))) is not None:
        changes += [change for change in log.read_data(manifest) if change.commit_ts <= upto_ts]
        seq += 1
    return changes


def in_order_of_arrival_or_not(changes: list[Change]) -> list[Any]:
    """Lanes meet in any order, so changes of different lanes at one commit_ts may."""
    return sorted((c.commit_ts, c.rank, c.lane, c.position, c.key, c.value) for c in changes)


@pytest.mark.parametrize("name", ["open-protocol", "canal-json"])
def test_the_log_of_a_topic_equals_the_log_of_its_recording(broker: KafkaBroker, open_feed: Open, name: str) -> None:
    of = Recording(recording("demo"))
    config = of.feed_config(name)
    expected, disk = MemoryDisk(), MemoryDisk()
    recorded = RecordingFeed(of, config)
    run(recorded, of, config, expected, lambda pipeline: recorded.exhausted and pipeline.sequence.after_ts >= of.end_ts)

    broker.create_topic(config.topic, config.partitions)
    lanes = of.messages(config)
    for part in (slice(None, 20), slice(20, None)):  # the second part is read by the next process, from the log's positions
        for partition in range(config.partitions):
            broker.write(config.topic, [(partition, m.key, m.value) for m in lanes[config.lane(partition)][part]])
        feed = open_feed(config.topic)
        goal = len(logged(expected, of.end_ts)) if part.start else 1
        run(feed, of, config, disk, lambda _, goal=goal: len(logged(disk, of.end_ts)) >= goal)  # type: ignore[misc]  # bound on purpose
        feed.close()

    changes = logged(disk, of.end_ts)
    assert [c.commit_ts for c in changes] == sorted(c.commit_ts for c in changes)
    assert in_order_of_arrival_or_not(changes) == in_order_of_arrival_or_not(logged(expected, of.end_ts))


def test_keys_and_values_may_be_null_empty_and_long(broker: KafkaBroker, open_feed: Open, topic: str) -> None:
    written = [(None, b"x"), (b"", b""), (b"k", None), (b"long", b"v" * (12 << 20)), (b"after", b"it")]
    broker.create_topic(topic, 1)
    broker.write(topic, [(0, key, value) for key, value in written])
    feed = open_feed(topic)
    feed.seek({})
    assert [(m.key, m.value) for m in read(feed, len(written))] == written


def test_a_hundred_partitions_are_read_in_order(broker: KafkaBroker, open_feed: Open, topic: str) -> None:
    broker.create_topic(topic, 100)
    broker.write(topic, [record for partition in range(100) for record in numbered(partition, 0, 50)])
    feed = open_feed(topic)
    feed.seek({})
    messages = read(feed, 100 * 50)
    assert len(feed.lanes()) == 100
    for partition in range(100):
        assert [m.value for m in messages if m.lane == lane(topic, partition)] == [b"%d" % number for number in range(50)]


# ---- gaps -----------------------------------------------------------------------------------------------------------


def test_a_position_that_retention_has_passed_is_a_gap(broker: KafkaBroker, open_feed: Open, topic: str) -> None:
    broker.create_topic(topic, 1)
    broker.write(topic, numbered(0, 0, 10))
    broker.delete_records(topic, 0, 7)
    with pytest.raises(FeedUnsuitable, match=rf"(?s){lane(topic)} cannot be read from 4: .*offsets 7 to 10.*retention\.ms"):
        open_feed(topic).seek({lane(topic): 4})
    open_feed(topic).seek({lane(topic): 7})


def test_a_position_behind_the_end_is_a_gap(broker: KafkaBroker, open_feed: Open, topic: str) -> None:
    broker.create_topic(topic, 1)
    broker.write(topic, numbered(0, 0, 3))
    with pytest.raises(FeedUnsuitable, match=r"(?s)cannot be read from 4: .*re-created or cut off.*RETENTION.md"):
        open_feed(topic).seek({lane(topic): 4})


def test_a_topic_made_again_while_nobody_looked_is_a_gap_however_long_it_is(broker: KafkaBroker, open_feed: Open, topic: str) -> None:
    broker.create_topic(topic, 1)
    broker.write(topic, numbered(0, 0, 3))
    feed = open_feed(topic)
    feed.seek({})
    read(feed, 3)
    known = feed.incarnations()
    feed.close()
    open_feed(topic).seek({lane(topic): 3}, known)
    broker.delete_topic(topic)
    broker.create_topic(topic, 1)
    broker.write(topic, numbered(0, 0, 10))
    with pytest.raises(FeedUnsuitable, match=rf"(?s)re-created \(its id was {re.escape(known[lane(topic)])} and is .*new log"):
        open_feed(topic).seek({lane(topic): 3}, known)


def test_a_new_log_begins_at_what_is_there(broker: KafkaBroker, open_feed: Open, topic: str) -> None:
    broker.create_topic(topic, 1)
    broker.write(topic, numbered(0, 0, 10))
    broker.delete_records(topic, 0, 7)
    feed = open_feed(topic)
    feed.seek({})
    assert [m.position for m in read(feed, 3)] == [7, 8, 9]


def test_a_lane_that_the_log_does_not_name_begins_at_what_is_there_and_says_that_more_was(
    broker: KafkaBroker, open_feed: Open, topic: str
) -> None:
    """Finding 9: what is gone may have been in the log, or a former table's: whoever reads the first message knows."""
    broker.create_topic(topic, 2)
    broker.write(topic, numbered(1, 0, 10))
    broker.delete_records(topic, 1, 6)
    feed = open_feed(topic)
    feed.seek({lane(topic, 0): 0})
    assert [(m.position, m.after_gap) for m in read(feed, 4)] == [(6, True), (7, False), (8, False), (9, False)]


def test_a_lane_that_comes_while_reading_begins_at_what_is_there(broker: KafkaBroker, open_feed: Open, topic: str) -> None:
    broker.create_topic(topic, 1)
    feed = open_feed(topic, clock=Hurried(20))
    feed.seek({})
    broker.add_partitions(topic, 2)
    broker.write(topic, numbered(1, 0, 10))
    broker.delete_records(topic, 1, 6)
    assert [(m.position, m.after_gap) for m in read(feed, 4)] == [(6, True), (7, False), (8, False), (9, False)]


def test_a_lane_that_is_empty_when_it_comes_has_no_gap(broker: KafkaBroker, open_feed: Open, topic: str) -> None:
    broker.create_topic(topic, 2)
    broker.write(topic, numbered(1, 0, 10))
    broker.delete_records(topic, 1, 10)
    feed = open_feed(topic)
    feed.seek({lane(topic, 0): 0})
    broker.write(topic, numbered(1, 10, 12))
    assert [(m.position, m.after_gap) for m in read(feed, 2)] == [(10, False), (11, False)]


def test_a_gap_that_opens_while_reading_stops(broker: KafkaBroker, open_feed: Open, topic: str) -> None:
    broker.create_topic(topic, 1)
    broker.write(topic, [(0, b"", b"v" * 100_000) for _ in range(300)])
    feed = open_feed(topic)
    feed.seek({})
    assert list(feed.poll(timeout_s=PATIENCE_S))
    broker.write(topic, [(0, b"", b"v" * 100_000) for _ in range(300)])
    broker.delete_records(topic, 0, 590)
    with pytest.raises(FeedUnsuitable, match=f"{lane(topic)} cannot be read from .* 590 to 600"):
        poll_for_ever(feed)


def test_a_hole_between_two_messages_stops(broker: KafkaBroker, open_feed: Open, topic: str) -> None:
    broker.create_topic(topic, 1)
    writer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": topic})
    writer.init_transactions(30)
    for number in range(2):
        writer.begin_transaction()
        writer.produce(topic, b"%d" % number)
        writer.commit_transaction(30)
    feed = open_feed(topic)
    feed.seek({})
    with pytest.raises(FeedUnsuitable, match="continues at 2 where 1 was expected"):
        poll_for_ever(feed)


# ---- lanes ----------------------------------------------------------------------------------------------------------


def test_a_partition_is_a_lane_before_the_messages_that_could_let_r_pass_it(broker: KafkaBroker, open_feed: Open, topic: str) -> None:
    broker.create_topic(topic, 2)
    broker.write(topic, [*numbered(0, 0, 1), *numbered(1, 0, 1)])
    feed = open_feed(topic)
    feed.seek({})
    assert len(read(feed, 2)) == 2
    broker.add_partitions(topic, 3)
    broker.write(topic, numbered(2, 0, 1))
    broker.write(topic, numbered(0, 1, 2))
    broker.write(topic, numbered(1, 1, 2))
    received: set[Lane] = set()
    while received < {lane(topic, 0), lane(topic, 1)}:
        received |= {m.lane for m in feed.poll(timeout_s=0.2)}
    assert feed.lanes() == {lane(topic, number) for number in range(3)}
    assert lane(topic, 2) in received or [m.position for m in read(feed, 1)] == [0]


def test_a_topic_that_comes_later_is_read_from_its_beginning(broker: KafkaBroker, open_feed: Open, topic: str) -> None:
    later = f"{topic}-later"
    broker.create_topic(topic, 1)
    feed = open_feed(topic, later, clock=Hurried(20))
    feed.seek({})
    assert feed.lanes() == {lane(topic)}
    broker.create_topic(later, 2)
    broker.write(later, numbered(1, 0, 3))
    messages = poll_until(feed, lambda: lane(later, 1) in feed.lanes())
    messages += read(feed, 3 - len(messages))
    assert [(m.lane, m.position) for m in messages] == [(lane(later, 1), number) for number in range(3)]


def test_a_changefeed_without_any_topic_yet_is_waited_for(broker: KafkaBroker, open_feed: Open, topic: str) -> None:
    feed = open_feed(topic)
    feed.seek({})
    assert feed.lanes() == frozenset()
    assert list(feed.poll(timeout_s=0.05)) == []
    broker.create_topic(topic, 1)
    broker.write(topic, numbered(0, 0, 2))
    assert [m.position for m in read(feed, 2)] == [0, 1]


def test_a_topic_that_is_gone_stops(broker: KafkaBroker, open_feed: Open, topic: str) -> None:
    broker.create_topic(topic, 1)
    feed = open_feed(topic, clock=Hurried(20))
    feed.seek({})
    broker.delete_topic(topic)
    with pytest.raises(FeedUnsuitable, match=f"(?s)topic {topic} does not exist.*RETENTION.md"):
        poll_for_ever(feed)


def test_a_topic_made_again_stops(broker: KafkaBroker, open_feed: Open, topic: str) -> None:
    broker.create_topic(topic, 1)
    broker.write(topic, numbered(0, 0, 1))
    feed = open_feed(topic)
    feed.seek({})
    assert len(read(feed, 1)) == 1
    broker.delete_topic(topic)
    broker.create_topic(topic, 1)
    broker.write(topic, numbered(0, 0, 5))
    with pytest.raises(FeedUnsuitable, match=f"{topic}.*re-created"):
        poll_for_ever(feed)


# ---- TLS and SASL ---------------------------------------------------------------------------------------------------


def sasl(user: tuple[str, str], **more: str) -> dict[str, str]:
    login = {"sasl.mechanism": "PLAIN", "sasl.username": user[0], "sasl.password": user[1], "security.protocol": "SASL_PLAINTEXT"}
    return login | {name.replace("_", "."): value for name, value in more.items()}


def test_tls_with_a_login_reads(broker: KafkaBroker, open_feed: Open, topic: str) -> None:
    assert broker.authority is not None
    broker.create_topic(topic, 1)
    broker.write(topic, numbered(0, 0, 3))
    client = sasl(READER, security_protocol="SASL_SSL", ssl_ca_location=str(broker.authority.ca_file))
    feed = open_feed(topic, at=broker.sasl_tls, client=client)
    feed.seek({})
    assert [m.position for m in read(feed, 3)] == [0, 1, 2]


def test_a_wrong_password_names_its_setting(broker: KafkaBroker, open_feed: Open, topic: str) -> None:
    with pytest.raises(FeedUnsuitable, match=r"(?s)refuses.*sasl_password_file"):
        open_feed(topic, at=broker.sasl, client=sasl((READER[0], "wrong"))).seek({})


def test_a_certificate_of_another_authority_names_its_setting(broker: KafkaBroker, open_feed: Open, topic: str, tmp_path: Path) -> None:
    client = {"security.protocol": "SSL", "ssl.ca.location": str(Authority(tmp_path, "other").ca_file)}
    with pytest.raises(FeedUnsuitable, match=r"(?s)refuses.*ssl\.ca\.location"):
        open_feed(topic, at=broker.tls, client=client).seek({})


def test_a_user_who_may_not_read_gets_an_error_that_says_what_to_grant(broker: KafkaBroker, open_feed: Open, topic: str) -> None:
    broker.create_topic(topic, 1)
    with pytest.raises(FeedUnsuitable, match=r"(?s)TOPIC_AUTHORIZATION_FAILED.*grant this user Read"):
        open_feed(topic, at=broker.sasl, client=sasl(STRANGER)).seek({})


def test_a_user_who_may_not_commit_gets_an_error_that_says_what_to_grant(broker: KafkaBroker, open_feed: Open, topic: str) -> None:
    broker.create_topic(topic, 1)
    broker.write(topic, numbered(0, 0, 1))
    broker.allow_to_read(STRANGER[0], topic)
    feed = open_feed(topic, at=broker.sasl, client=sasl(STRANGER), group="not-granted")
    feed.seek({})
    feed.acknowledge({lane(topic): 1})
    with pytest.raises(FeedUnsuitable, match=r"(?s)consumer group not-granted.*GROUP_AUTHORIZATION_FAILED.*kafka\.group"):
        poll_for_ever(feed)


# ---- memory ---------------------------------------------------------------------------------------------------------

READ_ALL = """
import json, resource, sys
from sidecar.feeds.kafka.feed import KafkaFeed
from sidecar.feeds.kafka.reading import KafkaSettings
at, topic, count, queue_bytes_max = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
feed = KafkaFeed(KafkaSettings(at, "memory", queue_bytes_max), lambda: frozenset({topic}))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
feed.seek({})
found, largest_poll = 0, 0
while found < count:
    messages = feed.poll(timeout_s=1.0)
    found += len(messages)
    largest_poll = max(largest_poll, sum(len(message.value) for message in messages))
print(json.dumps({"grown": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10, "largest_poll": largest_poll}))
"""


@pytest.mark.parametrize("partitions", [1, 20])
def test_memory_is_bounded_by_bytes_whatever_the_number_of_partitions(broker: KafkaBroker, topic: str, partitions: int) -> None:
    count, value = 200, b"v" * (1 << 20)
    broker.create_topic(topic, partitions, {"retention.bytes": "-1"})
    broker.write(topic, [(number % partitions, None, value) for number in range(count)])
    arguments = [sys.executable, "-c", READ_ALL, broker.bootstrap, topic, str(count), str(QUEUE_BYTES_MAX)]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=PATIENCE_S, check=False, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["largest_poll"] <= QUEUE_BYTES_MAX
    assert result["grown"] <= 3 * QUEUE_BYTES_MAX, "beside the bound there is the allocator, and one batch that the caller holds"
