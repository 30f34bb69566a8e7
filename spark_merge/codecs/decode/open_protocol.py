"""open-protocol rows: {"u": new, "p": old} or {"d": old}, each {column: {"t": type, "h": handle, "f": flags, "v": value}}.

A struct type is made for each table, so that one typed parse checks names, type codes and JSON types and yields cells
without dictionaries. Values: sidecar/shared/columns/open_protocol.py.

Two settings show here:
- `output-old-value = false`: an update is written exactly like an insert and comes out as one;
- `only-output-updated-columns = true`: refused. The new architecture writes an empty or zero old value as null there, so
  the old image is not known (ticdc pkg/sink/codec/open/codec.go, writeColumnFieldValueIfUpdated).
A delete may carry the key's columns alone (`delete-only-output-handle-key-columns`): the others are then null.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from sidecar.shared.columns.open_protocol import BINARY_FLAG, CELLS, texts
from sidecar.shared.columns.values import shown
from sidecar.shared.errors import FeedUnsuitable
from sidecar.shared.model.nouns import Kind, TableSchema
from spark_merge.codecs.decode.row_types import RowParser, carried, field_names, row_parser
from spark_merge.codecs.images import NO_IMAGE, Cells, RowUnusable, by_column, schema_differs, unreadable

__all__ = ["cells", "texts"]

_TABLES_MAX = 4096
"""Table schemas whose parsers are kept in a worker."""

_JSON_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


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
    fields = [(f"c{number}", CELLS[column.kind]) for number, column in enumerate(schema.columns)]
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
        images = {part: _whole_image(number, part, carried(image, schema, whole=whole), schema) for part, image in content.items()}
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
    type_code = msgspec.inspect.type_info(CELLS[kind]).fields[0].type.values[0]  # type: ignore[attr-defined]  # a Literal's
    return {"t": type_code, "f": BINARY_FLAG if kind == "binary" else 0, "v": None}


def _refuse_cell(number: int, part: str, image: dict[str, Any], schema: TableSchema) -> None:
    for column in schema.columns:
        try:
            msgspec.convert(image[column.name], CELLS[column.kind])
        except msgspec.ValidationError as error:
            text = f"column {column.name}: {shown(image[column.name])} ({part}) does not fit kind {column.kind}: {error}"
            raise schema_differs(number, text) from error
