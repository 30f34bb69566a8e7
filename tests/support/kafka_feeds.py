"""Kafka feeds as the tests open and read them, one topic each that nobody else has."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from typing import Protocol

from sidecar.feeds.kafka.feed import KafkaFeed
from sidecar.feeds.kafka.reading import KafkaSettings
from sidecar.ports import Clock, Feed
from sidecar.shared.model.nouns import Lane, Message
from tests.support.eventually import PATIENCE_S

QUEUE_BYTES_MAX = 16 << 20


class Hurried:
    """`times` as fast as the real clock."""

    def __init__(self, times: float) -> None:
        self._times = times

    def now_s(self) -> float:
        return time.monotonic() * self._times


class Open(Protocol):
    def __call__(
        self, *topics: str, at: str = ..., client: Mapping[str, str] | None = None, clock: Clock | None = None, group: str = "it"
    ) -> KafkaFeed: ...


@contextmanager
def feeds(bootstrap: str) -> Iterator[Open]:
    """Those that it opens are closed in the end."""
    with ExitStack() as opened:

        def opener(
            *topics: str, at: str = bootstrap, client: Mapping[str, str] | None = None, clock: Clock | None = None, group: str = "it"
        ) -> KafkaFeed:
            settings = KafkaSettings(at, group, QUEUE_BYTES_MAX, client or {})
            return opened.enter_context(closing(KafkaFeed(settings, lambda: frozenset(topics), clock=clock)))

        yield opener


def new_topic() -> str:
    return f"t-{uuid.uuid4().hex[:8]}"


def lane(topic: str, partition: int = 0) -> Lane:
    return Lane(f"kafka/{topic}/{partition}")


def numbered(partition: int, first: int, end: int) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(partition, b"", b"%d" % number) for number in range(first, end)]


def read(feed: Feed, count: int) -> list[Message]:
    """So many messages, or what there is after PATIENCE_S."""
    messages: list[Message] = []
    until_s = time.monotonic() + PATIENCE_S
    while len(messages) < count and time.monotonic() < until_s:
        messages += feed.poll(timeout_s=0.2)
    return messages


def poll_until(feed: Feed, there: Callable[[], bool]) -> list[Message]:
    messages: list[Message] = []
    until_s = time.monotonic() + PATIENCE_S
    while not there():
        assert time.monotonic() < until_s
        messages += feed.poll(timeout_s=0.05)
    return messages


def poll_for_ever(feed: Feed) -> None:
    poll_until(feed, lambda: False)
