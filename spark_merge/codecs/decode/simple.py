"""simple rows: "data" is the row after, "old" the row before, each {column: text or null}; a TIMESTAMP is {"location", "value"}.

As in canal_json.py a struct type is made for each table. Enum, set and bit are decimal numbers in text, binary is base64, all else is text
(pingcap/ticdc pkg/sink/codec/simple/message.go, encodeValue). A TIMESTAMP says in which zone its text is; "Local", which names none, is
the server's. A row has no types: what does not fit its column's kind is refused, and a text fits some kinds that it is not of.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Literal
from zoneinfo import ZoneInfoNotFoundError

import msgspec
import numpy as np
import pyarrow as pa

from sidecar.shared.columns.values import (
    UnfitValue,
    byte_array,
    from_bytes,
    from_floats,
    from_ints,
    from_texts,
    parse_floats,
    parse_ints,
    shown,
    unbase64,
)
from sidecar.shared.columns.zone import ServerZone
from sidecar.shared.model.nouns import Column, TableSchema
from spark_merge.codecs.decode.row_types import RowParser, field_names, row_parser
from spark_merge.codecs.images import NO_IMAGE, Cells, by_column, schema_differs, unreadable

_TABLES_MAX = 4096
"""Table schemas whose parsers are kept in a worker."""

_JSON_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_LOCAL = "Local"
_SIGNED = re.compile("-[1-9][0-9]{0,18}")


class SimpleTimestamp(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """`location`: the zone of `value`, by its name."""

    location: str
    value: str


def cells(values: Sequence[bytes], schema: TableSchema, *, whole: bool = True) -> Cells:
    """Parse rows of one table. `whole` False: columns that the schema does not have are passed over. Raises RowUnusable."""
    parser = _row_type(schema, whole)
    try:
        rows = [parser.decode(value) for value in values]
    except _JSON_ERRORS:
        rows = [_read_slowly(number, value, schema, parser, whole=whole) for number, value in enumerate(values)]
    images, before, after = _images(rows)
    return Cells(by_column(images, len(schema.columns)), before, after)


@lru_cache(maxsize=_TABLES_MAX)
def _row_type(schema: TableSchema, whole: bool) -> RowParser:
    """To a struct {type, data, old} of images whose fields c0, c1, … are the schema's columns."""
    fields: list[tuple[str, Any]] = [
        (f"c{number}", SimpleTimestamp | None if column.kind == "timestamp" else str | None) for number, column in enumerate(schema.columns)
    ]
    image: Any = msgspec.defstruct("Image", fields, rename=field_names(schema.column_names()), forbid_unknown_fields=whole, gc=False)
    row = msgspec.defstruct(
        "Row", [("type", Literal["INSERT", "UPDATE", "DELETE"]), ("data", image | None, None), ("old", image | None, None)], gc=False
    )
    return row_parser(row, schema.column_names(), _in_images)


def _in_images(row: Any, made: Callable[[Any], Any]) -> Any:
    if not isinstance(row, dict):
        return row
    return row | {part: made(row[part]) for part in ("data", "old") if part in row}


def _images(rows: Sequence[Any]) -> tuple[list[Any], list[int], list[int]]:
    images: list[Any] = []
    before: list[int] = []
    after: list[int] = []
    for number, row in enumerate(rows):
        if (row.data is None) is not (row.type == "DELETE") or (row.old is None) is not (row.type == "INSERT"):
            parts = " and ".join(name for name in ("data", "old") if getattr(row, name) is not None) or "neither data nor old"
            raise unreadable(number, f"the row is of type {row.type} and has {parts}")
        for image, numbers in ((row.data, after), (row.old, before)):
            numbers.append(NO_IMAGE if image is None else len(images))
            if image is not None:
                images.append(image)
    return images, before, after


# ---- columns --------------------------------------------------------------------------------------------------------


