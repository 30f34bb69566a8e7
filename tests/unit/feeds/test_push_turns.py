"""Who is heard when: streams whose messages are bytes."""

from __future__ import annotations

from threading import Event

import grpc

from sidecar.feeds.push.conversation import Conversation, StreamTerms
from sidecar.feeds.push.credits import Credits
from sidecar.feeds.push.server import PushStream
from sidecar.feeds.push.turns import Turns

CREDITS = Credits(1 << 20)


class Waiting(Conversation):
    """One that may have to wait for another."""

    held = False

    def waits(self) -> bool:
        return self.held


def of(*messages: list[bytes]) -> tuple[Turns[Waiting], list[Waiting]]:
    """A stream for each, with what has come of it."""
    turns, made = Turns[Waiting](CREDITS), list[Waiting]()
    for number, waiting in enumerate(messages, 1):
        stream = PushStream(number, "here", Event())
        stream.grant(1 << 20)
        assert all(stream.arrived(data) for data in waiting)
        made.append(Waiting(stream, CREDITS, StreamTerms("", 60.0), now_s=0.0))
        turns.add(made[-1])
    return turns, made


def test_each_has_its_turn_and_who_has_no_more_is_passed_over() -> None:
    turns, _ = of([b"a1", b"a2", b"a3"], [b"b1"], [b"c1", b"c2"])
    assert [data for _, data in turns.messages(1000)] == [b"a1", b"b1", b"c1", b"a2", b"c2", b"a3"]
    assert not turns.more


def test_it_ends_at_the_bound_and_goes_on_with_the_next_one() -> None:
    turns, _ = of([b"a1", b"a2"], [b"b1", b"b2"])
    assert [data for _, data in turns.messages(5)] == [b"a1", b"b1", b"a2"]
    assert turns.more
    assert [data for _, data in turns.messages(5)] == [b"b2"]
    assert not turns.more


def test_one_that_is_gone_is_read_to_its_end_and_then_finished() -> None:
    turns, (one, other) = of([b"a1", b"a2"], [b"b1"])
    one.stream.disconnected()
    result = []
    for stream, data in turns.messages(1000):
        result.append((stream, data))
        if data is None:
            turns.finish(stream)
    assert result == [(one, b"a1"), (other, b"b1"), (one, b"a2"), (one, None)]
    assert [*turns] == [other]


def test_one_that_is_cut_says_nothing_more() -> None:
    turns, (one, other) = of([b"a1", b"a2"], [b"b1", b"b2"])
    result = []
    for stream, data in turns.messages(1000):
        result.append(data)
        if stream is one:
            one.cut(grpc.StatusCode.INVALID_ARGUMENT, "no")
            turns.finish(one)
    assert result == [b"a1", b"b1", b"b2"]
    assert [*turns] == [other]


def test_one_that_waits_for_another_is_not_read_and_keeps_what_it_said() -> None:
    turns, (one, other) = of([b"a1"], [b"b1"])
    one.held = True
    assert [stream for stream, _ in turns.messages(1000)] == [other]
    one.held = False
    assert [data for _, data in turns.messages(1000)] == [b"a1"]
