"""Rows that are larger than a message: TiCDC sent where they are, or their key. Each becomes a message of its own, whole, at its message's
position. What else is in the message is another one.

A message comes from one poll: what a poll has returned of it could be all that is logged.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sidecar.feeds.around import NotifyingFeedAround
from sidecar.feeds.contract import NotifyingFeed
from sidecar.ports import NO_READ_ENDS, NOT_KNOWN
from sidecar.shared.codecs.contract import Claim, CodecWithParts, KeyAlone
from sidecar.shared.model.nouns import Lane, Message, ReadEnd

AT_ONCE_MAX = 8
"""Rows that are fetched side by side. Each can have 120 MB, TiDB's own limit."""

POLL_BYTES_MAX = 64 << 20
"""Of such rows in one poll, but for the rest of its last message."""


class NotWhole(NamedTuple):
    """A row that is to be fetched."""

    message: Message
    row: Claim | KeyAlone

    def words(self) -> str:
        return f"the row of {self.row.table} at commit_ts {self.row.commit_ts}"


class WithWholeRows(NotifyingFeedAround):
    """`feed`, with whole rows."""

    def __init__(self, feed: NotifyingFeed, codec: CodecWithParts) -> None:
        super().__init__(feed)
        self._codec = codec
        self._waiting: deque[Message | NotWhole] = deque()
        self._incarnations: Mapping[Lane, str] = {}

    @abstractmethod
    def fetched(self, rows: Sequence[NotWhole]) -> Sequence[Message]:
        """A whole message for each of at most AT_ONCE_MAX rows."""

    def incarnations(self) -> Mapping[Lane, str]:
        """With the lanes of which something waits here."""
        lanes = {_message(one).lane for one in self._waiting}
        return {**{lane: one for lane, one in self._incarnations.items() if lane in lanes}, **self._feed.incarnations()}

    def seek(
        self,
        positions: Mapping[Lane, int],
        incarnations: Mapping[Lane, str] = NOT_KNOWN,
        read_ends: Mapping[Lane, ReadEnd] = NO_READ_ENDS,
    ) -> None:
        super().seek(positions, incarnations, read_ends)
        self._waiting.clear()

    def poll(self, *, timeout_s: float) -> Sequence[Message]:
        """Raises also what `fetched` does."""
        if not self._waiting:
            self._incarnations = dict(self._feed.incarnations())
            for message in self._feed.poll(timeout_s=timeout_s):
                self._waiting.extend(parts_of(message, self._codec))
        messages: list[Message] = []
        size = 0
        while self._waiting and (size < POLL_BYTES_MAX or self._amid(messages)):
            some = [self._waiting[place] for place in range(min(AT_ONCE_MAX, len(self._waiting)))]
            whole = iter(self.fetched(rows)) if (rows := [one for one in some if isinstance(one, NotWhole)]) else iter(())
            for one in some:
                messages.append(next(whole) if isinstance(one, NotWhole) else one)
                size += len(messages[-1].value or b"") if isinstance(one, NotWhole) else 0
                self._waiting.popleft()
        return messages

    def _amid(self, messages: Sequence[Message]) -> bool:
        """Whether what waits is of the message of which something has been returned."""
        return bool(messages) and messages[-1][:2] == _message(self._waiting[0])[:2]


class WithoutLargeRows(NotifyingFeedAround):
    """For who looks at messages alone: rows that are not whole are passed over."""

    def __init__(self, feed: NotifyingFeed, codec: CodecWithParts) -> None:
        super().__init__(feed)
        self._codec = codec

    def poll(self, *, timeout_s: float) -> Sequence[Message]:
        parts = [one for message in self._feed.poll(timeout_s=timeout_s) for one in parts_of(message, self._codec)]
        return [one for one in parts if isinstance(one, Message)]


def parts_of(message: Message, codec: CodecWithParts) -> list[Message | NotWhole]:
    """The message itself where it is whole."""
    parts: list[Message | NotWhole] = []
    for part in codec.parts(message):
        one = message._replace(after_gap=message.after_gap and not parts)
        parts.append(NotWhole(one, part) if isinstance(part, Claim | KeyAlone) else one._replace(key=part[0], value=part[1]))
    return parts or [message]


def _message(one: Message | NotWhole) -> Message:
    return one.message if isinstance(one, NotWhole) else one
