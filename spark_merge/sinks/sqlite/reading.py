"""A table's rows, read back in one part, page by page in the order of the key.

- Each page is a SELECT of its own: a transaction over all of them would keep the sink from committing.
- A BLOB, which this sink does not write, is read as SQL's literal: no value of the source has that text. In a key it is an error, for the
  order of pages is that of texts.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

import pyarrow as pa

from sidecar.shared.errors import SinkError
from sidecar.shared.model.keyset import Key
from sidecar.shared.model.nouns import Column, TableSchema
from spark_merge.port.contract import Accepted
from spark_merge.port.readable import Reading
from spark_merge.sinks.kit.grouped import grouped
from spark_merge.sinks.kit.keyed import keyed_reading, keys_of
from spark_merge.sinks.sqlite.database import quoted, reader

PAGE_BYTES, PAGE_ROWS_MAX = 8 << 20, 10_000
"""Of a page, or one row that is larger."""

KEYS_MAX, KEYS_BYTES_MAX = 200, 1 << 20
"""Of rows that are looked up by key at once."""


@dataclass(frozen=True, slots=True)
class SqliteRows:
    """`KeyedTable`. A statement is what follows the table in a SELECT; an empty one is of all rows, page by page."""

    path: str
    schema: TableSchema

    def rows(self, statements: Sequence[str]) -> Iterator[pa.Table]:
        with reader(self.path) as connection:
            if connection is not None and is_there(connection, self.schema):
                for rest in statements:
                    yield from self._pages(connection, rest) if rest else self._all(connection)

    def _all(self, connection: sqlite3.Connection) -> Iterator[pa.Table]:
        names = [_place(name) for name in self.schema.key]
        marks = ", ".join("?" * len(names))
        beyond, order = f" WHERE ({', '.join(names)}) > ({marks})", f" ORDER BY {', '.join(names)} LIMIT ?"
        after: tuple[str, ...] = ()
        while (page := next(self._pages(connection, f"{beyond if after else ''}{order}", (*after, PAGE_ROWS_MAX)), None)) is not None:
            yield page  # with no statement under way, which would keep the sink from writing
            after = tuple(page.column(name)[-1].as_py() for name in self.schema.key)

    def of_keys(self, keys: pa.Table) -> list[str]:
        texts = map(self._is, keys_of(self.schema, keys))
        return [f" WHERE {' OR '.join(group)}" for group in grouped(texts, rows_max=KEYS_MAX, bytes_max=KEYS_BYTES_MAX)]

    def _is(self, key: Key) -> str:
        """A text as hex: it may hold what ends a statement."""
        texts = zip(self.schema.key, key, strict=True)
        return "(" + " AND ".join(f"{_place(name)} = CAST(x'{text.encode().hex()}' AS TEXT)" for name, text in texts) + ")"

    def _pages(self, connection: sqlite3.Connection, rest: str, values: Sequence[object] = ()) -> Iterator[pa.Table]:
        """Of one statement; no empty one. A name behind the table's is a column's or an error, never a text."""
        columns = ", ".join(_text(column, in_key=column.name in self.schema.key) for column in self.schema.columns)
        sql = f"SELECT {columns} FROM {quoted(str(self.schema.name))} AS t{rest}"
        rows, size = list[tuple[str | bytes | None, ...]](), 0
        with closing(connection.execute(sql, values)) as cursor:
            for row in cursor:
                rows.append(row)
                size += sum(len(value) for value in row if value is not None)
                if size > PAGE_BYTES:
                    yield self._page(rows)
                    rows, size = [], 0
        if rows:
            yield self._page(rows)

    def _page(self, rows: Sequence[tuple[str | bytes | None, ...]]) -> pa.Table:
        texts = list(zip(*rows, strict=True))
        for name, column in zip(self.schema.column_names(), texts, strict=True):
            if any(isinstance(value, bytes) for value in column):
                raise SinkError(
                    f"{self.path}: rows of {self.schema.name} have a BLOB as {name}, in their key, which this sink does not write",
                    hint=f"somebody else wrote them: delete the rows of that table with typeof({quoted(name)}) = 'blob'",
                )
        return pa.table([pa.array(column, pa.string()) for column in texts], names=list(self.schema.column_names()))


def reading(path: str, schema: TableSchema, accepted: Accepted | None, *, keys: pa.Table | None) -> Reading:
    """`Readable.reading`, of a sink that has had `accepted` before. A table is made with its first row."""
    rows = SqliteRows(path, schema)
    return keyed_reading(accepted, rows, [[""] if keys is None else rows.of_keys(keys)])


def is_there(connection: sqlite3.Connection, schema: TableSchema) -> bool:
    return connection.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (str(schema.name),)).fetchone() is not None


def _text(column: Column, *, in_key: bool) -> str:
    place = _place(column.name)
    text = f"CAST({place} AS TEXT)" if column.kind == "int" else place
    return f"CASE typeof({place}) WHEN 'blob' THEN {place if in_key else f'quote({place})'} ELSE {text} END"


def _place(name: str) -> str:
    return f"t.{quoted(name)}"
