"""A parser for the rows of one table, whatever its columns are called.

A msgspec struct whose fields have the columns' names is the fastest parser. It cannot have a name with a quotation mark, a backslash or a
control character (msgspec raises ValueError). Rows of a table that has such a name are parsed as plain JSON, and their columns get the
fields' own names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from sidecar.shared.model.nouns import TableSchema

_NO_FIELD = re.compile(r'["\\\x00-\x1f\x7f]')

InImages = Callable[[Any, Callable[[Any], Any]], Any]
"""Of a row as plain JSON: the same row, each of its images replaced by what the function makes of it. A value of another shape is returned
as it is."""


class RowParser(NamedTuple):
    """`decode` a message's value, `convert` a row of plain JSON, both to the protocol's struct. They raise msgspec.DecodeError."""

    decode: Callable[[bytes], Any]
    convert: Callable[[Any], Any]


def field_names(columns: Sequence[str]) -> Mapping[str, str] | None:
    """`rename` of an image's struct with the fields c0, c1, …; None where a name can be no field's."""
    if any(map(_NO_FIELD.search, columns)):
        return None
    return {f"c{number}": name for number, name in enumerate(columns)}


def row_parser(row: Any, columns: Sequence[str], in_images: InImages) -> RowParser:
    """`row`: the struct, whose images were made with `field_names(columns)`."""
    if field_names(columns) is not None:
        return RowParser(msgspec.json.Decoder(row).decode, lambda value: msgspec.convert(value, row))
    fields = {name: f"c{number}" for number, name in enumerate(columns)}

    def renamed(image: Any) -> Any:
        """A name that is no column's must not become one."""
        return {fields.get(name, f"?{name}"): cell for name, cell in image.items()} if isinstance(image, dict) else image

    def convert(value: Any) -> Any:
        return msgspec.convert(in_images(value, renamed), row)

    return RowParser(lambda value: convert(msgspec.json.decode(value)), convert)


def carried(image: Mapping[str, Any], schema: TableSchema, *, whole: bool) -> dict[str, Any]:
    """Without the columns that the schema omits: not every TiCDC does so (sidecar/shared/ticdc/selected_columns.py). `whole` False:
    without all that it does not have."""
    known, omitted = set(schema.column_names()), {one.name for one in schema.omitted}
    return {name: cell for name, cell in image.items() if name in known or (whole and name not in omitted)}
