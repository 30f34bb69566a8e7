"""A binlog as it lies in a value file: a header, then the payload as TiDB sent it.

    magic u32 | crc u32 | size u32 | batch u64 | start_ts i64 | commit_ts i64 | kind u8 | payload      little-endian

- `crc` is zlib's CRC-32 of all that follows it: in the standard library, and as good at a torn write as CRC-32C.
- `batch` is where in this file the write began that the record is a part of. Writes are synced one after another, so a record whose
  write began behind a place says that all before that place was durable once.
- A binlog is looked up by `ts`: a prewrite by its start_ts, all others by their commit_ts.
"""

from __future__ import annotations

import struct
import zlib
from typing import NamedTuple

from ticdc_dump.binlog import binlog_pb2

PREWRITE, COMMIT, ROLLBACK = int(binlog_pb2.Prewrite), int(binlog_pb2.Commit), int(binlog_pb2.Rollback)

MAGIC = b"tBL\x01"
_HEADER = struct.Struct("<4sIIQqqB")
_CHECKED_FROM = 8
HEADER_BYTES = _HEADER.size


class Binlog(NamedTuple):
    """`payload`: the message with these three in it."""

    kind: int
    start_ts: int
    commit_ts: int
    payload: bytes

    @property
    def is_fake(self) -> bool:
        return 0 < self.start_ts == self.commit_ts


class PumpRecord(NamedTuple):
    binlog: Binlog
    batch: int
    size: int


def binlog_of(payload: bytes) -> Binlog:
    """Raises google.protobuf.message.DecodeError."""
    message = binlog_pb2.Binlog.FromString(payload)
    return Binlog(int(message.tp), message.start_ts, message.commit_ts, payload)


def made(kind: int, start_ts: int, commit_ts: int) -> Binlog:
    """One of the pump's own: a fake, the end of a transaction that TiKV reported. With every field that Go always writes."""
    fields = {"start_ts": start_ts, "commit_ts": commit_ts, "ddl_job_id": 0, "ddl_schema_state": 0}
    message = binlog_pb2.Binlog(tp=binlog_pb2.BinlogType.Name(kind), **fields)  # type: ignore[arg-type]
    return Binlog(kind, start_ts, commit_ts, message.SerializeToString())


def streamed(end: bytes, prewrite: bytes) -> bytes:
    """What a drainer gets: the commit binlog with the prewrite's value in it."""
    commit, of_prewrite = binlog_pb2.Binlog.FromString(end), binlog_pb2.Binlog.FromString(prewrite)
    if of_prewrite.HasField("prewrite_value"):
        commit.prewrite_value = of_prewrite.prewrite_value
    if of_prewrite.HasField("ddl_query"):
        commit.ddl_query = of_prewrite.ddl_query
    commit.ddl_job_id, commit.ddl_schema_state = of_prewrite.ddl_job_id, of_prewrite.ddl_schema_state
    whole: bytes = commit.SerializeToString()
    return whole


def header(binlog: Binlog, batch: int) -> bytes:
    kind, start_ts, commit_ts, payload = binlog
    bare = _HEADER.pack(MAGIC, 0, len(payload), batch, start_ts, commit_ts, kind)
    crc = zlib.crc32(payload, zlib.crc32(bare[_CHECKED_FROM:]))
    return MAGIC + crc.to_bytes(4, "little") + bare[_CHECKED_FROM:]


def record_at(data: bytes | memoryview, at: int) -> PumpRecord | None:
    """The record that begins there; None where none is whole."""
    if len(data) - at < HEADER_BYTES:
        return None
    magic, crc, size, batch, start_ts, commit_ts, kind = _HEADER.unpack_from(data, at)
    end = at + HEADER_BYTES + size
    if magic != MAGIC or end > len(data) or zlib.crc32(memoryview(data)[at + _CHECKED_FROM : end]) != crc:
        return None
    payload = bytes(memoryview(data)[at + HEADER_BYTES : end])
    return PumpRecord(Binlog(kind, start_ts, commit_ts, payload), batch, HEADER_BYTES + size)
