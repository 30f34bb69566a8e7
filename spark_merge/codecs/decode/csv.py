"""Rows of TiCDC's storage sink in csv (sidecar/shared/codecs/csv.py): texts in the order of the file's columns.

`columns` are the schema file's. A row has a value for each but the virtual generated ones, which TableSchema omits. So what `columns` has
of the schema must be the whole schema in its order, and each row as long as it: rows of a table that has changed are refused. A row may
have a value of each column that the schema omits, too: not every TiCDC does so (sidecar/shared/ticdc/selected_columns.py).

Values are canal-json's texts but for enum and set, which are labels, and binary, which is base64 or hex.
Source: pingcap/ticdc pkg/sink/codec/csv/csv_message.go (fromColValToCsvVal, shouldEncodeColumn), pkg/cloudstorage/schema_file.go.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from sidecar.shared.codecs.csv import RowType, Texts
from sidecar.shared.columns.values import UnfitValue, from_bytes, shown, unbase64
from sidecar.shared.columns.zone import ServerZone
from sidecar.shared.model.nouns import Column, TableSchema
from spark_merge.codecs.decode import canal_json
from spark_merge.codecs.images import NO_IMAGE, Cells, schema_differs, unfit_in, unreadable

_JSON_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

_TO_BYTES: dict[str, Callable[[str], bytes]] = {"base64": unbase64, "hex": binascii.unhexlify}


class _CsvRow(msgspec.Struct, gc=False):
    type: RowType
    columns: tuple[str, ...]
    binary: Literal["base64", "hex"]
    data: tuple[Texts]
    old: tuple[Texts] | None = None


_decode = msgspec.json.Decoder(_CsvRow).decode


def cells(values: Sequence[bytes], schema: TableSchema, *, whole: bool = True) -> Cells:
    """Parse rows of one table; a binary value becomes bytes. `whole` False: columns that the schema does not have are passed over, of rows
    with a value for each of their columns. Raises RowUnusable."""
    images: list[list[Any]] = []
    before: list[int] = []
    after: list[int] = []
    binaries = [place for place, column in enumerate(schema.columns) if column.kind == "binary"]
    places: dict[tuple[str, ...], _Places] = {}
    for number, value in enumerate(values):
        row = _parsed(number, value)
        if row.columns not in places:
            places[row.columns] = _places(number, row.columns, schema, whole=whole)
        is_delete = row.type == "DELETE"
        after.append(NO_IMAGE if is_delete else len(images))
        before.append(len(images) if is_delete else NO_IMAGE if row.old is None else len(images) + 1)
        for image in (*row.data, *(row.old or ())):
            cells_of_image = image if len(image) == len(schema.columns) else _picked(number, image, row, places[row.columns])
            if binaries:
                cells_of_image = _with_bytes(number, cells_of_image, row, schema, binaries)
            images.append(cells_of_image)
    return Cells(list(zip(*images, strict=True)) or [()] * len(schema.columns), before, after)


def _parsed(number: int, value: bytes) -> _CsvRow:
    try:
        row = _decode(value)
    except _JSON_ERRORS as error:
        raise unreadable(number, f"the value is not a row of csv ({error}): {shown(value)}") from error
    if row.old is not None and row.type != "UPDATE":
        raise unreadable(number, f"the row is of type {row.type} and has old")
    return row


class _Places(NamedTuple):
    """Where the schema's columns are in a row of `width` values."""

    width: int
    places: Sequence[int]


def _places(number: int, names: Sequence[str], schema: TableSchema, *, whole: bool) -> _Places:
    """Of a row that has more than the schema. `names`: the file's. Raises RowUnusable if the schema's are not all among them in their
    order."""
    known, omitted = schema.column_names(), {one.name for one in schema.omitted}
    common = [name for name in names if name in known]
    if common != list(known):
        missing = next((name for name in known if name not in common), None)
        what = (
            f"column {missing} is in the schema and not in the file's" if missing else f"the file's columns are {common}, in another order"
        )
        raise schema_differs(number, what)
    in_rows = [name for name in names if name in known or name in omitted or not whole]
    return _Places(len(in_rows), [place for place, name in enumerate(in_rows) if name in known])


def _picked(number: int, image: Texts, row: _CsvRow, there: _Places) -> Texts:
    if len(image) != there.width:
        what = f"the row has {len(image)} values, and the schema {len(there.places)} of the file's {len(row.columns)} columns"
        raise schema_differs(number, what)
    return [image[place] for place in there.places]


def _with_bytes(number: int, image: Texts, row: _CsvRow, schema: TableSchema, binaries: Sequence[int]) -> list[Any]:
    decoded, to_bytes = list[Any](image), _TO_BYTES[row.binary]
    for place in binaries:
        text = image[place]
        try:
            decoded[place] = None if text is None else to_bytes(text)
        except ValueError:
            raise unfit_in(number, schema.columns[place].name, UnfitValue(0, text, f"is not {row.binary}")) from None
    return decoded


def texts(cells: Sequence[Any], column: Column, zone: ServerZone) -> pa.Array:
    """Raises UnfitValue."""
    match column.kind:
        case "enum" | "set":
            return _labels(pa.array(cells, pa.string()), column)
        case "binary":
            return from_bytes(pa.array(cells, pa.binary()), column)
        case _:
            return canal_json.texts(cells, column, zone)


def _labels(labels: pa.Array, column: Column) -> pa.Array:
    """Labels that are not known cannot be checked (`Column.elements` empty: see sidecar/shared/sql/text.py)."""
    known = frozenset((*column.elements, ""))
    for text in pc.unique(labels).to_pylist() if column.elements else ():
        if text is not None and not known.issuperset(text.split(",") if column.kind == "set" else (text,)):
            raise UnfitValue(pc.index(labels, text).as_py(), text, f"is none of the {len(column.elements)} labels of the {column.kind}")
    return labels
