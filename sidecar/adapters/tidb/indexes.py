"""Which unique key TiCDC takes for a table's handle, as far as information_schema tells.

- The primary key comes first; else the unique key whose columns are all NOT NULL and in the feed, with the fewest columns, then
  the smallest id. A server that does not tell index ids gives the order in which it lists them.
- A key over an expression has a column without a name, and is never the handle.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sidecar.adapters.tidb.sql import Flavour, Row, Session
from sidecar.core.model import Column, TableName


@dataclass(frozen=True, slots=True)
class UniqueIndex:
    """`columns` holds None for an expression."""

    name: str
    id: int
    columns: tuple[str | None, ...]


def grouped(rows: Iterable[Row]) -> dict[TableName, list[Row]]:
    """By the table that each row's first two columns name, without them."""
    found: dict[TableName, list[Row]] = defaultdict(list)
    for schema_name, table_name, *rest in rows:
        found[TableName(schema_name, table_name)].append(tuple(rest))
    return found


def unique_indexes(session: Session, scope: str, values: tuple[str, ...] | None) -> Mapping[TableName, Sequence[UniqueIndex]]:
    """TiDB's own view tells the ids; elsewhere the order of listing, in which MariaDB and MySQL keep unique keys of NOT NULL
    columns first. Tables without one have none. Raises pymysql's errors."""
    if session.flavour is Flavour.TIDB:
        view, name, index_id, order = "tidb_indexes", "KEY_NAME", "INDEX_ID", "INDEX_ID"
    else:
        view, name, index_id, order = "statistics", "INDEX_NAME", "0", "INDEX_NAME"
    found = grouped(
        session.rows(
            f"SELECT TABLE_SCHEMA, TABLE_NAME, {name}, {index_id}, COLUMN_NAME FROM information_schema.{view}"
            f" WHERE NON_UNIQUE = 0 AND {scope} ORDER BY TABLE_SCHEMA, TABLE_NAME, {order}, SEQ_IN_INDEX",
            values,
        )
    )
    indexes: dict[TableName, list[UniqueIndex]] = defaultdict(list)
    for table, rows in found.items():
        parts: dict[tuple[str, int], list[str | None]] = defaultdict(list)
        for index_name, number, column in rows:
            parts[(index_name, int(number))].append(column)
        indexes[table] = [UniqueIndex(index_name, number, tuple(columns)) for (index_name, number), columns in parts.items()]
    return indexes


def handle_key(in_feed: Sequence[Column], indexes: Sequence[UniqueIndex]) -> tuple[str, ...]:
    """The names of its columns, empty for none."""
    not_null = {column.name for column in in_feed if not column.nullable}
    usable = [(index, tuple(name for name in index.columns if name in not_null)) for index in indexes]
    whole = [(index, names) for index, names in usable if len(names) == len(index.columns)]
    for index, names in whole:
        if index.name.upper() == "PRIMARY":
            return names
    return min(whole, key=lambda found: (len(found[1]), found[0].id), default=(None, ()))[1]
