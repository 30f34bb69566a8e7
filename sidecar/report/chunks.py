"""The chunks of dumps as a picture needs them: each between its marks, with how many of its rows live changes have replaced.

Sinks drop the same rows in batches of different sizes, so one sink of a dump counts: the first one that reports. A batch counts by table:
its number is at the last chunk of the table in the batch, for all of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from threading import Lock

from sidecar.shared.log.certificate import ChunkLine
from sidecar.shared.log.certificate_parts import BatchLine, Line
from sidecar.shared.model.nouns import CommitTs, Seq, TableName


@dataclass(slots=True)
class DumpedChunk:
    """`dropped`: rows that live changes have replaced, of this chunk and those before it in the same batch; None: not known, not yet, or
    given with a later one."""

    dump_id: str
    table: TableName
    low_ts: CommitTs
    high_ts: CommitTs
    rows: int
    seq: Seq
    dropped: int | None = None


class Chunks:
    """The first and the last ones, `each_max` of each. One thread adds, any thread reads."""

    def __init__(self, each_max: int, *, first: bool = True) -> None:
        self._first_max = each_max if first else 0
        self._first: list[DumpedChunk] = []
        self._last: deque[DumpedChunk] = deque(maxlen=each_max)
        self._sinks: dict[str, str] = {}
        self._lock = Lock()
        self.count = 0

    def add(self, dump_id: str, lines: Iterable[Line]) -> None:
        for _ in self.passed(dump_id, lines):
            pass

    def passed(self, dump_id: str, lines: Iterable[Line]) -> Iterator[Line]:
        """The lines, which are added as they pass."""
        for line in lines:
            if isinstance(line, ChunkLine):
                low_ts, high_ts = CommitTs(int(line.low_ts)), CommitTs(int(line.high_ts))
                with self._lock:
                    self._add(DumpedChunk(dump_id, line.name, low_ts, high_ts, line.rows, Seq(line.seq)))
            elif isinstance(line, BatchLine):
                with self._lock:
                    self._drop(dump_id, line)
            yield line

    def forget(self, dump_id: str) -> None:
        with self._lock:
            self._first = [chunk for chunk in self._first if chunk.dump_id != dump_id]
            self._last = deque((chunk for chunk in self._last if chunk.dump_id != dump_id), self._last.maxlen)
            self._sinks.pop(dump_id, None)

    def _add(self, chunk: DumpedChunk) -> None:
        self.count += 1
        if len(self._first) < self._first_max:
            self._first.append(chunk)
        else:
            self._last.append(chunk)

    def _drop(self, dump_id: str, batch: BatchLine) -> None:
        if batch.dropped is None or self._sinks.setdefault(dump_id, batch.sink) != batch.sink:
            return
        left = {TableName(one.schema, one.table): one.rows for one in batch.dropped}
        for chunk in chain(reversed(self._last), reversed(self._first)):
            if chunk.dump_id != dump_id:
                continue
            if chunk.seq < batch.first:
                break
            if chunk.seq <= batch.last:
                chunk.dropped = left.get(chunk.table, 0)
                if chunk.table in left:
                    left[chunk.table] = None

    def kept(self) -> list[DumpedChunk]:
        """By their segments."""
        with self._lock:
            return sorted((replace(chunk) for chunk in chain(self._first, self._last)), key=lambda chunk: chunk.seq)
