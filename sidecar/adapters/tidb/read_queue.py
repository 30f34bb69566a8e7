"""Chunk commands between the caller and the readers: a command that continues a chunk goes to the reader that reads ahead behind it.

A reader that has reported a chunk may be reading the next one already (ReadChunk.ahead). The command for that chunk comes later, if it
comes: `keep` says who waits for it. Other commands go to readers that wait for none, and to one that does where nobody else is idle.

It must not know what a SELECT is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from threading import Condition

from sidecar.shared.model.messages import ReadChunk


class Reads:
    """For any thread."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._waiting: deque[ReadChunk] = deque()
        self._kept: set[int] = set()
        self._idle = 0
        self._closed = False

    def put(self, command: ReadChunk) -> None:
        with self._changed:
            self._waiting.append(command)
            self._changed.notify_all()

    def keep(self, number: int) -> None:
        """The calling reader reads ahead behind chunk `number`: called before that chunk is reported, and undone by its next `take`."""
        with self._changed:
            self._kept.add(number)

    def take(self, kept: int | None, gone: Callable[[], bool] = lambda: False) -> ReadChunk | None:
        """The next command for a reader that reads ahead behind chunk `kept`, or behind none; waits for one. None: closed, or the reader is
        `gone`, which `wake` makes it look at."""
        with self._changed:
            self._idle += kept is None
            self._changed.wait_for(lambda: self._closed or gone() or self._next_for(kept) is not None)
            self._idle -= kept is None
            self._kept.discard(-1 if kept is None else kept)
            command = self._next_for(kept)
            if self._closed or gone() or command is None:
                self._changed.notify_all()  # what others left to this one is theirs
                return None
            self._waiting.remove(command)
            return command

    def wake(self) -> None:
        """Whether a reader is gone is another answer now."""
        with self._changed:
            self._changed.notify_all()

    def drain(self) -> list[ReadChunk]:
        """The commands that no reader has taken: no one will."""
        with self._changed:
            left, self._waiting = list(self._waiting), deque()
            return left

    def forget(self, number: int) -> None:
        """Who read ahead behind chunk `number` is gone."""
        with self._changed:
            self._kept.discard(number)
            self._changed.notify_all()

    def close(self) -> None:
        """Nobody takes a command any more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _next_for(self, kept: int | None) -> ReadChunk | None:
        if kept is not None and (mine := self._first(lambda command: command.follows == kept)):
            return mine
        if kept is not None and self._idle:
            return None
        return self._first(lambda command: command.follows not in self._kept)

    def _first(self, fits: Callable[[ReadChunk], bool]) -> ReadChunk | None:
        return next(filter(fits, self._waiting), None)
