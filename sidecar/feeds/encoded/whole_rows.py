"""Rows that are larger than a message: TiCDC sent where they are, or their key. Each becomes a message of its own, whole, at its message's
position. What else is in the message is another one.

- A message comes from one poll: what a poll has returned of it could be all that is logged.
- Rows that nobody takes are not fetched: a new log skips what is older, and what a log has comes again. Such a row may be gone for good.
- Which way a row is fetched its message says: the changefeed's option may have been another one when it was sent.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from sidecar.feeds.around import NotifyingFeedAround
from sidecar.feeds.contract import NotifyingFeed
from sidecar.ports import NO_READ_ENDS, NOT_KNOWN
from sidecar.shared.codecs.contract import Claim, CodecWithParts, KeyAlone, Part
from sidecar.shared.codecs.refusals import large_message
from sidecar.shared.model.nouns import CommitTs, Envelope, Lane, Message, ReadEnd

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


class Fetch(Protocol):
    """One way to fetch rows."""

    def __call__(self, rows: Sequence[NotWhole], /) -> Sequence[Message]:
        """A whole message for each of at most AT_ONCE_MAX rows of its kind."""


class WithWholeRows(NotifyingFeedAround):
    """`feed`, with whole rows. `ways`: how rows of a kind are fetched. `after_ts`: what is committed up to there nobody takes, known when
    `seek` is called. `end`: called at the end."""

    def __init__(
        self,
        feed: NotifyingFeed,
        codec: CodecWithParts,
        ways: Mapping[type[Claim] | type[KeyAlone], Fetch],
        *,
        after_ts: Callable[[], CommitTs],
        end: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(feed)
        self._codec, self._ways, self._end = codec, ways, end
        self._known_after_ts, self._after_ts = after_ts, CommitTs(0)
        self._waiting: deque[Message | NotWhole] = deque()
        self._incarnations: Mapping[Lane, str] = {}

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
        self._after_ts = self._known_after_ts()

    def poll(self, *, timeout_s: float) -> Sequence[Message]:
        """Raises also what a way to fetch does, and FeedUnsuitable for a row of a kind without one."""
        if not self._waiting:
            self._incarnations = dict(self._feed.incarnations())
            polled = self._feed.poll(timeout_s=timeout_s)
            parts = [self._codec.parts(message) for message in polled]
            if not any(parts):
                return polled
            for message, ours in zip(polled, parts, strict=True):
                self._take(message, ours)
        messages: list[Message] = []
        size = 0
        while self._waiting and (size < POLL_BYTES_MAX or self._amid(messages)):
            some = [self._waiting[place] for place in range(min(AT_ONCE_MAX, len(self._waiting)))]
            whole = self._fetched([one for one in some if isinstance(one, NotWhole)])
            for one in some:
                messages.append(whole[id(one)] if isinstance(one, NotWhole) else one)
                size += len(messages[-1].value or b"") if isinstance(one, NotWhole) else 0
                self._waiting.popleft()
        return messages

    def close(self) -> None:
        self._end()
        super().close()

    def _take(self, message: Message, parts: Sequence[Part]) -> None:
        """A gap before a row that nobody takes needs no look: what is gone is older than the row."""
        ours = _messages(message, parts)
        self._waiting.extend(one for one in ours if isinstance(one, Message) or one.row.commit_ts > self._after_ts)

    def _fetched(self, rows: Sequence[NotWhole]) -> Mapping[int, Message]:
        fetched: dict[int, Message] = {}
        for kind in (Claim, KeyAlone):
            if not (some := [one for one in rows if isinstance(one.row, kind)]):
                continue
            if kind not in self._ways:
                row, claim = some[0].row, some[0].row.file if isinstance(some[0].row, Claim) else ""
                raise large_message(
                    some[0].message, schema=row.table.schema, table=row.table.table, commit_ts=row.commit_ts, claim_check=claim
                )
            for one, message in zip(some, self._ways[kind](some), strict=True):
                fetched[id(one)] = message
        return fetched

    def _amid(self, messages: Sequence[Message]) -> bool:
        """Whether what waits is of the message of which something has been returned."""
        return bool(messages) and messages[-1][:2] == _message(self._waiting[0])[:2]


class CodecOfWholeRows:
    """For who looks at messages alone: `codec`, but for rows that are not whole."""

    def __init__(self, codec: CodecWithParts) -> None:
        self._codec = codec
        self.name, self.identity, self.mark = codec.name, codec.identity, codec.mark

    def envelopes(self, message: Message) -> list[Envelope]:
        whole = [one for one in _messages(message, self._codec.parts(message)) if isinstance(one, Message)]
        return [envelope for one in whole for envelope in self._codec.envelopes(one)]


def _messages(message: Message, parts: Sequence[Part]) -> list[Message | NotWhole]:
    """One for each of its parts; the message itself where it has none, as it is whole."""
    messages: list[Message | NotWhole] = []
    for part in parts:
        one = message._replace(after_gap=message.after_gap and not messages)
        messages.append(NotWhole(one, part) if isinstance(part, Claim | KeyAlone) else one._replace(key=part[0], value=part[1]))
    return messages or [message]


def _message(one: Message | NotWhole) -> Message:
    return one.message if isinstance(one, NotWhole) else one
