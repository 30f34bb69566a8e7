"""avro, read back: the JSON that sidecar/shared/codecs/avro.py describes. A delete has the key's columns alone, or its row.

int, uint, year    numbers; a BIGINT UNSIGNED may be a text          bit, binary   base64, of bit the highest byte first
float, double      numbers                                           all else      texts

A row has the TiDB types by which it was written. Each must be one whose values the present column's type would have written so: a number
of any integer type, else the column's own type.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa
from msgspec import json

from sidecar.shared.codecs.avro import DELETED, avro_name
from sidecar.shared.columns.values import byte_array, from_bytes, from_floats, from_ints, from_texts, parse_ints, unbase64
from sidecar.shared.columns.zone import ServerZone
from sidecar.shared.model.nouns import Column, TableSchema
from spark_merge.codecs.images import NO_IMAGE, Cells, schema_differs

_OP = "_tidb_op"
_ADDED = frozenset({_OP, "_tidb_commit_ts", "_tidb_commit_physical_time"})

_INTEGERS = frozenset({"INT", "INT UNSIGNED", "BIGINT", "BIGINT UNSIGNED"})
_WRITTEN = {"int": _INTEGERS, "uint": _INTEGERS, "binary": frozenset({"BLOB"}), "vector": frozenset({"TiDBVECTORFloat32"})}
"""The types of a kind (encode/avro_schema.py); of all others its name."""

_TABLES_MAX = 4096
"""Table schemas, and the types of rows that fit them, that are kept in a worker."""


@dataclass(frozen=True, slots=True)
class AvroDecoder:
    """`DecoderModule`."""

    def cells(self, values: Sequence[bytes], schema: TableSchema, *, whole: bool = True) -> Cells:
        names = [avro_name(name) for name in schema.column_names()]
        images: list[list[Any]] = []
        before: list[int] = []
        after: list[int] = []
        for number, value in enumerate(values):
            row = json.decode(value)
            record: Mapping[str, Any] | None = row["value"]
            gone = record is None or record.get(_OP) == DELETED
            known = row["key"] if record is None else record
            if record is not None and (missing := next((name for name in names if name not in record), None)) is not None:
                raise schema_differs(number, f"column {missing} is in the schema and not in the row")
            if whole and record is not None and (more := record.keys() - _ADDED - set(names)):
                raise schema_differs(number, f"column {min(more)} is in the row and not in the schema")
            if wrong := _misfit(row["types"], schema):
                raise schema_differs(number, wrong)
            before.append(len(images) if gone else NO_IMAGE)
            after.append(NO_IMAGE if gone else len(images))
            images.append([known.get(name) for name in names])
        return Cells(list(zip(*images, strict=True)) or [()] * len(names), before, after)

    def texts(self, cells: Sequence[Any], column: Column, zone: ServerZone) -> pa.Array:
        match column.kind:
            case "int" | "uint" | "year":
                digits = [None if cell is None else str(cell) for cell in cells]
                return from_ints(parse_ints(pa.array(digits, pa.string()), column), column)
            case "bit":
                numbers = [None if cell is None else int.from_bytes(b64decode(cell), "big") for cell in cells]
                return from_ints(pa.array(numbers, pa.uint64()), column)
            case "float" | "double":
                return from_floats(pa.array(cells, pa.float64()), column)
            case "binary":
                return from_bytes(byte_array(cells, unbase64, "is not base64"), column)
            case _:
                return from_texts(pa.array(cells, pa.string()), column, zone)


@lru_cache(maxsize=_TABLES_MAX)
def _misfit(types: str, schema: TableSchema) -> str:
    """Of a row's types and the table's; empty if they fit."""
    written = json.decode(types, type=dict[str, str])
    for column in schema.columns:
        one = written.get(avro_name(column.name))
        if one is not None and one not in _WRITTEN.get(column.kind, (column.kind.upper(),)):
            return f"column {column.name}: {one or 'a type without tidb_type'} is not what the column is now"
    return ""


def decoder(options: Mapping[str, str], *, redefined: bool) -> AvroDecoder:  # noqa: ARG001  (a row has the schema by which it was written)
    return AvroDecoder()


def replaced_dates(options: Mapping[str, str], schema: TableSchema) -> Sequence[tuple[str, str | None]]:  # noqa: ARG001  (dates are texts)
    return ()
