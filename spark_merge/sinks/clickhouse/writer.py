"""A task: portions of rows in, inserts out.

Rows of a table are collected over pieces and segments, so that a server has few parts to merge: an insert is as large as BLOCK_ROWS_MAX and
BLOCK_BYTES_MAX allow, and a task holds no more than TASK_BYTES_MAX of all its tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from sidecar.shared.model.nouns import TableName
from spark_merge.codecs.encode.block import blocks
from spark_merge.port.contract import ChunkPiece, Counts, Outcome, Portion, Task, counted
from spark_merge.port.keys import last_of_each_key
from spark_merge.sinks.clickhouse.block import rows_of, stream_of, token_of
from spark_merge.sinks.clickhouse.server import ClickHouseServer
from spark_merge.sinks.clickhouse.tables import ClickHouseTarget

BLOCK_ROWS_MAX = 200_000
BLOCK_BYTES_MAX = 64 << 20
TASK_BYTES_MAX = 128 << 20

_DOES_NOT_FIT = "compare the table at the target with the source's; the sink continues automatically when the cause is gone"


@dataclass(frozen=True, slots=True)
class ClickHouseWriter:
    """`output`: position.JournalRow."""

    server: ClickHouseServer
    targets: Mapping[TableName, ClickHouseTarget]
    output: str

    def __call__(self, task: Task, portions: Iterator[Portion]) -> Outcome:
        counts: Counts = {}
        inserts = _Inserts(self)
        for portion in portions:
            for piece in counted(portion, counts):
                last = piece if isinstance(piece, ChunkPiece) else last_of_each_key(piece)
                for block in blocks(portion.schema, portion.unit.seq, last):
                    if block.rows:
                        inserts.add(portion.schema.name, rows_of(block, self.targets[portion.schema.name].kept))
        inserts.end()
        return Outcome(task.id, counts)


@dataclass
class _Inserts:
    writer: ClickHouseWriter
    _held: dict[TableName, list[pa.Table]] = field(default_factory=dict)
    _bytes: dict[TableName, int] = field(default_factory=dict)

    def add(self, name: TableName, rows: pa.Table) -> None:
        self._held.setdefault(name, []).append(rows)
        self._bytes[name] = self._bytes.get(name, 0) + rows.nbytes
        if self._bytes[name] >= BLOCK_BYTES_MAX or sum(part.num_rows for part in self._held[name]) >= BLOCK_ROWS_MAX:
            self._insert(name)
        elif sum(self._bytes.values()) >= TASK_BYTES_MAX:
            self._insert(max(self._bytes, key=self._bytes.__getitem__))

    def end(self) -> None:
        for name in list(self._held):
            self._insert(name)

    def _insert(self, name: TableName) -> None:
        rows = pa.concat_tables(self._held.pop(name))
        parts = max(-(-rows.num_rows // BLOCK_ROWS_MAX), -(-self._bytes.pop(name) // BLOCK_BYTES_MAX))
        size = -(-rows.num_rows // parts)
        for start in range(0, rows.num_rows, size):
            self._send(name, rows.slice(start, size))

    def _send(self, name: TableName, rows: pa.Table) -> None:
        writer, target = self.writer, self.writer.targets[name]
        content = stream_of(rows, writer.server.compression)
        writer.server.insert(target.rows, rows.column_names, content, token=token_of(writer.output, content), hint=_DOES_NOT_FIT)
