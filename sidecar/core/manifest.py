"""What is written beside each segment's data: the contract between the sidecar and Spark (design 5).

The log is `{log}/{seq:020d}-{epoch}.parquet` (rows, absent when there are none), then `{log}/{seq:020d}.json`, this
manifest, created exclusively. A segment exists when its manifest exists. Paths in a manifest are relative to the log.
Every ts and every position, which may be one, is written as a decimal string: JSON readers that know only doubles would round it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from sidecar.core.model import Column, CommitTs, Lane, Seq, TableName, TableSchema

FORMAT_VERSION = 1

DATA_COLUMNS = ("ordinal", "commit_ts", "op", "schema", "table", "codec", "key", "value", "lane", "position")
"""Columns of a segment's Parquet file: int64, int64, string (put|delete), string, string, string, binary, binary,
string, int64. Row order is the segment's order and `ordinal` counts it from 0."""


class ManifestUnreadable(ValueError):
    """The bytes are not a manifest that this version can read; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class ChunkFile:
    """One chunk: rows of `table` with handle key in `(after, last]`, in canonical text, one Parquet column a column.

    `after` is None at the table's start. `read_tso` is the SELECT's own snapshot where the source told it.
    """

    table: TableName
    path: str
    rows: int
    bytes: int
    after: tuple[str, ...] | None
    last: tuple[str, ...] | None
    read_tso: CommitTs | None = None


@dataclass(frozen=True, slots=True)
class ClosedWindow:
    """`(low_ts, high_ts]` and the chunks read inside it. Changes of the window begin in segment `first_seq`."""

    dump_id: str
    low_ts: CommitTs
    high_ts: CommitTs
    first_seq: Seq
    chunks: tuple[ChunkFile, ...]


@dataclass(frozen=True, slots=True)
class DdlRecord:
    commit_ts: CommitTs
    schema: str
    table: str
    query: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """`data` is None when the segment has no rows. `progress` is the dump's progress after this segment, or None.

    `schemas` names the file with every table's TableSchema in force in this segment, `next_schemas` the one with those after its
    DDLs, None if it has none that changed any.
    """

    seq: Seq
    epoch: int
    after_ts: CommitTs
    upto_ts: CommitTs
    data: str | None
    rows: int
    bytes: int
    positions: dict[Lane, int]
    schemas: str
    codec: str
    ddls: tuple[DdlRecord, ...] = ()
    windows: tuple[ClosedWindow, ...] = ()
    progress: dict[str, Any] | None = None
    next_schemas: str | None = None


def to_json(manifest: Manifest) -> bytes:
    return json.dumps(
        {
            "version": FORMAT_VERSION,
            "seq": manifest.seq,
            "epoch": manifest.epoch,
            "after_ts": str(manifest.after_ts),
            "upto_ts": str(manifest.upto_ts),
            "data": manifest.data,
            "rows": manifest.rows,
            "bytes": manifest.bytes,
            "positions": {lane: str(position) for lane, position in manifest.positions.items()},
            "schemas": manifest.schemas,
            "codec": manifest.codec,
            "ddls": [{"commit_ts": str(d.commit_ts), "schema": d.schema, "table": d.table, "query": d.query} for d in manifest.ddls],
            "windows": [_window_to_json(window) for window in manifest.windows],
            "progress": manifest.progress,
            "next_schemas": manifest.next_schemas,
        },
        separators=(",", ":"),
        ensure_ascii=False,
    ).encode()


def from_json(data: bytes, *, name: str) -> Manifest:
    """Read a manifest; `name` is what an error calls it.

    Raises ManifestUnreadable for broken JSON, a missing field or a newer format version.
    """
    try:
        found = json.loads(data)
        version = found["version"]
    except (ValueError, KeyError, TypeError) as error:
        raise ManifestUnreadable(f"manifest {name} is not readable: {error!r}") from error
    if version != FORMAT_VERSION:
        raise ManifestUnreadable(
            f"manifest {name} has format version {version}, this ticdc-dump reads {FORMAT_VERSION}: run the version that wrote it"
        )
    try:
        return Manifest(
            seq=Seq(int(found["seq"])),
            epoch=int(found["epoch"]),
            after_ts=CommitTs(int(found["after_ts"])),
            upto_ts=CommitTs(int(found["upto_ts"])),
            data=found["data"],
            rows=int(found["rows"]),
            bytes=int(found["bytes"]),
            positions={Lane(lane): int(position) for lane, position in found["positions"].items()},
            schemas=found["schemas"],
            codec=found["codec"],
            ddls=tuple(DdlRecord(CommitTs(int(d["commit_ts"])), d["schema"], d["table"], d["query"]) for d in found["ddls"]),
            windows=tuple(_window_from_json(window) for window in found["windows"]),
            progress=found["progress"],
            next_schemas=found.get("next_schemas"),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ManifestUnreadable(f"manifest {name} lacks or breaks a field: {error!r}") from error


def _window_to_json(window: ClosedWindow) -> dict[str, Any]:
    return {
        "dump_id": window.dump_id,
        "low_ts": str(window.low_ts),
        "high_ts": str(window.high_ts),
        "first_seq": window.first_seq,
        "chunks": [
            {
                "schema": chunk.table.schema,
                "table": chunk.table.table,
                "path": chunk.path,
                "rows": chunk.rows,
                "bytes": chunk.bytes,
                "after": chunk.after,
                "last": chunk.last,
                "read_tso": None if chunk.read_tso is None else str(chunk.read_tso),
            }
            for chunk in window.chunks
        ],
    }


def _window_from_json(found: dict[str, Any]) -> ClosedWindow:
    return ClosedWindow(
        dump_id=found["dump_id"],
        low_ts=CommitTs(int(found["low_ts"])),
        high_ts=CommitTs(int(found["high_ts"])),
        first_seq=Seq(int(found["first_seq"])),
        chunks=tuple(
            ChunkFile(
                table=TableName(chunk["schema"], chunk["table"]),
                path=chunk["path"],
                rows=int(chunk["rows"]),
                bytes=int(chunk["bytes"]),
                after=None if chunk["after"] is None else tuple(chunk["after"]),
                last=None if chunk["last"] is None else tuple(chunk["last"]),
                read_tso=None if chunk["read_tso"] is None else CommitTs(int(chunk["read_tso"])),
            )
            for chunk in found["chunks"]
        ),
    )


def schemas_to_json(schemas: dict[TableName, TableSchema]) -> bytes:
    """Every table's schema, sorted by name, so that equal schemas give equal bytes."""
    return json.dumps(
        [
            {
                "schema": table.name.schema,
                "table": table.name.table,
                "key": table.key,
                "columns": [
                    [column.name, column.kind, column.nullable, column.length, column.scale, column.elements] for column in table.columns
                ],
                "ids": [table.table_id, *table.physical_ids],
                "layout": table.layout,
            }
            for _, table in sorted(schemas.items())
        ],
        separators=(",", ":"),
        ensure_ascii=False,
    ).encode()


def schemas_from_json(data: bytes, *, name: str) -> dict[TableName, TableSchema]:
    """The inverse of `schemas_to_json`. Raises ManifestUnreadable naming the file."""
    try:
        tables = [
            TableSchema(
                TableName(table["schema"], table["table"]),
                tuple(Column(c[0], c[1], c[2], c[3], c[4], tuple(c[5])) for c in table["columns"]),
                tuple(table["key"]),
                *_ids(table.get("ids", [0])),
                table.get("layout", ""),
            )
            for table in json.loads(data)
        ]
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise ManifestUnreadable(f"schemas {name} are not readable: {error!r}") from error
    return {table.name: table for table in tables}


def _ids(found: list[int]) -> tuple[int, tuple[int, ...]]:
    table_id, *physical_ids = found
    return table_id, tuple(physical_ids)
