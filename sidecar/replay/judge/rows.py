"""Rows of one table by handle key, in canonical text: how two of them are compared, and what a DDL makes of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

import pyarrow as pa

from sidecar.shared.model.canonical import equal_text
from sidecar.shared.model.nouns import CommitTs, TableName, TableSchema

Key = tuple[str, ...]
"""A handle key's canonical text, in the order of `TableSchema.key`."""


Row = tuple[str | None, ...]
"""A row's canonical text, in the order of the table schema's columns."""


def rows_by_key(schema: TableSchema, rows: pa.Table) -> dict[Key, Row]:
    """The rows of a canonical text table, in its order. A handle key holds no NULL."""
    images = _tuples(rows, schema.column_names())
    return dict(zip(cast(Iterator[Key], _tuples(rows, schema.key)), images, strict=True))


def _tuples(rows: pa.Table, columns: Sequence[str]) -> Iterator[Row]:
    return zip(*(rows.column(name).to_pylist() for name in columns), strict=True)


def seen_by_sql(schema: TableSchema, rows: pa.Table) -> TableSchema:
    """`schema` with the columns that a SELECT showed: one that is being dropped is hidden before its DDL has a commit_ts."""
    shown = tuple(column for column in schema.columns if column.name in rows.column_names)
    return schema if len(shown) == len(schema.columns) else replace(schema, columns=shown)


def equal_rows(schema: TableSchema, a: Row, b: Row) -> bool:
    return a == b or all(equal_text(column.kind, x, y) for column, x, y in zip(schema.columns, a, b, strict=True))


Rows = dict[Key, Row]


State = dict[TableName, Rows]
"""The rows of tables, by name and handle key."""


@dataclass(frozen=True, slots=True)
class RowStep:
    """What the DDL at `ts` does to rows: rows with commit_ts <= ts are those before it. `apply` makes the tables after it of
    those before it, and leaves tables that it does not know as they are. `schemas`: of the tables that it made or changed."""

    ts: CommitTs
    names: Mapping[TableName, TableName | None]
    schemas: Mapping[TableName, TableSchema]
    apply: Callable[[State], State]
