"""The bound in bytes of what a sink's writer holds at once, and so of every array that is made of it.

    piece ─► bounded ─► pieces of at most PIECE_BYTES_MAX bytes, or of one row that is larger

The rule: an array of text in one piece (`pa.string`, `pa.binary`, `pa.list_`) has 32-bit offsets, so at most 2 GiB. Nothing here needs
64-bit offsets, because each array is made of one piece, of rows that were collected up to a bound in bytes, or of one row:

- A piece is PIECE_BYTES_MAX at most. An encoding writes a byte as six at most (`\\u0001` in JSON), so a piece makes 192 MiB.
- A row is 120 MiB at most (TiDB's `txn-entry-size-limit`), with its old image 240 MiB, and so 1,440 MiB encoded; a BLOB's text is hex.

The bounds of what is collected are beside their uses: LIVE_BYTES_MAX of a segment's rows (log/segments.py), CHUNK_TEXT_BYTES_MAX of a chunk
(sidecar/shared/model/messages.py), and each sink's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from spark_merge.port.contract import ChunkPiece, Piece, Survivors

PIECE_BYTES_MAX = 32 << 20
"""Decoded, as Arrow has it: enough rows to hide each call's fixed cost, few enough that an encoding and its copies stay small."""

HELD_ROWS_MAX, HELD_BYTES_MAX = 200_000, 512 << 20
"""Of one transaction, held until its last row has come; what is made of them in one array stays below 2 GiB."""


def bounded(piece: Piece) -> Iterator[Piece]:
    """The same rows in the same order. What a chunk's piece has dropped is counted with the first of its parts."""
    rows = _rows(piece)
    if rows <= 1 or size_of(piece) <= PIECE_BYTES_MAX:
        yield piece
        return
    half = rows // 2
    yield from bounded(_part(piece, 0, half))
    yield from bounded(_part(piece, half, rows - half))


def size_of(piece: Piece) -> int:
    """Bytes of its rows."""
    return int((piece.survivors.rows if isinstance(piece, ChunkPiece) else piece).nbytes)


def _rows(piece: Piece) -> int:
    return int((piece.survivors.rows if isinstance(piece, ChunkPiece) else piece).num_rows)


def _part(piece: Piece, start: int, rows: int) -> Piece:
    if not isinstance(piece, ChunkPiece):
        return piece.slice(start, rows)
    result, ordinals, dropped = piece.survivors
    return replace(piece, survivors=Survivors(result.slice(start, rows), ordinals.slice(start, rows), 0 if start else dropped))
