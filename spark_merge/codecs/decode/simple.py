"""simple rows: "data" is the row after, "old" the row before, each {column: text or null}; a TIMESTAMP is {"location", "value"}.

As in canal_json.py a struct type is made for each table. Values: sidecar/shared/columns/simple.py. A row has no types: what does not fit
its column's kind is refused, and a text fits some kinds that it is not of.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Literal

import msgspec

from sidecar.shared.codecs.refusals import CORRUPTED_HINT
from sidecar.shared.codecs.simple import RowChecksum
from sidecar.shared.columns.simple import SimpleTimestamp, texts
from sidecar.shared.columns.values import shown
from sidecar.shared.errors import FeedUnsuitable
from sidecar.shared.model.nouns import TableSchema
from spark_merge.codecs.decode.row_types import RowParser, carried, field_names, row_parser
from spark_merge.codecs.images import NO_IMAGE, Cells, RowUnusable, by_column, schema_differs, unreadable

__all__ = ["cells", "texts"]

_TABLES_MAX = 4096
"""Table schemas whose parsers are kept in a worker."""

_CORRUPTED = "TiCDC says that the row does not have the checksum with which it was written"
UNREAD_HINT = "dump the row (dumpstart --keys) after it is skipped; see handle-key-only in deploy/OTHER-CHANGEFEEDS.md"

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
    """To a struct {type, data, old} of images whose fields c0, c1, … are the schema's columns."""
    fields: list[tuple[str, Any]] = [
        (f"c{number}", SimpleTimestamp | None if column.kind == "timestamp" else str | None) for number, column in enumerate(schema.columns)
    ]
    image: Any = msgspec.defstruct("Image", fields, rename=field_names(schema.column_names()), forbid_unknown_fields=whole, gc=False)
    row = msgspec.defstruct(
        "Row",
        [
            ("type", Literal["INSERT", "UPDATE", "DELETE"]),
            ("data", image | None, None),
            ("old", image | None, None),
            ("checksum", RowChecksum | None, None),
        ],
        gc=False,
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
        if row.checksum is not None and row.checksum.corrupted:
            raise RowUnusable(number, _CORRUPTED, kind=FeedUnsuitable, hint=CORRUPTED_HINT)
        if (row.data is None) is not (row.type == "DELETE") or (row.old is None) is not (row.type == "INSERT"):
            parts = " and ".join(name for name in ("data", "old") if getattr(row, name) is not None) or "neither data nor old"
            raise unreadable(number, f"the row is of type {row.type} and has {parts}")
        for image, numbers in ((row.data, after), (row.old, before)):
            numbers.append(NO_IMAGE if image is None else len(images))
            if image is not None:
                images.append(image)
    return images, before, after


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
        if why := event.get("unread"):
            raise RowUnusable(number, f"it was not read from TiDB: {why}", kind=FeedUnsuitable, hint=UNREAD_HINT) from refusal
        images = {part: _whole_image(number, part, event, schema, whole=whole) for part in ("data", "old") if event.get(part) is not None}
        return parser.convert({"type": event["type"], "checksum": event.get("checksum")} | images)


def _is_row(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and value.get("type") in ("INSERT", "UPDATE", "DELETE")
        and all(value.get(part) is None or isinstance(value[part], dict) for part in ("data", "old"))
    )


def _whole_image(number: int, part: str, event: dict[str, Any], schema: TableSchema, *, whole: bool) -> dict[str, Any]:
    image, kinds = carried(event[part], schema, whole=whole), {column.name: column.kind for column in schema.columns}
    unknown = next((name for name in image if name not in kinds), None)
    if unknown is not None:
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
