"""Portions as plain rows, in the form of the slow rule."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pyarrow as pa

from spark_merge.merge.rule import Image, OutputRow
from spark_merge.port.contract import RANK_CHUNK, ChunkPiece, Counts, Piece, Portion, counted
from spark_merge.port.keys import key_text


def read(portions: Iterator[Portion]) -> tuple[Counts, list[OutputRow]]:
    """All of a task, in output order; an image has the columns of the portion's schema."""
    counts: Counts = {}
    rows: list[OutputRow] = []
    for portion in portions:
        for piece in counted(portion, counts):
            rows += _rows(portion, piece)
    return counts, rows


def _rows(portion: Portion, piece: Piece) -> Iterator[OutputRow]:
    return _of_chunk(portion, piece) if isinstance(piece, ChunkPiece) else _of_changes(portion, piece)


def _of_changes(portion: Portion, changes: pa.Table) -> Iterator[OutputRow]:
    for row in changes.to_pylist():
        before, after = _image(row["before"]), _image(row["after"])
        key = tuple(json.loads(row["key"], strict=False))
        yield OutputRow(row["seq"], row["commit_ts"], row["rank"], row["ordinal"], portion.schema.name, row["op"], key, before, after)


def _of_chunk(portion: Portion, piece: ChunkPiece) -> Iterator[OutputRow]:
    schema, survivors = portion.schema, piece.survivors
    keys = key_text([survivors.rows.column(name) for name in schema.key]).to_pylist() if survivors.rows.num_rows else []
    images = zip(*(column.to_pylist() for column in survivors.rows.columns), strict=True)
    for key, ordinal, image in zip(keys, survivors.ordinals.to_pylist(), images, strict=True):
        place = (portion.unit.seq, piece.due.high_ts, RANK_CHUNK, ordinal, schema.name)
        op, after = ("delete", None) if piece.deletes else ("insert", image)
        yield OutputRow(*place, op, tuple(json.loads(key, strict=False)), None, after, piece.due.dump_id)


def _image(texts: list[str | None] | None) -> Image | None:
    return None if texts is None else tuple(texts)
