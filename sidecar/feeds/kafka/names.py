"""The topics of the tables that the source has at present, fetched in the background: no caller waits for the source.

An answer counts for a question only if it was fetched after the question came. A source that cannot be reached is queried again
and again: the caller waits, and `failure` says why. What else ends the fetching, known or unknown, the next look raises, in the
caller's thread.
"""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from threading import Condition, Event

from sidecar.feeds.kafka.lanes import TableTopics
from sidecar.shared.errors import TicdcDumpError
from sidecar.shared.process.background import Background

CLOSE_WAIT_S = 1.0

AGAIN_S = 1.0
"""After a failure that a retry can help; the source itself was tried for longer."""

_END = 0


class TopicNames:
    """`present` may wait and raise; it is called by one thread at a time, the background's."""

    def __init__(self, present: Callable[[], TableTopics]) -> None:
        self.failure = ""  # of the last try, in words; empty after one that succeeded
        self._present = present
        self._question = 0
        self._answer_number, self._topics = 0, TableTopics(frozenset(), frozenset())
        self._to_do: SimpleQueue[int] = SimpleQueue()
        self._change = Condition()
        self._background = Background(self._work, name="kafka-feed-names")

    def ask(self) -> int:
        """The number of the question, for `answer`."""
        self._question += 1
        self._to_do.put(self._question)
        return self._question

    def answer(self, number: int, *, wait_s: float) -> TableTopics | None:
        """What the source returned after question `number` came, None as long as it has not. Raises what ended the fetching."""
        with self._change:
            self._change.wait_for(lambda: self._answer_number >= number, wait_s)
            topics = self._topics if self._answer_number >= number else None
        self._background.check()
        return topics

    def close(self) -> None:
        """A source that does not answer is left behind after CLOSE_WAIT_S."""
        self._to_do.put(_END)
        self._background.close(CLOSE_WAIT_S)

    def _work(self, ending: Event) -> None:
        while (number := self._to_do.get()) != _END:
            if not self._to_do.empty():
                continue  # what is fetched for a later question answers this one too
            if (topics := self._fetched(ending)) is not None:
                with self._change:
                    self._answer_number, self._topics = number, topics
                    self._change.notify_all()

    def _fetched(self, ending: Event) -> TableTopics | None:
        """However long the source is away; None at the end."""
        while not ending.is_set():
            try:
                topics = self._present()
            except TicdcDumpError as error:
                if not error.retryable:
                    raise
                self.failure = error.message
                ending.wait(AGAIN_S)
            else:
                self.failure = ""
                return topics
        return None