def texts(cells: Sequence[Any], column: Column, zone: ServerZone) -> pa.Array:
    """Raises UnfitValue."""
    match column.kind:
        case "bit" | "set":
            return from_ints(parse_ints(pa.array(map(_unsigned, cells), pa.string()), column), column)
        case "int" | "uint" | "year" | "enum":
            return from_ints(parse_ints(pa.array(cells, pa.string()), column), column)
        case "float" | "double":
            return from_floats(parse_floats(pa.array(cells, pa.string())), column)
        case "binary":
            return from_bytes(byte_array(cells, unbase64, "is not base64"), column)
        case "timestamp":
            return _timestamps(cells, column, zone)
        case _:
            return from_texts(pa.array(cells, pa.string()), column, zone)


def _unsigned(text: str | None) -> str | None:
    """Of 64 bits that Avro has as a signed number (sidecar/shared/codecs/simple_avro.py)."""
    if text is None or not _SIGNED.fullmatch(text) or int(text) < -(1 << 63):
        return text
    return str((1 << 64) + int(text))


def _timestamps(cells: Sequence[SimpleTimestamp | None], column: Column, zone: ServerZone) -> pa.Array:
    """All have one zone but where the server's was changed."""
    values = pa.array([None if cell is None else cell.value for cell in cells], pa.string())
    places: dict[str, list[int]] = {}
    for place, cell in enumerate(cells):
        places.setdefault("" if cell is None else cell.location, []).append(place)
    parts = []
    for location, some in places.items():
        try:
            parts.append(from_texts(values.take(pa.array(some)), column, _zone(location, zone)))
        except UnfitValue as unfit:
            unfit.index = some[unfit.index]
            raise
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise UnfitValue(some[0], location, "is the name of no time zone") from None
    return pa.concat_arrays([values[:0], *parts]).take(pa.array(np.argsort([place for some in places.values() for place in some])))


def _zone(location: str, server: ServerZone) -> ServerZone:
    """Which of two moments is taken where clocks were set back is a setting of the server's zone."""
    return server if location in ("", _LOCAL) else server.named(location)


# ---- rows that the parser refuses -----------------------------------------------------------------------------------


def _read_slowly(number: int, value: bytes, schema: TableSchema, parser: RowParser, *, whole: bool) -> Any:
    """The row, with what a delete of the key alone omits as null; or the reason why it is refused."""
    try:
        return parser.decode(value)
    except _JSON_ERRORS as refusal:
        try:
            event = msgspec.json.decode(value)
        except _JSON_ERRORS as error:
            raise unreadable(number, f"the value is not JSON ({error}): {shown(value)}") from error
        if not _is_row(event):
            raise unreadable(number, f"the value is not a row of simple: {shown(value)}") from refusal
        images = {part: _whole_image(number, part, event, schema, whole=whole) for part in ("data", "old") if event.get(part) is not None}
        return parser.convert({"type": event["type"]} | images)


def _is_row(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and value.get("type") in ("INSERT", "UPDATE", "DELETE")
        and all(value.get(part) is None or isinstance(value[part], dict) for part in ("data", "old"))
    )


def _whole_image(number: int, part: str, event: dict[str, Any], schema: TableSchema, *, whole: bool) -> dict[str, Any]:
    image, kinds = event[part], {column.name: column.kind for column in schema.columns}
    unknown = next((name for name in image if name not in kinds), None)
    if unknown is not None and whole:
        raise schema_differs(number, f"column {unknown} is in the row ({part}) and not in the schema")
    missing = next((name for name in kinds if name not in image), None)
    if missing is not None and not (event["type"] == "DELETE" and set(image) == set(schema.key)):
        raise schema_differs(number, f"column {missing} is in the schema and not in the row ({part})")
    for name, kind in kinds.items():
        _refuse_cell(number, f"column {name}: {shown(image.get(name))} ({part})", image.get(name), is_timestamp=kind == "timestamp")
    return {name: image.get(name) for name in kinds}


def _refuse_cell(number: int, what: str, cell: Any, *, is_timestamp: bool) -> None:
    if cell is None:
        return
    if is_timestamp:
        try:
            msgspec.convert(cell, SimpleTimestamp)
        except msgspec.ValidationError as error:
            raise schema_differs(number, f"{what} is not the location and value of a timestamp: {error}") from error
    elif not isinstance(cell, str):
        raise schema_differs(number, f"{what} is neither text nor null")
