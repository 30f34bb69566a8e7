"""How long a transaction takes through TiCDC: on a busy cluster seconds, and not always the same.

Order stays: a transaction that would be quicker than the one before it comes with that one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")

EACH_S = 3.0
"""So long each of several ways holds, in turn."""


class Way(Generic[T]):
    """`ways_s`: seconds; none: no way at all."""

    def __init__(self, ways_s: Sequence[float]) -> None:
        self._ways_s = tuple(ways_s) or (0.0,)
        self._held: deque[tuple[float, T]] = deque()

    def through(self, one: T, now_s: float) -> Iterator[T]:
        """`one` begins its way now; what has come to the end of it."""
        due_s = now_s + self._ways_s[int(now_s / EACH_S) % len(self._ways_s)]
        self._held.append((max(due_s, self._held[-1][0]) if self._held else due_s, one))
        while self._held and self._held[0][0] <= now_s:
            yield self._held.popleft()[1]

    def clear(self) -> None:
        """What is on its way begins again from its source."""
        self._held.clear()
