"""Values of canal-json as canonical text: enum, set and bit are decimal numbers in text, binary is ISO-8859-1, all else is text (tiflow
pkg/sink/codec/canal).
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import methodcaller
from typing import Any

import msgspec
import pyarrow as pa

from sidecar.shared.columns.values import byte_array, from_bytes, from_floats, from_ints, from_texts, parse_floats, parse_ints
from sidecar.shared.columns.zone import ServerZone
from sidecar.shared.model.nouns import Column


def cell(value: Any, column: Column) -> Any:  # noqa: ARG001  (each protocol's takes both)
    """Of plain JSON. Raises msgspec.ValidationError."""
    return msgspec.convert(value, str | None)


def texts(values: Sequence[str | None], column: Column, zone: ServerZone) -> pa.Array:
    """Raises UnfitValue."""
    match column.kind:
        case "int" | "uint" | "bit" | "year" | "enum" | "set":
            return from_ints(parse_ints(pa.array(values, pa.string()), column), column)
        case "float" | "double":
            return from_floats(parse_floats(pa.array(values, pa.string())), column)
        case "binary":
            return from_bytes(byte_array(values, methodcaller("encode", "iso-8859-1"), "is not ISO-8859-1"), column)
        case _:
            return from_texts(pa.array(values, pa.string()), column, zone)
