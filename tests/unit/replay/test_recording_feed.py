"""The recorded feed keeps the port's contract and shows only what Kafka could show, for any seed."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from sidecar.adapters.memory.clock import MemoryClock
from sidecar.replay.feed import IDLE_RESOLVED_EVERY_MS, Play, RecordingFeed
from sidecar.replay.recording import FeedConfig, Recording
from sidecar.shared.errors import FeedError
from sidecar.shared.model.nouns import MARK_TABLE, Change, CommitTs, Envelope, Lane, MarkKind, Message, Resolved
from tests.support.recordings import recording

SEEDS = range(6)
POLLS_MAX = 20_000


@pytest.fixture(scope="module")
def demo() -> Recording:
    return Recording(recording("demo"))


def opened(demo: Recording, *, feed: str = "open-protocol", seed: int = 0, resends: int = 0, late_lanes: bool = False) -> RecordingFeed:
    return RecordingFeed(demo, demo.feed_config(feed), Play(seed=seed, resends=resends, late_lanes=late_lanes, batch_messages_max=16))


def play(feed: RecordingFeed) -> list[Message]:
    """Everything up to the end of the recording."""
    messages: list[Message] = []
    for _ in range(POLLS_MAX):
        messages += feed.poll(timeout_s=0)
        if feed.exhausted:
            return messages
    raise AssertionError("the feed does not end")


def in_lane(messages: Iterable[Message], lane: Lane) -> list[Message]:
    return [message for message in messages if message.lane == lane]


def envelopes(config: FeedConfig, messages: Iterable[Message]) -> list[Envelope]:
    codec = config.codec()
    return [envelope for message in messages for envelope in codec.envelopes(message)]


def send_mark(feed: RecordingFeed, uuid: str) -> CommitTs:
    commit_ts = feed.now_ts()
    key, value = feed.config.encode_mark(
        commit_ts=commit_ts, row_id=1, changefeed_id="test", uuid=uuid, kind=MarkKind.LOW, previous=None, now_ms=commit_ts >> 18
    )
    feed.inject(commit_ts, key, value)
    return commit_ts


def marks(feed: RecordingFeed, messages: Iterable[Message]) -> list[tuple[CommitTs, str]]:
    """commit_ts and uuid of our marks; the recording's own are of another changefeed."""
    codec = feed.config.codec()
    rows = [e for e in envelopes(feed.config, messages) if isinstance(e, Change) and (e.schema, e.table) == MARK_TABLE]
    seen = [mark for row in rows if (mark := codec.mark(row)) is not None]
    return [(mark.commit_ts, mark.uuid) for mark in seen if mark.changefeed_id == "test"]


def assert_promises_kept(config: FeedConfig, messages: list[Message]) -> None:
    """No row comes for the first time at or below a resolved mark that its lane has shown before."""
    codec = config.codec()
    resolved: dict[Lane, int] = {}
    seen: set[object] = set()
    for message in messages:
        for envelope in codec.envelopes(message):
            if isinstance(envelope, Resolved):
                resolved[message.lane] = max(envelope.ts, resolved.get(message.lane, 0))
            elif isinstance(envelope, Change):
                identity = (envelope.commit_ts, codec.identity(envelope))
                assert envelope.commit_ts > resolved.get(message.lane, 0) or identity in seen
                seen.add(identity)


# ---- the port -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_each_lane_comes_whole_and_in_order(demo: Recording, seed: int) -> None:
    feed = opened(demo, seed=seed)
    messages = play(feed)
    for lane, recorded in demo.messages(feed.config).items():
        delivered = in_lane(messages, lane)
        assert [message.position for message in delivered] == list(range(len(delivered)))
        assert [(m.key, m.value) for m in delivered[: len(recorded)]] == [(r.key, r.value) for r in recorded]
    assert_promises_kept(feed.config, messages)


def test_seeds_interleave_lanes_differently_and_repeat_themselves(demo: Recording) -> None:
    orders = [[message.lane for message in play(opened(demo, seed=seed))] for seed in (1, 2, 1)]
    assert orders[0] != orders[1]
    assert orders[0] == orders[2]


def test_lanes_are_all_partitions_from_the_beginning(demo: Recording) -> None:
    feed = opened(demo)
    assert feed.lanes() == frozenset(demo.messages(feed.config))


def test_seek_delivers_the_same_messages_again(demo: Recording) -> None:
    feed = opened(demo, seed=4, resends=2)
    send_mark(feed, "one")
    messages = play(feed)
    positions = {lane: number * 7 for number, lane in enumerate(sorted(feed.lanes()))}
    feed.seek(positions)
    assert not feed.exhausted
    again = play(feed)
    for lane in feed.lanes():
        first, second = in_lane(messages, lane)[positions[lane] :], in_lane(again, lane)
        assert second[: len(first)] == first


