"""What is written beside each segment's data: the contract between the sidecar and Spark (design 5).

The log is `{log}/{seq:020d}-{epoch}.parquet` (rows, absent when there are none), then `{log}/{seq:020d}.json`, this
manifest, created exclusively. A segment exists when its manifest exists. Paths in a manifest are relative to the log.
Every ts and every position, which may be one, is written as a decimal string: JSON readers that know only doubles would round it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec

from sidecar.core.chunk import ChunkFile, ClosedWindow
from sidecar.core.model import MARK_TABLE, Column, CommitTs, Kind, Lane, Seq, TableName, TableSchema

FORMAT_VERSION = 1

DATA_COLUMNS = ("ordinal", "commit_ts", "op", "schema", "table", "codec", "key", "value", "lane", "position")
"""Columns of a segment's Parquet file: int64, int64, string (put|delete), string, string, string, binary, binary,
string, int64. Row order is the segment's order and `ordinal` counts it from 0."""


TABLES_COUNTED_MAX = 256
"""A segment of more tables does not say how many rows each has: a manifest stays small, and is sent to every task that reads its rows."""


class ManifestUnreadable(ValueError):
    """The bytes are not a manifest that this version can read; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """A segment's data as written: `name` relative to the log, None if there were no rows. `table_rows` as in Manifest."""

    name: str | None
    rows: int
    bytes: int
    table_rows: dict[TableName, int] | None = None


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
    DDLs, None if it has none that changed any. `table_rows`: the rows of each table but the watermark table, None where that is not known
    (0.1.0 did not write it; a segment has too many tables): then whoever wants to know opens the data.
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
    table_rows: dict[TableName, int] | None = None


# ---- the format, as it is read: numbers may be decimal strings, and a field without a default must be there -----------------


class _Version(msgspec.Struct):
    version: Any


class _Chunk(msgspec.Struct):
    schema: str
    table: str
    path: str
    rows: int
    bytes: int
    after: tuple[str, ...] | None
    last: tuple[str, ...] | None
    read_tso: CommitTs | None


class _Window(msgspec.Struct):
    dump_id: str
    low_ts: CommitTs
    high_ts: CommitTs
    first_seq: Seq
    chunks: tuple[_Chunk, ...]


class _Manifest(msgspec.Struct):
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
    ddls: tuple[DdlRecord, ...]
    windows: tuple[_Window, ...]
    progress: dict[str, Any] | None
    next_schemas: str | None = None
    table_rows: tuple[tuple[str, str, int], ...] | None = None


class _Column(msgspec.Struct, array_like=True):
    name: str
    kind: Kind
    nullable: bool
    length: int
    scale: int
    elements: tuple[str, ...]


class _Table(msgspec.Struct):
    schema: str
    table: str
    key: tuple[str, ...]
    columns: tuple[_Column, ...]
    ids: Annotated[tuple[int, ...], msgspec.Meta(min_length=1)] = (0,)
    layout: str = ""


_version_of = msgspec.json.Decoder(_Version).decode
_manifest_of = msgspec.json.Decoder(_Manifest, strict=False).decode
_tables_of = msgspec.json.Decoder(list[_Table]).decode


# ---- manifests ------------------------------------------------------------------------------------------------------


def counted(rows: Mapping[tuple[str, str], int]) -> dict[TableName, int] | None:
    """`Manifest.table_rows` of a segment with these rows by table."""
    found = {TableName(*table): number for table, number in rows.items() if table != MARK_TABLE}
    return found if len(found) <= TABLES_COUNTED_MAX else None


def to_json(manifest: Manifest) -> bytes:
    known = manifest.table_rows
    return msgspec.json.encode(
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
        }
        | ({} if known is None else {"table_rows": [(*table, rows) for table, rows in sorted(known.items())]})
    )


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


def from_json(data: bytes, *, name: str) -> Manifest:
    """Read a manifest; `name` is what an error calls it.

    Raises ManifestUnreadable for broken JSON, a missing field or a newer format version.
    """
    try:
        version = _version_of(data).version
    except msgspec.DecodeError as error:
        raise ManifestUnreadable(f"manifest {name} is not readable: {error}") from error
    if version != FORMAT_VERSION:
        raise ManifestUnreadable(
            f"manifest {name} has format version {version}, this ticdc-dump reads {FORMAT_VERSION}: run the version that wrote it"
        )
    try:
        found = _manifest_of(data)
    except msgspec.DecodeError as error:
        raise ManifestUnreadable(f"manifest {name} lacks or breaks a field: {error}") from error
    fields = msgspec.structs.asdict(found)
    by_table = None if found.table_rows is None else {TableName(schema, table): rows for schema, table, rows in found.table_rows}
    return Manifest(**fields | {"windows": tuple(map(_window, found.windows)), "table_rows": by_table})


def _window(found: _Window) -> ClosedWindow:
    chunks = (ChunkFile(TableName(c.schema, c.table), c.path, c.rows, c.bytes, c.after, c.last, c.read_tso) for c in found.chunks)
    return ClosedWindow(found.dump_id, found.low_ts, found.high_ts, found.first_seq, tuple(chunks))


# ---- schemas --------------------------------------------------------------------------------------------------------


def schemas_to_json(schemas: dict[TableName, TableSchema]) -> bytes:
    """Every table's schema, sorted by name, so that equal schemas give equal bytes."""
    return msgspec.json.encode(
        [
            _Table(
                table.name.schema,
                table.name.table,
                table.key,
                tuple(_Column(c.name, c.kind, c.nullable, c.length, c.scale, c.elements) for c in table.columns),
                (table.table_id, *table.physical_ids),
                table.layout,
            )
            for _, table in sorted(schemas.items())
        ]
    )


def schemas_from_json(data: bytes, *, name: str) -> dict[TableName, TableSchema]:
    """The inverse of `schemas_to_json`. Raises ManifestUnreadable naming the file."""
    try:
        found = _tables_of(data)
    except msgspec.DecodeError as error:
        raise ManifestUnreadable(f"schemas {name} are not readable: {error}") from error
    tables = [
        TableSchema(
            TableName(table.schema, table.table),
            tuple(Column(c.name, c.kind, c.nullable, c.length, c.scale, c.elements) for c in table.columns),
            table.key,
            table.ids[0],
            table.ids[1:],
            table.layout,
        )
        for table in found
    ]
    return {table.name: table for table in tables}
