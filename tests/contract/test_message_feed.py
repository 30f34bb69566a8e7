"""What every Feed keeps (test_feeds.py), of a feed with one lane whose order is made as messages come: the recording `demo`, sent by two
senders over gRPC and kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from sidecar.feeds.push.messages import LANE, MessageFeed
from sidecar.shared.config import PushSection
from sidecar.shared.errors import FeedError
from sidecar.shared.log.storage import open_folder
from sidecar.shared.model.nouns import CommitTs, Lane, Message, Resolved
from tests.contract.test_feeds import Source, read
from tests.support.eventually import eventually
from tests.support.messages_sent import sending

Open = Callable[[], MessageFeed]


@pytest.fixture(scope="module")
def source() -> Source:
    return Source()


@pytest.fixture(scope="module")
def kept(source: Source, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an inbox that has the whole recording."""
    folder = tmp_path_factory.mktemp("inbox")
    with closing(_feed(folder)) as feed, sending(source.recording, source.config.name, f"127.0.0.1:{feed.port}") as sent:
        sent.check()
    return folder


@pytest.fixture
def opened(kept: Path) -> Iterator[Open]:
    """Each call is another owner."""
    with ExitStack() as held:
        yield lambda: held.enter_context(closing(_feed(kept)))


def _feed(folder: Path) -> MessageFeed:
    return MessageFeed(PushSection(listen="127.0.0.1:0", form="messages"), open_folder(str(folder)))


def all_of(feed: MessageFeed) -> list[Message]:
    """From where it is to the inbox's end."""
    messages: list[Message] = []

    def ended() -> bool:
        messages.extend(feed.poll(timeout_s=0.05))
        return feed._at >= feed.ends()[LANE]

    eventually(ended, "it does not end")
    return messages


def test_a_new_log_reads_every_message_in_the_order_of_its_partition(opened: Open, source: Source) -> None:
    feed = opened()
    feed.seek({})
    results = [(message.key, message.value) for message in all_of(feed)]
    assert feed.lanes() == {LANE}
    for written in source.lanes.values():
        rest = iter(results)
        assert all((one.key, one.value) in rest for one in written)
    assert len(results) == sum(map(len, source.lanes.values()))


def test_resolved_never_passes_a_row_that_is_still_to_come(opened: Open, source: Source) -> None:
    feed = opened()
    feed.seek({})
    upto_ts, passed = CommitTs(0), 0
    for message in all_of(feed):
        for envelope in source.codec.envelopes(message):
            if isinstance(envelope, Resolved):
                upto_ts, passed = max(upto_ts, envelope.ts), passed + 1
            else:
                assert envelope.commit_ts > upto_ts
    assert passed > 0


def test_seeking_to_a_position_delivers_it_next_and_back_the_same_again(opened: Open) -> None:
    feed = opened()
    feed.seek({})
    first = all_of(feed)
    middle = first[len(first) // 2].position
    feed.seek({LANE: middle})
    assert feed.poll(timeout_s=10.0)[0].position == middle
    feed.seek({LANE: 0})
    assert read(feed, {LANE: first[-1].position + 1}) == {LANE: first}


def test_the_lane_is_the_same_one_for_every_owner(opened: Open) -> None:
    made = opened().incarnations()
    feed = opened()
    assert made.keys() == feed.lanes()
    feed.seek(feed.ends(), made)
    assert feed.incarnations() == made


def test_the_end_is_reported_before_any_seek_and_is_a_position_and_behind_it_is_none(opened: Open) -> None:
    feed = opened()
    ends = feed.ends()
    feed.seek(ends)
    assert feed.poll(timeout_s=0.0) == []
    with pytest.raises(FeedError, match=f"cannot be read from {ends[LANE] + 1}"):
        feed.seek({LANE: ends[LANE] + 1})


@pytest.mark.parametrize("name", ["kafka/no-such-topic/0", "tables/shop.orders", "push/x"])
def test_a_lane_that_the_feed_does_not_have_is_refused(opened: Open, name: str) -> None:
    with pytest.raises(FeedError, match=name):
        opened().seek({Lane(name): 0})


def test_what_is_acknowledged_never_goes_back(tmp_path: Path) -> None:
    """What is below it may be gone; it stays gone, and what is above is there."""
    source = Source()
    with closing(_feed(tmp_path)) as feed, sending(source.recording, source.config.name, f"127.0.0.1:{feed.port}") as sent:
        sent.check()
        feed.seek({})
        messages = all_of(feed)
        at = messages[len(messages) * 3 // 4].position
        feed.acknowledge({LANE: at})
        eventually(lambda: feed._inbox.first > 0, "nothing is removed")
        feed.acknowledge({LANE: 1})
        feed.seek({LANE: at})
        assert feed.poll(timeout_s=10.0)[0].position == at
        with pytest.raises(FeedError, match="cannot be read from 0"):
            feed.seek({LANE: 0})
