"""What a real drainer wrote into files: of each binlog its commit_ts and how many row events it has.

    file     frames: magic u32, length u64, payload, crc32 u32, little-endian
    payload  protobuf: 1 type (0 DML, 1 DDL), 2 commit_ts, 3 DML {1 event, …}, 4 the DDL's text

From pingcap/tidb-binlog pkg/binlogfile/encoder.go, proto/pb_binlog.proto.
"""

from __future__ import annotations

import gzip
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

MAGIC = 471_532_804
_HEAD, _CRC_BYTES = struct.Struct("<IQ"), 4
_TYPE, _COMMIT_TS, _DML, _EVENT = 1, 2, 3, 1


class Written(NamedTuple):
    commit_ts: int
    is_ddl: bool
    events: int


def written(folder: Path) -> list[Written]:
    """In the order of the files."""
    return [one for path in sorted(folder.glob("binlog-*")) for one in _read(_content(path))]


def _content(path: Path) -> bytes:
    data = path.read_bytes()
    return gzip.decompress(data) if path.suffix == ".gz" else data


def _read(data: bytes) -> Iterator[Written]:
    at = 0
    while at < len(data):
        magic, size = _HEAD.unpack_from(data, at)
        assert magic == MAGIC, f"no frame at {at}"
        at += _HEAD.size
        fields = dict(_fields(data[at : at + size]))
        dml = fields.get(_DML, b"")
        assert isinstance(dml, bytes)
        commit_ts = fields[_COMMIT_TS]
        assert isinstance(commit_ts, int)
        yield Written(commit_ts, fields.get(_TYPE) == 1, sum(number == _EVENT for number, _ in _fields(dml)))
        at += size + _CRC_BYTES


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        if tag & 7 == 0:
            value, at = _varint(data, at)
            yield tag >> 3, value
        else:
            assert tag & 7 == 2, f"wire type {tag & 7}"
            size, at = _varint(data, at)
            yield tag >> 3, data[at : at + size]
            at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[at]
        number, shift, at = number | (byte & 0x7F) << shift, shift + 7, at + 1
        if byte < 0x80:
            return number, at
