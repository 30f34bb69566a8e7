"""Deliveries made by hand, without a log's segments: rows as a task would have read them, and the driver's part of a batch."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sidecar.shared.log import storage
from sidecar.shared.log.absent import with_absent
from sidecar.shared.log.manifest import DdlRecord, Manifest
from sidecar.shared.log.storage import Folder
from sidecar.shared.model.chunk import ChunkFile, ClosedWindow
from sidecar.shared.model.nouns import Column, CommitTs, Seq, TableName, TableSchema
from sidecar.shared.model.progress import SegmentDump
from spark_merge.codecs.encode.block import schema_of
from spark_merge.merge.task import open_chunk
from spark_merge.port.contract import (
    CHANGES,
    RANK_CHUNK,
    RANK_DELETE,
    RANK_PUT,
    Batch,
    ChunkPiece,
    DueChunk,
    Head,
    Outcome,
    Piece,
    Portion,
    Sink,
    Task,
)
from spark_merge.port.keys import key_text

ORDERS = TableName("shop", "orders")
SCHEMA = TableSchema(ORDERS, (Column("id", "int", nullable=False), Column("name", "text")), ("id",))
DUE = DueChunk(ORDERS, CommitTs(50), CommitTs(90), Seq(7), Seq(7), 0, "d1", "chunk.parquet", 2)
Image = Sequence[str | None] | None
Row = dict[str, Any]
Schemas = Mapping[TableName, TableSchema]


def change(seq: int, commit_ts: int, *, before: Image = None, after: Image = None, table: TableName = ORDERS, ordinal: int = 0) -> Row:
    op = "delete" if after is None else "insert" if before is None else "update"
    image = after if after is not None else before
    return {
        "seq": seq, "commit_ts": commit_ts, "rank": RANK_DELETE if op == "delete" else RANK_PUT, "ordinal": ordinal,
        "schema": table.schema, "table": table.table, "op": op, "key": f'["{image[0] if image else ""}"]', "before": before, "after": after,
    }  # fmt: skip


def chunk(
    seq: int,
    high_ts: int,
    path: str,
    *,
    touched: Sequence[str] = (),
    table: TableName = ORDERS,
    ordinal: int = 0,
    dump_id: str = "d1",
    since_seq: int = 0,
) -> Row:
    """`touched`: texts of a key of one column."""
    return {
        "seq": seq, "commit_ts": high_ts, "rank": RANK_CHUNK, "ordinal": ordinal, "schema": table.schema, "table": table.table,
        "dump_id": dump_id, "path": path, "since_seq": since_seq, "touched": key_text([pa.array(touched, pa.string())]),
    }  # fmt: skip


def write_chunk(
    log: Folder, path: str, rows: Sequence[Sequence[str | None]], schema: TableSchema = SCHEMA, *, absent: Sequence[tuple[str, ...]] = ()
) -> None:
    """`absent`: keys that the source does not have."""
    columns = {column.name: pa.array([row[i] for row in rows], pa.string()) for i, column in enumerate(schema.columns)}
    with storage.new_file(log, path) as file:
        pq.write_table(with_absent(pa.table(columns), schema.key, absent), file)


def batches(rows: Sequence[Row], *, rows_max: int = 2) -> list[pa.RecordBatch]:
    """Changes of one table in output order."""
    in_order = sorted(rows, key=lambda row: [row[name] for name in ("seq", "commit_ts", "rank", "ordinal")])
    return [pa.RecordBatch.from_pylist(in_order[at : at + rows_max], CHANGES) for at in range(0, len(in_order), rows_max)]


@dataclass(frozen=True)
class Segments:
    """Segments `seqs` with their rows; upto_ts is 100 × seq. `rows_max`: changes in one piece."""

    seqs: Sequence[int]
    rows: Sequence[Row] = ()
    ddls: Mapping[int, tuple[DdlRecord, ...]] = field(default_factory=dict)
    dumps: Mapping[int, SegmentDump] = field(default_factory=dict)
    rows_max: int = 2

    def heads(self, schemas: Schemas) -> list[Head]:
        return [self._head(Seq(seq), schemas) for seq in self.seqs]

    def _head(self, seq: Seq, schemas: Schemas) -> Head:
        rows = [row for row in self.rows if row["seq"] == seq]
        chunks = sorted((row for row in rows if row["rank"] == RANK_CHUNK), key=lambda row: row["ordinal"])
        windows = tuple(ClosedWindow(row["dump_id"], CommitTs(0), CommitTs(row["commit_ts"]), seq, (_chunk_file(row),)) for row in chunks)
        live = len(rows) - len(chunks)
        upto_ts = CommitTs(100 * seq)
        manifest = Manifest(
            seq, 1, CommitTs(upto_ts - 100), upto_ts, "data" if live else None, live, 0, {}, "s", "c", self.ddls.get(seq, ()), windows
        )
        return Head(manifest, schemas, schemas, self.dumps.get(seq))

    def portions(self, task: Task, schemas: Schemas, log: Folder) -> Iterator[Portion]:
        for unit in task.units:
            mine = [row for row in self.rows if row["seq"] == unit.seq and self._is_in(row, unit.live, unit.chunks)]
            for table in sorted({TableName(row["schema"], row["table"]) for row in mine}):
                rows = [row for row in mine if (row["schema"], row["table"]) == table]
                yield Portion(unit, schema_of(schemas, table), self._pieces(rows, schemas, log))

    def _is_in(self, row: Row, live: bool, chunks: Sequence[DueChunk]) -> bool:
        return (
            live
            if row["rank"] != RANK_CHUNK
            else any(due.path == row["path"] and due.table == (row["schema"], row["table"]) for due in chunks)
        )

    def _pieces(self, rows: Sequence[Row], schemas: Schemas, log: Folder) -> Iterator[Piece]:
        held: list[Row] = []
        for row in sorted(rows, key=lambda row: [row[name] for name in ("commit_ts", "rank", "ordinal")]):
            if held and (row["rank"] == RANK_CHUNK or len(held) == self.rows_max):
                yield pa.Table.from_pylist(held, CHANGES)
                held = []
            if row["rank"] == RANK_CHUNK:
                yield from _opened(row, schemas, log)
            else:
                held.append(row)
        if held:
            yield pa.Table.from_pylist(held, CHANGES)


def _chunk_file(row: Row) -> ChunkFile:
    return ChunkFile(TableName(row["schema"], row["table"]), row["path"], 1, 1, None, None, since_seq=Seq(row["since_seq"]))


def _opened(row: Row, schemas: Schemas, log: Folder) -> Iterator[ChunkPiece]:
    table = TableName(row["schema"], row["table"])
    high_ts, seq = CommitTs(row["commit_ts"]), Seq(row["seq"])
    due = DueChunk(table, CommitTs(0), high_ts, seq, seq, row["ordinal"], row["dump_id"], row["path"], 1, Seq(row["since_seq"]))
    return open_chunk(log, schema_of(schemas, table), due, row["touched"])


def opened(sink: Sink, *, epoch: int | None = None) -> Sink:
    sink.open(epoch=epoch)
    return sink


def write(sink: Sink, segments: Segments, *, log: Folder, schemas: Schemas | None = None) -> tuple[Batch, list[Outcome]]:
    """What the tasks do. The writer goes through pickle, as it does on its way to them."""
    known = {ORDERS: SCHEMA} if schemas is None else schemas
    batch = sink.plan(segments.heads(known), cores=2)
    assert batch is not None
    writer = pickle.loads(pickle.dumps(batch.writer))
    outcomes = [writer(task, segments.portions(task, known, log)) for stage in batch.stages for task in stage]
    return batch, pickle.loads(pickle.dumps(outcomes))


def deliver(sink: Sink, segments: Segments, *, log: Folder, schemas: Schemas | None = None) -> list[Outcome]:
    batch, outcomes = write(sink, segments, log=log, schemas=schemas)
    sink.accept(batch, outcomes)
    return outcomes
