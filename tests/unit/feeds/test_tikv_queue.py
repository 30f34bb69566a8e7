"""The bound in bytes, the order, and what becomes of events that nobody wants any more."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, Thread

import pytest

from sidecar.feeds.tikv.queue import EVENT_BYTES, POLL_EVENTS_MAX, EventQueue, WantedRange
from sidecar.shared.errors import FeedLost
from sidecar.shared.model.nouns import CommitTs
from sidecar.shared.rowcodec.key_values import KeyRange, KvEntry, KvEvent, Pulled
from tests.support.eventually import PATIENCE_S

RANGE = KeyRange(b"a", b"b")


def wanted() -> WantedRange:
    return WantedRange(RANGE, CommitTs(1))


def entry(number: int) -> KvEntry:
    return KvEntry(CommitTs(number), number - 1, b"a", b"v", b"")


def started(work: Callable[[], object]) -> tuple[Thread, Event]:
    done = Event()

    def run() -> None:
        work()
        done.set()

    thread = Thread(target=run, daemon=True)
    thread.start()
    return thread, done


def test_events_come_in_the_order_they_were_put() -> None:
    queue, it = EventQueue(10_000), wanted()
    events: list[KvEvent] = [entry(1), entry(2), Pulled(RANGE, CommitTs(2)), entry(3)]
    for event in events:
        assert queue.put(it, [event], 1)
    assert queue.poll(timeout_s=0) == events
    assert queue.poll(timeout_s=0) == []


def test_a_full_queue_waits_for_the_one_who_polls() -> None:
    queue, it = EventQueue(2 * EVENT_BYTES + 20), wanted()
    queue.put(it, [entry(1)], 10)
    queue.put(it, [entry(2)], 10)
    assert queue.bytes_waiting == 2 * EVENT_BYTES + 20
    thread, done = started(lambda: queue.put(it, [entry(3)], 10))
    assert not done.wait(0.05)
    assert queue.poll(timeout_s=0) == [entry(1), entry(2)]
    thread.join(PATIENCE_S)
    assert done.is_set()
    assert queue.poll(timeout_s=0) == [entry(3)]


def test_a_batch_larger_than_the_bound_goes_in_alone() -> None:
    queue, it = EventQueue(100), wanted()
    assert queue.put(it, [entry(1)], 10_000)
    _, done = started(lambda: queue.put(it, [entry(2)], 0))
    assert not done.wait(0.05)
    assert queue.poll(timeout_s=0) == [entry(1)]
    assert done.wait(PATIENCE_S)


def test_a_poll_ends_before_it_takes_too_long() -> None:
    queue, it = EventQueue(1 << 40), wanted()
    for _ in range(5):
        queue.put(it, [entry(1)] * (POLL_EVENTS_MAX // 2), 0)
    assert len(queue.poll(timeout_s=0)) == POLL_EVENTS_MAX


def test_what_nobody_wants_any_more_is_thrown_away() -> None:
    queue, gone, other = EventQueue(2 * EVENT_BYTES), wanted(), wanted()
    queue.put(gone, [entry(1)], 0)
    queue.put(other, [entry(2)], 0)
    thread, _ = started(lambda: queue.put(gone, [entry(3)], 0))
    queue.end(gone)
    thread.join(PATIENCE_S)
    assert not thread.is_alive(), "its room is not waited for any more"
    assert queue.put(gone, [entry(4)], 0), "others go on"
    assert queue.bytes_waiting == EVENT_BYTES
    assert queue.poll(timeout_s=0) == [entry(2)]


def test_an_error_comes_at_once_and_again_and_ends_all_waiting() -> None:
    queue, it = EventQueue(EVENT_BYTES), wanted()
    queue.put(it, [entry(1)], 0)
    results: list[bool] = []
    thread, _ = started(lambda: results.append(queue.put(it, [entry(2)], 0)))
    first = FeedLost("first", hint="wait")
    queue.fail(first)
    queue.fail(FeedLost("what follows from it", hint="wait"))
    thread.join(PATIENCE_S)
    assert results == [False]
    for _ in range(2):
        with pytest.raises(FeedLost, match="first"):
            queue.poll(timeout_s=0)


def test_closing_ends_all_waiting() -> None:
    queue, it = EventQueue(EVENT_BYTES), wanted()
    queue.put(it, [entry(1)], 0)
    results: list[bool] = []
    thread, _ = started(lambda: results.append(queue.put(it, [entry(2)], 0)))
    queue.close()
    thread.join(PATIENCE_S)
    assert results == [False]
    assert queue.poll(timeout_s=PATIENCE_S) == []
