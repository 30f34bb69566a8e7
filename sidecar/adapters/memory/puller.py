"""A Puller whose cluster is in the test's hands: what is committed and resolved by calls is what is pulled.

- The cluster keeps its history: a range that is wanted late gets all of it above its ts, then the marks that cover it.
- A commit at or below a mark that covers its key is a mistake of the test, and refused.
- `repeat` delivers again what a sender would after its connection was lost: all above what was pulled of the range.
- An entry is delivered before every mark that covers it, in the order of the calls; a poll ends at `poll_bytes_max`.
- The cluster's calls may come from another thread than the port's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from threading import Condition

from sidecar.shared.errors import TicdcDumpError
from sidecar.shared.model.nouns import CommitTs
from sidecar.shared.rowcodec.key_values import KeyRange, KvEntry, KvEvent, Pulled

POLL_BYTES_MAX = 1 << 20
EVERYTHING = KeyRange(b"", b"\xff" * 64)


class MemoryPuller:
    """sidecar.ports.Puller. `durable`: what was acknowledged, of ranges that are wanted."""

    def __init__(self, *, poll_bytes_max: int = POLL_BYTES_MAX) -> None:
        self._poll_bytes_max = poll_bytes_max
        self._changed = Condition()
        self._history: list[KvEntry] = []
        self._marks: dict[KeyRange, CommitTs] = {}
        self._wanted: dict[KeyRange, CommitTs] = {}
        self._waiting: dict[KeyRange, deque[KvEvent]] = {}
        self._failure: TicdcDumpError | None = None
        self.durable: dict[KeyRange, CommitTs] = {}

    # ---- the cluster ----------------------------------------------------------------------------------------------------

    def commit(self, *entries: KvEntry) -> None:
        """Raises ValueError for a commit that a mark excluded."""
        with self._changed:
            for entry in entries:
                if late := [mark for mark, ts in self._marks.items() if entry.key in mark and entry.commit_ts <= ts]:
                    raise ValueError(f"commit_ts {entry.commit_ts} is at or below the mark {self._marks[late[0]]} of {late[0]}")
                self._history.append(entry)
                for wanted, ts in self._wanted.items():
                    if entry.key in wanted and entry.commit_ts > ts:
                        self._waiting[wanted].append(entry)
            self._changed.notify_all()

    def resolve(self, upto_ts: int, within: KeyRange = EVERYTHING) -> None:
        """Nothing at or below `upto_ts` is still to come, of keys `within`. A mark that goes back says nothing."""
        with self._changed:
            self._marks[within] = max(CommitTs(upto_ts), self._marks.get(within, CommitTs(0)))
            for wanted in self._wanted:
                self._mark(wanted, within)
            self._changed.notify_all()

    def repeat(self, wanted: KeyRange) -> None:
        """Everything of this wanted range above its ts comes again, and its marks."""
        with self._changed:
            self._replay(wanted)
            self._changed.notify_all()

    def fail(self, error: TicdcDumpError) -> None:
        """Raised by the next poll, and by every one after it."""
        with self._changed:
            self._failure = error
            self._changed.notify_all()

    def wanted(self) -> Mapping[KeyRange, CommitTs]:
        """Each with the ts from which it was wanted first."""
        with self._changed:
            return dict(self._wanted)

    # ---- the port -------------------------------------------------------------------------------------------------------

    def want(self, wanted: Mapping[KeyRange, CommitTs]) -> None:
        with self._changed:
            for ended in self._wanted.keys() - wanted.keys():
                del self._wanted[ended], self._waiting[ended]
                self.durable.pop(ended, None)
            for begun, ts in wanted.items():
                if begun not in self._wanted:
                    self._wanted[begun], self._waiting[begun] = ts, deque()
                    self._replay(begun)
            self._changed.notify_all()

    def poll(self, *, timeout_s: float) -> Sequence[KvEvent]:
        with self._changed:
            self._changed.wait_for(lambda: self._failure is not None or any(self._waiting.values()), timeout_s)
            if self._failure is not None:
                raise self._failure
            events: list[KvEvent] = []
            bytes_left = self._poll_bytes_max
            for waiting in self._waiting.values():
                while waiting and bytes_left > 0:
                    event = waiting.popleft()
                    events.append(event)
                    if isinstance(event, KvEntry):
                        bytes_left -= len(event.key) + len(event.value) + len(event.old)
            return events

    def acknowledge(self, durable: Mapping[KeyRange, CommitTs]) -> None:
        with self._changed:
            for wanted, ts in durable.items():
                if wanted in self._wanted:
                    self.durable[wanted] = max(ts, self.durable.get(wanted, CommitTs(0)))

    def close(self) -> None:
        pass

    def _replay(self, wanted: KeyRange) -> None:
        ts = self._wanted[wanted]
        self._waiting[wanted].extend(entry for entry in self._history if entry.key in wanted and entry.commit_ts > ts)
        for within in self._marks:
            self._mark(wanted, within)

    def _mark(self, wanted: KeyRange, within: KeyRange) -> None:
        start, end = max(wanted.start, within.start), min(wanted.end, within.end)
        if start < end and self._marks[within] > self._wanted[wanted]:
            self._waiting[wanted].append(Pulled(KeyRange(start, end), self._marks[within]))
