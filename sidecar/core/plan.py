"""What is read next: the tables of a dump, each cut into key ranges that are read by keyset.

A table begins as one range. Its first chunk may bring keys at which the rest can be cut, the last of them the table's
highest key at that moment: so the ranges can be read side by side, and a table that grows at its end is not run after
(what is born above it is in the feed). A range is read by one reader at a time, so its chunks follow one another and, marks
being serial, their windows close in the order of the chunks: the end of the last closed chunk is the range's cursor.
Reading may be ahead of the cursor; what is ahead is read again after a crash.

One reading of a table from its beginning to its end is a pass. A table that a DDL has the dump read again, and one that is BORN, begins
another pass with the segment behind the DDL. The chunks of a pass that are in the log have disjoint key ranges: those of one range follow
one another from its cursor, and ranges do not overlap. So a key is in one chunk of a pass at most, also when the dump had several owners.

A table of which a dump reads certain keys is cut into lists of them at the start. Each list is one SELECT, so what is said of a key that
has no row is true at one moment. A list whose rows are too large for a chunk is cut where its chunk ends: the keys behind that are read by
the next SELECT, and the chunk says nothing of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush
from itertools import pairwise
from typing import NamedTuple

from sidecar.shared.model.chunk import ChunkFile, ClosedWindow
from sidecar.shared.model.messages import ChunkRead
from sidecar.shared.model.nouns import Seq, TableName
from sidecar.shared.model.progress import Key, Span, TableProgress, afresh
from sidecar.shared.model.schema_step import SchemaFate, TableStep

SPANS_MAX = 16
"""Ranges a table is cut into: more than readers, so that none waits for the longest one; few enough to list."""

FIRST_CHUNK_ROWS_MAX = 500
"""For a table whose rows nobody has read yet: they may be wide. The reader ends a chunk that becomes too large (ReadChunk.bytes_max)."""

CHUNK_BYTES_TARGET = 16 << 20
READ_S_TARGET = 1.0
"""What the next chunk's rows are chosen for: a SELECT that an operator can kill, text that fits in a task's memory. Half of what a chunk
may have, because a SELECT that has to be ended costs its connection."""

CHUNK_ROWS_MIN = 100
"""Not gone below for the sake of time: what so few rows cost is not the rows'."""
SHRINK_MIN, SHRINK_MAX = 2, 4
"""Rows are divided by no less at once, so that it shows whether that helps, and by no more: a moment's trouble is not the table's."""
HELD_CHUNKS = 30
"""So long it stays with the rows that it had before it shrank in vain; then it tries again."""


class Work(NamedTuple):
    """Range `span` of the table that is number `order` in the dump. Sorts in the order of the dump."""

    order: int
    span: int
    table: TableName


