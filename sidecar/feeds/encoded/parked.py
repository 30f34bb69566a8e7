"""A message that stops the stream is kept for an operator to look at; one that he has parked is as if it had not been sent.

- It is passed before anything looks into it: what is parked stops nothing.
- Its tables have a hole before its lane is read past it: the poll in which the message would have come reports it, and the next segment
  has it. Where the message comes again, so does the hole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from sidecar.feeds.around import NotifyingFeedAround
from sidecar.feeds.contract import NotifyingFeed
from sidecar.ports import NO_READ_ENDS, NOT_KNOWN
from sidecar.shared.codecs.contract import Codec
from sidecar.shared.errors import FeedError, with_hint
from sidecar.shared.log.parked import Parked, StoppedAt, digest, read_parked, write_stopped
from sidecar.shared.log.storage import Folder
from sidecar.shared.model.nouns import Lane, Message, ReadEnd


class MessageParking:
    """As Parking, of one term. `passed` is called with each message that is passed, in the thread that polls."""

    def __init__(self, log: Folder, codec: Codec) -> None:
        self.passed: Callable[[Parked], object] = lambda _: None
        self._log, self._codec = log, codec
        self._polled: Sequence[Message] = ()

    def around(self, feed: NotifyingFeed) -> NotifyingFeed:
        """`feed`, which is nearest to the wire, without what is parked."""
        return _WithoutParked(feed, self._log, self._note, lambda one: self.passed(one))

    def note_stop(self, error: FeedError, now_ms: int) -> StoppedAt | None:
        """Keep the message that the stream stopped at, with why; None where it is not known which one. Raises as the log's storage."""
        message = next(self._named_by(error), None)
        if message is None:
            return None
        stopped = StoppedAt(message.lane, message.position, message.key, message.value, with_hint(error.message, error.hint), now_ms)
        write_stopped(self._log, stopped)
        return stopped

    def _note(self, messages: Sequence[Message]) -> None:
        self._polled = messages

    def _named_by(self, error: FeedError) -> Iterator[Message]:
        """None that the codec can read: what is wrong is not in it then, and the stream would stop behind it, too."""
        yield from (one for one in self._polled if f"{one.at()}:" in error.message and self._is_unreadable(one))

    def _is_unreadable(self, message: Message) -> bool:
        try:
            self._codec.envelopes(message)
        except FeedError:
            return True
        return False


class _WithoutParked(NotifyingFeedAround):
    def __init__(
        self, feed: NotifyingFeed, log: Folder, note: Callable[[Sequence[Message]], None], passed: Callable[[Parked], object]
    ) -> None:
        super().__init__(feed)
        self._log, self._note, self._passed = log, note, passed
        self._parked: dict[str, Parked] = {}
        self._gaps: set[Lane] = set()

    def seek(
        self,
        positions: Mapping[Lane, int],
        incarnations: Mapping[Lane, str] = NOT_KNOWN,
        read_ends: Mapping[Lane, ReadEnd] = NO_READ_ENDS,
    ) -> None:
        """Raises also LogBroken for a decision that cannot be read."""
        self._parked = {digest(one.stopped.message): one for one in read_parked(self._log)}
        super().seek(positions, incarnations, read_ends)

    def poll(self, *, timeout_s: float) -> Sequence[Message]:
        messages = self._feed.poll(timeout_s=timeout_s)
        if self._parked:
            messages = [self._after_gap(one) for one in messages if not self._is_parked(one)]
        self._note(messages)
        return messages

    def _after_gap(self, message: Message) -> Message:
        """What is gone before a message that was passed is gone before the next one of its lane."""
        if message.lane not in self._gaps:
            return message
        self._gaps.discard(message.lane)
        return message._replace(after_gap=True)

    def _is_parked(self, message: Message) -> bool:
        parked = self._parked.get(digest(message))
        if parked is not None:
            self._passed(parked)
            self._gaps |= {message.lane} if message.after_gap else set()
        return parked is not None
