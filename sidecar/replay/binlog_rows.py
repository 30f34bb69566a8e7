"""Rows as TiDB writes them into a binlog, as far as the stand-in cluster writes any: the watermark table's.

    row     column id, value, column id, value, …    datums: 8 and a signed varint, 2 and bytes after their length
    event   update: the old row, the new row; insert: the handle as a datum, then the other columns

From pingcap/tidb pkg/util/codec, pkg/tablecodec (EncodeOldRow).
"""

from __future__ import annotations

from collections.abc import Mapping

from sidecar.shared.model.nouns import CommitTs
from sidecar.shared.rowcodec.kv_table import KvTable
from ticdc_dump.binlog.binlog_pb2 import Binlog, Commit, Insert, PrewriteValue, TableMutation, Update

_COMPACT_BYTES, _VARINT = 2, 8
_NEWEST = 1 << 40
"""A schema version above all."""

Texts = Mapping[str, int | str]


def transaction(table: KvTable, commit_ts: CommitTs, before: Texts | None, after: Texts) -> bytes:
    """A Binlog of one row of `table`, which has an integer primary key; values by column, none of them NULL."""
    mutation = TableMutation(table_id=table.id)
    if before is None:
        mutation.inserted_rows.append(_handle(table, after) + _pairs(table, after, with_handle=False))
        mutation.sequence.append(Insert)
    else:
        mutation.updated_rows.append(_pairs(table, before, with_handle=True) + _pairs(table, after, with_handle=True))
        mutation.sequence.append(Update)
    value = PrewriteValue(schema_version=_NEWEST, mutations=[mutation]).SerializeToString()
    made = Binlog(tp=Commit, start_ts=commit_ts - 1, commit_ts=commit_ts, prewrite_key=b"mark", prewrite_value=value)
    return bytes(made.SerializeToString())


def _handle(table: KvTable, values: Texts) -> bytes:
    assert table.int_handle is not None
    return _datum(values[table.columns[table.int_handle].column.name])


def _pairs(table: KvTable, values: Texts, *, with_handle: bool) -> bytes:
    shown = [column for number, column in enumerate(table.columns) if with_handle or number != table.int_handle]
    return b"".join(_datum(column.id) + _datum(values[column.column.name]) for column in shown)


def _datum(value: int | str) -> bytes:
    if isinstance(value, int):
        return bytes([_VARINT]) + _varint(value)
    data = value.encode()
    return bytes([_COMPACT_BYTES]) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    """Go's: the sign in the lowest bit, seven bits a byte, the lowest first."""
    left, data = (value << 1) ^ (value >> 63), bytearray()
    while left > 0x7F:
        data.append(left & 0x7F | 0x80)
        left >>= 7
    data.append(left)
    return bytes(data)
