"""What the lines of a dump come to: its tables with their rows, the holes that it does not fill, and the rows that its sinks dropped.

A dump fills the holes of a table that were noticed before the segment in which its last pass over it began, unless rows vanished.

Dropped rows of a table are known where each segment that has chunks of it is in exactly one batch of one sink, and each of these batches
says so. Sinks drop the same rows: where two of them say different numbers, none is known. Never a number that may be wrong (P6).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sidecar.shared.log.certificate import ChunkLine, HoleLine, SchemaLine, SegmentLine
from sidecar.shared.log.certificate_parts import BatchLine, Line, ScopeLine
from sidecar.shared.model.hole import OpenHole
from sidecar.shared.model.nouns import Seq, TableName


@dataclass(slots=True)
class _TableSum:
    chunks: int = 0
    rows: int = 0
    bytes: int = 0
    since_seq: int = 0
    """Of the last pass."""
    segments: list[int] = field(default_factory=list)
    """Rising, each once."""


class DumpSums:
    """`schemas`: the lines of schemas. `scope`: the last one. `with_rows_sum`: how many of the chunks have it. `first`, `last`: from the
    first segment to the last one with a chunk."""

    def __init__(self, lines: Iterable[Line]) -> None:
        self.schemas: list[SchemaLine] = []
        self.scope: ScopeLine | None = None
        self.first = self.last = Seq(-1)
        self.with_rows_sum = 0
        self._tables: dict[TableName, _TableSum] = {}
        self._holes: list[HoleLine] = []
        self._batches: dict[str, dict[int, BatchLine]] = defaultdict(dict)
        for line in lines:
            self._add(line)

    def _add(self, line: Line) -> None:
        match line:
            case SegmentLine(seq=seq):
                self.first = Seq(seq) if self.first < 0 else self.first
            case ChunkLine():
                self._add_chunk(line)
            case SchemaLine():
                self.schemas.append(line)
            case ScopeLine():
                self.scope = line
            case HoleLine():
                self._holes.append(line)
            case BatchLine():
                self._batches[line.sink].setdefault(line.last, line)

    def _add_chunk(self, line: ChunkLine) -> None:
        table = self._tables.setdefault(line.name, _TableSum())
        table.chunks, table.rows, table.bytes = table.chunks + 1, table.rows + line.rows, table.bytes + line.bytes
        if table.segments[-1:] != [line.seq]:
            table.segments.append(line.seq)
        table.since_seq = max(table.since_seq, line.since_seq)
        self.with_rows_sum += bool(line.rows_sum)
        self.last = Seq(line.seq)

    @property
    def chunks(self) -> int:
        return sum(table.chunks for table in self._tables.values())

    def counts(self) -> dict[str, int]:
        """Of the head of a certificate."""
        return {"first_seq": self.first, "last_seq": self.last, "chunk_count": self.chunks, "rows_sum_count": self.with_rows_sum}

    def rows(self) -> list[dict[str, Any]]:
        """By table: chunks, rows, bytes, and dropped rows or None."""
        return [
            {"schema": name.schema, "table": name.table, "chunks": one.chunks, "rows": one.rows, "bytes": one.bytes}
            | {"dropped": self._dropped(name, one.segments)}
            for name, one in sorted(self._tables.items())
        ]

    def holes(self, in_sinks: Iterable[Mapping[TableName, OpenHole]]) -> list[dict[str, Any]]:
        """Those that the dump does not fill, by table: noticed up to its last segment, or open in a sink by now (`in_sinks`)."""
        since = {name: one.since_seq for name, one in self._tables.items()}
        since |= {} if self.scope is None else {TableName(one.schema, one.table): one.since_seq for one in self.scope.tables}
        lines = [line for line in self._holes if line.seq <= self.last]
        each = [(TableName(*name), line) for line in lines for name in (since if line.tables is None else line.tables)]
        each += [(name, _line_of(name, hole)) for holes in in_sinks for name, hole in holes.items()]
        left = [(name, line) for name, line in each if name in since and (line.vanished or line.seq >= since[name])]
        fields = ("schema", "table", "seq", "cause", "since_ts", "vanished", "text")
        rows = {(*name, line.seq, line.cause, line.since_ts, line.vanished, line.text) for name, line in left}
        return [dict(zip(fields, row, strict=True)) for row in sorted(rows)]

    def _dropped(self, table: TableName, segments: list[int]) -> int | None:
        results = {_dropped_by(list(batches.values()), table, segments) for batches in self._batches.values()} - {None}
        return results.pop() if len(results) == 1 else None


def _line_of(table: TableName, hole: OpenHole) -> HoleLine:
    return HoleLine(hole.seq, hole.cause.value, str(hole.since_ts), (table,), hole.vanished, hole.text)


def _dropped_by(batches: list[BatchLine], table: TableName, segments: list[int]) -> int | None:
    """By one sink."""
    total, covered = 0, 0
    ends = -1
    for batch in sorted(batches, key=lambda batch: batch.first):
        inside = bisect_left(segments, batch.last + 1) - bisect_left(segments, batch.first)
        if not inside:
            continue
        if batch.first <= ends or batch.dropped is None:
            return None
        ends, covered = batch.last, covered + inside
        for one in batch.dropped:
            if (one.schema, one.table) == table:
                if one.rows is None:
                    return None
                total += one.rows
    return total if covered == len(segments) else None
