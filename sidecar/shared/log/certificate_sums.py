"""What the lines of a dump come to: its tables with their rows, and the rows that its sinks dropped.

Dropped rows of a table are known where each segment that has chunks of it is in exactly one batch of one sink, and each of these batches
says so. Sinks drop the same rows: where two of them say different numbers, none is known. Never a number that may be wrong (P6).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from sidecar.shared.log.certificate import ChunkLine, SchemaLine, SegmentLine
from sidecar.shared.log.certificate_parts import BatchLine, Line, ScopeLine
from sidecar.shared.model.nouns import Seq, TableName


@dataclass(slots=True)
class _TableSum:
    chunks: int = 0
    rows: int = 0
    bytes: int = 0
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
            case BatchLine():
                self._batches[line.sink].setdefault(line.last, line)

    def _add_chunk(self, line: ChunkLine) -> None:
        table = self._tables.setdefault(line.name, _TableSum())
        table.chunks, table.rows, table.bytes = table.chunks + 1, table.rows + line.rows, table.bytes + line.bytes
        if table.segments[-1:] != [line.seq]:
            table.segments.append(line.seq)
        self.with_rows_sum += bool(line.rows_sum)
        self.last = Seq(line.seq)

    @property
    def chunks(self) -> int:
        return sum(table.chunks for table in self._tables.values())

    def rows(self) -> list[dict[str, Any]]:
        """By table: chunks, rows, bytes, and dropped rows or None."""
        return [
            {"schema": name.schema, "table": name.table, "chunks": one.chunks, "rows": one.rows, "bytes": one.bytes}
            | {"dropped": self._dropped(name, one.segments)}
            for name, one in sorted(self._tables.items())
        ]

    def _dropped(self, table: TableName, segments: list[int]) -> int | None:
        results = {_dropped_by(list(batches.values()), table, segments) for batches in self._batches.values()} - {None}
        return results.pop() if len(results) == 1 else None


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
