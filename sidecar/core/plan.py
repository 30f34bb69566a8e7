"""What is read next: the tables of a dump, each by keyset from its cursor (design 7).

A table is read by one reader at a time, so its chunks follow one another and, marks being serial, their windows close
in the order of the chunks: the end of the last closed chunk is the table's cursor. Reading may be ahead of the cursor;
what is ahead is read again after a crash.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sidecar.core.manifest import ChunkFile, ClosedWindow
from sidecar.core.model import TableName
from sidecar.core.progress import TableProgress


@dataclass(slots=True)
class _Reading:
    """How far the SELECTs are: the last key read, and whether nothing is left above it."""

    cursor: tuple[str, ...] | None
    exhausted: bool
    claimed: bool = False


class Plan:
    """The tables of one dump. `progress` counts what the log holds; readers claim tables and read ahead of it."""

    def __init__(self, tables: tuple[TableProgress, ...]) -> None:
        self.progress: dict[TableName, TableProgress] = {t.table: t for t in tables}
        self._reading = {t.table: _Reading(t.cursor, exhausted=t.complete_at is not None) for t in tables}
        self._open_chunks = dict.fromkeys(self._reading, 0)

    def claim(self) -> TableName | None:
        """A table with rows left to read that no reader has, in the order of the dump; None if there is none."""
        for table, reading in self._reading.items():
            if not reading.claimed and not reading.exhausted:
                reading.claimed = True
                return table
        return None

    def release(self, table: TableName) -> None:
        self._reading[table].claimed = False

    def cursor(self, table: TableName) -> tuple[str, ...] | None:
        """Where the next SELECT of `table` begins: after this key."""
        return self._reading[table].cursor

    def read(self, chunk: ChunkFile, *, exhausted: bool) -> None:
        """A chunk of a claimed table is durable, its window open."""
        reading = self._reading[chunk.table]
        reading.cursor = chunk.last if chunk.last is not None else reading.cursor
        reading.exhausted = exhausted
        self._open_chunks[chunk.table] += 1

    def closed(self, window: ClosedWindow) -> None:
        """The window's chunks go into the log. A table whose last chunk this was is complete from high_ts on (P1)."""
        for chunk in window.chunks:
            table, reading = self.progress[chunk.table], self._reading[chunk.table]
            self._open_chunks[chunk.table] -= 1
            complete = reading.exhausted and self._open_chunks[chunk.table] == 0
            self.progress[chunk.table] = replace(
                table,
                cursor=chunk.last if chunk.last is not None else table.cursor,
                chunks=table.chunks + 1,
                rows=table.rows + chunk.rows,
                bytes=table.bytes + chunk.bytes,
                complete_at=window.high_ts if complete else None,
            )

    def complete(self) -> bool:
        return all(table.complete_at is not None for table in self.progress.values())
