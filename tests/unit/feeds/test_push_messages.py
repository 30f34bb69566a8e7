"""Messages of TiCDC's own sinks over TCP: what is kept, in which order it is read, and what ends what."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import SimpleNamespace

import grpc
import pytest

from sidecar.feeds.contract import HIDDEN_LANE
from sidecar.feeds.push import inlet as inlet_module
from sidecar.feeds.push.messages import LANE, MessageFeed
from sidecar.shared.config import PushSection
from sidecar.shared.errors import FeedUnsuitable, LogTaken
from sidecar.shared.log.storage import open_folder
from sidecar.shared.model.nouns import Lane, Message
from sidecar.shared.ticdc.changefeed import ChangefeedName
from tests.support.eventually import eventually
from tests.unit.feeds.pushing import RawSender
from ticdc_dump.v1 import feed_pb2 as pb

Opened = Callable[..., AbstractContextManager[MessageFeed]]


@pytest.fixture
def opened(tmp_path: Path) -> Opened:
    """Each call is another owner of one log."""

    @contextmanager
    def owner(*, changefeed: ChangefeedName | None = None, **settings: object) -> Iterator[MessageFeed]:
        section = PushSection(**{"listen": "127.0.0.1:0", "form": "messages"} | settings)  # type: ignore[arg-type]  # by name
        feed = MessageFeed(section, open_folder(str(tmp_path)), changefeed=changefeed)
        try:
            yield feed
        finally:
            feed.close()

    return owner


@contextmanager
def sending(feed: MessageFeed, name: str = "node-1") -> Iterator[RawSender]:
    """A sender that has been welcomed."""
    with RawSender(feed.port) as sender:
        sender.hello(name, version_min=2, version_max=2, form=pb.FORM_MESSAGES)
        eventually(lambda: sender.of_kind("welcome"), "no welcome")
        yield sender


def keep(sender: RawSender, *values: bytes) -> None:
    """Each in a message of its own, until all are durable."""
    for value in values:
        sender.messages(("t", 0, None, value))
    eventually(lambda: sender.kept() == sender.number, "they are not kept")


def read(feed: MessageFeed, count: int) -> list[Message]:
    messages: list[Message] = []

    def enough() -> bool:
        messages.extend(feed.poll(timeout_s=0.05))
        return len(messages) >= count

    eventually(enough, f"fewer than {count} come")
    return messages


def values(messages: list[Message]) -> list[bytes | None]:
    return [message.value for message in messages]


def test_what_is_kept_comes_in_the_order_in_which_it_came(opened: Opened) -> None:
    with opened() as feed, sending(feed) as one, sending(feed, "node-2") as other:
        feed.seek({})
        keep(one, b"a")
        keep(other, b"b")
        keep(one, b"c", b"d")
        messages = read(feed, 4)
        assert values(messages) == [b"a", b"b", b"c", b"d"]
        positions = [message.position for message in messages]
        assert positions == sorted(set(positions))
        assert {message.lane for message in messages} == feed.lanes() == {LANE}


def test_keys_and_values_come_as_they_are_and_what_is_absent_is(opened: Opened) -> None:
    with opened() as feed, sending(feed) as sender:
        feed.seek({})
        sender.messages(("t", 0, b"", b"v"), ("u", 3, None, b""), ("t", 1, b"k", None))
        assert [(message.key, message.value) for message in read(feed, 3)] == [(b"", b"v"), (None, b""), (b"k", None)]


def test_what_was_kept_and_not_acknowledged_is_read_by_the_next_owner(opened: Opened) -> None:
    with opened() as feed, sending(feed) as sender:
        feed.seek({})
        keep(sender, b"a", b"b", b"c")
        second = read(feed, 3)[1]
        known = feed.incarnations()
        feed.acknowledge({LANE: second.position})
    with opened() as feed:
        feed.seek({LANE: second.position}, known)
        assert values(read(feed, 2)) == [b"b", b"c"]
        with sending(feed) as sender:
            keep(sender, b"d")
        assert values(read(feed, 1)) == [b"d"]


def test_reading_again_from_before_brings_the_same_again(opened: Opened) -> None:
    with opened() as feed, sending(feed) as sender:
        feed.seek({})
        keep(sender, *(b"%d" % number for number in range(20)))
        first = read(feed, 20)
        feed.seek({LANE: first[5].position}, feed.incarnations())
        assert read(feed, 15) == first[5:]


def test_a_new_log_begins_where_the_inbox_ends_at_that_moment(opened: Opened) -> None:
    with opened() as feed, sending(feed) as sender:
        keep(sender, b"before")
        feed.seek(feed.ends())
        keep(sender, b"after")
        assert values(read(feed, 1)) == [b"after"]


def test_nothing_is_kept_that_a_previous_owner_would_write(opened: Opened) -> None:
    with opened() as previous, sending(previous) as sender:
        previous.seek({})
        keep(sender, b"a")
        with opened() as feed:
            sender.messages(("t", 0, None, b"late"))
            with pytest.raises(LogTaken, match="another owner"):
                eventually(lambda: previous.poll(timeout_s=0.05) and None)
            assert sender.kept() < sender.number
            feed.seek({})
            assert values(read(feed, 1)) == [b"a"]


@pytest.mark.parametrize(
    ("send", "code", "text"),
    [
        (lambda one: one.send(heartbeat=pb.Heartbeat(), number=9), grpc.StatusCode.DATA_LOSS, "message 9 came in the place of 3"),
        (lambda one: one.send(open=pb.OpenSpan(span=1)), grpc.StatusCode.INVALID_ARGUMENT, "message 3 is open"),
        (lambda one: one.send_bytes(b"\xff\xff"), grpc.StatusCode.INVALID_ARGUMENT, "message 3 is no SenderMessage"),
    ],
)
def test_a_stream_that_breaks_the_protocol_ends_alone(
    opened: Opened, send: Callable[[RawSender], object], code: grpc.StatusCode, text: str
) -> None:
    with opened() as feed, sending(feed) as one, sending(feed, "node-2") as other:
        feed.seek({})
        keep(one, b"a")
        send(one)
        ended = one.wait_end()
        assert (ended[0], text in ended[1]) == (code, True), ended
        keep(other, b"b")
        assert values(read(feed, 2)) == [b"a", b"b"]


def test_a_sender_of_key_values_and_one_of_another_changefeed_are_turned_away(opened: Opened) -> None:
    with opened(changefeed=ChangefeedName("c", "default", "cf")) as feed, RawSender(feed.port) as old, RawSender(feed.port) as stranger:
        old.hello(changefeed="c/default/cf")
        assert "sends key-values, the sidecar takes messages" in old.wait_end()[1]
        stranger.hello(version_min=2, version_max=2, form=pb.FORM_MESSAGES, changefeed="c/default/other")
        code, output = stranger.wait_end()
        assert code == grpc.StatusCode.FAILED_PRECONDITION
        assert "c/default/other" in output


def test_ticdc_waits_while_nobody_reads_and_goes_on_when_somebody_does(opened: Opened) -> None:
    large = [b"%d" % number + bytes(400) for number in range(4)]
    with opened(ahead_bytes_max=1000) as feed, sending(feed) as sender:
        feed.seek({})
        keep(sender, *large[:3])
        sender.messages(("t", 0, None, large[3]))
        eventually(lambda: feed.senders()[0].waiting_bytes, "it waits")
        assert sender.kept() < sender.number
        assert values(read(feed, 4)) == large
        eventually(lambda: sender.kept() == sender.number, "all are kept")


def test_what_comes_is_written_at_once_while_somebody_reads(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inlet_module, "GATHER_S", 3600.0)
    with opened() as feed, sending(feed) as sender:
        feed.seek({})
        for value in (b"a", b"b", b"c"):
            keep(sender, value)
            assert values(read(feed, 1)) == [value]


def test_what_comes_while_nobody_reads_goes_into_one_file(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inlet_module, "GATHER_S", 3600.0)
    with opened() as feed, sending(feed) as sender:
        feed.seek({})
        keep(sender, b"a")
        size = sum(sender.messages(("t", 0, None, value)) for value in (b"b", b"c", b"d"))
        eventually(lambda: feed.senders()[0].waiting_bytes == size, "they wait")
        assert values(read(feed, 4)) == [b"a", b"b", b"c", b"d"]
        eventually(lambda: sender.kept() == sender.number, "they are kept")
        assert feed._inbox._files == [0, 1, 2], "the owner's own, that of a, and one of three"


@pytest.mark.parametrize(("write_s", "rest_s"), [(0.004, 0.004), (2.0, inlet_module.GATHER_S)])
def test_the_next_file_waits_as_long_as_the_last_one_took_within_a_bound(
    write_s: float, rest_s: float, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    with opened() as feed:
        feed.seek({})
        with monkeypatch.context() as patch:
            patch.setattr(inlet_module, "time", SimpleNamespace(monotonic=lambda: 100.0))
            patch.setattr(feed._inlet, "_kept_s", 100.0)
            patch.setattr(feed._inlet, "_write_s", write_s)
            feed._inlet._rest(SimpleNamespace(wait=waits.append))  # type: ignore[arg-type]  # what it uses of an Event
    assert waits == [pytest.approx(rest_s)]


def test_what_the_log_has_is_removed_and_a_hole_is_reported(opened: Opened) -> None:
    with opened() as feed, sending(feed) as sender:
        feed.seek({})
        keep(sender, b"a")
        keep(sender, b"b")
        keep(sender, b"c")
        messages = read(feed, 3)
        feed.acknowledge({LANE: messages[2].position})
        eventually(lambda: feed._inbox.first == messages[2].position, "the files before it are gone")
        with pytest.raises(FeedUnsuitable, match=r"cannot be read from 1: it has 3 to 4 \(exclusive\)"):
            feed.seek({LANE: 1}, feed.incarnations())
        with pytest.raises(FeedUnsuitable, match="cannot be read from 99"):
            feed.seek({LANE: 99})


def test_another_inbox_and_positions_of_another_feed_are_reported(opened: Opened) -> None:
    with opened() as feed:
        with pytest.raises(FeedUnsuitable, match="is another one"):
            feed.seek({LANE: 0}, {LANE: "0123"})
        with pytest.raises(FeedUnsuitable, match="kafka/orders/1, which is not what TiCDC's own sink brings"):
            feed.seek({Lane("kafka/orders/1"): 4})
        feed.seek({LANE: 1, HIDDEN_LANE: 7})


def test_it_says_for_whom_it_waits(opened: Opened) -> None:
    with opened() as feed:
        feed.seek({})
        assert "no TiCDC node is connected" in feed.still_because()
        with sending(feed, "node-7"):
            assert [view.sender for view in feed.senders()] == ["node-7"]
            assert "no resolved mark" in feed.still_because()
