"""What is written beside each segment's data: the contract between the sidecar and Spark.

The log is `{log}/{seq:020d}-{epoch}.parquet` (rows, absent when there are none), then `{log}/{seq:020d}.json`, this
manifest, created exclusively. A segment exists when its manifest exists. Paths in a manifest are relative to the log.
It names the version of ticdc-dump that wrote it. One of an earlier minor version does not read it: it would ignore fields that it does not
know, and be wrong without an error. Versions that differ in the last number only read each other's.
Every ts and every position, which may be one, is written as a decimal string: JSON readers that know only doubles would round it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import msgspec

import sidecar
from sidecar.shared.model.chunk import ChunkFile, ClosedWindow
from sidecar.shared.model.hole import Hole, HoleCause, WaitingHole
from sidecar.shared.model.nouns import FIRST_SEQ, MARK_TABLE, CommitTs, Lane, ReadEnd, Seq, TableName

FORMAT_VERSION = 2
"""Of a manifest that names a `dumps_file`, which a reader of before would pass over, and take the dump for one of fewer tables. Else 1."""

DATA_COLUMNS = ("ordinal", "commit_ts", "op", "schema", "table", "codec", "key", "value", "lane", "position")
"""Columns of a segment's Parquet file: int64, int64, string (put|delete), string, string, string, binary, binary,
string, int64. Row order is the segment's order and `ordinal` counts it from 0."""


TABLES_COUNTED_MAX = 256
"""A segment of more tables does not say how many rows each has: a manifest stays small, and is sent to every task that reads its rows."""


OPEN_NOT_KNOWN = Seq(0)
"""Of a manifest that does not say: a window may reach back to the first segment."""


class ManifestUnreadable(ValueError):
    """The bytes are not a manifest that this version can read; the text says why and what to do."""


class ManifestOfLaterVersion(ManifestUnreadable):
    """Of ticdc-dump, which can read it."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """A segment's data as written: `name` relative to the log, None if there were no rows. `table_rows` as in Manifest. `sha256`: of the
    file, in hex; empty where there is none."""

    name: str | None
    rows: int
    bytes: int
    table_rows: dict[TableName, int] | None = None
    sha256: str = ""


@dataclass(frozen=True, slots=True)
class LoggedDumps:
    """What a manifest has of the dumps: `Progress.to_json` of each, with those tables only that are not as in `file`; all of them where
    that is empty."""

    dumps: tuple[dict[str, Any], ...]
    file: str = ""


@dataclass(frozen=True, slots=True)
class DdlRecord:
    commit_ts: CommitTs
    schema: str
    table: str
    query: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """`data` is None when the segment has no rows. `progress` is the dump's progress after this segment, or None; `more_dumps` that of
    the other dumps that are there.

    `schemas` names the file with every table's TableSchema in force in this segment, `next_schemas` the one with those after its
    DDLs, None if it has none that changed any. `table_rows`: the rows of each table but the watermark table, None where that is not known
    (0.1.0 did not write it; a segment has too many tables): then a reader that needs them opens the data.

    `incarnations`: what distinguishes the lanes of `positions` from later ones of their names, where the feed knows it (ports.Feed).
    `read_ends`: how far the lanes of `positions` were read, where the feed knows it (ports.Feed); logs of 0.4 and before have none.
    `id`: drawn when the manifest is written. It distinguishes the manifest from one that follows the same segment in another copy of the
    log; empty in logs of 0.2.0 and before.

    `open_from`: the first segment of the oldest window that was open when this one was written, None if none was. Its writer may close
    that window in the next segment, until another owner has written that.

    `dumps_file`: has the dumps' tables that are not in `dumps` (dumps_file.py); empty: there are none.

    `holes`: those that were noticed when it was written. `waiting`: holes that were seen, and that the log has
    not come to. `seen`: how far each watcher of causes has looked, by its name (model/hole.py).

    `data_sha256`: as of DataFile. `previous`: the sha256 of the bytes of the previous segment's manifest, in hex. The log fills it in; it
    is empty in the first segment, and where it is not known. Each is empty in logs of 0.4 and before.
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
    incarnations: dict[Lane, str] = field(default_factory=dict)
    id: str = ""
    open_from: Seq | None = OPEN_NOT_KNOWN
    more_dumps: tuple[dict[str, Any], ...] = ()
    data_sha256: str = ""
    previous: str = ""
    dumps_file: str = ""
    read_ends: dict[Lane, ReadEnd] = field(default_factory=dict)
    holes: tuple[Hole, ...] = ()
    seen: dict[str, str] = field(default_factory=dict)
    waiting: tuple[WaitingHole, ...] = ()

    @property
    def dumps(self) -> tuple[dict[str, Any], ...]:
        """`Progress.to_json` of each dump, but for tables that are as in `dumps_file`; first of the one that is shown where a request names
        none."""
        return () if self.progress is None else (self.progress, *self.more_dumps)


