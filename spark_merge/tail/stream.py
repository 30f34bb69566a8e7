"""The log's segments in their order, as a table's events: the last ones, all of them, or those that come.

    last(limit)   from the log's end backwards, until there are `limit` events; given in the log's order
    all()         from its beginning on, in memory that does not grow
    to_end()      after either: what was written since, up to the log's end
    coming()      after any of them: what the sidecar writes from then on

- A log is read beside its sidecar, which does not know of it and removes segments meanwhile. What is gone when its turn comes is named
  (`removed`), and the next segment that is there follows. A file that is missing for another reason is an error.
- A segment that is there can lack what a window of it reaches back to: then the rows of that window are `unknown`.
- `since` names the first segment, or a commit-ts: events of smaller ones are not given.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass
from typing import TypeAlias

from sidecar.shared.errors import LogError, RefusedRequest, SinkError
from sidecar.shared.log.manifest import Manifest
from sidecar.shared.log.manifests import decoded, kept, manifest_files, manifest_of
from sidecar.shared.model.nouns import FIRST_SEQ, CommitTs, Seq, TableSchema
from spark_merge.log.cache import DecodedRows
from spark_merge.log.read import LoggedSchemas, new_manifests
from spark_merge.tail.events import EventKind, TailEvent
from spark_merge.tail.followed import FollowedTable
from spark_merge.tail.segment import SegmentEvents, TailScope
from spark_merge.tail.wanted import SEGMENT_MAX

MANIFESTS_AT_ONCE = 32
POLL_S = 1.0
LIMIT_MAX = 100_000
"""Events that are held, for `last`."""

NO_TS = CommitTs(0)

Tables: TypeAlias = "tuple[TableSchema | None, TableSchema | None]"
"""The table in a segment and after its DDLs."""


@dataclass(frozen=True, slots=True)
class Since:
    """Events of this segment and later ones, and of them those at this commit-ts or later."""

    seq: Seq = FIRST_SEQ
    commit_ts: CommitTs = NO_TS

    @classmethod
    def of(cls, number: int) -> Since:
        """A segment's number, or a TSO: those of this century are greater than any segment's."""
        return cls(seq=Seq(number)) if number < SEGMENT_MAX else cls(commit_ts=CommitTs(number))

    def is_before(self, manifest: Manifest) -> bool:
        """Whether the segment has only what comes before."""
        return manifest.seq < self.seq or manifest.upto_ts < self.commit_ts


class TableStream:
    """For one thread. `followed`: as of the log's end; it is changed. `cache`: as of SegmentEvents. Each call raises what reading and
    decoding the log raises."""

    def __init__(self, scope: TailScope, followed: FollowedTable, since: Since, cache: DecodedRows | None = None) -> None:
        self._log, self._events, self._since = scope.log, SegmentEvents(scope, cache), since
        self._followed = followed
        self._kept = kept(scope.log)
        self._next = Seq(self._kept.stop)

    def begin(self) -> TailEvent:
        """The log's first segment."""
        first = manifest_of(self._log, Seq(self._kept.start))
        text = "earlier segments were removed by retention" if self._kept.start else "the log has every segment"
        after_ts = CommitTs(0) if first is None else first.after_ts
        return TailEvent(EventKind.BEGIN, Seq(self._kept.start), after_ts, self._followed.wanted, text=text)

    def last(self, limit: int) -> list[TailEvent]:
        """At most LIMIT_MAX."""
        self._events.look()
        segments, count = deque[list[TailEvent]](), 0
        for manifest, tables in self._backwards(copy(self._followed)):
            events = list(deque(self._of(manifest, tables), maxlen=min(limit, LIMIT_MAX)))
            segments.appendleft(events)
            count += len(events)
            if count >= min(limit, LIMIT_MAX):
                break
        return [event for events in segments for event in events][-min(limit, LIMIT_MAX) :]

    def all(self) -> Iterator[TailEvent]:
        self._events.look()
        first = copy(self._followed)
        start = self._next
        for manifest, _ in self._backwards(first):
            start = manifest.seq
        stop, self._next, self._followed = self._next, start, first
        yield from self._up_to(stop)

    def to_end(self) -> Iterator[TailEvent]:
        """The log's end as of this call. Raises LogBroken."""
        self._events.look()
        yield from self._up_to(Seq(kept(self._log).stop))

    @property
    def next_seq(self) -> Seq:
        """The first segment that has not been read."""
        return self._next

    def coming(self, wait: Callable[[float], object]) -> Iterator[TailEvent]:
        """For ever. `wait`: so many seconds, until the log is looked at again."""
        while True:
            before = self._next
            self._events.look()
            yield from self._forwards(MANIFESTS_AT_ONCE)
            if self._next == before:
                wait(POLL_S)

    # ---- from segment to segment ---------------------------------------------------------------------------------------

    def _backwards(self, followed: FollowedTable) -> Iterator[tuple[Manifest, Tables]]:
        """Down to what retention has removed, or `since`."""
        for stop in range(self._kept.stop, self._kept.start, -MANIFESTS_AT_ONCE):
            part = range(max(self._kept.start, stop - MANIFESTS_AT_ONCE), stop)
            for seq, data in reversed(list(manifest_files(self._log, part))):
                if data is None:
                    deque(self._removed(seq), maxlen=0)  # raises for what is lost
                    return
                manifest = decoded(self._log, seq, data)
                if self._since.is_before(manifest):
                    return
                after = self._at(followed, manifest.next_schemas or manifest.schemas)
                yield manifest, (self._at(followed, manifest.schemas), after)

    def _up_to(self, stop: Seq) -> Iterator[TailEvent]:
        while self._next < stop:
            yield from self._forwards(stop - self._next)

    def _forwards(self, limit: int) -> Iterator[TailEvent]:
        """The next segments that are there, at most `limit`."""
        try:
            manifests = new_manifests(self._log, after=Seq(self._next - 1), limit=min(limit, MANIFESTS_AT_ONCE))
        except (LogError, SinkError):
            yield from self._removed(self._next)
            return
        for manifest in manifests:
            before = self._at(self._followed, manifest.schemas)
            tables = before, self._at(self._followed, manifest.next_schemas or manifest.schemas)
            self._next = Seq(manifest.seq + 1)
            if not self._since.is_before(manifest):
                yield from self._of(manifest, tables)

    def _at(self, followed: FollowedTable, schemas: str) -> TableSchema | None:
        try:
            return followed.at(LoggedSchemas(self._log, schemas))
        except LogError:
            if kept(self._log).start == self._kept.start:
                raise
            return None  # the segments are gone, and with them the file

    def _of(self, manifest: Manifest, tables: Tables) -> Iterator[TailEvent]:
        """What was given before segments were removed is the same behind that."""
        given = 0
        while True:
            start = Seq(self._kept.start)
            try:
                for number, event in enumerate(self._events.of(manifest, tables, start)):
                    if number >= given:
                        given += 1
                        if event.commit_ts >= self._since.commit_ts:
                            yield event
                return
            except (LogError, RefusedRequest, SinkError):
                self._kept = kept(self._log)
                if self._kept.start == start:
                    raise
            if manifest.seq < self._kept.start:
                yield from self._removed(manifest.seq)
                return

    def _removed(self, seq: Seq) -> Iterator[TailEvent]:
        """One event, if retention has removed this segment; none if it is there by now. Raises LogBroken where it is lost."""
        self._kept = kept(self._log)
        start = Seq(self._kept.start)
        if seq >= start:
            new_manifests(self._log, after=Seq(seq - 1), limit=1)
            return
        self._next = max(self._next, start)
        text = f"segments {seq} to {start - 1} were removed by retention while the log was read"
        yield TailEvent(EventKind.REMOVED, seq, CommitTs(0), self._followed.wanted, text=text)
