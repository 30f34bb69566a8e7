"""A feed over another one: everything is that one's, but what a subclass does itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

from sidecar.feeds.contract import NotifyingFeed
from sidecar.ports import NO_READ_ENDS, NOT_KNOWN, Feed
from sidecar.shared.model.nouns import Lane, Message, ReadEnd

F = TypeVar("F", bound=Feed)


class FeedAround(Generic[F]):
    """As Feed."""

    def __init__(self, feed: F) -> None:
        self._feed = feed

    def lanes(self) -> frozenset[Lane]:
        return self._feed.lanes()

    def ends(self) -> Mapping[Lane, int]:
        return self._feed.ends()

    def incarnations(self) -> Mapping[Lane, str]:
        return self._feed.incarnations()

    def read_ends(self) -> Mapping[Lane, ReadEnd]:
        return self._feed.read_ends()

    def seek(
        self,
        positions: Mapping[Lane, int],
        incarnations: Mapping[Lane, str] = NOT_KNOWN,
        read_ends: Mapping[Lane, ReadEnd] = NO_READ_ENDS,
    ) -> None:
        self._feed.seek(positions, incarnations, read_ends)

    def poll(self, *, timeout_s: float) -> Sequence[Message]:
        return self._feed.poll(timeout_s=timeout_s)

    def acknowledge(self, positions: Mapping[Lane, int]) -> None:
        self._feed.acknowledge(positions)


class NotifyingFeedAround(FeedAround[NotifyingFeed]):
    """As NotifyingFeed."""

    def still_because(self) -> str:
        return self._feed.still_because()

    def close(self) -> None:
        self._feed.close()
