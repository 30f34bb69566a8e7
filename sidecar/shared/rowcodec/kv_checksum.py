"""The checksum behind a row of format 2: verified for every row that has one.

    header u8 (version: bits 0 to 2, extra: bit 3), crc u32, [extra crc u32]; little-endian, CRC-32 of IEEE

    version 0   over the values of the columns in order of their ids (TiDB 7.1; rowcodec appendDatumForChecksum)
    version 1   over the row's bytes with the header, then the key (8.3) or the handle: builds differ, either is right
    version 2   over the row's bytes with the header, then the handle (8.4)

While a column is added, changed or dropped, version 0 has `extra`: the one crc is over the public columns, the other over those of
the schema on the other side. NULL adds nothing, so that a column which the row lacks needs no value. Another version is
refused: it cannot be distinguished from damage.

A row at rest can have any earlier layout: a DDL that need not change the bytes of rows leaves them and their checksums as they are. A new
value of a live change has the layout of its commit. So a checksum that does not fit proves damage, except of a row at rest

    version 0   that has a value of a dropped column: it counts, and its type is not known any more
    version 0   whose times are those of a smaller scale (DATETIME to DATETIME(3)): their texts of each scale are tried, up to a bound
    version 1   in any case: REORGANIZE PARTITION and BR write the row's bytes under a key with another table id
    version 2   under a hidden handle: REORGANIZE PARTITION gives a row another one where two have the same

From pingcap/tidb pkg/table/tables/tables.go (appendColForChecksum), pkg/ddl/modify_column.go (noReorgDataStrict), pkg/ddl/partition.go
(reorgPartitionWorker).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import NamedTuple
from zlib import crc32

from sidecar.shared.rowcodec.kv_datum import Plain, canonical
from sidecar.shared.rowcodec.kv_error import Broken
from sidecar.shared.rowcodec.kv_key import RecordKey
from sidecar.shared.rowcodec.kv_table import KvColumn, KvTable

OVER_COLUMNS, OVER_KEY, OVER_HANDLE = 0, 1, 2
_VERSION, _EXTRA = 0b0111, 0b1000
_CRC_BYTES = 4

_INTEGERS = frozenset({"int", "uint", "year", "enum", "set", "bit"})
_SCALED_TIMES = frozenset({"datetime", "timestamp", "time"})
_EARLIER_MAX = 64
"""Combinations of scales that are tried: two columns of six digits, seven scales each."""

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


class SummedRow(NamedTuple):
    """What a checksum is over. `cells`: the ids of its values that are not NULL; `by_id`: those, and the handle's, of columns that the
    table has."""

    key: RecordKey
    value: bytes
    cells: Set[int]
    by_id: Mapping[int, Plain]


def verify(table: KvTable, row: SummedRow, checksum: Checksum, *, at_rest: bool) -> None:
    """Raises Broken if the checksum is another and no earlier layout explains it. `at_rest`: not a new value of a live change."""
    crcs = _crcs(table, row, checksum)
    if {checksum.crc, checksum.extra}.isdisjoint(crcs) and not (at_rest and _is_of_earlier_layout(table, row, checksum)):
        shown = " or ".join(f"0x{crc:08x}" for crc in crcs)
        raise Broken(checksum.at, f"a row with the checksum 0x{checksum.crc:08x} (version {checksum.version})", f"one with {shown}")


def _crcs(table: KvTable, row: SummedRow, checksum: Checksum) -> Sequence[int]:
    """What the checksum can be, by the layout that the table has."""
    match checksum.version:
        case 0:  # OVER_COLUMNS; constants cannot be patterns
            return [crc for columns in _layouts(table) for crc in _over_columns(columns, row.by_id)]
        case 1:
            return [crc32(part, crc32(row.value[: checksum.at + 1])) for part in (row.key.bare, row.key.handle)]
        case _:
            return [crc32(row.key.handle, crc32(row.value[: checksum.at + 1]))]


def _is_of_earlier_layout(table: KvTable, row: SummedRow, checksum: Checksum) -> bool:
    """Whether the checksum, which is not that of the table's layout, can be that of an earlier one."""
    match checksum.version:
        case 0:
            if row.cells - {column.id for column in table.columns}:
                return True
            tried = [_over_columns(columns, row.by_id, earlier=True) for columns in _layouts(table)]
            return any(not crcs or not crcs.isdisjoint({checksum.crc, checksum.extra}) for crcs in tried)
        case 1:
            return True
        case _:
            return table.int_handle is None and not table.key_parts


def _layouts(table: KvTable) -> Iterator[Sequence[KvColumn]]:
    """Amid MODIFY COLUMN a row is of the columns, or of those that take their places."""
    yield table.columns
    if any(column.successor for column in table.columns):
        yield [column.successor or column for column in table.columns]


def _over_columns(columns: Sequence[KvColumn], by_id: Mapping[int, Plain], *, earlier: bool = False) -> Set[int]:
    """One crc; `earlier`: those of all scales that the times can have had, or none where they are more than _EARLIER_MAX."""
    crcs = {0}
    for column in sorted(columns, key=lambda column: column.id):
        plain = by_id.get(column.id)
        if plain is not None:
            parts = _of_all_scales(column, plain) if earlier else [_bytes_for_checksum(column, plain)]
            crcs = {crc32(part, crc) for crc in crcs for part in parts}
        if len(crcs) > _EARLIER_MAX:
            return frozenset()
    return crcs


def _of_all_scales(column: KvColumn, plain: Plain) -> list[bytes]:
    if column.column.kind not in _SCALED_TIMES:
        return [_bytes_for_checksum(column, plain)]
    whole, _, fraction = canonical(column, plain).partition(".")
    digits = range(len(fraction.rstrip("0")), len(fraction) + 1)
    return [_with_length(f"{whole}.{fraction[:count]}" if count else whole) for count in digits]


def _bytes_for_checksum(column: KvColumn, plain: Plain) -> bytes:
    kind = column.column.kind
    if isinstance(plain, int) and kind in _INTEGERS:
        return _u64.pack(plain & ((1 << 64) - 1))
    if isinstance(plain, float):
        return _f64.pack(plain if math.isfinite(plain) else 0.0)
    if isinstance(plain, bytes) and kind == "vector":
        return plain
    return _with_length(plain if isinstance(plain, bytes) and kind != "json" else canonical(column, plain))


def _with_length(data: str | bytes) -> bytes:
    data = data.encode() if isinstance(data, str) else data
    return _u32.pack(len(data)) + data
