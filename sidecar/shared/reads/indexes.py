"""A table's indexes as far as information_schema shows them, and which of them TiCDC takes for the handle.

- The primary key comes first; else the unique key whose columns are all NOT NULL and in the feed, with the fewest columns, then
  the smallest id. A server that does not tell index ids gives the order in which it lists them.
- A key over an expression has a column without a name, and is never the handle.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from sidecar.shared.model.nouns import Column, IndexDefinition, IndexPart, TableName
from sidecar.shared.mysql.flavour import Flavour
from sidecar.shared.mysql.session import MysqlSession, Row


def grouped(rows: Iterable[Row]) -> dict[TableName, list[Row]]:
    """By the table that each row's first two columns name, without them."""
    by_table: dict[TableName, list[Row]] = defaultdict(list)
    for schema_name, table_name, *rest in rows:
        by_table[TableName(schema_name, table_name)].append(tuple(rest))
    return by_table


def read_indexes(session: MysqlSession, scope: str, values: tuple[str, ...] | None) -> Mapping[TableName, Sequence[IndexDefinition]]:
    """All of them. TiDB's own view has the ids; elsewhere they come in the order of listing, in which MariaDB and MySQL keep unique keys
    of NOT NULL columns first, and MariaDB shows no expressions. Tables without one have none. Raises pymysql's errors."""
    if session.flavour is Flavour.TIDB:
        select_rest = "KEY_NAME, INDEX_ID, COLUMN_NAME, SUB_PART, EXPRESSION, NON_UNIQUE FROM information_schema.tidb_indexes WHERE"
        order = "INDEX_ID"
    else:
        expression = "EXPRESSION" if session.flavour is Flavour.MYSQL else "NULL"
        select_rest = f"INDEX_NAME, 0, COLUMN_NAME, SUB_PART, {expression}, NON_UNIQUE FROM information_schema.statistics WHERE"
        select_rest += " INDEX_TYPE NOT IN ('FULLTEXT', 'SPATIAL') AND"
        order = "INDEX_NAME"
    by_table = grouped(
        session.rows(
            f"SELECT TABLE_SCHEMA, TABLE_NAME, {select_rest} {scope} ORDER BY TABLE_SCHEMA, TABLE_NAME, {order}, SEQ_IN_INDEX",
            values,
        )
    )
    return {table: _indexes(rows) for table, rows in by_table.items()}


def _indexes(rows: Iterable[Row]) -> tuple[IndexDefinition, ...]:
    """The primary key first; else in the order of `rows`."""
    parts: dict[tuple[str, int, bool], list[IndexPart]] = defaultdict(list)
    for name, number, column, length, expression, non_unique in rows:
        whole = -1 if length is None else int(length)
        part = IndexPart(column, whole) if expression is None and column is not None else IndexPart(expression=expression or "")
        parts[(name, int(number), not int(non_unique))].append(part)
    definitions = [
        IndexDefinition(name, tuple(columns), unique, name.upper() == "PRIMARY", number)
        for (name, number, unique), columns in parts.items()
    ]
    return tuple(sorted(definitions, key=lambda index: not index.primary))


def handle_key(in_feed: Sequence[Column], indexes: Sequence[IndexDefinition]) -> tuple[str, ...]:
    """The names of its columns, empty for none."""
    not_null = {column.name for column in in_feed if not column.nullable}
    usable = [index for index in indexes if index.unique and all(part.column in not_null for part in index.parts)]
    definition = min(usable, key=lambda index: (not index.primary, len(index.parts), index.id), default=None)
    return tuple(part.column for part in definition.parts) if definition else ()
