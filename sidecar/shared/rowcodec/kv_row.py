"""A row's key and value to canonical text: the slow, exact decoder, and the oracle for the columnar one.

    key, value ─► cells (column id → bytes, or plain values of format 1) ─► plain values ─► text in column order

    format 2   128, flags (1: large, 2: checksum), counts u16 × 2, ids of not-null columns, ids of null columns, end offsets,
               data, [header u8, crc u32, [extra crc u32]]; ids and offsets are u8 and u16, large: u32; little-endian
    format 1   (column id, value) × n as datums; a row without columns is one zero byte

From pingcap/tidb pkg/util/rowcodec; tiflow cdc/entry/{mounter,codec}.go.
Where a column's value comes from: the row, else the handle, else its successor (exact or refused,
kv_cast.py), else `KvColumn.absent`. Ids that no output column has are skipped. Everything must fit to the last byte: ids and
offsets rise, nothing trails, a checksum holds, a value is of its column's type. A row that breaks a rule has no value at all.
A row at rest (of a dump, or an old value) can have any earlier layout: either format, values that the table's columns do not have any more
or not yet, checksums that only an earlier layout explains (kv_checksum.py).
What cannot be seen: a row of format 1 that was cut between two columns, and another value of the same type where there is no
checksum.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sidecar.shared.errors import MessageUnreadable
from sidecar.shared.rowcodec.kv_cast import cast_text
from sidecar.shared.rowcodec.kv_checksum import Checksum, SummedRow, read_checksum, verify
from sidecar.shared.rowcodec.kv_datum import VARINT, Plain, canonical, plain_of_cell, plain_of_datum, read_datum, read_varint
from sidecar.shared.rowcodec.kv_error import Broken
from sidecar.shared.rowcodec.kv_key import RecordKey, record_key, values_of_handle
from sidecar.shared.rowcodec.kv_table import KvColumn, KvTable

FORMAT_2 = 128
FLAG_LARGE, FLAG_CHECKSUM = 1, 2
HEAD_BYTES = 6

EMPTY_FORMAT_1 = b"\0"
_SHOWN_KEY_BYTES_MAX = 64
_SHOWN_IDS_MAX = 8
_HINT = (
    "report it with the key: the row is damaged, or its table had another schema at its commit; it can be compared with the "
    "row that TiDB holds (TIDB_MVCC_INFO of the key), and a new dump of the table reads it again"
)
_HINT_AT_REST = (
    "compare what SELECT shows of this row with its bytes (TIDB_MVCC_INFO of the key): the row is damaged, or of a schema that is not "
    "known here; if SELECT shows it whole, report it with the key; for a dump, an UPDATE that changes a value writes the row again"
)

_counts = struct.Struct("<HH").unpack_from


class CellPlace(NamedTuple):
    """Where a value's bytes are."""

    start: int
    end: int


class RowCells(NamedTuple):
    """A row of format 2: not-null cells and null columns by column id."""

    present: dict[int, CellPlace]
    nulls: frozenset[int]
    checksum: Checksum | None


def decode_row(table: KvTable, key: bytes, value: bytes, *, at_rest: bool = False) -> list[str | None]:
    """Canonical text of `table.columns`, None where NULL. `key` is the raw key as TiKV's change feed carries it.

    `at_rest`: `value` is not a new value of a live change, so it can have any earlier layout of the table.
    Raises MessageUnreadable, with table, key and the byte in key or row.
    """
    part = "key"
    try:
        record = record_key(key)
        if record.table_id not in table.physical_ids:
            raise Broken(len(key) - len(record.bare) + 1, _shown_ids(table), str(record.table_id))
        try:
            of_handle = values_of_handle(table, record.handle)
            texts = {number: canonical(table.columns[number], plain) for number, plain in of_handle.items()}
        except Broken as broken:
            raise broken.shifted(len(key) - len(record.handle)) from broken
        part = "row"
        if table.lost_key is not None:
            raise Broken(0, f"a value of column {table.lost_key}, of the handle key", "none: it is being dropped")
        values = plain_values(table, record, value, of_handle, at_rest=at_rest)
        return [text_of(table, number, of_row, texts) for number, of_row in enumerate(values)]
    except Broken as broken:
        raise MessageUnreadable(
            f"table {table.schema.name} (id {table.id}), key {_shown(key)}: {part} byte {broken.at}: "
            f"expected {broken.form}; got {broken.got}",
            hint=_HINT_AT_REST if at_rest else _HINT,
        ) from broken


