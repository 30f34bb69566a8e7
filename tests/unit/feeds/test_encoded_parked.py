"""A message that stops the stream is kept; one that is parked is passed, and nothing of its lane is lost or taken for whole."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.feeds.contract import NotifyingFeed
from sidecar.feeds.encoded.parked import MessageParking
from sidecar.shared.codecs.canal_json import CanalJson
from sidecar.shared.errors import FeedError, FeedUnsuitable, MessageUnreadable
from sidecar.shared.log.parked import Parked, StoppedAt, park, read_stopped
from sidecar.shared.log.storage import Folder, open_folder
from sidecar.shared.model.nouns import Lane, Message, TableName
from tests.unit.feeds.test_encoded_claims import LANE, Sent, row

POISON = b"\xff not JSON"
T = TableName("shop", "doc")


@pytest.fixture
def log(tmp_path: Path) -> Folder:
    return open_folder(str(tmp_path))


def message(position: int, value: bytes | None, *, lane: Lane = LANE) -> Message:
    return Message(lane, position, None, value)


def around(log: Folder, messages: Sequence[Message]) -> tuple[MessageParking, NotifyingFeed, list[Parked]]:
    """A term's; what is passed comes into the list."""
    parking, passed = MessageParking(log, CanalJson()), list[Parked]()
    feed = parking.around(cast(NotifyingFeed, Sent(messages, at_once=2)))
    parking.passed = passed.append
    feed.seek({})
    return parking, feed, passed


def polled(feed: NotifyingFeed) -> list[Message]:
    messages: list[Message] = []
    for _ in range(20):
        messages += feed.poll(timeout_s=0)
    return messages


def decide(log: Folder, one: Message) -> Parked:
    parked = Parked(StoppedAt(one.lane, one.position, one.key, one.value, "why", 1), (T,), "alice@db1", 2)
    assert park(log, parked)
    return parked


def stop(parking: MessageParking, feed: NotifyingFeed) -> FeedError:
    """As the pipeline reads, until it cannot."""
    codec = CanalJson()
    for _ in range(20):
        for one in feed.poll(timeout_s=0):
            try:
                codec.envelopes(one)
            except FeedError as error:
                return error
    raise AssertionError("it does not stop")


def test_a_stream_stops_is_parked_and_goes_on_behind_the_message(log: Folder) -> None:
    messages = [message(0, row(1, body="a")), message(1, POISON), message(2, row(2, body="b")), message(3, POISON)]
    for bad, rest in ((1, [0, 2, 3]), (3, [0, 2])):
        parking, feed, _ = around(log, messages)
        stopped = parking.note_stop(stop(parking, feed), 5)
        assert stopped is not None
        assert (stopped.position, stopped.value, read_stopped(log)) == (bad, POISON, stopped)
        assert "expected the JSON of canal-json" in stopped.error
        parked = decide(log, stopped.message)
        _, feed, passed = around(log, messages)
        assert [one.position for one in polled(feed)] == rest
        assert parked in passed


def test_another_message_at_the_same_place_is_not_passed(log: Folder) -> None:
    decide(log, message(1, POISON))
    for other in (message(1, POISON + b"!"), message(2, POISON), message(1, POISON, lane=Lane("kafka/t/1")), message(1, None)):
        _, feed, passed = around(log, [other])
        assert (polled(feed), passed) == ([other], [])


def test_an_error_of_a_message_that_was_not_polled_last_is_of_none(log: Folder) -> None:
    parking, feed, _ = around(log, [message(1, POISON), message(11, POISON), message(2, row(1, body="a"))])
    feed.poll(timeout_s=0)
    assert parking.note_stop(FeedUnsuitable("a setting is wrong", hint=""), 5) is None
    assert parking.note_stop(MessageUnreadable(f"{message(12, b'').at()}: expected x", hint=""), 5) is None
    eleventh = parking.note_stop(MessageUnreadable(f"{message(11, b'').at()}: expected x", hint=""), 5)
    assert eleventh is not None
    assert eleventh.position == 11
    feed.poll(timeout_s=0)
    assert parking.note_stop(MessageUnreadable(f"{message(11, b'').at()}: expected x", hint=""), 5) is None


def test_of_several_at_one_place_it_is_the_one_that_cannot_be_read(log: Folder) -> None:
    """Of files a position is a TSO, which many rows share."""
    parking, feed, _ = around(log, [message(7, row(1, body="a")), message(7, POISON)])
    stopped = parking.note_stop(stop(parking, feed), 5)
    assert stopped is not None
    assert stopped.value == POISON


def test_a_gap_before_a_parked_message_is_one_before_the_next(log: Folder) -> None:
    messages = [message(1, POISON)._replace(after_gap=True), message(2, b"{}"), message(3, b"{}")]
    decide(log, messages[0])
    _, feed, _ = around(log, messages)
    assert [(one.position, one.after_gap) for one in polled(feed)] == [(2, True), (3, False)]


@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.sampled_from(["a", "b"])), max_size=10))
def test_what_is_gone_before_a_parked_message_is_gone_before_the_next_one(made: list[tuple[bool, bool, str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        log = open_folder(folder)
        messages = [Message(Lane(lane), at, None, POISON if bad else b"{}", after_gap=gap) for at, (bad, gap, lane) in enumerate(made)]
        for one in messages:
            if one.value == POISON:
                decide(log, one)
        _, feed, passed = around(log, messages)
        there = polled(feed)
    assert [one.position for one in there] == [one.position for one in messages if one.value != POISON]
    assert len(passed) == sum(one.value == POISON for one in messages)
    for one in there:
        before = [other for other in messages[: one.position] if other.lane == one.lane]
        since = next((at for at in range(len(before) - 1, -1, -1) if before[at].value != POISON), -1)
        assert one.after_gap == (messages[one.position].after_gap or any(other.after_gap for other in before[since + 1 :]))
