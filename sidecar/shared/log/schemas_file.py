"""The file with every table's TableSchema that a manifest names: `schemas/{epoch}/{checksum}.json`, one for all tables.

- Equal schemas give equal bytes: the name is made of them.
- A field that a version did not write is as if it were not known: `definition` None is a log of 0.3.0 and before. Versions before read
  on over fields that they do not know.
- Definitions are arrays of values without names, in the order of the model's fields: they are most of the file.
"""

from __future__ import annotations

from dataclasses import fields
from functools import lru_cache
from operator import attrgetter
from typing import Annotated, Any

import msgspec

from sidecar.shared.log.manifest import UNREADABLE, ManifestUnreadable
from sidecar.shared.model.nouns import (
    Column,
    ColumnDefinition,
    IndexDefinition,
    IndexPart,
    Kind,
    PreviousLayout,
    TableDefinition,
    TableName,
    TableSchema,
)


class _Column(msgspec.Struct, array_like=True):
    name: str
    kind: Kind
    nullable: bool
    length: int
    scale: int
    elements: tuple[str, ...]


class _ColumnDefinition(msgspec.Struct, array_like=True, frozen=True):
    name: str
    type_text: str
    nullable: bool
    charset: str
    collation: str
    default: str | None
    on_update: str
    generated: str
    stored: bool


class _IndexPart(msgspec.Struct, array_like=True, frozen=True):
    column: str
    length: int
    expression: str


class _IndexDefinition(msgspec.Struct, array_like=True, frozen=True):
    name: str
    parts: tuple[_IndexPart, ...]
    unique: bool
    primary: bool
    id: int


class _Definition(msgspec.Struct, array_like=True):
    columns: tuple[_ColumnDefinition, ...]
    indexes: tuple[_IndexDefinition, ...]
    clustered: bool
    charset: str
    collation: str
    partitioning: str
    new_collation: bool = True


class _Table(msgspec.Struct):
    schema: str
    table: str
    key: tuple[str, ...]
    columns: tuple[_Column, ...]
    ids: Annotated[tuple[int, ...], msgspec.Meta(min_length=1)] = (0,)
    layout: str = ""
    definition: _Definition | None = None
    former: tuple[int, str, int] | None = None
    omitted: tuple[_Column, ...] = ()
    feed_name: tuple[str, str] | None = None


_tables_of = msgspec.json.Decoder(list[_Table]).decode
_column_values = attrgetter(*(one.name for one in fields(ColumnDefinition)))

ALIKE_MAX = 1 << 14
"""Columns and indexes that are kept to be those of other tables too: thousands of tables are often made alike."""


def schemas_to_json(schemas: dict[TableName, TableSchema]) -> bytes:
    """Every table's schema, sorted by name, so that equal schemas give equal bytes."""
    return msgspec.json.encode(
        [
            {
                "schema": table.name.schema,
                "table": table.name.table,
                "key": table.key,
                "columns": list(map(_column_fields, table.columns)),
                "ids": (table.table_id, *table.physical_ids),
                "layout": table.layout,
            }
            | ({} if table.definition is None else {"definition": _definition_fields(table.definition)})
            | ({} if table.former is None else {"former": table.former})
            | ({"omitted": list(map(_column_fields, table.omitted))} if table.omitted else {})
            | ({} if table.feed_name is None else {"feed_name": table.feed_name})
            for _, table in sorted(schemas.items())
        ]
    )


def schemas_from_json(data: bytes, *, name: str) -> dict[TableName, TableSchema]:
    """The inverse of `schemas_to_json`. Raises ManifestUnreadable naming the file."""
    try:
        results = _tables_of(data)
    except UNREADABLE as error:
        raise ManifestUnreadable(f"schemas {name} are not readable: {error}") from error
    tables = [
        TableSchema(
            TableName(table.schema, table.table),
            tuple(map(_column, table.columns)),
            table.key,
            table.ids[0],
            table.ids[1:],
            table.layout,
            None if table.definition is None else _definition(table.definition),
            None if table.former is None else PreviousLayout(*table.former),
            tuple(map(_column, table.omitted)),
            None if table.feed_name is None else TableName(*table.feed_name),
        )
        for table in results
    ]
    return {table.name: table for table in tables}


def _column_fields(one: Column) -> tuple[Any, ...]:
    return one.name, one.kind, one.nullable, one.length, one.scale, one.elements


def _column(value: _Column) -> Column:
    return Column(value.name, value.kind, value.nullable, value.length, value.scale, value.elements)


def _definition_fields(definition: TableDefinition) -> tuple[Any, ...]:
    indexes = [
        (index.name, [(part.column, part.length, part.expression) for part in index.parts], index.unique, index.primary, index.id)
        for index in definition.indexes
    ]
    columns = [_column_values(column) for column in definition.columns]
    value = columns, indexes, definition.clustered, definition.charset, definition.collation, definition.partitioning
    return value if definition.new_collation else (*value, False)


def _definition(value: _Definition) -> TableDefinition:
    columns, indexes = tuple(map(_column_definition, value.columns)), tuple(map(_index_definition, value.indexes))
    return TableDefinition(columns, indexes, value.clustered, value.charset, value.collation, value.partitioning, value.new_collation)


@lru_cache(maxsize=ALIKE_MAX)
def _column_definition(value: _ColumnDefinition) -> ColumnDefinition:
    return ColumnDefinition(*msgspec.structs.astuple(value))


@lru_cache(maxsize=ALIKE_MAX)
def _index_definition(value: _IndexDefinition) -> IndexDefinition:
    parts = tuple(IndexPart(part.column, part.length, part.expression) for part in value.parts)
    return IndexDefinition(value.name, parts, value.unique, value.primary, value.id)
