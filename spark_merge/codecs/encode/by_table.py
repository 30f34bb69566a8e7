"""Live rows of a unit, table by table, though they come as they were committed: a table's rows are encoded many at once, and a transaction
of a table is whole, as the splits of its updates need it (split.py).

At one commit_ts tables may come in any order, as they do from TiCDC; the caller merges them by commit_ts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from sidecar.shared.model.nouns import TableName, TableSchema
from spark_merge.port.contract import ChunkPiece, Piece, Portion
from spark_merge.port.pieces import HELD_BYTES_MAX, HELD_ROWS_MAX

ROWS_MAX = 16_384
BYTES_MAX = 32 << 20
"""Rows that wait for others, at most; but a transaction is not cut that has up to HELD_ROWS_MAX and HELD_BYTES_MAX."""

TablePieces = list[tuple[TableSchema, Piece]]


def by_table(portions: Iterable[Portion]) -> Iterator[TablePieces]:
    """The pieces of one unit in output order: a chunk alone, or changes, each table once, up to a commit_ts; the next ones are later."""
    waiting = _Waiting()
    for portion in portions:
        for piece in portion.pieces:
            if waiting.tables and (isinstance(piece, ChunkPiece) or waiting.end_before(piece)):
                yield waiting.whole()
                waiting = _Waiting()
            if isinstance(piece, ChunkPiece):
                yield [(portion.schema, piece)]
            else:
                waiting.add(portion.schema, piece)
    if waiting.tables:
        yield waiting.whole()


class _Waiting:
    def __init__(self) -> None:
        self.tables: dict[TableName, tuple[TableSchema, list[pa.Table]]] = {}
        self._rows = self._bytes = self._last_ts = 0

    def end_before(self, piece: pa.Table) -> bool:
        if self._rows < ROWS_MAX and self._bytes < BYTES_MAX:
            return False
        return self._rows >= HELD_ROWS_MAX or self._bytes >= HELD_BYTES_MAX or piece["commit_ts"][0].as_py() > self._last_ts

    def add(self, schema: TableSchema, piece: pa.Table) -> None:
        self.tables.setdefault(schema.name, (schema, []))[1].append(piece)
        self._rows, self._bytes, self._last_ts = self._rows + piece.num_rows, self._bytes + piece.nbytes, piece["commit_ts"][-1].as_py()

    def whole(self) -> TablePieces:
        return [(schema, pa.concat_tables(pieces)) for schema, pieces in self.tables.values()]
