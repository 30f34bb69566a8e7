"""canal-json rows: "data" and "old" are one-element arrays of {column: text or null}; a DELETE's row is in "data".

As in open_protocol.py a struct type is made for each table. Values: sidecar/shared/columns/canal_json.py.
"mysqlType" names each column's type and is held against the schema: without it a text would pass for any kind.

`old` may lack columns (`only-output-updated-columns`, `content-compatible`): those have not changed, and data's value is
the old one too. A DELETE may carry the key's columns alone (`delete-only-output-handle-key-columns`): the others are null.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Literal

import msgspec

from sidecar.shared.columns.canal_json import texts
from sidecar.shared.columns.values import shown
from sidecar.shared.model.nouns import Kind, TableSchema
from spark_merge.codecs.decode.row_types import RowParser, carried, field_names, row_parser
from spark_merge.codecs.images import NO_IMAGE, Cells, by_column, schema_differs, unreadable

__all__ = ["cells", "texts"]

_TABLES_MAX = 4096
"""Table schemas whose parsers are kept in a worker."""

_JSON_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

_KINDS: dict[str, Kind] = {
    "tinyint": "int", "smallint": "int", "mediumint": "int", "int": "int", "bigint": "int", "float": "float", "double": "double",
    "decimal": "decimal", "char": "text", "varchar": "text", "tinytext": "text", "text": "text", "mediumtext": "text",
    "longtext": "text", "binary": "binary", "varbinary": "binary", "tinyblob": "binary", "blob": "binary",
    "mediumblob": "binary", "longblob": "binary", "enum": "enum", "set": "set", "bit": "bit", "date": "date", "time": "time",
    "datetime": "datetime", "timestamp": "timestamp", "year": "year", "json": "json", "vector": "vector",
}  # fmt: skip
"""Kinds by the first word of `mysqlType`."""


def cells(values: Sequence[bytes], schema: TableSchema, *, whole: bool = True) -> Cells:
    """Parse rows of one table. `whole` False: columns that the schema does not have are passed over. Raises RowUnusable."""
    parser = _row_type(schema, whole)
    try:
        rows = [parser.decode(value) for value in values]
    except _JSON_ERRORS:
        rows = [_read_slowly(number, value, schema, parser, whole=whole) for number, value in enumerate(values)]
    images, before, after = _images(rows)
    _refuse_types(rows, schema)
    return Cells(by_column(images, len(schema.columns)), before, after)


@lru_cache(maxsize=_TABLES_MAX)
def _row_type(schema: TableSchema, whole: bool) -> RowParser:
    """To a struct {type, data, old, types} of images whose fields c0, c1, … are the schema's columns. Types can be hashed."""
    texts: list[tuple[str, Any]] = [(f"c{number}", str | None) for number in range(len(schema.columns))]
    names = field_names(schema.column_names())
    image: Any = msgspec.defstruct("Image", texts, rename=names, forbid_unknown_fields=whole, gc=False)
    types: Any = msgspec.defstruct("Types", texts, rename=names, forbid_unknown_fields=whole, gc=False, frozen=True)
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = [
        ("type", Literal["INSERT", "UPDATE", "DELETE"]),
        ("data", tuple[image]),
        ("types", types),
        ("old", tuple[image] | None, None),
    ]
    row = msgspec.defstruct("Row", fields, rename={"types": "mysqlType"}, gc=False)
    return row_parser(row, schema.column_names(), _in_images)


def _in_images(images: Any, made: Callable[[Any], Any]) -> Any:
    if not isinstance(images, dict):
        return images
    rows = {part: list(map(made, images[part])) for part in ("data", "old") if isinstance(images.get(part), list)}
    return images | rows | {"mysqlType": made(images.get("mysqlType"))}


