"""open-protocol rows: {"u": new, "p": old} or {"d": old}, each {column: {"t": type, "h": handle, "f": flags, "v": value}}.

A struct type is made for each table, so that one typed parse checks names, type codes and JSON types and yields cells
without dictionaries. Value rules are those of tiflow pkg/sink/codec/internal/column.go:
- type codes 249 to 252 are base64, of text too; on 15, 253 and 254 binary is the body of a Go `strconv.Quote` and text stands as it is;
- which of both a column is its schema says, for both architectures encode by it. Flag bit 1 does not: the new one has flags from a cache
  by table id that outlives DDLs (ticdc pkg/sink/codec/open/encoder.go), so a new column has none, and one made again its namesake's;
- enum and set are numbers, a timestamp is in the server's zone.

Two settings show here:
- `output-old-value = false`: an update is written exactly like an insert and comes out as one;
- `only-output-updated-columns = true`: refused. The new architecture writes an empty or zero old value as null there, so
  the old image is not known (ticdc pkg/sink/codec/open/codec.go, writeColumnFieldValueIfUpdated).
A delete may carry the key's columns alone (`delete-only-output-handle-key-columns`): the others are then null.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Literal

import msgspec
import pyarrow as pa

from sidecar.shared.columns.values import (
    UnfitValue,
    byte_array,
    from_bytes,
    from_floats,
    from_ints,
    from_texts,
    int_array,
    shown,
    unbase64,
    utf8_texts,
)
from sidecar.shared.columns.zone import ServerZone
from sidecar.shared.errors import FeedUnsuitable
from sidecar.shared.model.nouns import Column, Kind, TableSchema
from spark_merge.codecs.decode.go_quote import go_unquote, go_unquote_all
from spark_merge.codecs.decode.row_types import RowParser, field_names, row_parser
from spark_merge.codecs.images import NO_IMAGE, Cells, RowUnusable, by_column, schema_differs, unreadable

_TABLES_MAX = 4096
"""Table schemas whose parsers are kept in a worker."""

_BASE64_TYPES = frozenset({249, 250, 251, 252})
_BINARY_FLAG = 1
_JSON_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class _Int(msgspec.Struct, gc=False):
    t: Literal[1, 2, 3, 8, 9]
    v: int | None


class _Year(msgspec.Struct, gc=False):
    t: Literal[13]
    v: int | None


class _Bit(msgspec.Struct, gc=False):
    t: Literal[16]
    v: int | None


class _Enum(msgspec.Struct, gc=False):
    t: Literal[247]
    v: int | None


class _Set(msgspec.Struct, gc=False):
    t: Literal[248]
    v: int | None


class _Float(msgspec.Struct, gc=False):
    t: Literal[4]
    v: float | None


class _Double(msgspec.Struct, gc=False):
    t: Literal[5]
    v: float | None


class _String(msgspec.Struct, gc=False):
    t: Literal[15, 249, 250, 251, 252, 253, 254]
    f: int
    v: str | None


class _Timestamp(msgspec.Struct, gc=False):
    t: Literal[7]
    v: str | None


class _Date(msgspec.Struct, gc=False):
    t: Literal[10, 14]
    v: str | None


class _Time(msgspec.Struct, gc=False):
    t: Literal[11]
    v: str | None


class _Datetime(msgspec.Struct, gc=False):
    t: Literal[12]
    v: str | None


class _Vector(msgspec.Struct, gc=False):
    t: Literal[225]
    v: str | None


class _Json(msgspec.Struct, gc=False):
    t: Literal[245]
    v: str | None


class _Decimal(msgspec.Struct, gc=False):
    t: Literal[246]
    v: str | None


_CELLS: dict[Kind, type[msgspec.Struct]] = {
    "int": _Int, "uint": _Int, "year": _Year, "bit": _Bit, "enum": _Enum, "set": _Set, "float": _Float, "double": _Double,
    "text": _String, "binary": _String, "timestamp": _Timestamp, "date": _Date, "time": _Time, "datetime": _Datetime,
    "vector": _Vector, "json": _Json, "decimal": _Decimal,
}  # fmt: skip


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
    """To a struct {u, p, d} of images whose fields c0, c1, … are the schema's columns."""
    fields = [(f"c{number}", _CELLS[column.kind]) for number, column in enumerate(schema.columns)]
    names = field_names(schema.column_names())
    image = msgspec.defstruct("Image", fields, rename=names, forbid_unknown_fields=whole, gc=False)
    optional: Any = image | None
    row = msgspec.defstruct("Row", [(part, optional, None) for part in "upd"], forbid_unknown_fields=True, gc=False)
    return row_parser(row, schema.column_names(), _in_images)


def _in_images(value: Any, made: Callable[[Any], Any]) -> Any:
    return {part: made(image) for part, image in value.items()} if isinstance(value, dict) else value


def _images(rows: Sequence[Any]) -> tuple[list[Any], list[int], list[int]]:
    images: list[Any] = []
    before: list[int] = []
    after: list[int] = []
    for number, row in enumerate(rows):
        new, old = row.u, row.p if row.d is None else row.d
        if (new is None) is (row.d is None) or (row.d is not None and row.p is not None):
            raise unreadable(number, "the row is neither u, nor u and p, nor d alone")
        after.append(NO_IMAGE if new is None else len(images))
        if new is not None:
            images.append(new)
        before.append(NO_IMAGE if old is None else len(images))
        if old is not None:
            images.append(old)
    return images, before, after