# ---- the format, as it is read: numbers may be decimal strings, and a field without a default must be there -----------------

_Count = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
_Seq = Annotated[Seq, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
_Ts = Annotated[CommitTs, msgspec.Meta(ge=0)]
_Epoch = Annotated[int, msgspec.Meta(ge=0, le=(1 << 31) - 1)]
TS_END = 1 << 64
"""Above every TSO; and every position is below it."""


class _Version(msgspec.Struct):
    """`writer`: empty in logs of 0.4 and before."""

    version: int
    writer: str = ""


class _Ddl(msgspec.Struct):
    commit_ts: _Ts
    schema: str
    table: str
    query: str


class _Chunk(msgspec.Struct):
    schema: str
    table: str
    path: str
    rows: _Count
    bytes: _Count
    after: tuple[str, ...] | None
    last: tuple[str, ...] | None
    read_tso: _Ts | None
    since_seq: _Seq = FIRST_SEQ
    absent: _Count = 0
    sha256: str = ""
    rows_sum: str = ""


class _Window(msgspec.Struct):
    dump_id: str
    low_ts: _Ts
    high_ts: _Ts
    first_seq: _Seq
    chunks: tuple[_Chunk, ...]
    sinks: tuple[str, ...] = ()


class _Hole(msgspec.Struct):
    cause: HoleCause
    since_ts: _Ts
    tables: tuple[tuple[str, str], ...] | None
    vanished: bool
    text: str


class _Waiting(_Hole):
    ids: tuple[int, ...] = ()


class _Manifest(msgspec.Struct):
    seq: _Seq
    epoch: _Count
    after_ts: _Ts
    upto_ts: _Ts
    data: str | None
    rows: _Count
    bytes: _Count
    positions: dict[Lane, int]
    schemas: str
    codec: str
    ddls: tuple[_Ddl, ...]
    windows: tuple[_Window, ...]
    progress: dict[str, Any] | None
    next_schemas: str | None = None
    table_rows: tuple[tuple[str, str, _Count], ...] | None = None
    incarnations: dict[Lane, str] = {}
    id: str = ""
    open_from: _Seq | None = OPEN_NOT_KNOWN
    more_dumps: tuple[dict[str, Any], ...] = ()
    data_sha256: str = ""
    previous: str = ""
    dumps_file: str = ""
    read_ends: dict[Lane, tuple[int, _Epoch]] = {}
    holes: tuple[_Hole, ...] = ()
    seen: dict[str, str] = {}
    waiting: tuple[_Waiting, ...] = ()


_MINOR = re.compile(r"([0-9]{1,9})\.([0-9]{1,9})\b")
_SUM = re.compile(rb',"sum":"([0-9a-f]{16})"}\Z')
UNREADABLE = (ValueError, RecursionError)

_version_of = msgspec.json.Decoder(_Version).decode
_manifest_of = msgspec.json.Decoder(_Manifest, strict=False).decode


# ---- manifests ------------------------------------------------------------------------------------------------------


def counted(rows: Mapping[tuple[str, str], int]) -> dict[TableName, int] | None:
    """`Manifest.table_rows` of a segment with these rows by table."""
    result = {TableName(*table): number for table, number in rows.items() if table != MARK_TABLE}
    return result if len(result) <= TABLES_COUNTED_MAX else None


def to_json(manifest: Manifest) -> bytes:
    """With the version that writes it, and a checksum as its last field, where it has an id: those of 0.2.0 and before have none."""
    known = manifest.table_rows
    data = msgspec.json.encode(
        {
            "version": FORMAT_VERSION if manifest.dumps_file else 1,
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
        | ({"incarnations": manifest.incarnations} if manifest.incarnations else {})
        | ({"read_ends": {lane: (str(end.position), end.epoch) for lane, end in manifest.read_ends.items()}} if manifest.read_ends else {})
        | ({} if manifest.open_from == OPEN_NOT_KNOWN else {"open_from": manifest.open_from})
        | ({"more_dumps": manifest.more_dumps} if manifest.more_dumps else {})
        | ({"dumps_file": manifest.dumps_file} if manifest.dumps_file else {})
        | ({"data_sha256": manifest.data_sha256} if manifest.data_sha256 else {})
        | ({"previous": manifest.previous} if manifest.previous else {})
        | ({"holes": [_hole_to_json(hole) for hole in manifest.holes]} if manifest.holes else {})
        | ({"seen": manifest.seen} if manifest.seen else {})
        | ({"waiting": [_hole_to_json(one.hole) | {"ids": sorted(one.table_ids)} for one in manifest.waiting]} if manifest.waiting else {})
        | ({"writer": sidecar.__version__, "id": manifest.id} if manifest.id else {})
    )
    return data[:-1] + b',"sum":"%b"}' % _sum(data) if manifest.id else data


def _sum(data: bytes) -> bytes:
    return hashlib.sha256(data).hexdigest()[:16].encode()


def _is_whole(data: bytes) -> bool:
    """As it was written, as far as it says."""
    match = _SUM.search(data)
    return match is None or match[1] == _sum(data[: match.start()] + b"}")


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
            | ({"since_seq": chunk.since_seq} if chunk.since_seq else {})
            | ({"absent": chunk.absent} if chunk.absent else {})
            | ({"sha256": chunk.sha256} if chunk.sha256 else {})
            | ({"rows_sum": chunk.rows_sum} if chunk.rows_sum else {})
            for chunk in window.chunks
        ],
    } | ({"sinks": window.sinks} if window.sinks else {})