def _images(rows: Sequence[Any]) -> tuple[list[Any], list[int], list[int]]:
    images: list[Any] = []
    before: list[int] = []
    after: list[int] = []
    for number, row in enumerate(rows):
        if (row.type == "UPDATE") is (row.old is None):
            raise unreadable(number, f"the row is of type {row.type} and {'lacks' if row.old is None else 'has'} old")
        is_delete = row.type == "DELETE"
        after.append(NO_IMAGE if is_delete else len(images))
        before.append(len(images) if is_delete else NO_IMAGE if row.old is None else len(images) + 1)
        images.append(row.data[0])
        if row.old is not None:
            images.append(row.old[0])
    return images, before, after


# ---- columns --------------------------------------------------------------------------------------------------------


def _refuse_types(rows: Sequence[Any], schema: TableSchema) -> None:
    """Rows have the same types but where columns were added or are missing, so each set of types is checked once."""
    for types in {row.types for row in rows}:
        for column, mysql_type in zip(schema.columns, msgspec.structs.astuple(types), strict=True):
            if mysql_type is not None and kind_of(mysql_type) != column.kind:
                number = next(number for number, row in enumerate(rows) if row.types == types)
                raise schema_differs(number, f"column {column.name}: type {shown(mysql_type)} does not fit kind {column.kind}")


@lru_cache(maxsize=_TABLES_MAX)
def kind_of(mysql_type: str) -> Kind | None:
    """Of a type as `mysqlType` has it; None: it is unknown."""
    kind = _KINDS.get(mysql_type.partition("(")[0].partition(" ")[0])
    return "uint" if kind == "int" and " unsigned" in mysql_type else kind


# ---- rows that the parser refuses -----------------------------------------------------------------------------------


def _read_slowly(number: int, value: bytes, schema: TableSchema, parser: RowParser, *, whole: bool) -> Any:
    """The row, with what `old` or a delete omits filled in; or the reason why it is refused."""
    try:
        return parser.decode(value)
    except _JSON_ERRORS as refusal:
        try:
            event = msgspec.json.decode(value)
        except _JSON_ERRORS as error:
            raise unreadable(number, f"the value is not JSON ({error}): {shown(value)}") from error
        if not _is_row(event):
            raise unreadable(number, f"the value is not a row of canal-json: {shown(value)}") from refusal
        return parser.convert(_whole_row(number, event, schema, whole=whole))


def _is_row(value: Any) -> bool:
    """Whether there is one object in data, one or none in old, and a known type."""
    return (
        isinstance(value, dict)
        and value.get("type") in ("INSERT", "UPDATE", "DELETE")
        and _is_one_object(value.get("data"))
        and (value.get("old") is None or _is_one_object(value["old"]))
        and isinstance(value.get("mysqlType"), dict)
    )


def _is_one_object(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 1 and isinstance(value[0], dict)


def _whole_row(number: int, event: dict[str, Any], schema: TableSchema, *, whole: bool) -> dict[str, Any]:
    nulls = dict.fromkeys(schema.column_names())
    data, old, types = event["data"][0], event["old"][0] if event.get("old") else None, event["mysqlType"]
    data, types = (carried(image, schema, whole=whole) for image in (data, types))
    old = None if old is None else carried(old, schema, whole=whole)
    for part, image in (("data", data), ("old", old or {}), ("mysqlType", types)):
        _refuse_cells(number, part, image, nulls)
    of_key_alone = event["type"] == "DELETE" and set(data) == set(schema.key)
    missing = [name for name in nulls if name not in data]
    if missing and not of_key_alone:
        raise schema_differs(number, f"column {missing[0]} is in the schema and not in the row (data)")
    whole_old = None if old is None else [data | old]
    return {"type": event["type"], "data": [nulls | data], "old": whole_old, "mysqlType": nulls | types}


def _refuse_cells(number: int, part: str, image: dict[str, Any], known: dict[str, None]) -> None:
    for name, value in image.items():
        if name not in known:
            raise schema_differs(number, f"column {name} is in the row ({part}) and not in the schema")
        if not (value is None or isinstance(value, str)):
            raise unreadable(number, f"column {name}: {shown(value)} ({part}) is neither text nor null")
