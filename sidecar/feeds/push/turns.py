"""The streams of one server, read one message of each in turn, so that none waits for another's end.

The owner of the streams decides what a message means, and ends a stream that says what it may not. What all have alike is here: credit is
given back to those who have a name, and a stream that ended is read to its end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Generic, TypeVar

from sidecar.feeds.push.conversation import Conversation
from sidecar.feeds.push.credits import Credits

C = TypeVar("C", bound=Conversation)


class Turns(Generic[C]):
    """`more`: whether something may wait of what `messages` was to give when it ended."""

    def __init__(self, credits: Credits) -> None:
        self._credits = credits
        self._waiting: deque[C] = deque()
        self.more = False

    def __iter__(self) -> Iterator[C]:
        return iter(self._waiting)

    def add(self, one: C) -> None:
        self._waiting.append(one)

    def messages(self, bytes_max: int) -> Iterator[tuple[C, bytes | None]]:
        """The oldest message of each, until nothing waits or they have so many bytes. None: that stream is gone, and was read to its end;
        it is to be finished."""
        bytes_left, idle = bytes_max, 0
        while idle < len(self._waiting) and bytes_left > 0:
            one = self._waiting[0]
            self._waiting.rotate(-1)
            if one.waits():
                idle += 1
                continue
            gone, data = one.stream.gone(), one.stream.next()
            if data is None and not gone:
                idle += 1
                continue
            idle = 0
            bytes_left -= len(data or b"")
            yield one, data
        self.more = idle < len(self._waiting)

    def grant(self) -> None:
        for one in self._waiting:
            if one.name and not one.stream.gone() and (more := self._credits.grant(one.stream.number)):
                one.stream.grant(more)

    def finish(self, one: C) -> None:
        """Nothing of it is needed any more."""
        self._credits.leave(one.stream.number)
        self._waiting.remove(one)

    def named(self) -> list[C]:
        """Those who have said Hello, by name."""
        return sorted((one for one in self._waiting if one.name), key=lambda one: (one.name, one.stream.number))
