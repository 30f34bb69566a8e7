"""Deliveries made by hand, and the driver's part of a batch: writer, then accept."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sidecar.core.model import Column, Seq, TableName, TableSchema
from sidecar.storage import Folder
from spark_merge.contract import RANK_CHUNK, RANK_DELETE, RANK_PUT, Delivered, DeliveredFile, SegmentHead, Sink
from spark_merge.merge import key_text

ARROW_SCHEMA = pa.schema(
    [
        ("seq", pa.int64()), ("commit_ts", pa.int64()), ("rank", pa.int32()), ("ordinal", pa.int64()), ("schema", pa.string()),
        ("table", pa.string()), ("op", pa.string()), ("key", pa.string()), ("before", pa.list_(pa.string())),
        ("after", pa.list_(pa.string())),
        ("chunk", pa.struct([("dump_id", pa.string()), ("path", pa.string()), ("touched", pa.list_(pa.string()))])), ("part", pa.int32()),
    ]
)  # fmt: skip
"""DELIVERY_SCHEMA as Spark hands it to mapInArrow."""

ORDERS = TableName("shop", "orders")
SCHEMA = TableSchema(ORDERS, (Column("id", "int", nullable=False), Column("name", "text")), ("id",))
Image = Sequence[str | None] | None
Row = dict[str, Any]


def change(seq: int, commit_ts: int, *, before: Image = None, after: Image = None, table: TableName = ORDERS, ordinal: int = 0) -> Row:
    op = "delete" if after is None else "insert" if before is None else "update"
    image = after if after is not None else before
    return {
        "seq": seq, "commit_ts": commit_ts, "rank": RANK_DELETE if op == "delete" else RANK_PUT, "ordinal": ordinal,
        "schema": table.schema, "table": table.table, "part": 0, "op": op,
        "key": f'["{image[0] if image else ""}"]', "before": before, "after": after,
    }  # fmt: skip


def chunk(
    seq: int, high_ts: int, path: str, *, touched: Sequence[str] = (), table: TableName = ORDERS, ordinal: int = 0, dump_id: str = "d1"
) -> Row:
    """`touched`: texts of a key of one column."""
    keys = key_text([pa.array(touched, pa.string())]).to_pylist()
    return {
        "seq": seq, "commit_ts": high_ts, "rank": RANK_CHUNK, "ordinal": ordinal, "schema": table.schema, "table": table.table,
        "part": 0, "chunk": {"dump_id": dump_id, "path": path, "touched": keys},
    }  # fmt: skip


def write_chunk(log: Folder, path: str, rows: Sequence[Sequence[str | None]], schema: TableSchema = SCHEMA) -> None:
    columns = {column.name: pa.array([row[i] for row in rows], pa.string()) for i, column in enumerate(schema.columns)}
    with log.fs().open(log.path(path), "wb") as file:
        pq.write_table(pa.table(columns), file)


def batches(rows: Iterable[Row], *, rows_max: int = 2) -> list[pa.RecordBatch]:
    """In the order that the job sorts by, cut small, so that files span batches."""
    in_order = sorted(rows, key=lambda row: [row[name] for name in ("seq", "schema", "table", "part", "commit_ts", "rank", "ordinal")])
    return [pa.RecordBatch.from_pylist(in_order[at : at + rows_max], ARROW_SCHEMA) for at in range(0, len(in_order), rows_max)]


@dataclass(frozen=True)
class Batch:
    """Segments `seqs` with their rows; upto_ts is 100 × seq."""

    seqs: Sequence[int]
    rows: Sequence[Row] = ()
    ddls: Mapping[int, tuple[tuple[int, str, str, str], ...]] = field(default_factory=dict)

    def heads(self) -> list[SegmentHead]:
        return [SegmentHead(Seq(seq), 100 * seq, self.ddls.get(seq, ())) for seq in self.seqs]


def write(sink: Sink, batch: Batch, *, log: Folder, schemas: Mapping[TableName, TableSchema] | None = None) -> list[Delivered]:
    """What the tasks do. The writer goes through pickle, as it does on its way to them."""
    writer = pickle.loads(pickle.dumps(sink.writer({ORDERS: SCHEMA} if schemas is None else schemas, log)))
    files = files_of(pa.Table.from_batches(list(writer(iter(batches(batch.rows)))), DELIVERED_ARROW))
    assert files.keys() <= set(batch.seqs)
    return [Delivered(Seq(seq), tuple(files.get(seq, ()))) for seq in batch.seqs]


def files_of(written: pa.Table) -> dict[int, list[DeliveredFile]]:
    """DELIVERED_SCHEMA rows by segment."""
    files: dict[int, list[DeliveredFile]] = {}
    for row in written.to_pylist():
        file = DeliveredFile(row["path"], TableName(row["schema"], row["table"]), row["from_log"], row["from_dump"], row["dropped"])
        files.setdefault(row["seq"], []).append(file)
    return files


def deliver(sink: Sink, batch: Batch, *, log: Folder, schemas: Mapping[TableName, TableSchema] | None = None) -> list[Delivered]:
    delivered = write(sink, batch, log=log, schemas=schemas)
    sink.accept(batch.heads(), delivered)
    return delivered


DELIVERED_ARROW = pa.schema(
    [(name, pa.int64()) if name not in ("schema", "table", "path") else (name, pa.string())
     for name in ("seq", "schema", "table", "path", "from_log", "from_dump", "dropped")]
)  # fmt: skip
"""DELIVERED_SCHEMA as Spark expects it back."""