def _shown(key: bytes) -> str:
    text = key[:_SHOWN_KEY_BYTES_MAX].hex()
    return text if len(key) <= _SHOWN_KEY_BYTES_MAX else f"{text}… ({len(key)} bytes)"


def _shown_ids(table: KvTable) -> str:
    ids = sorted(table.physical_ids)
    return f"a table id of {ids}" if len(ids) <= _SHOWN_IDS_MAX else f"one of {len(ids)} table ids from {ids[0]} to {ids[-1]}"


class DecodedValue(NamedTuple):
    """A column's value in the row and where it stands; `plain` None is NULL. `column`: what it was written as."""

    at: int
    plain: Plain | None
    column: KvColumn


def plain_values(
    table: KvTable, key: RecordKey, value: bytes, of_handle: dict[int, Plain], *, at_rest: bool
) -> Sequence[DecodedValue | None]:
    """What the row holds for each column; None where it has nothing. Raises Broken, with offsets in `value`."""
    if not value:
        raise Broken(0, "a row", "no bytes")
    if value[0] != FORMAT_2:
        return values_of_format_1(table, value)
    wanted = _wanted(table)
    cells = cells_of(value)
    decoded_rows = {column.id: one for column in wanted if (one := _cell_value(column, value, cells)) is not None}
    if cells.checksum is not None:
        by_id: dict[int, Plain] = {table.columns[number].id: plain for number, plain in of_handle.items()}
        by_id |= {id_: one.plain for id_, one in decoded_rows.items() if one.plain is not None}
        verify(table, SummedRow(key, value, cells.present.keys(), by_id), cells.checksum, at_rest=at_rest)
    return _of_columns(table, decoded_rows)


def _wanted(table: KvTable) -> list[KvColumn]:
    return [*table.columns, *(column.successor for column in table.columns if column.successor is not None)]


def _of_columns(table: KvTable, by_id: Mapping[int, DecodedValue]) -> list[DecodedValue | None]:
    """By column, of the values by id: the column's own, else its successor's."""
    return [by_id.get(column.id) or (by_id.get(column.successor.id) if column.successor else None) for column in table.columns]


def _cell_value(column: KvColumn, value: bytes, cells: RowCells) -> DecodedValue | None:
    cell = cells.present.get(column.id)
    if cell is None:
        return DecodedValue(HEAD_BYTES, None, column) if column.id in cells.nulls else None
    try:
        return DecodedValue(cell.start, plain_of_cell(column, value[cell.start : cell.end]), column)
    except Broken as broken:
        raise broken.shifted(cell.start, f"column {column.column.name}") from broken


def text_of(table: KvTable, number: int, of_row: DecodedValue | None, of_handle: Mapping[int, str]) -> str | None:
    """A column's text, of what the row and the handle hold of it. Raises Broken."""
    column = table.columns[number]
    if of_row is None:
        if number in of_handle:
            return of_handle[number]
        if any(part.number == number for part in table.key_parts):
            raise Broken(HEAD_BYTES, f"column {column.column.name}, of which the key has but its sort key or prefix", "none")
        return column.absent if column.successor is None else _absent(column, column.successor)
    try:
        text = None if of_row.plain is None else canonical(of_row.column, of_row.plain)
        if of_row.column is not column:
            text = _cast(column, of_row.column, text)
        if number in of_handle and text != of_handle[number]:
            raise Broken(0, f"the key's {of_handle[number]!r}", repr(text))
    except Broken as broken:
        raise broken.shifted(of_row.at, f"column {column.column.name}") from broken
    return text


def _absent(column: KvColumn, successor: KvColumn) -> str | None:
    """The reorganisation has written every row: what a row lacks now is NULL."""
    if not successor.column.nullable:
        raise Broken(HEAD_BYTES, f"column {column.column.name} or, amid a MODIFY COLUMN, the one with id {successor.id}", "neither")
    return _cast(column, successor, successor.absent)


