"""ClickHouse as a sink's target: its URI, its tables, and what a reader of the views finds as canonical text."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from typing import Any
from urllib.parse import quote

from sidecar.shared.model.nouns import Column, TableName, TableSchema
from spark_merge.sinks.clickhouse.server import identifier
from spark_merge.sinks.registry import open_sink
from spark_merge.testing.histories import COLUMNS
from spark_merge.testing.places import Place, Shown
from tests.support.services.clickhouse import ClickHouse


def uri_of(server: ClickHouse, database: str, **parameters: str) -> str:
    query = "".join(f"&{name.replace('_', '-')}={quote(value, safe='{}')}" for name, value in parameters.items())
    return f"clickhouse://{server.user}:{quote(server.password, safe='')}@{server.host}:{server.port}/{database}?{query[1:]}"


def rows_of(server: ClickHouse, schema: TableSchema, name: TableName | None = None) -> list[tuple[str | None, ...]]:
    """All rows of the view `name`, as the source's reader spells them."""
    names = ", ".join(f"`{column.name}`" for column in schema.columns)
    arrow = server.arrow(f"SELECT {names} FROM {identifier(name or schema.name)}")
    columns = [
        [None if value is None else _text(column)(value) for value in arrow.column(place).to_pylist()]
        for place, column in enumerate(schema.columns)
    ]
    return list(zip(*columns, strict=True))


def _text(column: Column) -> Callable[[Any], str]:
    match column.kind:
        case "binary":
            return lambda value: value.hex().upper()
        case "float" | "double":
            return lambda value: repr(value)
        case "decimal":
            return lambda value: f"{value:f}"
        case "year":
            return lambda value: f"{value:04d}"
        case _:
            return lambda value: _plain(value, column.scale)


def _plain(value: Any, scale: int) -> str:
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, datetime):
        fraction = f".{value.microsecond:06d}"[: scale + 1] if scale else ""
        return value.replace(tzinfo=None).isoformat(" ", "seconds") + fraction
    if isinstance(value, date):
        return value.isoformat()
    assert isinstance(value, int | Decimal), value
    return str(value)


def history_place(server: ClickHouse, number: int, *, tables: int, **parameters: str) -> Place:
    """The tables of spark_merge/testing/histories.py in a database of their own."""
    database = f"history{number}"
    schemas = [TableSchema(TableName("s", f"t{table}"), COLUMNS, ("id", "part")) for table in range(tables)]

    def rows() -> dict[TableName, list[Shown]]:
        there = {name for (name,) in server.rows(f"SELECT name FROM system.tables WHERE database = '{database}'")}
        return {
            schema.name: [(0, 0, "insert", row[:2], row) for row in rows_of(server, schema, TableName(database, schema.name.table))]
            for schema in schemas
            if schema.name.table in there
        }

    uri = uri_of(server, f"pos{number}", routes=f"s.*=>{database}.*", **parameters)
    return Place(uri, lambda log_id: open_sink(uri, log_id=log_id), rows, newest=True)
