"""Messages of TiCDC's own sink over loopback, from a sender that only sends to what `poll` gives, durable in the inbox before it; beside
the same messages through a Kafka broker of the same machine, from a producer to what the Kafka feed's `poll` gives.

The broker is another process, so its way has a core more than ours; CPU is that of all processes. 500 messages a second for the latency.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from threading import Thread

from confluent_kafka import Producer

from sidecar.feeds.kafka.feed import KafkaFeed
from sidecar.feeds.kafka.reading import KafkaSettings
from sidecar.feeds.push.messages import MessageFeed
from sidecar.ports import Feed
from sidecar.replay.recording import Recording
from sidecar.shared.config import PushSection
from sidecar.shared.log.storage import open_folder
from tests.support.eventually import eventually
from tests.support.recordings import recording
from tests.support.services.kafka import KafkaBroker
from tests.tools.bench.bench import Bench
from tests.tools.bench.figures import Cost, Figure, best_in_turn, percentile, timed_tree
from tests.unit.feeds.pushing import RawSender
from ticdc_dump.v1 import feed_pb2 as pb

MESSAGES = 200_000
A_MESSAGE = 200
"""Of them go in one of feed.proto's: about what TiCDC's encoders have ready at once."""

PACED_PER_S = 500
PACED_S = 6.0
TOPIC = "bench"

_Sent = tuple[bytes | None, bytes | None]
_Send = Callable[[list[_Sent]], None]


def measure(bench: Bench) -> Iterator[Figure]:
    """Messages a second, and the time from `send` to `poll`."""
    result = Recording(recording("shop"))
    recorded = [(one.key, one.value) for lane in result.messages(result.feed_config("open-protocol")).values() for one in lane]
    count = bench.sized(MESSAGES)
    sent = [recorded[number % len(recorded)] for number in range(count)]
    folder = bench.new_folder("kafka")
    with KafkaBroker(folder) as broker:
        ours, theirs = best_in_turn(lambda: _pushed(bench, sent), lambda: _through_kafka(broker, sent))
        (waits, files), others = _paced_push(bench, recorded), _paced_kafka(broker, recorded)
    bytes_each = sum(len(key or b"") + len(value or b"") for key, value in sent) / count
    yield Figure(
        "TiCDC's sink: messages kept and read",
        count / ours.wall_s,
        "messages/s",
        "none",
        f"one core of Python, {bytes_each:,.0f} B a message",
        cpu_us=ours.cpu_s / count * 1e6,
        reference=f"through Kafka {count / theirs.wall_s:,.0f} messages/s",
        ratio=theirs.wall_s / ours.wall_s,
        cpu_ratio=theirs.cpu_s / ours.cpu_s,
    )
    for part, name in ((0.5, "p50"), (0.99, "p99")):
        mine, kafkas = percentile(waits, part) * 1000, percentile(others, part) * 1000
        yield Figure(
            f"TiCDC's sink: sent to read, {PACED_PER_S} messages/s, {name}",
            mine,
            "ms",
            "none",
            f"a sync of the inbox a file, {files / PACED_S:,.0f} files/s",
            reference=f"through Kafka {kafkas:,.1f} ms",
            ratio=kafkas / mine,
        )


# ---- the two ways ---------------------------------------------------------------------------------------------------


def _pushed(bench: Bench, sent: list[_Sent]) -> Cost:
    cost = Cost()
    with closing(_feed(bench)) as feed, RawSender(feed.port) as sender:
        send = _sender(feed, sender)
        with timed_tree(cost):
            sending = Thread(target=send, args=(sent,), daemon=True)
            sending.start()
            _read(feed, len(sent))
        sending.join()
    return cost


def _feed(bench: Bench) -> MessageFeed:
    feed = MessageFeed(PushSection(listen="127.0.0.1:0", form="messages"), open_folder(str(bench.new_folder("inbox"))))
    feed.seek({})
    return feed


def _sender(feed: MessageFeed, sender: RawSender) -> _Send:
    sender.hello("bench", version_min=2, version_max=2, form=pb.FORM_MESSAGES)
    eventually(lambda: sender.of_kind("welcome"))

    def send(messages: list[_Sent]) -> None:
        for at in range(0, len(messages), A_MESSAGE):
            sender.wait_credit()
            sender.messages(*((TOPIC, 0, key, value) for key, value in messages[at : at + A_MESSAGE]))

    assert feed.senders()
    return send


def _through_kafka(broker: KafkaBroker, sent: list[_Sent]) -> Cost:
    cost = Cost()
    with closing(_topic(broker)) as feed:
        with timed_tree(cost):
            sending = Thread(target=_producer(broker), args=(sent,), daemon=True)
            sending.start()
            _read(feed, len(sent))
        sending.join()
    return cost


def _topic(broker: KafkaBroker) -> KafkaFeed:
    if TOPIC in broker.admin().list_topics(timeout=10).topics:
        broker.delete_topic(TOPIC)
    broker.create_topic(TOPIC, 1)
    feed = KafkaFeed(KafkaSettings(broker.bootstrap, "bench", 128 << 20), lambda: frozenset({TOPIC}))
    feed.seek({})
    return feed


def _producer(broker: KafkaBroker) -> _Send:
    """As TiCDC's: acknowledged by all, in order."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all", "linger.ms": 0, "queue.buffering.max.messages": 1_000_000})

    def send(messages: list[_Sent]) -> None:
        for key, value in messages:
            producer.produce(TOPIC, value, key, partition=0)
            producer.poll(0)
        assert producer.flush(60) == 0

    return send


def _read(feed: Feed, count: int) -> None:
    """The first mark of Kafka's feed is held until its topics are reported: all come."""
    left = count
    while left > 0:
        left -= len(feed.poll(timeout_s=1.0))


# ---- paced ----------------------------------------------------------------------------------------------------------


def _paced_push(bench: Bench, recorded: list[_Sent]) -> tuple[list[float], int]:
    """And how many files it made."""
    with closing(_feed(bench)) as feed, RawSender(feed.port) as sender:
        return _paced(feed, _sender(feed, sender), recorded), len(feed._inbox._files)


def _paced_kafka(broker: KafkaBroker, recorded: list[_Sent]) -> list[float]:
    with closing(_topic(broker)) as feed:
        return _paced(feed, _producer(broker), recorded)


def _paced(feed: Feed, send: _Send, recorded: list[_Sent]) -> list[float]:
    """Seconds from `send` to `poll`, of each message."""
    count = int(PACED_PER_S * PACED_S)
    sent_s: list[float] = []

    def sending() -> None:
        begin_s = time.perf_counter()
        for number in range(count):
            time.sleep(max(begin_s + number / PACED_PER_S - time.perf_counter(), 0.0))
            sent_s.append(time.perf_counter())
            send([recorded[number % len(recorded)]])

    thread = Thread(target=sending, daemon=True)
    thread.start()
    waits: list[float] = []
    while len(waits) < count:
        messages = feed.poll(timeout_s=1.0)
        now_s = time.perf_counter()
        waits += [now_s - sent_s[len(waits) + place] for place in range(len(messages))]
    thread.join()
    return waits