def test_seek_without_a_lane_reads_it_from_its_beginning(demo: Recording) -> None:
    feed = opened(demo)
    lanes = sorted(feed.lanes())
    messages = play(feed)
    feed.seek({lanes[0]: 5})
    again = play(feed)
    assert in_lane(again, lanes[0])[0] == in_lane(messages, lanes[0])[5]
    assert in_lane(again, lanes[1])[0].position == 0


def test_seek_to_what_is_not_there_is_refused_and_moves_nothing(demo: Recording) -> None:
    feed = opened(demo)
    lane = min(feed.lanes())
    play(feed)
    for positions in ({Lane("kafka/other/0"): 0}, {lane: 1_000_000}, {lane: -1}):
        with pytest.raises(FeedError, match="cannot read on from"):
            feed.seek(positions)
    assert feed.exhausted


def test_acknowledged_positions_never_go_back(demo: Recording) -> None:
    feed = opened(demo)
    lane = min(feed.lanes())
    feed.acknowledge({lane: 9})
    feed.acknowledge({lane: 4})
    assert feed.committed == {lane: 9}


def test_played_part_grows_to_one_and_does_not_fall_on_seek(demo: Recording) -> None:
    feed = opened(demo)
    assert feed.played_part() == 0
    play(feed)
    feed.seek({})
    assert feed.played_part() == 1


# ---- what TiCDC does ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_a_restart_sends_tails_again_at_new_positions(demo: Recording, seed: int) -> None:
    feed = opened(demo, seed=seed, resends=3)
    messages = play(feed)
    assert len(messages) > sum(map(len, demo.messages(feed.config).values()))
    resolved = [e.ts for lane in feed.lanes() for e in envelopes(feed.config, in_lane(messages, lane)) if isinstance(e, Resolved)]
    assert resolved != sorted(resolved)
    for lane in feed.lanes():
        positions = [message.position for message in in_lane(messages, lane)]
        assert positions == list(range(len(positions)))
    assert_promises_kept(feed.config, messages)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_late_lane_is_there_before_the_others_resolve_its_first_row(demo: Recording, seed: int) -> None:
    feed = opened(demo, seed=seed, late_lanes=True)
    rows = {lane: envelopes(feed.config, in_lane(play(opened(demo)), lane)) for lane in opened(demo).lanes()}
    first_row = {lane: min((e.commit_ts for e in results if isinstance(e, Change)), default=None) for lane, results in rows.items()}
    assert feed.lanes() < opened(demo).lanes()
    while not feed.exhausted:
        messages = feed.poll(timeout_s=0)
        resolved = max((e.ts for e in envelopes(feed.config, messages) if isinstance(e, Resolved)), default=CommitTs(0))
        assert all(lane in feed.lanes() or (ts is not None and ts > resolved) for lane, ts in first_row.items())
        assert {message.lane for message in messages} <= feed.lanes()
    assert feed.lanes() == opened(demo).lanes()


@pytest.mark.parametrize("feed_name", ["open-protocol", "canal-json"])
def test_an_idle_feed_resolves_every_lane_with_rising_ts(demo: Recording, feed_name: str) -> None:
    feed = opened(demo, feed=feed_name)
    play(feed)
    idle = [message for _ in range(40) for message in feed.poll(timeout_s=0)]
    for lane in feed.lanes():
        resolved = [e.ts for e in envelopes(feed.config, in_lane(idle, lane)) if isinstance(e, Resolved)]
        assert len(resolved) > 5
        assert resolved == sorted(set(resolved))
        assert resolved[0] > demo.end_ts


# ---- the cluster behind it ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_now_is_later_than_all_that_was_played_and_never_a_recorded_ts(demo: Recording, seed: int) -> None:
    feed = opened(demo, seed=seed, resends=1)
    recorded = {e.ts if isinstance(e, Resolved) else e.commit_ts for e in envelopes(feed.config, play(opened(demo)))}
    played, before = 0, 0
    while not feed.exhausted:
        for envelope in envelopes(feed.config, feed.poll(timeout_s=0)):
            played = max(played, envelope.ts if isinstance(envelope, Resolved) else envelope.commit_ts)
        now = feed.now_ts()
        assert now > max(played, before)
        assert now <= demo.end_ts or feed.played_part() > 0.5
        before = now
    feed_before_end = opened(demo, seed=seed)
    assert not {feed_before_end.now_ts() for _ in range(200)} & recorded


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("feed_name", ["open-protocol", "canal-json"])
def test_injected_marks_come_once_in_order_and_never_late(demo: Recording, seed: int, feed_name: str) -> None:
    feed = opened(demo, feed=feed_name, seed=seed)
    messages: list[Message] = []
    sent: list[tuple[CommitTs, str]] = []
    while not feed.exhausted:
        sent.append((send_mark(feed, f"mark-{len(sent)}"), f"mark-{len(sent)}"))
        messages += feed.poll(timeout_s=0)
    sent.append((send_mark(feed, "idle"), "idle"))
    for _ in range(40):
        messages += feed.poll(timeout_s=0)
    assert marks(feed, messages) == sent
    assert_promises_kept(feed.config, messages)
    assert len({message.lane for message in messages if marks(feed, [message])}) == 1


