"""Which table a row of a TiDB-Binlog is read by: the segment's columns, by the ids that they had under the row's schema version.

- A transaction that began before a DDL may commit after it. Its rows have the columns of before (`PreviousLayout`), and are wanted
  in the columns of now: a column that was added since has its origin default, one that was dropped is omitted.
- MODIFY COLUMN with reorganisation gives a column another id. A row of before has it under its old id and of its old type: that column
  is then the `successor` of the new one (kv_table.py: what a row without this column has in its place), cast exactly or refused.
- Where in one DDL one column came and another went under another name, the one may be the other (CHANGE COLUMN) or not (ADD and DROP at
  once): a row that lacks such a column is refused.
- No row is more than one DDL behind, however old the version that it carries (feeds/binlog/rows.py): whatever is below
  `PreviousLayout.until` is read by the column's own id, else by the one that it had before.
- The columns of the handle never change: TiDB lets nobody change a clustered key.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from sidecar.shared.model.nouns import TableName, TableSchema
from sidecar.shared.rowcodec.kv_layout import kv_table_of
from sidecar.shared.rowcodec.kv_table import KvColumn, KvTable

_TABLES_MAX = 4096


class BinlogTable(NamedTuple):
    """`unclear`: numbers of columns whose value is not known where a row lacks them."""

    table: KvTable
    unclear: frozenset[int] = frozenset()


def is_older(schema: TableSchema, schema_version: int) -> bool:
    """Whether a row of this version may be as the table was before its last DDL."""
    return schema.former is not None and schema_version < schema.former.until


def binlog_table_of(schema: TableSchema, schema_version: int) -> BinlogTable:
    """Raises FeedUnsuitable for a table without a layout."""
    now = kv_table_of(schema)
    if schema.former is None or not is_older(schema, schema_version):
        return BinlogTable(now)
    return _older(schema.name, schema.layout, schema.former.layout)


@lru_cache(maxsize=_TABLES_MAX)
def _older(name: TableName, layout: str, previous: str) -> BinlogTable:
    now, before = (kv_table_of(TableSchema(name, (), (), layout=one)) for one in (layout, previous))
    by_id = {column.id: column for column in before.columns}
    gone = {column.column.name: column for column in _without(before.columns, now.columns)}
    came = _without(now.columns, before.columns)
    successors = {column.id: gone.pop(column.column.name) for column in came if column.column.name in gone}
    columns = tuple(replace(column, successor=successors[column.id]) if column.id in successors else column for column in now.columns)
    unclear = {number for number, column in enumerate(now.columns) if column.id not in by_id and column.id not in successors}
    return BinlogTable(replace(now, columns=columns), frozenset(unclear if gone else ()))


def _without(some: Iterable[KvColumn], others: Iterable[KvColumn]) -> list[KvColumn]:
    ids = {column.id for column in others}
    return [column for column in some if column.id not in ids]
