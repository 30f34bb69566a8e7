"""Values over ts: what was true when, and forgetting what nobody can ask for any more.

- A value holds from its ts on, until the next one; None says that nothing is there. Before the first there is nothing.
- `put` goes forward only: ts is at or above the last one; at the same ts the later call counts.
- `forget(below_ts)` changes no answer for a ts >= below_ts. An index forgets in time that grows with what was put since, not
  with what it holds: it keeps, oldest first, at which ts which timeline got something that it can forget.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Timeline(Generic[V]):
    """Values by the ts from which each holds; None: nothing is there."""

    __slots__ = ("starts", "values")

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.values: list[V | None] = []

    def at(self, ts: int) -> V | None:
        place = bisect_right(self.starts, ts)
        return self.values[place - 1] if place else None

    def last(self) -> V | None:
        return self.values[-1] if self.values else None

    def put(self, ts: int, value: V | None) -> None:
        if self.starts and self.starts[-1] == ts:
            self.values[-1] = value
        else:
            self.starts.append(ts)
            self.values.append(value)

    def forget(self, below_ts: int) -> bool:
        """Drop what no ts >= below_ts finds; True: nothing is left to find."""
        place = bisect_right(self.starts, below_ts) - 1
        if place > 0:
            del self.starts[:place], self.values[:place]
        return len(self.values) == 1 and self.values[0] is None


class TimelineIndex(Generic[K, V]):
    """Timelines by key, and which of them have something to forget, oldest first."""

    def __init__(self) -> None:
        self.timelines: dict[K, Timeline[V]] = {}
        self._superseded: deque[tuple[int, K]] = deque()

    def at(self, key: K, ts: int) -> V | None:
        timeline = self.timelines.get(key)
        return timeline.at(ts) if timeline is not None else None

    def last(self, key: K) -> V | None:
        timeline = self.timelines.get(key)
        return timeline.last() if timeline is not None else None

    def put(self, ts: int, key: K, value: V | None) -> None:
        timeline = self.timelines.get(key)
        if timeline is None:
            timeline = self.timelines[key] = Timeline()
        else:
            self._superseded.append((ts, key))
        timeline.put(ts, value)

    def forget(self, below_ts: int) -> None:
        while self._superseded and self._superseded[0][0] <= below_ts:
            _, key = self._superseded.popleft()
            timeline = self.timelines.get(key)
            if timeline is not None and timeline.forget(below_ts):
                del self.timelines[key]
