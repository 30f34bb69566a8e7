"""The checksum behind a row of format 2: verified for every row that has one.

    header u8 (version: bits 0 to 2, extra: bit 3), crc u32, [extra crc u32]; little-endian, CRC-32 of IEEE

    version 0   over the values of the columns in order of their ids (TiDB 7.1; rowcodec appendDatumForChecksum)
    version 1   over the row's bytes with the header, then the key (8.3) or the handle: builds differ, either is right
    version 2   over the row's bytes with the header, then the handle (8.4)

While a column is added or dropped, version 0 has `extra`: the one crc is over the public columns, the other over those of
the schema on the other side. NULL adds nothing, so that a column which the row lacks needs no value. Another version is
refused: it cannot be distinguished from damage.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from typing import NamedTuple
from zlib import crc32

from sidecar.rowcodec.kv_datum import Plain, canonical
from sidecar.rowcodec.kv_error import Broken
from sidecar.rowcodec.kv_key import RecordKey
from sidecar.rowcodec.kv_table import KvColumn, KvTable

OVER_COLUMNS, OVER_KEY, OVER_HANDLE = 0, 1, 2
_VERSION, _EXTRA = 0b0111, 0b1000
_CRC_BYTES = 4

_INTEGERS = frozenset({"int", "uint", "year", "enum", "set", "bit"})
_u32 = struct.Struct("<I")
_u64 = struct.Struct("<Q")
_f64 = struct.Struct("<d")


class Checksum(NamedTuple):
    """`at` is the header's place; `extra` None where there is none."""

    at: int
    version: int
    crc: int
    extra: int | None


def read_checksum(value: bytes, at: int) -> Checksum:
    """What stands between `at` and the end of the row. Raises Broken."""
    if at >= len(value):
        raise Broken(at, "the header of a checksum", "the end")
    version, has_extra = value[at] & _VERSION, bool(value[at] & _EXTRA)
    if value[at] & ~(_VERSION | _EXTRA) or version > OVER_HANDLE or (has_extra and version != OVER_COLUMNS):
        raise Broken(at, "the header of a checksum of version 0 to 2", f"0x{value[at]:02x}")
    end = at + 1 + _CRC_BYTES * (1 + has_extra)
    if len(value) != end:
        raise Broken(at, f"{end - at} bytes of a checksum", f"{len(value) - at}")
    extra = _u32.unpack_from(value, at + 1 + _CRC_BYTES)[0] if has_extra else None
    return Checksum(at, version, _u32.unpack_from(value, at + 1)[0], extra)


def verify(table: KvTable, key: RecordKey, value: bytes, checksum: Checksum, by_id: Mapping[int, Plain], *, forgiving: bool) -> None:
    """`by_id`: every column of `table` with a value. Raises Broken if the checksum is another.

    `forgiving`: the row is of another schema than `table`, so version 0 proves nothing.
    """
    match checksum.version:
        case 0:  # OVER_COLUMNS; constants cannot be patterns
            made = [_over_columns(table, by_id)]
            holds = forgiving or made[0] in (checksum.crc, checksum.extra)
        case 1:
            made = [crc32(part, crc32(value[: checksum.at + 1])) for part in (key.bare, key.handle)]
            holds = checksum.crc in made
        case _:
            made = [crc32(key.handle, crc32(value[: checksum.at + 1]))]
            holds = checksum.crc in made
    if not holds:
        shown = " or ".join(f"0x{crc:08x}" for crc in made)
        raise Broken(checksum.at, f"a row with the checksum 0x{checksum.crc:08x} (version {checksum.version})", f"one with {shown}")


def _over_columns(table: KvTable, by_id: Mapping[int, Plain]) -> int:
    crc = 0
    for column in sorted(table.columns, key=lambda column: column.id):
        plain = by_id.get(column.id)
        if plain is not None:
            crc = crc32(_bytes_for_checksum(column, plain), crc)
    return crc


def _bytes_for_checksum(column: KvColumn, plain: Plain) -> bytes:
    kind = column.column.kind
    if isinstance(plain, int) and kind in _INTEGERS:
        return _u64.pack(plain & ((1 << 64) - 1))
    if isinstance(plain, float):
        return _f64.pack(plain if math.isfinite(plain) else 0.0)
    if isinstance(plain, bytes) and kind == "vector":
        return plain
    data = plain if isinstance(plain, bytes) and kind != "json" else canonical(column, plain).encode()
    return _u32.pack(len(data)) + data
