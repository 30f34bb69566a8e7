"""Delta tables of the Delta sink, read by deltalake: as a log of changes, or as the tables that they are, in canonical text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
from deltalake import DeltaTable

from sidecar.shared.log.storage import Folder, open_folder
from sidecar.shared.model.nouns import Column, TableName, TableSchema
from spark_merge.sinks.delta.columns import Layout, Mode, layout_of
from spark_merge.sinks.delta.places import table_place
from spark_merge.sinks.delta.table import Table, columns_of
from spark_merge.sinks.registry import open_sink
from spark_merge.testing.histories import COLUMNS
from spark_merge.testing.places import Place, Shown

Texts = tuple[str | None, ...]
Row = dict[str, Any]


def folder_of(uri: str) -> Folder:
    """Of a `delta:` or `delta+s3:` URI."""
    return open_folder(uri.replace("delta+s3:", "s3:", 1).replace("delta:", "file:", 1))


def delta_table(folder: Folder, name: TableName, version: int | None = None) -> DeltaTable | None:
    result = Table(folder, table_place(name)).load()
    if result is not None and version is not None:
        result.load_as_version(version)
    return result


def logged(folder: Folder, schema: TableSchema, version: int | None = None) -> list[tuple[Row, Texts]]:
    """Of `mode=append`: each row's envelope and image, in output order, by pyarrow."""
    result = delta_table(folder, schema.name, version)
    if result is None:
        return []
    layout = layout_of(schema, columns_of(result), "append")
    rows = [(_envelope(layout, row), _image(layout, schema, row)) for row in result.to_pyarrow_table().to_pylist()]
    return sorted(rows, key=lambda row: (row[0]["seq"], row[0]["commit_ts"], row[0]["op"] != "delete", row[0]["origin"] == "dump"))


def rows_of(folder: Folder, mode: Mode, schema: TableSchema, version: int | None = None) -> list[Texts]:
    """The table as it is: of a log of changes the last row of each key."""
    if mode == "append":
        places = [schema.column_names().index(name) for name in schema.key]
        last = {tuple(image[place] for place in places): (row["op"], image) for row, image in logged(folder, schema, version)}
        return [image for op, image in last.values() if op != "delete"]
    result = delta_table(folder, schema.name, version)
    if result is None:
        return []
    layout = layout_of(schema, columns_of(result), "merge")
    return [_image(layout, schema, row) for row in pa.table(result.scan()).to_pylist()]


def history_place(uri: str, *, tables: int) -> Place:
    """The tables of spark_merge/testing/histories.py."""
    folder = folder_of(uri)
    mode: Mode = "merge" if "mode=merge" in urlsplit(uri).query else "append"
    schemas = [TableSchema(TableName("s", f"t{number}"), COLUMNS, ("id", "part")) for number in range(tables)]

    def rows() -> dict[TableName, list[Shown]]:
        return {schema.name: list(_shown(folder, mode, schema)) for schema in schemas if delta_table(folder, schema.name) is not None}

    return Place(uri, lambda log_id: open_sink(uri, log_id=log_id), rows, in_order=False, newest=mode == "merge")


def _shown(folder: Folder, mode: Mode, schema: TableSchema) -> Iterator[Shown]:
    if mode == "merge":
        rows = rows_of(folder, mode, schema)
        assert len({row[:2] for row in rows}) == len(rows), f"{schema.name} has a key twice: {sorted(map(repr, rows))}"
        yield from ((0, 0, "insert", row[:2], row) for row in rows)
        return
    for row, image in logged(folder, schema):
        yield row["seq"], row["commit_ts"], row["op"], image[:2], None if row["op"] == "delete" else image


def _envelope(layout: Layout, row: Row) -> Row:
    return {name: row[layout.envelope(name)] for name in ("seq", "ordinal", "commit_ts", "op", "origin", "dump_id")}


def _image(layout: Layout, schema: TableSchema, row: Row) -> Texts:
    untyped = json.loads(row[layout.envelope("untyped")] or "{}")
    texts = zip(schema.columns, layout.columns, strict=True)
    return tuple(untyped.get(column.name) or text_of(column, row.get(to.name)) for column, to in texts)


def text_of(column: Column, value: Any) -> str | None:
    """A Delta value as canonical text."""
    if value is None or isinstance(value, str):
        return value
    match column.kind:
        case "float" | "double":
            return repr(value)
        case "decimal":
            return format(value, "f")
        case "year":
            return f"{value:04}"
        case "binary":
            return str(value.hex().upper())
        case "date":
            return str(value.isoformat())
        case "datetime" | "timestamp":
            text = value.replace(tzinfo=None).isoformat(sep=" ", timespec="microseconds")
            return str(text[: 20 + column.scale] if column.scale else text[:19])
        case _:
            return str(int(value))
