"""A dump's chunks from TiKV: the raw rows of a table as of a timestamp of PD's, decoded as the feeds of key-values decode theirs.

    table's schema ──► its ranges of keys ──► SnapshotScan ──► keys, values ──► canonical text, as over SQL

- Where a chunk begins and ends is said by raw keys (`ReadChunk.read_with`): whatever a table's key is, TiKV's order is that of bytes.
- The timestamp is taken after the command came, so the rows are true at a moment within the chunk's window.
- A table is cut where its regions end, so readers of several ranges keep several stores busy.
- A row may have been written under a DDL that the log has not reached. Where that shows (it cannot be decoded) the chunk is a Misfit; where
  it does not, the window spans the DDL, and the dump reads the chunk again.
- A schema says what decoding needs only where the feed brings key-values (`TableSchema.layout`).
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

import pyarrow as pa

from sidecar.shared.columns.kv import decode_rows
from sidecar.shared.config import TikvSection
from sidecar.shared.errors import ConfigError, FeedError, SourceError
from sidecar.shared.model.keyset import Key, thinned
from sidecar.shared.model.messages import Brackets, ReadChunk
from sidecar.shared.model.nouns import CommitTs, TableName, TableSchema
from sidecar.shared.reads.read import Misfit
from sidecar.shared.reads.reader import ReadRows
from sidecar.shared.rowcodec.key_values import KeyRange, rows_of
from sidecar.shared.rowcodec.kv_key import HANDLE_AT, INT_HANDLE_BYTES, ROW_MARK, TABLE_BYTES
from sidecar.shared.rowcodec.kv_layout import kv_table_of
from sidecar.shared.tikv.scan import ScannedRows, SnapshotScan

Schemas = Mapping[TableName, TableSchema]


@dataclass(frozen=True, slots=True, eq=False)
class _InForce:
    """The schemas between two DDLs."""

    schemas: Schemas


def try_tikv(section: TikvSection) -> None:
    """Read one row, of any table. Raises TicdcDumpError."""
    with closing(SnapshotScan(section)) as scan:
        scan.rows([KeyRange(b"t", b"u")], scan.now_ts(), rows_max=1, bytes_max=1)


class TikvReads:
    """`reader.ReadPlace`. Any number of sessions; `follow` from any thread. `cluster_id`: as of SnapshotScan."""

    def __init__(self, section: TikvSection, schemas: Schemas, *, cluster_id: int = 0) -> None:
        self._section, self._cluster_id = section, cluster_id
        self._in_force = _InForce(schemas)

    def follow(self, schemas: Schemas) -> None:
        self._in_force = _InForce(schemas)

    def open(self) -> TikvReadSession:
        return TikvReadSession(self._section, self._cluster_id, lambda: self._in_force)


@dataclass(frozen=True, slots=True)
class TikvRows:
    """`reader.ReadRows`. `in_force`: the schemas that they were read by; `at_ts`: the moment that they are of."""

    rows: ScannedRows
    schema: TableSchema
    in_force: object
    at_ts: CommitTs
    last: Key | None
    read_tso: CommitTs | None
    exhausted: bool
    bounds: tuple[Key, ...]
    read_s: float
    absent: tuple[Key, ...] = ()
    keys_read: int = 0

    def texts(self, *, where: str) -> pa.Table | Misfit:
        """Those that the slow decoder gives; a row that it refuses is of a DDL that the log has not reached, or damaged."""
        keys, values = pa.array(self.rows.keys, pa.binary()), pa.array(self.rows.values, pa.binary())
        try:
            return pa.Table.from_batches([decode_rows(kv_table_of(self.schema), keys, values, at_rest=True)])
        except FeedError as error:
            return Misfit(f"{where}: {error.message}", error.hint, self.at_ts)


class TikvReadSession:
    """`reader.ReadSession`. Reads its settings' files and connects when there is something to read."""

    def __init__(self, section: TikvSection, cluster_id: int, in_force: Callable[[], _InForce]) -> None:
        self._section, self._cluster_id, self._in_force = section, cluster_id, in_force
        self._stopped: Callable[[], bool] = lambda: False
        self._interrupted = False
        self._made: SnapshotScan | None = None

    def read(self, command: ReadChunk, *, stopped: Callable[[], bool]) -> TikvRows:
        self._stopped = stopped
        in_force = self._in_force()
        doing = f"reading chunk {command.number} of {command.table}"
        schema = in_force.schemas.get(command.table)
        if schema is None:
            raise SourceError(f"{doing}: its schema is not known", hint="leave it out of the dump: the changefeed does not carry it")
        try:
            kv_table_of(schema)
            return self._read(self._scan(), command, schema, in_force)
        except SourceError as error:
            raise type(error)(f"{doing}: {error.message}", hint=error.hint) from error.__cause__
        except (FeedError, ConfigError) as error:
            raise SourceError(f"{doing}: {error.message}", hint=error.hint) from error

    def serves(self, rows: ReadRows) -> bool:
        return isinstance(rows, TikvRows) and rows.in_force is self._in_force()

    def interrupt(self) -> None:
        self._interrupted = True
        if (made := self._made) is not None:
            made.interrupt()

    def close(self) -> None:
        if self._made is not None:
            self._made.close()

    def _scan(self) -> SnapshotScan:
        """Raises ConfigError."""
        if self._made is None:
            self._made = SnapshotScan(self._section, cluster_id=self._cluster_id, stopped=lambda: self._interrupted or self._stopped())
        return self._made

    def _read(self, scan: SnapshotScan, command: ReadChunk, schema: TableSchema, in_force: _InForce) -> TikvRows:
        ranges = list(_ranges(schema, command))
        at_ts = scan.now_ts()
        started_s = time.monotonic()
        scanned = scan.rows(ranges, at_ts, rows_max=command.rows_max + 1, bytes_max=command.bytes_max)
        read_s = time.monotonic() - started_s
        rows = ScannedRows(scanned.keys[: command.rows_max], scanned.values[: command.rows_max], scanned.whole)
        last = _text(rows.keys[-1]) if rows.keys else command.after
        if scanned.upto is not None and len(scanned.keys) <= command.rows_max:
            last = _text(_behind_rows(scanned.upto))
        exhausted = scanned.whole and len(scanned.keys) <= command.rows_max
        bounds: tuple[Key, ...] = ()
        if command.bounds_max and not exhausted and last is not None:
            bounds = _bounds(scan, _above(ranges, bytes.fromhex(last[0])), at_ts, command.bounds_max)
        read_tso = at_ts if command.brackets is Brackets.SNAPSHOT else None
        return TikvRows(rows, schema, in_force, at_ts, last, read_tso, exhausted, bounds, read_s)


