"""Tables whose rows are deleted softly: TiDB's SOFTDELETE, and ACTIVE_ACTIVE, which needs it. Known by their columns.

- A row that has a time in `_tidb_softdelete_time` is deleted. TiDB makes a DELETE an UPDATE that sets the time, and an INSERT over such a
  row replaces it. With tidb_translate_softdelete_sql on, a SELECT shows no such row, and no statement may name the column.
  information_schema.columns has the column; `SELECT *` and SHOW CREATE TABLE, which has SOFTDELETE, do not.
- TiCDC's new architecture sends an UPDATE from NULL to a time as a DELETE, omits what is really deleted, and sends all else as it is. So a
  row that is inserted again, or recovered, comes as an UPDATE of a row that no output has: a put is an upsert everywhere. The classic
  architecture sends all of it as it is.
- So a row is what TiDB shows: the source is read with the translation, and the column's NULL, which each such row has, is written and not
  read. A target is read and written without it: there the rows are as the feed has them.
- Raw key-values have every version: such a table is refused there, and so is one of messages of the classic architecture.
- An active-active table is refused everywhere. The other cluster's TiCDC inserts rows that have a time already: they come as INSERTs,
  and TiDB shows none of them.

Sources: pingcap/tidb tests/integrationtest/r/ddl/active_active.result; pingcap/docs-cn soft-delete-table.md, active-active-table.md;
pingcap/ticdc pkg/common/event/active_active.go (EvaluateRowPolicy). pingcap/tiflow has nothing of it.
"""

from __future__ import annotations

from collections.abc import Iterable

from sidecar.shared.model.nouns import Column

SOFT_DELETE_TIME = "_tidb_softdelete_time"
ORIGIN_TS = "_tidb_origin_ts"


def is_softly_deleted(columns: Iterable[Column]) -> bool:
    """Whether a table of these columns is one, or was made to look like one."""
    return any(map(is_soft_delete_time, columns))


def is_soft_delete_time(column: Column) -> bool:
    return column.name == SOFT_DELETE_TIME


def is_active_active(columns: Iterable[Column]) -> bool:
    return {SOFT_DELETE_TIME, ORIGIN_TS} <= {column.name for column in columns}
