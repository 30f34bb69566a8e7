"""A row's key: which table, which row.

    [x, keyspace id (3 bytes)]   API v2 alone; TiKV leaves it on
    t, table id (8 bytes, memcomparable), _r, handle

    handle   8 bytes: an int64, memcomparable. Longer: one datum for each column of the clustered primary key, padded with
             zeros to 9 bytes if shorter

From pingcap/tidb pkg/tablecodec/tablecodec.go, pkg/util/codec, pkg/kv/key.go.
The table id is the partition's where there are partitions. The handle bytes are a row's
identity: a key of strings holds their sort keys under the new collation, which no text gives back.
"""

from __future__ import annotations

from typing import NamedTuple

from sidecar.shared.rowcodec.kv_datum import NIL, Plain, plain_of_datum
from sidecar.shared.rowcodec.kv_error import Broken
from sidecar.shared.rowcodec.kv_table import KvTable

_KEYSPACE_MARK = ord("x")
KEYSPACE_BYTES = 4
TABLE_BYTES, ROW_MARK, HANDLE_AT = 9, b"_r", 11
INT_HANDLE_BYTES = 8
_COMMON_HANDLE_BYTES_MIN = 9
_SIGN_BIT = 1 << 63


class RecordKey(NamedTuple):
    """`bare` is the key without its keyspace; `keyspace` None where there is none."""

    table_id: int
    handle: bytes
    bare: bytes
    keyspace: int | None


def record_key(key: bytes) -> RecordKey:
    """Raises Broken for what is not the key of a row (an index's or a meta key, too)."""
    keyspace, start = None, 0
    if len(key) > KEYSPACE_BYTES and key[0] == _KEYSPACE_MARK:
        keyspace, start = int.from_bytes(key[1:KEYSPACE_BYTES], "big"), KEYSPACE_BYTES
    bare = key[start:]
    if bare[:1] != b"t":
        raise Broken(start, "a key that begins with t", bare[:1].hex() or "the end")
    if bare[TABLE_BYTES:HANDLE_AT] != ROW_MARK:
        raise Broken(start + TABLE_BYTES, "_r of a row's key", bare[TABLE_BYTES:HANDLE_AT].hex() or "the end")
    handle = bare[HANDLE_AT:]
    if len(handle) < INT_HANDLE_BYTES:
        raise Broken(start + HANDLE_AT, f"a handle of at least {INT_HANDLE_BYTES} bytes", f"{len(handle)} bytes")
    return RecordKey(_int(bare[1:TABLE_BYTES]), handle, bare, keyspace)


def _int(data: bytes) -> int:
    """Eight memcomparable bytes."""
    return int.from_bytes(data, "big") - _SIGN_BIT


def values_of_handle(table: KvTable, handle: bytes) -> dict[int, Plain]:
    """Plain values by column number, of the columns that the handle alone holds. Raises Broken, with offsets in `handle`."""
    if not table.key_parts:
        if len(handle) != INT_HANDLE_BYTES:
            raise Broken(0, f"an int handle of {INT_HANDLE_BYTES} bytes", f"{len(handle)} bytes")
        return {} if table.int_handle is None else {table.int_handle: _int_handle(table, table.int_handle, handle)}
    if len(handle) < _COMMON_HANDLE_BYTES_MIN:
        raise Broken(0, f"a common handle of at least {_COMMON_HANDLE_BYTES_MIN} bytes", f"{len(handle)} bytes")
    values: dict[int, Plain] = {}
    at = 0
    for part in table.key_parts:
        column = table.columns[part.number]
        try:
            value, at = plain_of_datum(column, handle, at, in_key=True)
        except Broken as broken:
            raise broken.shifted(0, f"column {column.column.name}") from broken
        if part.is_whole and value is not None:
            values[part.number] = text_of_sort_key(table, part.number, value)
    # Short handles are padded with NIL so that their length distinguishes them from int handles.
    if handle[at:].strip(bytes([NIL])) or (at < len(handle) and len(handle) != _COMMON_HANDLE_BYTES_MIN):
        raise Broken(at, "the end of the handle", f"{len(handle) - at} bytes more")
    return values


def _int_handle(table: KvTable, number: int, handle: bytes) -> int:
    value = _int(handle)
    return value & ((1 << 64) - 1) if table.columns[number].unsigned else value


def text_of_sort_key(table: KvTable, number: int, value: Plain) -> Plain:
    """gbk and gb18030 are the only reversible collations whose sort key is in another charset than the value."""
    collation = table.columns[number].collation
    charset = collation.removesuffix("_bin")
    if table.new_collation and isinstance(value, bytes) and collation in ("gbk_bin", "gb18030_bin"):
        try:
            return value.decode(charset).encode()
        except UnicodeDecodeError as error:
            raise Broken(0, f"{charset} text", value.hex()) from error
    return value
