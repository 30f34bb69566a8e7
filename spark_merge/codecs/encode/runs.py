"""Rows of one table that follow each other in an output where tables alternate."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from sidecar.shared.model.nouns import TableSchema
from spark_merge.port.contract import ChunkPiece, Piece, Survivors


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
        rows, ordinals, dropped = self.piece.survivors
        survivors = Survivors(rows.slice(start, length), ordinals.slice(start, length), dropped)
        return TableRun(self.schema, replace(self.piece, survivors=survivors))