def _bounds(scan: SnapshotScan, ranges: Sequence[KeyRange], at_ts: CommitTs, count: int) -> tuple[Key, ...]:
    """At most `count` keys that rise, the last of them the highest that has a row; empty if nobody can tell."""
    highest = scan.last_key(ranges, at_ts) if ranges else None
    if highest is None:
        return ()
    borders = scan.borders(ranges)
    cuts = [_text(key) for key in borders[: bisect_left(borders, highest)]]
    return (*(thinned(cuts, count=count - 1) if count > 1 else ()), _text(highest))


def _ranges(schema: TableSchema, command: ReadChunk) -> Iterator[KeyRange]:
    """What the command asks for of the table's keys, and of each of its partitions', in the order of their bytes. Raises SourceError."""
    after, upper = _bytes(command.after, command), _bytes(command.upper, command)
    for physical_id in sorted(schema.physical_ids):
        start, end = rows_of(physical_id)
        if after is not None and after >= _behind_rows(KeyRange(start, end)):
            continue
        start = start if after is None else max(start, after + b"\0")
        end = end if upper is None else min(end, upper + b"\0")
        if start < end:
            yield KeyRange(start, end)


def _above(ranges: Sequence[KeyRange], key: bytes) -> Sequence[KeyRange]:
    return [KeyRange(max(start, key + b"\0"), end) for start, end in ranges if key + b"\0" < end]


def _behind_rows(rows: KeyRange) -> bytes:
    """A key above those of all rows of a table or partition, and below its end: no handle begins so and is longer than eight bytes."""
    return rows.start[:HANDLE_AT] + b"\xff" * (INT_HANDLE_BYTES + 1)


def _text(key: bytes) -> Key:
    return (key.hex(),)


def _bytes(key: Key | None, command: ReadChunk) -> bytes | None:
    if key is None:
        return None
    try:
        (text,) = key
        raw = bytes.fromhex(text)
        if raw[:1] == b"t" and raw[TABLE_BYTES:HANDLE_AT] == ROW_MARK:
            return raw
    except ValueError:
        pass
    what = f"reading chunk {command.number} of {command.table}: {key!r} is no raw key of a row in TiKV"
    raise SourceError(what, hint="use dumprestart: the dump's progress is of another way of reading, or damaged")
