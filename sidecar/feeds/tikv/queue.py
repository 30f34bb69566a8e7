"""What was pulled and is not polled yet: bounded in bytes, in the order it came from each store.

- `put` waits while the queue is full; so its caller stops reading, and HTTP/2 makes the store wait. One batch that is larger than
  the bound goes in when nothing else waits.
- Events belong to a `WantedRange`, one asking for a range. What is not wanted any more is thrown away, in the queue and before it: a
  mark of an earlier asking must not cover a later one.
- Each poll raises an error, at once and again: what was pulled is pulled again by the next term.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from threading import Condition
from typing import NamedTuple

from sidecar.shared.model.nouns import CommitTs
from sidecar.shared.rowcodec.key_values import KeyRange, KvEvent

EVENT_BYTES = 200
"""What an event takes beside its keys and values, about."""

POLL_EVENTS_MAX = 10_000
"""Of one poll: the pipeline comes back to the dump and to operators in between."""


class WantedRange:
    """One asking for a range, from `from_ts` on. `ended`: nobody wants it any more. Up to `durable_ts` it is not needed again."""

    __slots__ = ("durable_ts", "ended", "from_ts", "range")

    def __init__(self, range: KeyRange, from_ts: CommitTs) -> None:
        self.range = range
        self.from_ts = from_ts
        self.durable_ts = from_ts
        self.ended = False


class _Batch(NamedTuple):
    wanted: WantedRange
    events: Sequence[KvEvent]
    bytes: int


class EventQueue:
    """For many threads that put and one that polls."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._changed = Condition()
        self._batches: deque[_Batch] = deque()
        self._bytes = 0
        self._error: BaseException | None = None
        self._closed = False

    @property
    def bytes_waiting(self) -> int:
        return self._bytes

    def put(self, wanted: WantedRange, events: Sequence[KvEvent], payload_bytes: int) -> bool:
        """Waits for room. False: the queue is closed or has failed, and nothing more is needed."""
        size = payload_bytes + EVENT_BYTES * len(events)
        with self._changed:
            while not (wanted.ended or self._over() or not self._bytes or self._bytes + size <= self._bytes_max):
                self._changed.wait()
            if self._over():
                return False
            if not wanted.ended:
                self._batches.append(_Batch(wanted, events, size))
                self._bytes += size
                self._changed.notify_all()
            return True

    def poll(self, *, timeout_s: float) -> Sequence[KvEvent]:
        """Raises what `fail` was given."""
        events: list[KvEvent] = []
        with self._changed:
            self._changed.wait_for(lambda: bool(self._batches) or self._over(), timeout_s)
            if self._error is not None:
                raise self._error
            while self._batches and len(events) < POLL_EVENTS_MAX:
                batch = self._batches.popleft()
                self._bytes -= batch.bytes
                events += batch.events
            self._changed.notify_all()
        return events

    def end(self, wanted: WantedRange) -> None:
        """Nobody wants it any more."""
        with self._changed:
            wanted.ended = True
            kept = deque(batch for batch in self._batches if not batch.wanted.ended)
            self._batches, self._bytes = kept, sum(batch.bytes for batch in kept)
            self._changed.notify_all()

    def fail(self, error: BaseException) -> None:
        """The first one counts: what comes after it follows from it."""
        with self._changed:
            self._error = self._error or error
            self._changed.notify_all()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._batches.clear()
            self._bytes = 0
            self._changed.notify_all()

    def _over(self) -> bool:
        return self._closed or self._error is not None
