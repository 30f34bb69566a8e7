"""What deploy/KAFKA-MOVE.md says of going from TiCDC's topic to the merged one and back, done by a plain consumer on a real broker: over
the topic that a real TiCDC wrote, and what the sink wrote of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from sidecar.replay.recording import FeedConfig, Recording
from sidecar.shared.codecs.contract import Codec
from sidecar.shared.log.storage import open_folder
from sidecar.shared.model.nouns import MARK_TABLE, Change, CommitTs, Ddl, Lane, Message, Resolved, physical_ms
from spark_merge.delivery.batches import Delivery, JobSettings
from spark_merge.sinks.registry import open_sink
from spark_merge.testing.places import Here
from tests.support.eventually import PATIENCE_S
from tests.support.kafka_feeds import new_topic
from tests.support.logged import copied
from tests.support.recordings import recording
from tests.support.replaying import Run, live, stage
from tests.support.services.kafka import KafkaBroker

pytestmark = [pytest.mark.xdist_group("kafka-sink"), pytest.mark.recordings]

MARGIN_MS = 1000
Row = tuple[int, str, bytes, bytes]
Checking = Change | Ddl | Resolved


def ticdcs_topic(broker: KafkaBroker, folder: Recording, config: FeedConfig) -> str:
    """As it was recorded: partitions, order and times."""
    topic = new_topic()
    broker.create_topic(topic, config.partitions, {"retention.ms": "-1"})
    settings: dict[str, Any] = {"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, "max.in.flight": 1}
    producer = Producer(settings)
    for number, messages in enumerate(folder.messages(config).values()):
        for time_ms, key, value in messages:
            producer.produce(topic, value, key, number, timestamp=time_ms)
    assert producer.flush(PATIENCE_S) == 0
    return topic


class PlainConsumer:
    """Applies rows between two resolved ts of a topic, and knows nothing of ours. `rows`: all that it has applied."""

    def __init__(self, broker: KafkaBroker, codec: Codec) -> None:
        self._codec = codec
        settings: dict[str, Any] = {
            "bootstrap.servers": broker.bootstrap, "group.id": "plain", "enable.auto.commit": False, "isolation.level": "read_committed",
            "fetch.wait.max.ms": 5, "auto.offset.reset": "earliest",
        }  # fmt: skip
        self.consumer: Any = Consumer(settings)
        self.rows: list[Row] = []
        self.begun_at: list[int] = []

    def read(self, topic: str, *, above: int, upto: int) -> None:
        """From the offset for the time of `above` on, leaving out what is at or below it, until each partition's mark tells that all up to
        `upto` has come; what is above it is put away."""
        for number in sorted(self.consumer.list_topics(topic, PATIENCE_S).topics[topic].partitions):
            time_ms = max(0, physical_ms(CommitTs(above)) - MARGIN_MS)
            (place,) = self.consumer.offsets_for_times([TopicPartition(topic, number, time_ms)], PATIENCE_S)
            self.begun_at.append(place.offset)
            self.consumer.assign([place])
            for event in self._events(number):
                if isinstance(event, Resolved):
                    if event.ts >= upto:
                        break
                elif isinstance(event, Change) and above < event.commit_ts <= upto and event.table != MARK_TABLE.table:
                    self.rows.append((event.commit_ts, event.table, event.key, event.value))

    def _events(self, number: int) -> Iterator[Checking]:
        while True:
            message = self.consumer.poll(PATIENCE_S)
            assert message is not None, f"the topic ends before the mark: {self.consumer.assignment()}"
            assert message.error() is None
            yield from self._codec.envelopes(Message(Lane(f"lane/{number}"), message.offset(), message.key(), message.value()))


@pytest.mark.parametrize("feed", ["open-protocol", "canal-json"])
def test_a_plain_consumer_goes_over_and_back_and_has_every_row_once(broker: KafkaBroker, tmp_path: Path, feed: str) -> None:
    folder = Recording(recording("demo"))
    config = folder.feed_config(feed)
    theirs, merged = ticdcs_topic(broker, folder, config), new_topic()
    _, _, log = live(stage("demo", feed), Run("watermark", 5, chunk_rows=50))
    manifests = copied(log, open_folder(str(tmp_path)))
    sink = open_sink(f"kafka://{broker.bootstrap}/{merged}?protocol={feed}&partition-num=2", log_id="recorded")
    delivery = Delivery(sink, JobSettings(open_folder(str(tmp_path))), Here())
    while delivery.deliver():
        pass
    sink.close()
    marks = [manifest.upto_ts for manifest in manifests if folder.start_ts < manifest.upto_ts <= folder.end_ts]
    over, back, end = (marks[len(marks) * part // 4] for part in (1, 2, 3))
    assert over < back < end

    plain = PlainConsumer(broker, config.codec())
    plain.read(theirs, above=0, upto=over)
    at_ticdcs = len(plain.rows)
    plain.read(merged, above=over, upto=back)
    at_the_merged = len(plain.rows)
    plain.read(theirs, above=back, upto=end)
    assert plain.begun_at[-1] > 0, "it is found by its time, not read from the beginning"
    plain.consumer.close()

    sent = {(change.commit_ts, change.table, change.key, change.value) for change in recorded(folder, config) if change.commit_ts <= end}
    of_ticdc = [row for row in plain.rows if row in sent]
    assert len(of_ticdc) == len(set(of_ticdc)), "a row came twice"
    assert set(of_ticdc) == sent, "a row is missing"
    for rows in (plain.rows[:at_ticdcs], plain.rows[at_ticdcs:at_the_merged], plain.rows[at_the_merged:]):
        assert len([row for row in rows if row in sent]) > 10
    assert all(row in sent for row in plain.rows[:at_ticdcs] + plain.rows[at_the_merged:])


def recorded(folder: Recording, config: FeedConfig) -> list[Change]:
    """But for rows of the watermark table, which the merged topic does not have."""
    codec = config.codec()
    return [
        event
        for lane, messages in folder.messages(config).items()
        for at, (_, key, value) in enumerate(messages)
        for event in codec.envelopes(Message(lane, at, key, value))
        if isinstance(event, Change) and event.table != MARK_TABLE.table
    ]
