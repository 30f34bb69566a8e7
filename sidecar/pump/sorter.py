"""Up to which commit_ts all is known. Pure: who pushes says what time it is.

Binlogs stand in the order of their arrival. The front goes when it is an end (commit, rollback, fake), or a prewrite whose end has
arrived; a prewrite without one holds everything behind it. What has gone with a commit_ts raises the mark to it.

So behind a mark X comes no commit_ts <= X: a transaction gets its commit_ts from PD after its prewrite binlog was answered, and all
prewrites that had arrived when X's binlog did have ended.

From pingcap/tidb-binlog pump/storage/sorter.go.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from sidecar.pump.value_log import ValuePlace


class WaitingPrewrite(NamedTuple):
    """A prewrite without an end. `since_s`: when it arrived."""

    start_ts: int
    since_s: float


class _Item(NamedTuple):
    """`commit_ts` None: a prewrite."""

    start_ts: int
    commit_ts: int | None
    place: ValuePlace


class Sorter:
    def __init__(self, max_commit_ts: int) -> None:
        self.max_commit_ts = max_commit_ts
        self._items: deque[_Item] = deque()
        self._waiting: dict[int, float] = {}

    def prewrite(self, start_ts: int, place: ValuePlace, *, now_s: float) -> None:
        """Nothing is done for one that waits already."""
        if start_ts not in self._waiting:
            self._waiting[start_ts] = now_s
            self._items.append(_Item(start_ts, None, place))

    def end(self, start_ts: int, commit_ts: int, place: ValuePlace) -> None:
        """`commit_ts` 0: rolled back."""
        self._waiting.pop(start_ts, None)
        self._items.append(_Item(start_ts, commit_ts, place))

    def advance(self) -> bool:
        """Whether the mark rose."""
        before = self.max_commit_ts
        while self._items:
            start_ts, commit_ts, _ = self._items[0]
            if commit_ts is None:
                if start_ts in self._waiting:
                    break
            else:
                self.max_commit_ts = max(self.max_commit_ts, commit_ts)
            self._items.popleft()
        return self.max_commit_ts > before

    def front(self) -> ValuePlace | None:
        """What was before it has gone; None: everything."""
        return self._items[0].place if self._items else None

    def held(self, *, longer_than_s: float, now_s: float) -> Sequence[WaitingPrewrite]:
        """Prewrites that have waited for so long, the earliest first; none unless the front is one of them."""
        held = []
        for start_ts, since_s in self._waiting.items():
            if now_s - since_s < longer_than_s:
                break
            held.append(WaitingPrewrite(start_ts, since_s))
        return held

    @property
    def waiting(self) -> int:
        return len(self._waiting)