def _cast(column: KvColumn, successor: KvColumn, text: str | None) -> str | None:
    cast = None if text is None else cast_text(text, successor, column)
    if cast is None and (text is not None or not column.column.nullable):
        form = f"a value that is one of the column's type ({column.column.kind}) too, amid a MODIFY COLUMN to {successor.column.kind}"
        raise Broken(0, form, repr(text))
    return cast


# ---- format 2 -------------------------------------------------------------------------------------------------------


def cells_of(value: bytes) -> RowCells:
    """The structure of a row of format 2, checksum included but not verified. Raises Broken."""
    if len(value) < HEAD_BYTES:
        raise Broken(0, f"{HEAD_BYTES} bytes of a row's head", f"{len(value)} bytes")
    flags = value[1]
    if flags & ~(FLAG_LARGE | FLAG_CHECKSUM):
        raise Broken(1, "flags of 0 to 3", str(flags))
    present_count, null_count = _counts(value, 2)
    id_bytes, offset_bytes = (4, 4) if flags & FLAG_LARGE else (1, 2)
    offsets_at = HEAD_BYTES + id_bytes * (present_count + null_count)
    data_at = offsets_at + offset_bytes * present_count
    if data_at > len(value):
        raise Broken(2, f"{data_at} bytes for {present_count} and {null_count} columns", f"{len(value)} bytes")
    ids = [int.from_bytes(value[at : at + id_bytes], "little") for at in range(HEAD_BYTES, offsets_at, id_bytes)]
    present_ids, null_ids = ids[:present_count], ids[present_count:]
    for name, some, start in (("not-null", present_ids, 0), ("null", null_ids, present_count)):
        for number, (one, other) in enumerate(zip([0, *some], some, strict=False)):
            if one >= other:
                raise Broken(HEAD_BYTES + id_bytes * (start + number), f"{name} column ids that rise from 1", f"{other} after {one}")
    nulls = frozenset(null_ids)
    if not nulls.isdisjoint(present_ids):
        raise Broken(HEAD_BYTES, "a column to be either null or not", f"ids {sorted(nulls.intersection(present_ids))} as both")
    present: dict[int, CellPlace] = {}
    start = data_at
    for at, id_ in zip(range(offsets_at, data_at, offset_bytes), present_ids, strict=True):
        stop = data_at + int.from_bytes(value[at : at + offset_bytes], "little")
        if not start <= stop <= len(value):
            raise Broken(at, f"an end offset of {start - data_at} to {len(value) - data_at}", str(stop - data_at))
        present[id_] = CellPlace(start, stop)
        start = stop
    if flags & FLAG_CHECKSUM:
        return RowCells(present, nulls, read_checksum(value, start))
    if start != len(value):
        raise Broken(start, "the end of the row", f"{len(value) - start} bytes more")
    return RowCells(present, nulls, None)


# ---- format 1 -------------------------------------------------------------------------------------------------------


def values_of_format_1(table: KvTable, value: bytes, *, hidden_id: int | None = None) -> list[DecodedValue | None]:
    """As `plain_values`. `hidden_id`: a negative id that the row may have as well. Raises Broken."""
    return _of_columns(table, _format_1(_wanted(table), value, hidden_id))


def _format_1(columns: Sequence[KvColumn], value: bytes, hidden_id: int | None) -> dict[int, DecodedValue]:
    """By column id, of `columns`."""
    decoded_rows: dict[int, DecodedValue] = {}
    if value == EMPTY_FORMAT_1:
        return decoded_rows
    by_id = {column.id: column for column in columns}
    seen: set[int] = set()
    at = 0
    while at < len(value):
        if value[at] != VARINT:
            raise Broken(at, f"format 2 ({FORMAT_2}), or the flag {VARINT} of a column id of format 1", str(value[at]))
        id_, start = read_varint(value, at + 1)
        if id_ in seen or (id_ < 1 and id_ != hidden_id):
            raise Broken(at, "a column id of format 1 that is new", str(id_))
        seen.add(id_)
        column = by_id.get(id_)
        if column is None:
            _, _, at = read_datum(value, start)
            continue
        try:
            plain, at = plain_of_datum(column, value, start, in_key=False)
        except Broken as broken:
            raise broken.shifted(0, f"column {column.column.name}") from broken
        # A compact or JSON value's own bytes end where the datum ends.
        decoded_rows[id_] = DecodedValue(at - len(plain) if isinstance(plain, bytes) else start, plain, column)
    return decoded_rows
