"""The certificate of a finished dump, `certificates/{dump_id}.json`: what the dump has put into the log, by hashes.

    {"version": 1, "dump_id": …, …,     the head: whose dump of what, what each sink has accepted, and `holes` that the dump does not fill
    "tables": [
    {"is": "schema", …},                a table's columns and handle key, as of segment `seq`; again where they have changed
    …],
    "chunks": [
    {"is": "chunk", …},                 each chunk of each window that closed, in the order of the log
    …],
    "segments": [
    {"is": "segment", …},               each segment from the first one of the first window to the one that closed the last window
    …],
    "sha256": "…"}                      of all bytes before the comma before it

One line for each element, so it is written and read in a stream. Every ts is a decimal string. The lines are those of the parts
(certificate_parts.py). The checker `deploy/certificate/check.py` reads this format and nothing of this package.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from sidecar.shared.errors import LogBroken
from sidecar.shared.log import storage
from sidecar.shared.log.dump_files import CERTIFICATES
from sidecar.shared.log.hashed import HashedFile
from sidecar.shared.log.storage import Folder
from sidecar.shared.model.chunk import ChunkFile, ClosedWindow
from sidecar.shared.model.hole import Hole
from sidecar.shared.model.nouns import OperationId, Seq, TableName, TableSchema, operation_id

FORMAT_VERSION = 1
TAIL_BYTES_MAX = 100
"""Of the last line, which has the sum."""


class ColumnLine(msgspec.Struct, array_like=True, frozen=True):
    """As of model.Column."""

    name: str
    kind: str
    nullable: bool
    length: int
    scale: int
    elements: tuple[str, ...]


class SchemaLine(msgspec.Struct, frozen=True, tag_field="is", tag="schema"):
    """A table as it is in force in segment `seq`, in which a chunk of it is."""

    schema: str
    table: str
    seq: int
    columns: tuple[ColumnLine, ...]
    key: tuple[str, ...]

    @classmethod
    def of(cls, table: TableSchema, seq: Seq) -> SchemaLine:
        columns = (ColumnLine(one.name, one.kind, one.nullable, one.length, one.scale, one.elements) for one in table.columns)
        return cls(*table.name, seq, tuple(columns), table.key)


class ChunkLine(msgspec.Struct, frozen=True, tag_field="is", tag="chunk"):
    """A chunk whose window closed in segment `seq`, as of ChunkFile and ClosedWindow."""

    seq: int
    schema: str
    table: str
    path: str
    rows: int
    absent: int
    bytes: int
    sha256: str
    rows_sum: str
    after: tuple[str, ...] | None
    last: tuple[str, ...] | None
    since_seq: int
    read_tso: str | None
    low_ts: str
    high_ts: str
    first_seq: int

    @classmethod
    def of(cls, seq: Seq, window: ClosedWindow, chunk: ChunkFile) -> ChunkLine:
        return cls(
            seq=seq,
            schema=chunk.table.schema,
            table=chunk.table.table,
            path=chunk.path,
            rows=chunk.rows,
            absent=chunk.absent,
            bytes=chunk.bytes,
            sha256=chunk.sha256,
            rows_sum=chunk.rows_sum,
            after=chunk.after,
            last=chunk.last,
            since_seq=chunk.since_seq,
            read_tso=None if chunk.read_tso is None else str(chunk.read_tso),
            low_ts=str(window.low_ts),
            high_ts=str(window.high_ts),
            first_seq=window.first_seq,
        )

    @property
    def name(self) -> TableName:
        return TableName(self.schema, self.table)


class SegmentLine(msgspec.Struct, frozen=True, tag_field="is", tag="segment"):
    """`sha256`: of the bytes of the segment's manifest. `previous`: as of Manifest."""

    seq: int
    sha256: str
    previous: str


class HoleLine(msgspec.Struct, frozen=True, tag_field="is", tag="hole"):
    """A hole that was noticed in segment `seq`, as of Hole. `tables`: by schema and name; None: each that is there."""

    seq: int
    cause: str
    since_ts: str
    tables: tuple[tuple[str, str], ...] | None
    vanished: bool
    text: str

    @classmethod
    def of(cls, seq: Seq, hole: Hole) -> HoleLine:
        return cls(seq, hole.cause.value, str(hole.since_ts), hole.tables, hole.vanished, hole.text)


class CertificateHead(NamedTuple):
    """What who looks for new certificates needs. `sinks`: those that receive the dump; empty: all. `sha256`: its last field."""

    dump_id: OperationId
    first_seq: Seq
    last_seq: Seq
    sinks: tuple[str, ...]
    sha256: str


def write_certificate(
    log: Folder, head: Mapping[str, Any], *, tables: Iterable[SchemaLine], chunks: Iterable[ChunkLine], segments: Iterable[SegmentLine]
) -> None:
    """Durable and whole, or not there. `head` has a `dump_id`. Raises as the log's storage."""
    with storage.new_file(log, CERTIFICATES.name(operation_id(head["dump_id"]))) as opened:
        file = HashedFile(opened)
        file.write(json.dumps({"version": FORMAT_VERSION, **head}, ensure_ascii=False).encode()[:-1])
        for name, lines in (("tables", tables), ("chunks", chunks), ("segments", segments)):
            file.write(b',\n"%b": [' % name.encode())
            between = b"\n"
            for line in lines:
                file.write(between + msgspec.json.encode(line))
                between = b",\n"
            file.write(b"]")
        opened.write(b',\n"sha256": "%b"}\n' % file.sha256().encode())


def read_head(log: Folder, dump_id: OperationId) -> CertificateHead:
    """Its first and last lines. Raises LogBroken for a file that is no certificate, and as the log's storage."""
    name = CERTIFICATES.name(dump_id)
    with storage.open_to_read(log, name) as file:
        first = file.readline()
        file.seek(0, 2)
        file.seek(max(file.tell() - TAIL_BYTES_MAX, 0))
        last = file.read().rstrip(b"\n").rpartition(b"\n")[2]
    try:
        head, tail = json.loads(first.rstrip(b",\n") + b"}"), json.loads(b"{" + last)
        sinks = tuple(map(str, head["scope"]["sinks"]))
        return CertificateHead(
            operation_id(str(head["dump_id"])), Seq(int(head["first_seq"])), Seq(int(head["last_seq"])), sinks, str(tail["sha256"])
        )
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise LogBroken(f"{log}/{name} is no certificate: {error!r}", hint="remove it, or restore it from a backup") from error
