"""Rows as the segment log holds them, made from recorded Kafka messages or by hand."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sidecar.shared.codecs.compression import Compression
from sidecar.shared.codecs.registry import codec_for
from sidecar.shared.model.nouns import Change, CommitTs, Lane, Message, Rank, TableName, TableSchema
from sidecar.shared.rowcodec.table_info import table_schema

LOGGED = pa.schema(
    [
        ("seq", pa.int64()), ("ordinal", pa.int64()), ("commit_ts", pa.int64()), ("op", pa.string()), ("schema", pa.string()),
        ("table", pa.string()), ("codec", pa.string()), ("key", pa.binary()), ("value", pa.binary()), ("lane", pa.string()),
        ("position", pa.int64()),
    ]
)  # fmt: skip


def logged(changes: Iterable[Change], *, codec: str, seq: int = 1) -> pa.Table:
    """Rows in the order given; a segment's writer has put them in order before."""
    rows = [
        (
            seq,
            ordinal,
            c.commit_ts,
            "delete" if c.rank is Rank.DELETE else "put",
            c.schema,
            c.table,
            codec,
            c.key,
            c.value,
            c.lane,
            c.position,
        )
        for ordinal, c in enumerate(changes)
    ]
    columns: Any = list(zip(*rows, strict=True)) if rows else [[] for _ in LOGGED]
    return pa.table([pa.array(column, field.type) for column, field in zip(columns, LOGGED, strict=True)], schema=LOGGED)


def change(value: object, *, rank: Rank = Rank.PUT, table: str = "t", commit_ts: int = 100, position: int = 7) -> Change:
    text = value if isinstance(value, bytes) else json.dumps(value).encode()
    return Change(CommitTs(commit_ts), rank, "shop", table, b"", text, Lane("kafka/t/0"), position)


def recorded_changes(folder: Path, feed: str, *, codec: str, compression: Compression = "none") -> list[Change]:
    """Every row of the feed in arrival order, repeats too."""
    reader = codec_for(codec, tidb_extension=True, compression=compression, encoding="avro" if feed.endswith("-avro") else "")
    table = pq.read_table(folder / "kafka" / f"{feed}.parquet", columns=["partition", "offset", "key", "value"])
    changes: list[Change] = []
    for partition, offset, key, value in zip(*(column.to_pylist() for column in table.columns), strict=True):
        envelopes = reader.envelopes(Message(Lane(f"kafka/{feed}/{partition}"), offset, key, value))
        changes.extend(envelope for envelope in envelopes if isinstance(envelope, Change))
    return changes


def recorded_schemas(folder: Path) -> dict[TableName, TableSchema]:
    """Schemas at the recording's start."""
    start = about(folder)["start_ts"]
    schemas: dict[TableName, TableSchema] = {}
    for path in sorted((folder / "schema" / start).glob("*.*.json")):
        schema = table_schema(json.loads(path.read_bytes()), schema=path.name.split(".")[0])
        schemas[schema.name] = schema
    return schemas


@cache
def about(folder: Path) -> Any:
    return json.loads((folder / "recording.json").read_bytes())
