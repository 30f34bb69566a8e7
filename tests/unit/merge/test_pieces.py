"""The bounds in bytes change how much is held at once and never what comes out: any rows, any bounds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import get_args

import pyarrow as pa
import pytest

from sidecar.shared.errors import LogBroken
from sidecar.shared.log import rows_file
from sidecar.shared.log.absent import with_absent
from sidecar.shared.log.rows_file import write_chunk
from sidecar.shared.log.storage import Folder, open_folder
from sidecar.shared.model.chunk import ABSENT
from sidecar.shared.model.nouns import Change, CommitTs, Seq, TableName, TableSchema
from spark_merge.log import read, segments
from spark_merge.log.segments import SegmentSource
from spark_merge.merge.task import open_chunk, portions
from spark_merge.port import pieces
from spark_merge.port.contract import ChunkPiece, DueChunk, Head, Order, Piece, Portion, Survivors, Task, Unit
from spark_merge.port.keys import key_text
from spark_merge.port.pieces import bounded, size_of
from spark_merge.sinks.memory.rows import read as rows_of
from spark_merge.testing.histories import COLUMNS, random_history, write_log

BOUNDS = ((pieces, "PIECE_BYTES_MAX"), (segments, "LIVE_BYTES_MAX"), (read, "BATCH_BYTES_MAX"))
SCHEMA = TableSchema(TableName("s", "t0"), COLUMNS, ("id", "part"))


def source(log: Folder, seed: int) -> tuple[SegmentSource, tuple[Unit, ...]]:
    """A log with values of very different sizes."""
    random = Random(seed)
    history = random_history(random)
    for changes in history.changes:
        for at, change in enumerate(changes):
            if random.random() < 0.1:
                changes[at] = with_value(change, random.choice([100, 5_000, 60_000]))
    manifests = write_log(log, history)
    names = {row.table for row in history.rows}
    schemas = {name: TableSchema(name, COLUMNS, ("id", "part")) for name in names}
    heads = {manifest.seq: Head(manifest, schemas, schemas) for manifest in manifests}
    return SegmentSource(log, heads), tuple(
        Unit(head.seq, live=True, chunks=tuple(head.due_chunks())) for head in list(heads.values())[1:4]
    )


def with_value(change: Change, size: int) -> Change:
    event = json.loads(change.value)
    event["data"][0]["v"] = "x" * size
    return change._replace(value=json.dumps(event).encode())


def noted(value: Iterator[Portion], sizes: list[tuple[int, int]]) -> Iterator[Portion]:
    def weighed(of: Iterator[Piece]) -> Iterator[Piece]:
        for piece in of:
            rows = piece.survivors.rows if isinstance(piece, ChunkPiece) else piece
            sizes.append((rows.num_rows, rows.nbytes))
            yield piece

    for portion in value:
        yield replace(portion, pieces=weighed(portion.pieces))


@pytest.mark.parametrize("order", get_args(Order))
@pytest.mark.parametrize("seed", range(6))
def test_any_bounds_make_the_same_rows_in_bounded_pieces(seed: int, order: Order, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_folder(str(tmp_path))
    random = Random(f"{seed} {order}")
    monkeypatch.setattr(rows_file, "ROW_GROUP_BYTES_MAX", random.choice([1_000, 10_000, 1 << 20]))
    result, units = source(log, seed)
    task = Task("0", units, order, raw=random.random() < 0.5)
    unbounded: list[tuple[int, int]] = []
    expected = rows_of(noted(portions(task, result), unbounded))
    assert max(size for _, size in unbounded) > 5_000
    for module, name in BOUNDS:
        monkeypatch.setattr(module, name, random.choice([1, 3_000, 30_000]))
    sizes: list[tuple[int, int]] = []
    assert rows_of(noted(portions(task, result), sizes)) == expected
    assert all(rows <= 1 or size <= pieces.PIECE_BYTES_MAX for rows, size in sizes)


@pytest.mark.parametrize("bound", [1, 100, 1 << 20])
@pytest.mark.parametrize("absent", [0, 1, 7])
def test_any_bounds_make_the_same_chunk(absent: int, bound: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Absent keys first; what the window's changes touched is dropped, and counted once."""
    log = open_folder(str(tmp_path))
    rows = pa.table({"id": [f"k{n}" for n in range(20)], "part": ["0"] * 20, "v": ["x" * (n * n) for n in range(20)]})
    whole = with_absent(rows, ("id", "part"), [(f"a{n}", "0") for n in range(absent)])
    written = write_chunk(log, "chunks/1-1.parquet", whole)
    due = DueChunk(SCHEMA.name, CommitTs(1), CommitTs(9), Seq(0), Seq(0), 0, "d", "chunks/1-1.parquet", 20, bytes=written.bytes)
    touched = key_text([pa.array(["k3", "k4", "k19", "a0"]), pa.array(["0"] * 4)])
    monkeypatch.setattr(pieces, "PIECE_BYTES_MAX", bound)
    monkeypatch.setattr(read, "BATCH_BYTES_MAX", bound)
    results = [part for piece in open_chunk(log, SCHEMA, due, touched) for part in bounded(piece)]
    assert [one.deletes for one in results] == sorted((one.deletes for one in results), reverse=True)
    keys = [key for one in results for key in one.survivors.rows["id"].to_pylist()]
    assert keys == [*(f"a{n}" for n in range(1, absent)), *(f"k{n}" for n in range(20) if n not in (3, 4, 19))]
    ordinals = [at for one in results for at in one.survivors.ordinals.to_pylist()]
    assert ordinals == [*range(1, absent), *(absent + n for n in range(20) if n not in (3, 4, 19))]
    assert sum(one.survivors.dropped for one in results) == 3 + (absent > 0)
    assert all(one.survivors.rows.num_rows <= 1 or size_of(one) <= bound for one in results)