# ---- columns --------------------------------------------------------------------------------------------------------


def texts(cells: Sequence[Any], column: Column, zone: ServerZone) -> pa.Array:
    """Raises UnfitValue."""
    values = [cell.v for cell in cells]
    match column.kind:
        case "int" | "uint" | "bit" | "year" | "enum" | "set":
            return from_ints(int_array(values, column), column)
        case "float" | "double":
            return from_floats(pa.array(values, pa.float64()), column)
        case "text":
            if not _is_plain(cells):
                return utf8_texts(_bytes(cells, values, of_text=True))
            return pa.array(values, pa.string())
        case "binary":
            return from_bytes(_bytes(cells, values, of_text=False), column)
        case _:
            return from_texts(pa.array(values, pa.string()), column, zone)


def _is_plain(cells: Sequence[Any]) -> bool:
    """Whether every text stands as it is."""
    return _BASE64_TYPES.isdisjoint({cell.t for cell in cells})


def _bytes(cells: Sequence[Any], values: Sequence[str | None], *, of_text: bool) -> pa.Array:
    """The bytes behind base64 or quotes. One way for the column if its type is one, else value by value."""
    ways = {_way(type_, flags, of_text=of_text) for type_, flags in {(cell.t, cell.f) for cell in cells}}
    if len(ways) == 1:
        return byte_array(values, *ways.pop())
    cell_bytes: list[bytes | None] = []
    for index, cell in enumerate(cells):
        to_bytes, reason = _way(cell.t, cell.f, of_text=of_text)
        try:
            cell_bytes.append(None if cell.v is None else to_bytes(cell.v))
        except ValueError:
            raise UnfitValue(index, cell.v, reason) from None
    return pa.array(cell_bytes, pa.binary())


def _way(type_: int, flags: int, *, of_text: bool) -> tuple[Callable[[str], bytes], str]:
    """How a value's bytes are written, and what is wrong with a value that is not. Where the flag does not bear the schema out, a value
    must be what only Quote writes."""
    if type_ in _BASE64_TYPES:
        return unbase64, "is not base64"
    if of_text:
        return str.encode, "is not UTF-8"
    return (go_unquote if flags & _BINARY_FLAG else go_unquote_all), "is of a binary column and not a Go quoted text"


# ---- rows that the parser refuses -----------------------------------------------------------------------------------


def _read_slowly(number: int, value: bytes, schema: TableSchema, parser: RowParser, *, whole: bool) -> Any:
    """The row, with what a delete of the key alone omits as null; or the reason why it is refused."""
    try:
        return parser.decode(value)
    except _JSON_ERRORS as refusal:
        try:
            content = msgspec.json.decode(value)
        except _JSON_ERRORS as error:
            raise unreadable(number, f"the value is not JSON ({error}): {shown(value)}") from error
        if not isinstance(content, dict) or not all(part in ("u", "p", "d") and isinstance(image, dict) for part, image in content.items()):
            raise unreadable(number, f"the value is not a row of open-protocol: {shown(value)}") from refusal
        if not whole:
            known = frozenset(schema.column_names())
            content = {part: {name: cell for name, cell in image.items() if name in known} for part, image in content.items()}
        images = {part: _whole_image(number, part, image, schema) for part, image in content.items()}
        for part, image in images.items():
            _refuse_cell(number, part, image, schema)
        return parser.convert(images)


def _whole_image(number: int, part: str, image: dict[str, Any], schema: TableSchema) -> dict[str, Any]:
    names = schema.column_names()
    for name in image:
        if name not in names:
            raise schema_differs(number, f"column {name} is in the row ({part}) and not in the schema")
    missing = [name for name in names if name not in image]
    if missing and part == "p":
        raise RowUnusable(
            number,
            f"column {missing[0]} is not in the old image: only-output-updated-columns is set",
            kind=FeedUnsuitable,
            hint="set only-output-updated-columns = false in the changefeed: with open-protocol it loses empty old values",
        )
    if missing and not (part == "d" and set(image) == set(schema.key)):
        raise schema_differs(number, f"column {missing[0]} is in the schema and not in the row ({part})")
    kinds = {column.name: column.kind for column in schema.columns}
    return image | {name: _null_cell(kinds[name]) for name in missing}


def _null_cell(kind: Kind) -> dict[str, Any]:
    type_code = msgspec.inspect.type_info(_CELLS[kind]).fields[0].type.values[0]  # type: ignore[attr-defined]  # a Literal's
    return {"t": type_code, "f": _BINARY_FLAG if kind == "binary" else 0, "v": None}


def _refuse_cell(number: int, part: str, image: dict[str, Any], schema: TableSchema) -> None:
    for column in schema.columns:
        try:
            msgspec.convert(image[column.name], _CELLS[column.kind])
        except msgspec.ValidationError as error:
            text = f"column {column.name}: {shown(image[column.name])} ({part}) does not fit kind {column.kind}: {error}"
            raise schema_differs(number, text) from error
