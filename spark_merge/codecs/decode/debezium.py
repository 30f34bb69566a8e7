"""Rows of Debezium's form, as our own Kafka sink writes them, read back: encode/debezium_values.py the other way round.

A message with a schema has each field's type. It must be the one that the column has, or one whose values are the same: a number of
another scale or unit would be another value. A message without a schema has no types. Rows from before a statement that gave a column
another type are then rejected.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import msgspec
import pyarrow as pa

from sidecar.shared.columns.zone import ServerZone
from sidecar.shared.model.nouns import Column, TableSchema
from spark_merge.codecs.decode.debezium_texts import texts_of_cells
from spark_merge.codecs.decode.row_types import RowParser, field_names, row_parser
from spark_merge.codecs.encode.debezium_fields import ConnectType, DebeziumOptions, fits
from spark_merge.codecs.encode.debezium_values import zero_text
from spark_merge.codecs.images import NO_IMAGE, Cells, RowUnusable, by_column, schema_differs, unreadable
from spark_merge.codecs.protocols import DecoderModule

_TABLES_MAX = 4096
"""Table schemas whose parsers, and texts of schemas that fit, are kept in a worker."""

_DATED = frozenset({"date", "datetime", "timestamp"})
_JSON_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class _Field(msgspec.Struct, gc=False):
    field: str
    type: str
    name: str = ""
    parameters: dict[str, str] = {}
    fields: list[_Field] = []


class _Schema(msgspec.Struct, gc=False):
    fields: list[_Field]


_NOTHING = msgspec.Raw(b"")


class _Framed(msgspec.Struct, gc=False):
    """Of a message with a schema, whose text is the same in all messages of a table."""

    schema: msgspec.Raw = _NOTHING
    payload: msgspec.Raw = _NOTHING


_framed = msgspec.json.Decoder(_Framed).decode
_schema = msgspec.json.Decoder(_Schema).decode


@dataclass(frozen=True, slots=True)
class DebeziumDecoder:
    """`DecoderModule`. `redefined`: a later statement gave a column another type."""

    options: DebeziumOptions
    redefined: bool = False

    def cells(self, values: Sequence[bytes], schema: TableSchema, *, whole: bool = True) -> Cells:
        parser = _row_type(schema, whole)
        rows = []
        for number, value in enumerate(values):
            try:
                framed = _framed(value)
                self._check(number, framed, schema)
                rows.append(parser.decode(framed.payload if framed.schema else value))
            except _JSON_ERRORS as error:
                raise _refusal(number, value, schema, error, whole=whole) from error
        images: list[Any] = []
        before: list[int] = []
        after: list[int] = []
        for number, row in enumerate(rows):
            if (
                (row.op in "cr" and row.before is not None)
                or (row.op == "d") is not (row.after is None)
                or (row.op in "ud" and row.before is None)
            ):
                raise unreadable(number, f"the row of op {row.op} has not the images of one")
            for image, places in ((row.after, after), (row.before, before)):
                places.append(NO_IMAGE if image is None else len(images))
                if image is not None:
                    images.append(image)
        return Cells(by_column(images, len(schema.columns)), before, after)

    def texts(self, cells: Sequence[Any], column: Column, zone: ServerZone) -> pa.Array:  # noqa: ARG002  (all moments are in UTC)
        return texts_of_cells(cells, column, self.options)

    def _check(self, number: int, framed: _Framed, schema: TableSchema) -> None:
        if not framed.schema:
            if self.redefined:
                raise schema_differs(number, "rows without schemas are from before a statement that gave a column another type")
            return
        if wrong := _misfit(bytes(framed.schema), schema, self.options):
            raise schema_differs(number, wrong)


def decoder(options: Mapping[str, str], *, redefined: bool) -> DecoderModule:
    return DebeziumDecoder(DebeziumOptions.of(options), redefined)


def replaced_dates(options: Mapping[str, str], schema: TableSchema) -> Sequence[tuple[str, str | None]]:
    if DebeziumOptions.of(options).invalid_dates == "error":
        return ()
    dated = [column for column in schema.columns if column.kind in _DATED and column.name not in schema.key]
    return [(column.name, None if column.nullable else zero_text(column)) for column in dated]


@lru_cache(maxsize=_TABLES_MAX)
def _misfit(text: bytes, schema: TableSchema, options: DebeziumOptions) -> str:
    """Of a message's schema and the table's; empty if it fits."""
    of_message = {one.field: one for one in _schema(text).fields}
    row = of_message.get("after")
    types = {one.field: one for one in row.fields} if row is not None else {}
    for column in schema.columns:
        one = types.get(column.name)
        if one is not None and not fits(column, ConnectType(one.type, one.name, parameters=tuple(one.parameters.items())), options):
            return f"column {column.name}: {one.name or one.type} {dict(one.parameters)} is not what the column is now"
    return ""


@lru_cache(maxsize=_TABLES_MAX)
def _row_type(schema: TableSchema, whole: bool) -> RowParser:
    """To a struct {op, before, after} of images whose fields c0, c1, … are the schema's columns."""
    names = field_names(schema.column_names())
    cells: list[tuple[str, Any]] = [(f"c{number}", Any) for number in range(len(schema.columns))]
    image: Any = msgspec.defstruct("Image", cells, rename=names, forbid_unknown_fields=whole, gc=False)
    fields: list[tuple[str, Any]] = [("op", Literal["c", "u", "d", "r"]), ("before", image | None), ("after", image | None)]
    return row_parser(msgspec.defstruct("Row", fields, gc=False), schema.column_names(), _in_images)


def _in_images(row: Any, made: Any) -> Any:
    return row | {part: made(row.get(part)) for part in ("before", "after")} if isinstance(row, dict) else row


def _refusal(number: int, value: bytes, schema: TableSchema, error: Exception, *, whole: bool) -> RowUnusable:
    """Why a row is none: a column that the schema has not, or that the row has not; else what the parser says."""
    try:
        row = msgspec.json.decode(value)
    except _JSON_ERRORS as not_json:
        return unreadable(number, f"the value is not JSON: {not_json}")
    row = row.get("payload", row) if isinstance(row, dict) else {}
    for part in ("before", "after"):
        image = row.get(part)
        if isinstance(image, dict):
            known = schema.column_names()
            for name in [name for name in image if whole and name not in known]:
                return schema_differs(number, f"column {name} is in the row ({part}) and not in the schema")
            for name in [name for name in known if name not in image]:
                return schema_differs(number, f"column {name} is in the schema and not in the row ({part})")
    return unreadable(number, f"the value is not a row of Debezium's form: {error}")