def test_keys_without_a_row_behind_rows_are_no_chunk_in_any_part_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "BATCH_BYTES_MAX", 1)
    log = open_folder(str(tmp_path))
    texts = ["a", "b"]
    write_chunk(log, "chunks/1-1.parquet", pa.table({"id": texts, "part": texts, "v": texts, ABSENT: [False, True]}))
    due = DueChunk(SCHEMA.name, CommitTs(1), CommitTs(9), Seq(0), Seq(0), 0, "d", "chunks/1-1.parquet", 2)
    with pytest.raises(LogBroken, match="absent stand behind rows"):
        list(open_chunk(log, SCHEMA, due, pa.array([], pa.string())))


def _dropped(rows: int) -> ChunkPiece:
    table = pa.table({"id": [str(n) for n in range(rows)]})
    due = DueChunk(SCHEMA.name, CommitTs(1), CommitTs(9), Seq(0), Seq(0), 0, "d", "c", rows)
    return ChunkPiece(due, Survivors(table, pa.array(range(rows), pa.int64()), 5))


def test_an_empty_piece_keeps_what_it_has_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "PIECE_BYTES_MAX", 1)
    assert [one.survivors.dropped for one in bounded(_dropped(0))] == [5]
    assert [one.survivors.dropped for one in bounded(_dropped(3))] == [5, 0, 0]


def test_what_is_read_of_a_large_segment_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A segment whose rows are alike is small as a file: its bytes are counted unpacked."""
    held = 0
    monkeypatch.setattr(rows_file, "ROW_GROUP_BYTES_MAX", 10_000)
    monkeypatch.setattr(segments, "LIVE_BYTES_MAX", 100_000)
    log = open_folder(str(tmp_path))
    history = random_history(Random(3))
    history.changes[1] = [with_value(change, 40_000) for change in history.changes[1]]
    manifests = write_log(log, history)
    assert manifests[1].bytes < 100_000 < sum(len(change.value) for change in history.changes[1])
    schemas = {row.table: TableSchema(row.table, COLUMNS, ("id", "part")) for row in history.rows}
    given = SegmentSource(log, {one.seq: Head(one, schemas, schemas) for one in manifests})
    together = segments._together

    def counted(groups: Iterator[pa.Table]) -> pa.Table:
        nonlocal held
        rows = together(groups)
        held = max(held, rows.nbytes)
        return rows

    monkeypatch.setattr(segments, "_together", counted)
    for order in get_args(Order):
        rows_of(portions(Task("0", (Unit(Seq(1), live=True),), order), given))
    assert 0 < held <= 100_000
