"""Rows as TiDB writes them, as far as the stand-in cluster writes any: the watermark table's. And a table of the jobs that recordings lack.

    key      t, table id, _r, the integer primary key; both ids as memcomparable int64
    value    row format 2, small: 128, flags, counts, column ids, end offsets, data; integers in as few bytes as hold them

From pingcap/tidb pkg/rowcodec.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

from sidecar.shared.rowcodec.key_values import DDL_JOB_TABLE_ID, rows_of
from sidecar.shared.rowcodec.kv_table import KvTable
from sidecar.shared.schema.ddl import TableInfo

_SIGN_BIT = 1 << 63
_VERSION = 128
_INT_BYTES = (1, 2, 4, 8)


def row_key(table_id: int, handle: int) -> bytes:
    return rows_of(table_id).start + (handle ^ _SIGN_BIT if handle >= 0 else handle + _SIGN_BIT).to_bytes(8, "big")


def row_value(table: KvTable, values: Mapping[str, int | str]) -> bytes:
    """`values` by column: all but the handle's, none of them NULL."""
    cells = sorted((column.id, _cell(values[column.column.name])) for column in table.columns if column.column.name in values)
    ends = [sum(len(cell) for _, cell in cells[: number + 1]) for number in range(len(cells))]
    head = struct.pack("<BBHH", _VERSION, 0, len(cells), 0) + bytes(id_ for id_, _ in cells)
    return head + struct.pack(f"<{len(ends)}H", *ends) + b"".join(cell for _, cell in cells)


def _cell(value: int | str) -> bytes:
    if isinstance(value, str):
        return value.encode()
    size = next(size for size in _INT_BYTES if -(1 << (8 * size - 1)) <= value < 1 << (8 * size - 1))
    return value.to_bytes(size, "little", signed=True)


def _column(number: int, name: str, type_code: int, flag: int = 0, charset: str = "binary") -> dict[str, Any]:
    field_type = {"Tp": type_code, "Flag": flag, "Flen": -1, "Decimal": 0, "Charset": charset, "Collate": f"{charset}_bin", "Elems": None}
    return {
        "id": number, "name": {"O": name, "L": name}, "offset": number - 1, "origin_default": None, "origin_default_bit": None,
        "generated_expr_string": "", "generated_stored": False, "type": field_type, "state": 5, "version": 2,
    }  # fmt: skip


DDL_JOB_TABLE_INFO: TableInfo = {
    "id": DDL_JOB_TABLE_ID, "name": {"O": "tidb_ddl_job", "L": "tidb_ddl_job"}, "state": 5, "update_timestamp": 0,
    "pk_is_handle": True, "is_common_handle": False, "index_info": None, "partition": None, "view": None, "sequence": None,
    "cols": [
        _column(1, "job_id", 8, 3), _column(2, "reorg", 3), _column(3, "schema_ids", 252, charset="utf8mb4"),
        _column(4, "table_ids", 252, charset="utf8mb4"), _column(5, "job_meta", 251), _column(6, "type", 3), _column(7, "processing", 3),
    ],
}  # fmt: skip
"""mysql.tidb_ddl_job as every TiDB since 6.2 makes it (pkg/ddl, DDLJobTableSQL); recordings hold no system tables."""
