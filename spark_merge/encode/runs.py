"""Rows of one table that follow each other in an output where tables alternate."""

from __future__ import annotations

from typing import NamedTuple

from sidecar.core.model import TableSchema
from spark_merge.contract import ChunkPiece, Piece


class TableRun(NamedTuple):
    schema: TableSchema
    piece: Piece

    @property
    def rows(self) -> int:
        return int((self.piece.survivors.rows if isinstance(self.piece, ChunkPiece) else self.piece).num_rows)

    @property
    def nbytes(self) -> int:
        return int((self.piece.survivors.rows if isinstance(self.piece, ChunkPiece) else self.piece).nbytes)

    def slice(self, start: int, length: int) -> TableRun:
        if not isinstance(self.piece, ChunkPiece):
            return TableRun(self.schema, self.piece.slice(start, length))
        due, (rows, ordinals, dropped) = self.piece.due, self.piece.survivors
        survivors = type(self.piece.survivors)(rows.slice(start, length), ordinals.slice(start, length), dropped)
        return TableRun(self.schema, ChunkPiece(due, survivors))