@dataclass(frozen=True, slots=True)
class _Size:
    """How many rows the next chunk of a table has. `rows` and `read_s` of the chunk from which it was shrunk, 0 if it was not;
    `held`: for how many more chunks shrinking is known to be in vain."""

    wanted: int = FIRST_CHUNK_ROWS_MAX
    rows: int = 0
    read_s: float = 0.0
    held: int = 0

    def after(self, rows: int, size: int, read_s: float) -> _Size:
        """Adapted by a chunk of so many rows (at least one), bytes and seconds."""
        timed = self._by_time(rows, read_s)
        return replace(timed, wanted=max(1, min(timed.wanted, rows * CHUNK_BYTES_TARGET // max(size, 1))))

    def _by_time(self, rows: int, read_s: float) -> _Size:
        if read_s <= READ_S_TARGET:
            fast = int(rows * READ_S_TARGET / read_s) if read_s else rows * CHUNK_BYTES_TARGET
            return _Size(fast if rows >= CHUNK_ROWS_MIN else max(self.wanted, fast))
        if self.held:
            return replace(self, held=self.held - 1)
        if rows < self.rows and read_s > self.read_s * (1 + rows / self.rows) / 2:  # less than half of what fewer rows would have saved
            return _Size(self.rows, held=HELD_CHUNKS)
        in_time = min(int(rows * READ_S_TARGET / read_s), rows // SHRINK_MIN)
        fewer = max(in_time, rows // SHRINK_MAX, CHUNK_ROWS_MIN)
        return _Size(fewer, rows, read_s) if fewer < rows else self


@dataclass(slots=True)
class _Reading:
    """A range `(…, upper]`: how far the SELECTs are, how far the log is. Or, as of Span, `keys` that are left to be read, and those that
    are left to be logged."""

    read: Key | None
    logged: Key | None
    upper: Key | None
    keys: tuple[int, int] | None = None
    unlogged_keys: tuple[int, int] | None = None
    exhausted: bool = False
    open_chunks: int = 0

    @classmethod
    def of(cls, span: Span) -> _Reading:
        return cls(span.cursor, span.cursor, span.upper, span.keys, span.keys)

    @property
    def done(self) -> bool:
        return self.exhausted and self.open_chunks == 0


class _Open(NamedTuple):
    """A chunk that is not in the log: its range, and of a list of keys those that are left behind it."""

    work: Work
    keys_left: tuple[int, int] | None


class Plan:
    """The tables of one dump. `progress` counts what the log holds; readers claim ranges and read ahead of it."""

    def __init__(self, tables: tuple[TableProgress, ...]) -> None:
        self.progress: dict[TableName, TableProgress] = {t.table: t for t in tables}
        self._reading = {t.table: [_Reading.of(span) for span in t.spans] for t in tables}
        self._order = {t.table: order for order, t in enumerate(tables)}
        self._orders = len(tables)
        self._free = [Work(self._order[table], span, table) for table, spans in self._reading.items() for span in range(len(spans))]
        heapify(self._free)
        self._incomplete = sum(t.complete_at is None for t in tables)
        self._open: dict[str, _Open] = {}
        self._sizes: dict[TableName, _Size] = {}

    def claim(self) -> Work | None:
        """A range with rows left to read that no reader has, in the order of the dump; None if there is none."""
        return heappop(self._free) if self._free else None

    def release(self, work: Work) -> None:
        """The reader that claimed it reads no more of it for now."""
        if not self._reading[work.table][work.span].exhausted:
            heappush(self._free, work)

    def after(self, work: Work) -> Key | None:
        """Where the next SELECT of the range begins: above this key."""
        return self._reading[work.table][work.span].read

    def upper(self, work: Work) -> Key | None:
        return self._reading[work.table][work.span].upper

    def keys(self, work: Work) -> tuple[Key, ...]:
        """Those that the SELECT asks for; none where it reads a range."""
        result = self._reading[work.table][work.span].keys
        return () if result is None else self.progress[work.table].keys[slice(*result)]

    def rows_wanted(self, table: TableName, *, at_most: int) -> int:
        """Rows of a range to ask for, so that a chunk keeps to the targets; at least one."""
        return max(1, min(at_most, self._sizes.get(table, _Size()).wanted))

    def bounds_wanted(self, work: Work) -> int:
        """Into how many ranges the rest of the table may be cut after its first chunk; 0 for any other chunk."""
        return SPANS_MAX if self._uncut(work) and self.after(work) is None else 0

    def chunk(self, work: Work, event: ChunkRead) -> ChunkFile:
        """The chunk that was read, of the table's present pass."""
        return replace(event.file, since_seq=self.progress[work.table].since_seq)

    def read(self, work: Work, event: ChunkRead) -> None:
        """A chunk of a claimed range is durable, its window open."""
        chunk, reading = event.file, self._reading[work.table][work.span]
        reading.read = chunk.last if chunk.last is not None else reading.read
        reading.exhausted = event.exhausted
        reading.open_chunks += 1
        if reading.keys is not None and not event.exhausted:
            reading.keys = reading.keys[0] + event.keys_read, reading.keys[1]
        self._open[chunk.path] = _Open(work, reading.keys)
        if event.bounds and not event.exhausted and self._uncut(work):
            self._cut(work.table, event.bounds)
        self._adapt(event)

    def closed(self, window: ClosedWindow) -> None:
        """The window's chunks go into the log. A table whose last chunk this was is complete from high_ts on (P1)."""
        for chunk in window.chunks:
            work, keys_left = self._open.pop(chunk.path)
            table, spans = self.progress[chunk.table], self._reading[chunk.table]
            reading = spans[work.span]
            reading.open_chunks -= 1
            reading.logged = chunk.last if chunk.last is not None else reading.logged
            reading.unlogged_keys = keys_left
            complete = all(span.done for span in spans)
            self._incomplete -= complete
            self.progress[chunk.table] = replace(
                table,
                spans=tuple(Span(span.logged, span.upper, span.unlogged_keys) for span in spans if not span.done),
                chunks=table.chunks + 1,
                rows=table.rows + chunk.rows,
                bytes=table.bytes + chunk.bytes,
                complete_at=window.high_ts if complete else None,
            )

    def complete(self) -> bool:
        return self._incomplete == 0

    def change(self, steps: Sequence[TableStep], *, next_seq: Seq) -> None:
        """A DDL has passed: of its tables, what is read and not in the log is forgotten, and who claimed a range of them has none.
        A table that is GONE is no table of the dump any more, one that is BORN becomes one. `next_seq`: the segment behind the DDL's."""
        step_of = {step.before: step for step in steps if step.before is not None}
        born = [TableProgress(s.after, where=s.where, since_seq=next_seq) for s in steps if s.before is None and s.after is not None]
        self._free = [work for work in self._free if work.table not in step_of]
        self._open = {path: chunk for path, chunk in self._open.items() if chunk.work.table not in step_of}
        old, old_order, old_reading = self.progress, self._order, self._reading
        self.progress, self._order, self._reading = {}, {}, {}
        for table in [*old.values(), *born]:
            step, order = step_of.get(table.table), old_order.get(table.table, self._orders)
            if step is not None and step.after is None:
                continue
            now = table if step is None or step.after is None else _after(table, step.after, step.fate, next_seq)
            self._orders += order == self._orders
            self.progress[now.table], self._order[now.table] = now, order
            if step is None and table.table in old_reading:
                self._reading[now.table] = old_reading[table.table]
            else:
                self._reading[now.table] = [_Reading.of(span) for span in now.spans]
                self._free += [Work(order, span, now.table) for span in range(len(now.spans))]
        heapify(self._free)
        self._incomplete = sum(t.complete_at is None for t in self.progress.values())

    def _uncut(self, work: Work) -> bool:
        return len(self._reading[work.table]) == 1 and self.upper(work) is None and not self.keys(work)

    def _cut(self, table: TableName, bounds: tuple[Key, ...]) -> None:
        spans = self._reading[table]
        spans[0].upper = bounds[0]
        for lower, upper in pairwise(bounds):
            spans.append(_Reading(lower, lower, upper))
            heappush(self._free, Work(self._order[table], len(spans) - 1, table))

    def _adapt(self, event: ChunkRead) -> None:
        file = event.file
        if file.rows:
            self._sizes[file.table] = self._sizes.get(file.table, _Size()).after(file.rows, max(file.bytes, event.text_bytes), event.read_s)


def _after(table: TableProgress, name: TableName, fate: SchemaFate, next_seq: Seq) -> TableProgress:
    return afresh(table, since_seq=next_seq, name=name) if fate is SchemaFate.AGAIN else replace(table, table=name)
