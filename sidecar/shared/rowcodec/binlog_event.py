"""A row event of a TiDB-Binlog as the log keeps it: a head of ours, then the row's bytes as TiDB wrote them.

    ordinal u32, kind u8, schema_version i64, row; big-endian

    kind   row
    I      handle, pairs of the new row
    U      pairs of the old row, pairs of the new row, of the same columns
    D      pairs of the old row
    R      size u32 of the old row, pairs of the old row, handle and pairs of the new row     made by a fold (binlog_fold.py)
    S      size u32 of the old row, pairs of the old row (none: there was no row), pairs of the new row            the same
    i u d  as I, U, D; the transaction may hold other changes of the same row

- The ordinal is the event's place in its transaction. The order in which a transaction changed a row is nowhere else, and by it two equal
  changes of one transaction are two, and two arrivals of one change are one.
- A handle is one datum, or as many as the clustered primary key has columns. Pairs are datums in turn: column id, value (row format 1,
  kv_row.py). `_tidb_rowid` has id -1 and is the last of its pairs.
- `schema_version` says under which tables the row was written, and so which ids its columns have (binlog_table.py).
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from sidecar.shared.rowcodec.kv_datum import VARINT, read_datum, read_varint
from sidecar.shared.rowcodec.kv_error import Broken

INSERT, UPDATE, DELETE, REPLACED, SETTLED = b"IUDRS"
MAYBE_REPEATED = 0x20
"""The bit of a kind's byte that makes a small letter of it."""

ROWID_ID = -1

_head = struct.Struct(">IBq")
_size = struct.Struct(">I")
HEAD_BYTES, SIZE_BYTES = _head.size, _size.size
KIND_AT, SCHEMA_VERSION_AT = 4, 5


class ImagePlace(NamedTuple):
    """One version of a row: where it is in the value. `has_handle`: the handle stands before its pairs."""

    start: int
    stop: int
    has_handle: bool


class Event(NamedTuple):
    """`kind` as a capital letter. At least one of the images is there."""

    ordinal: int
    kind: int
    schema_version: int
    old: ImagePlace | None
    new: ImagePlace | None


class Pair(NamedTuple):
    id: int
    at: int
    value_at: int
    end: int


def event_value(ordinal: int, kind: int, schema_version: int, row: bytes) -> bytes:
    return _head.pack(ordinal, kind, schema_version) + row


def settled_value(ordinal: int, schema_version: int, old: bytes, new: bytes, *, has_handle: bool) -> bytes:
    """What a fold makes of several events."""
    return event_value(ordinal, REPLACED if has_handle else SETTLED, schema_version, _size.pack(len(old)) + old + new)


def schema_version_of(value: bytes) -> int:
    """Raises Broken."""
    return _read_head(value)[2]


def event_of(value: bytes) -> Event:
    """Where the images are. Raises Broken."""
    ordinal, letter, schema_version = _read_head(value)
    kind, end = letter & ~MAYBE_REPEATED, len(value)
    match kind:
        case 73:  # INSERT; constants cannot be patterns
            return Event(ordinal, kind, schema_version, None, ImagePlace(HEAD_BYTES, end, has_handle=True))
        case 85:
            middle = _middle(value)
            old, new = ImagePlace(HEAD_BYTES, middle, has_handle=False), ImagePlace(middle, end, has_handle=False)
            return Event(ordinal, kind, schema_version, old, new)
        case 68:
            return Event(ordinal, kind, schema_version, ImagePlace(HEAD_BYTES, end, has_handle=False), None)
        case 82 | 83 if letter == kind:
            start = HEAD_BYTES + SIZE_BYTES
            size = _size.unpack_from(value, HEAD_BYTES)[0] if start <= end else 0
            if start + size >= end:
                raise Broken(HEAD_BYTES, "two rows", f"{end - HEAD_BYTES} bytes, of which the old row has {size}")
            old_image = ImagePlace(start, start + size, has_handle=False) if size else None
            return Event(ordinal, kind, schema_version, old_image, ImagePlace(start + size, end, has_handle=kind == REPLACED))
        case _:
            raise Broken(KIND_AT, "the kind of a row event", f"0x{letter:02x}")


def _read_head(value: bytes) -> tuple[int, int, int]:
    if len(value) <= HEAD_BYTES:
        raise Broken(0, f"{HEAD_BYTES} bytes and a row", f"{len(value)} bytes")
    ordinal, letter, schema_version = _head.unpack_from(value)
    return ordinal, letter, schema_version


def pairs(value: bytes, at: int) -> list[Pair]:
    """All of them up to the end of the bytes. Raises Broken."""
    columns: list[Pair] = []
    while at < len(value):
        id_, value_at = read_id(value, at)
        _, _, end = read_datum(value, value_at)
        columns.append(Pair(id_, at, value_at, end))
        at = end
    return columns


def read_id(value: bytes, at: int) -> tuple[int, int]:
    """A column id, and where its value begins."""
    if value[at] != VARINT:
        raise Broken(at, f"the flag {VARINT} of a column id", str(value[at]))
    return read_varint(value, at + 1)


def _middle(value: bytes) -> int:
    """Where the new row of an update begins."""
    columns = pairs(value, HEAD_BYTES)
    half = len(columns) // 2
    ids = [pair.id for pair in columns]
    if len(columns) % 2 or ids[:half] != ids[half:]:
        raise Broken(HEAD_BYTES, "an old and a new row of the same columns", f"column ids {ids}")
    return columns[half].at