def _hole_to_json(hole: Hole) -> dict[str, Any]:
    fields = {"cause": hole.cause, "since_ts": str(hole.since_ts), "tables": hole.tables}
    return fields | {"vanished": hole.vanished, "text": hole.text}


def from_json(data: bytes, *, name: str) -> Manifest:
    """Read a manifest; `name` is what an error calls it.

    Raises ManifestUnreadable for broken JSON, a missing field or a number that cannot be, ManifestOfLaterVersion for what a later version
    of ticdc-dump wrote.
    """
    try:
        head = _version_of(data)
    except UNREADABLE as error:
        raise ManifestUnreadable(f"manifest {name} is not readable: {error}") from error
    if not _is_whole(data):
        raise ManifestUnreadable(f"manifest {name} is not as it was written: its checksum is another one")
    if head.version > FORMAT_VERSION or (head.writer and _minor(head.writer, name) > _minor(sidecar.__version__, name)):
        by = f"ticdc-dump {head.writer}" if head.writer else f"a later version, in format {head.version}"
        raise ManifestOfLaterVersion(f"manifest {name} was written by {by}, and this is ticdc-dump {sidecar.__version__}")
    if head.version < 1:
        raise ManifestUnreadable(f"manifest {name} has format version {head.version}, which there is not")
    try:
        manifest = _manifest_of(data)
    except UNREADABLE as error:
        raise ManifestUnreadable(f"manifest {name} lacks or breaks a field: {error}") from error
    if huge := [number for number in _large_numbers(manifest) if not -TS_END < number < TS_END]:
        raise ManifestUnreadable(f"manifest {name} has {huge[0]} for a ts or a position, which are below {TS_END}")
    fields = msgspec.structs.asdict(manifest)
    by_table = None if manifest.table_rows is None else {TableName(schema, table): rows for schema, table, rows in manifest.table_rows}
    ddls = tuple(DdlRecord(ddl.commit_ts, ddl.schema, ddl.table, ddl.query) for ddl in manifest.ddls)
    read_ends = {lane: ReadEnd(*end) for lane, end in manifest.read_ends.items()}
    windows = tuple(map(_window, manifest.windows))
    holes = tuple(map(_hole, manifest.holes))
    waiting = tuple(WaitingHole(_hole(one), frozenset(one.ids)) for one in manifest.waiting)
    read = {"ddls": ddls, "windows": windows, "table_rows": by_table, "read_ends": read_ends, "holes": holes, "waiting": waiting}
    return Manifest(**fields | read)


def _minor(version: str, name: str) -> tuple[int, int]:
    match = _MINOR.match(version)
    if match is None:
        raise ManifestUnreadable(f"manifest {name} is of version {version[:40]!r}, which is none")
    return int(match[1]), int(match[2])


def _large_numbers(value: _Manifest) -> Iterator[int]:
    """Those that JSON's decoder takes of any size."""
    yield from (
        value.after_ts,
        value.upto_ts,
        *value.positions.values(),
        *(position for position, _ in value.read_ends.values()),
        *(ddl.commit_ts for ddl in value.ddls),
        *(hole.since_ts for hole in (*value.holes, *value.waiting)),
    )
    for window in value.windows:
        yield from (window.low_ts, window.high_ts, *(chunk.read_tso or 0 for chunk in window.chunks))


def _window(value: _Window) -> ClosedWindow:
    return ClosedWindow(value.dump_id, value.low_ts, value.high_ts, value.first_seq, tuple(map(_chunk, value.chunks)), value.sinks)


def _hole(value: _Hole) -> Hole:
    tables = None if value.tables is None else tuple(TableName(*table) for table in value.tables)
    return Hole(value.cause, value.since_ts, tables, value.vanished, value.text)


def _chunk(value: _Chunk) -> ChunkFile:
    file = value.path, value.rows, value.bytes
    sums = value.sha256, value.rows_sum
    return ChunkFile(
        TableName(value.schema, value.table), *file, value.after, value.last, value.read_tso, value.since_seq, value.absent, *sums
    )