def test_marks_ride_in_the_lane_of_the_recorded_ones(demo: Recording) -> None:
    feed = opened(demo)
    recorded = play(opened(demo))
    of_marks = {e.lane for e in envelopes(feed.config, recorded) if isinstance(e, Change) and (e.schema, e.table) == MARK_TABLE}
    send_mark(feed, "one")
    assert {message.lane for message in play(feed) if marks(feed, [message])} == of_marks


def test_injecting_moves_nothing_that_was_played(demo: Recording) -> None:
    feed = opened(demo, seed=2, resends=2)
    first: dict[tuple[Lane, int], bytes | None] = {}
    while not feed.exhausted:
        for message in feed.poll(timeout_s=0):
            first[message.lane, message.position] = message.value
        send_mark(feed, "again")
    feed.seek({})
    again = {(message.lane, message.position): message.value for message in play(feed)}
    assert first.items() <= again.items()


def test_a_late_mark_is_refused(demo: Recording) -> None:
    feed = opened(demo)
    play(feed)
    with pytest.raises(ValueError, match="is late"):
        feed.inject(demo.start_ts, b"", b"")


@pytest.mark.recordings
def test_marks_and_resolved_marks_of_a_compressed_feed_are_compressed() -> None:
    shop = Recording(recording("shop"))
    feed = RecordingFeed(shop, shop.feed_config("open-protocol-zip"))
    commit_ts = send_mark(feed, "zipped")
    messages = play(feed) + [message for _ in range(20) for message in feed.poll(timeout_s=0)]
    assert marks(feed, messages) == [(commit_ts, "zipped")]


@pytest.mark.recordings
def test_without_recorded_marks_the_tables_partition_carries_them() -> None:
    ddl = Recording(recording("ddl"))
    feed = RecordingFeed(ddl, ddl.feed_config())
    send_mark(feed, "one")
    assert {message.lane for message in play(feed) if marks(feed, [message])} == {feed.config.lane(2)}


# ---- recorded time --------------------------------------------------------------------------------------------------


def test_messages_are_there_when_their_recorded_time_has_come(demo: Recording) -> None:
    clock = MemoryClock(100.0)
    feed = RecordingFeed(demo, demo.feed_config(), Play(speed=10, batch_messages_max=16), clock=clock, wait=clock.wait)
    times = {lane: [record.time_ms for record in records] for lane, records in demo.messages(feed.config).items()}
    began_ms = min(results[0] for results in times.values())
    for _ in range(POLLS_MAX):
        for message in feed.poll(timeout_s=0.5):
            if message.position < len(times[message.lane]):
                assert times[message.lane][message.position] <= began_ms + (clock.time_s - 100) * 10 * 1000
        if feed.exhausted:
            break
    assert clock.time_s - 100 == pytest.approx(6.1, abs=0.3)


def test_a_poll_waits_no_longer_than_its_timeout_and_gives_nothing(demo: Recording) -> None:
    clock = MemoryClock(100.0)
    feed = RecordingFeed(demo, demo.feed_config(), Play(speed=1), clock=clock, wait=clock.wait)
    began = clock.time_s
    while feed.poll(timeout_s=0):
        pass
    assert clock.time_s == began
    assert feed.poll(timeout_s=0.01) == []
    assert clock.time_s == pytest.approx(began + 0.01)


def test_in_recorded_time_now_follows_the_clock_and_idle_lanes_resolve_each_second(demo: Recording) -> None:
    clock = MemoryClock(100.0)
    feed = RecordingFeed(demo, demo.feed_config(), Play(speed=100, batch_messages_max=50), clock=clock, wait=clock.wait)
    while not feed.exhausted:
        feed.poll(timeout_s=1)
    now = feed.now_ts()
    clock.time_s += 1
    assert (feed.now_ts() >> 18) - (now >> 18) == pytest.approx(100_000, abs=2)
    lane = min(feed.lanes())
    while in_lane(feed.poll(timeout_s=0), lane):
        pass
    idle = [m for _ in range(30) for m in in_lane(feed.poll(timeout_s=IDLE_RESOLVED_EVERY_MS / 100_000), lane)]
    assert 5 < len(idle) <= 31


def test_recorded_time_needs_a_clock(demo: Recording) -> None:
    with pytest.raises(ValueError, match="needs a clock"):
        RecordingFeed(demo, demo.feed_config(), Play(speed=1))
