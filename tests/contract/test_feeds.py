"""What every Feed keeps: a recording as its in-memory twin plays it, and the same records in the topic of a real Kafka. What a feed of
TiDB-Binlog keeps, whose positions are TSOs: a recording's pumps as they are played, and as they speak gRPC."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple, Protocol

import pytest
from confluent_kafka import Consumer, TopicPartition

from sidecar.feeds.kafka.feed import KafkaFeed
from sidecar.feeds.kafka.reading import KafkaSettings
from sidecar.ports import Feed
from sidecar.replay.binlog import BinlogRecording
from sidecar.replay.feed import Play, RecordingFeed
from sidecar.replay.recording import FeedConfig, Recording
from sidecar.shared.codecs.binlog import BinlogCodec
from sidecar.shared.errors import FeedError
from sidecar.shared.log.manifest import Manifest, from_json, to_json
from sidecar.shared.model.nouns import FIRST_SEQ, Change, CommitTs, Lane, Message, Resolved
from tests.support.binlog_rigs import BinlogRig, GrpcPumps, PlayedPumps
from tests.support.recordings import recording
from tests.support.services.kafka import KafkaBroker

pytestmark = pytest.mark.xdist_group("kafka-feeds")

POLLS_MAX = 20_000
GROUP = "contract"


class Written(NamedTuple):
    """One record. `rows`: the commit_ts in it, without resolved marks."""

    time_ms: int
    lane: Lane
    position: int
    key: bytes | None
    value: bytes | None
    rows: tuple[CommitTs, ...]


def logged(feed: Feed) -> Manifest:
    """What a log keeps of a feed, when it is read again."""
    positions = dict.fromkeys(feed.read_ends(), 1)
    manifest = Manifest(FIRST_SEQ, 1, CommitTs(0), CommitTs(1), None, 0, 0, positions, "s", "canal-json", read_ends=dict(feed.read_ends()))
    return from_json(to_json(manifest), name="a manifest")


class Rig(Protocol):
    def open(self, *, late_lanes: bool = False) -> Feed:
        """A feed of all records; with `late_lanes` some of its lanes come while it is read."""

    def advance(self) -> None:
        """The cluster goes on a little."""

    def acknowledged(self, feed: Feed) -> Mapping[Lane, int]: ...


class Source:
    """The recording `demo`, lane by lane."""

    def __init__(self) -> None:
        self.recording = Recording(recording("demo"))
        self.config: FeedConfig = self.recording.feed_config("open-protocol")
        self.codec = self.config.codec()

    @cached_property
    def lanes(self) -> dict[Lane, list[Written]]:
        lanes = {}
        for lane, messages in self.recording.messages(self.config).items():
            times_ms = accumulate((message.time_ms for message in messages), max)
            lanes[lane] = [
                Written(time_ms, lane, position, message.key, message.value, self._rows(lane, position, message.key, message.value))
                for position, (time_ms, message) in enumerate(zip(times_ms, messages, strict=True))
            ]
        return lanes

    def _rows(self, lane: Lane, position: int, key: bytes | None, value: bytes | None) -> tuple[CommitTs, ...]:
        envelopes = self.codec.envelopes(Message(lane, position, key, value))
        return tuple(envelope.commit_ts for envelope in envelopes if not isinstance(envelope, Resolved))


@dataclass
class Twin:
    source: Source

    def open(self, *, late_lanes: bool = False) -> Feed:
        return RecordingFeed(self.source.recording, self.source.config, Play(late_lanes=late_lanes))

    def advance(self) -> None:
        pass

    def acknowledged(self, feed: Feed) -> Mapping[Lane, int]:
        assert isinstance(feed, RecordingFeed)
        return feed.committed


@dataclass
class RealKafka:
    """Each feed has a topic of its own; lanes are called as in the recording."""

    source: Source
    broker: KafkaBroker
    topic: str = ""
    feeds: list[KafkaFeed] = field(default_factory=list)
    to_write: list[Written] = field(default_factory=list)

    def open(self, *, late_lanes: bool = False) -> Feed:
        lanes = self.source.lanes
        self.topic = self.source.config.topic
        if self.topic in self.broker.admin().list_topics(timeout=60).topics:
            self.broker.delete_topic(self.topic)
        self.broker.create_topic(self.topic, len(lanes) - late_lanes)
        if late_lanes:
            self.to_write = sorted((written for lane in lanes.values() for written in lane), key=lambda w: (w.time_ms, not w.rows))
        else:
            self._write([written for lane in lanes.values() for written in lane])
        settings = KafkaSettings(self.broker.bootstrap, f"{GROUP}-{uuid.uuid4()}", 16 << 20)
        feed = KafkaFeed(settings, lambda: frozenset({self.topic}))
        self.feeds.append(feed)
        return feed

    def advance(self) -> None:
        """One more record is written; the last partition comes with its first row, with the marks before it."""
        if not self.to_write:
            return
        last = max(self.source.lanes)
        at = next((at for at, written in enumerate(self.to_write) if written.lane != last or written.rows or self._last_is_there()), 0)
        written = self.to_write.pop(at)
        if written.lane == last and not self._last_is_there():
            self.broker.add_partitions(self.topic, len(self.source.lanes))
            self._write([earlier for earlier in self.to_write if earlier.lane == last and earlier.position < written.position])
            self.to_write = [left for left in self.to_write if left.lane != last or left.position > written.position]
        self._write([written])

    def _last_is_there(self) -> bool:
        return len(self.broker.admin().list_topics(self.topic, timeout=60).topics[self.topic].partitions) == len(self.source.lanes)

    def _write(self, records: list[Written]) -> None:
        self.broker.write(self.topic, [(int(written.lane.rpartition("/")[2]), written.key, written.value) for written in records])

    def acknowledged(self, feed: Feed) -> Mapping[Lane, int]:
        assert isinstance(feed, KafkaFeed)
        feed.close()
        reader = Consumer({"bootstrap.servers": self.broker.bootstrap, "group.id": feed.group})
        partitions = [TopicPartition(self.topic, number) for number in range(len(self.source.lanes))]
        result = {Lane(f"kafka/{at.topic}/{at.partition}"): at.offset for at in reader.committed(partitions, timeout=30) if at.offset >= 0}
        reader.close()
        return result


@pytest.fixture(scope="module")
def source() -> Source:
    return Source()


@pytest.fixture(params=["twin", "kafka"])
def rig(request: pytest.FixtureRequest, source: Source) -> Iterator[Rig]:
    if request.param == "twin":
        yield Twin(source)
        return
    kafka = RealKafka(source, request.getfixturevalue("broker"))
    yield kafka
    for feed in kafka.feeds:
        feed.close()


def read(feed: Feed, until: Mapping[Lane, int]) -> dict[Lane, list[Message]]:
    """Read on until every lane has delivered its message before `until`; what comes behind it is left out."""
    result: dict[Lane, list[Message]] = {lane: [] for lane in until}
    for _ in range(POLLS_MAX):
        if all(messages and messages[-1].position >= until[lane] - 1 for lane, messages in result.items()):
            return {lane: [m for m in messages if m.position < until[lane]] for lane, messages in result.items()}
        for message in feed.poll(timeout_s=0.5):
            result[message.lane].append(message)
    raise AssertionError(f"does not end: { ({lane: len(messages) for lane, messages in result.items()}) }")


def ends(source: Source) -> dict[Lane, int]:
    return {lane: len(written) for lane, written in source.lanes.items()}


def test_a_new_log_reads_every_message_in_order_inside_each_lane(rig: Rig, source: Source) -> None:
    feed = rig.open()
    feed.seek({})
    messages = read(feed, ends(source))
    assert feed.lanes() == source.lanes.keys()
    for lane, written in source.lanes.items():
        assert [(m.lane, m.position, m.key, m.value) for m in messages[lane]] == [(lane, w.position, w.key, w.value) for w in written]


def test_seeking_to_a_position_delivers_it_next(rig: Rig, source: Source) -> None:
    feed = rig.open()
    middle = {lane: end // 2 for lane, end in ends(source).items()}
    feed.seek({})
    read(feed, middle)
    feed.seek(middle)
    assert {lane: messages[0].position for lane, messages in read(feed, ends(source)).items()} == middle


def test_seeking_back_delivers_again_what_was_read(rig: Rig, source: Source) -> None:
    feed = rig.open()
    feed.seek({})
    first = read(feed, ends(source))
    feed.seek(dict.fromkeys(ends(source), 0))
    assert read(feed, ends(source)) == first


def test_a_lane_that_is_not_named_starts_at_its_beginning(rig: Rig, source: Source) -> None:
    feed = rig.open()
    named, *others = ends(source)
    feed.seek({named: 5})
    messages = read(feed, ends(source))
    assert messages[named][0].position == 5
    assert [messages[lane][0].position for lane in others] == [0] * len(others)


def test_lanes_are_the_same_ones_as_long_as_nobody_makes_them_again(rig: Rig, source: Source) -> None:
    feed = rig.open()
    feed.seek({})
    made = feed.incarnations()
    assert made.keys() >= feed.lanes()
    feed.seek(ends(source), made)
    assert feed.incarnations() == made


def test_what_was_read_is_no_loss_to_one_who_reads_it_again(rig: Rig, source: Source) -> None:
    feed = rig.open()
    feed.seek({})
    read(feed, ends(source))
    read_ends = feed.read_ends()
    assert not read_ends or {lane: end.position for lane, end in read_ends.items()} == ends(source)
    feed.seek(dict.fromkeys(ends(source), 1), feed.incarnations(), read_ends)
    assert feed.read_ends() == read_ends, "also before it is read again"
    read(feed, ends(source))
    assert feed.read_ends() == read_ends
    assert logged(feed).read_ends == read_ends


def test_the_end_of_a_lane_is_a_position(rig: Rig, source: Source) -> None:
    feed = rig.open()
    feed.seek(ends(source))
    assert feed.lanes() == frozenset(ends(source))


def test_the_ends_are_reported_before_any_seek_and_what_is_there_lies_below_them(rig: Rig, source: Source) -> None:
    """Empty: the feed is played from its beginning."""
    ends = rig.open().ends()
    assert not ends or ends == {lane: len(written) for lane, written in source.lanes.items()}


def test_a_position_behind_the_end_is_refused(rig: Rig, source: Source) -> None:
    lane, end = next(iter(ends(source).items()))
    with pytest.raises(FeedError, match=f"{lane}"):
        rig.open().seek({lane: end + 1})


@pytest.mark.parametrize("name", ["kafka/no-such-topic/0", "tables/shop.orders", "kafka/x"])
def test_a_lane_that_the_feed_does_not_have_is_refused(rig: Rig, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sidecar.feeds.kafka.start.FIRST_ANSWER_MAX_S", 1.0)
    with pytest.raises(FeedError, match=name):
        rig.open().seek({Lane(name): 0})


def test_what_is_acknowledged_never_goes_back(rig: Rig, source: Source) -> None:
    feed = rig.open()
    feed.seek({})
    one, other, *_ = ends(source)
    feed.acknowledge({one: 7, other: 3})
    feed.acknowledge({one: 4, other: 5})
    feed.acknowledge({one: 6})
    assert rig.acknowledged(feed) == {one: 7, other: 5}


def test_resolved_never_passes_a_lane_that_comes_later(rig: Rig, source: Source) -> None:
    feed = rig.open(late_lanes=True)
    feed.seek({})
    rows = sorted((ts, w.lane, w.position) for lane in source.lanes.values() for w in lane for ts in w.rows)
    resolved: dict[Lane, CommitTs] = {}
    delivered: set[tuple[Lane, int]] = set()
    joined, passed = [feed.lanes()], 0
    for _ in range(POLLS_MAX):
        rig.advance()
        for message in feed.poll(timeout_s=0.05):
            delivered.add((message.lane, message.position))
            resolved |= {e.lane: e.ts for e in source.codec.envelopes(message) if isinstance(e, Resolved)}
        lanes = feed.lanes()
        joined += [lanes] if lanes != joined[-1] else []
        if lanes and all(lane in resolved for lane in lanes):
            upto_ts = min(resolved[lane] for lane in lanes)
            while passed < len(rows) and rows[passed][0] < upto_ts:
                assert rows[passed][1:] in delivered, f"{upto_ts} is resolved and {rows[passed]} has not come"
                passed += 1
        if passed == len(rows):
            break
    assert passed == len(rows)
    assert len(joined) > 1
    assert joined[-1] == source.lanes.keys()


@pytest.fixture(scope="module")
def pumps() -> BinlogRecording:
    return BinlogRecording(Recording(recording("binlog")))


class TestBinlog:
    @pytest.fixture(params=["twin", "grpc"])
    def rig(self, request: pytest.FixtureRequest, pumps: BinlogRecording, monkeypatch: pytest.MonkeyPatch) -> Iterator[BinlogRig]:
        monkeypatch.setattr("sidecar.feeds.binlog.streams.LOOK_EVERY_S", 0.01)
        monkeypatch.setattr("sidecar.feeds.binlog.streams.HEARTBEAT_S", 0.01)
        with ExitStack() as held:
            yield PlayedPumps(pumps) if request.param == "twin" else GrpcPumps(pumps, held)

    def test_every_commit_comes_in_order_and_resolved_never_passes_a_pump_that_joins(self, rig: BinlogRig, pumps: BinlogRecording) -> None:
        feed, codec = rig.open(), BinlogCodec(lambda: pumps.mark_table)
        feed.seek({})
        commits = sorted({change.commit_ts for change in pumps.changes})
        delivered: dict[Lane, list[CommitTs]] = {}
        joined: list[frozenset[Lane]] = []
        resolved: dict[Lane, CommitTs] = {}
        passed = 0
        for _ in range(POLLS_MAX):
            rig.advance()
            for message in feed.poll(timeout_s=0.05):
                for envelope in codec.envelopes(message):
                    if isinstance(envelope, Resolved):
                        assert envelope.ts >= resolved.get(envelope.lane, 0)
                        resolved[envelope.lane] = envelope.ts
                    else:
                        delivered.setdefault(envelope.lane, []).append(envelope.commit_ts)
            lanes = feed.lanes()
            joined += [lanes] if not joined or lanes != joined[-1] else []
            if all(lane in resolved for lane in lanes):
                there = {ts for of_lane in delivered.values() for ts in of_lane}
                while passed < len(commits) and commits[passed] < min(resolved[lane] for lane in lanes):
                    assert commits[passed] in there, f"{commits[passed]} is resolved and has not come"
                    passed += 1
            if passed == len(commits):
                break
        assert passed == len(commits)
        assert all(of_lane == sorted(of_lane) for of_lane in delivered.values())
        assert len(joined) > 1

    def test_all_above_the_positions_comes_again_to_whoever_takes_over(self, rig: BinlogRig, pumps: BinlogRecording) -> None:
        first, commits = rig.open(), {change.commit_ts for change in pumps.changes}
        first.seek({})
        middle = sorted(commits)[len(commits) // 2]
        wanted = {ts for ts in commits if ts >= middle}
        first.close()
        feed, codec = rig.open(), BinlogCodec(lambda: pumps.mark_table)
        feed.seek(dict.fromkeys(first.lanes(), middle))
        for _ in range(POLLS_MAX):
            rig.advance()
            for message in feed.poll(timeout_s=0.05):
                wanted -= {one.commit_ts for one in codec.envelopes(message) if isinstance(one, Change)}
            if not wanted:
                break
        assert not wanted

    def test_what_is_acknowledged_never_goes_back(self, rig: BinlogRig, pumps: BinlogRecording) -> None:
        feed = rig.open()
        feed.seek({})
        begin = pumps.recording.start_ts
        for ahead in (1000, 400, 700):
            feed.acknowledge(dict.fromkeys(feed.lanes(), begin + ahead))
        for _ in range(POLLS_MAX):
            rig.advance()
            feed.poll(timeout_s=0.01)
            if rig.durable_ts() >= begin + 999:
                break
        assert rig.durable_ts() == begin + 999

    @pytest.mark.parametrize("name", ["kafka/orders/0", "kv/ddl"])
    def test_a_lane_that_the_feed_does_not_have_is_refused(self, rig: BinlogRig, name: str) -> None:
        with pytest.raises(FeedError, match=name):
            rig.open().seek({Lane(name): 0})
