"""`mysql.tidb_ddl_job`, where TiDB keeps the DDL jobs that are not over: enough of its TableInfo to find a job in its rows.

The table is made by TiDB itself, with these columns first, since 6.2; later versions add columns behind them, which are passed over.
Its rows may be of either format. A job's JSON is read by `ddl_job`. Source: pingcap/tidb pkg/meta/metadef, pkg/session/bootstrap.go.
"""

from __future__ import annotations

from sidecar.codecs.kv_row import decode_row
from sidecar.codecs.kv_table import KvColumn, KvTable
from sidecar.core.key_values import DDL_JOB_TABLE_ID
from sidecar.core.model import Column, TableName, TableSchema

DDL_JOB_TABLE = TableName("mysql", "tidb_ddl_job")

_BIGINT, _LONGBLOB = 8, 251
_COLUMNS = (
    KvColumn(Column("job_id", "int", nullable=False), 1, _BIGINT, unsigned=False, length=20, collation="binary", absent="0"),
    KvColumn(Column("job_meta", "binary"), 5, _LONGBLOB, unsigned=False, length=-1, collation="binary", absent=None),
)
_TABLE = KvTable(
    schema=TableSchema(DDL_JOB_TABLE, tuple(column.column for column in _COLUMNS), ("job_id",)),
    id=DDL_JOB_TABLE_ID,
    physical_ids=frozenset({DDL_JOB_TABLE_ID}),
    columns=_COLUMNS,
    int_handle=0,
    key_parts=(),
    new_collation=True,
)


def job_meta(key: bytes, value: bytes) -> bytes:
    """The JSON of the job in a row of this table. Raises MessageUnreadable."""
    _, found = decode_row(_TABLE, key, value)
    return bytes.fromhex(found or "")
