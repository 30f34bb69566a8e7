"""Values of simple as canonical text: enum, set and bit are decimal numbers in text, binary is base64, all else is text (pingcap/ticdc
pkg/sink/codec/simple/message.go, encodeValue). A TIMESTAMP says in which zone its text is; "Local", which names none, is the server's.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Sequence
from typing import Any
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
    unbase64,
)
from sidecar.shared.columns.zone import ServerZone
from sidecar.shared.model.nouns import Column

_LOCAL = "Local"
_SIGNED = re.compile("-[1-9][0-9]{0,18}")


class SimpleTimestamp(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """`location`: the zone of `value`, by its name."""

    location: str
    value: str


def cell(value: Any, column: Column) -> Any:
    """Of plain JSON. Raises msgspec.ValidationError."""
    return msgspec.convert(value, SimpleTimestamp | None if column.kind == "timestamp" else str | None)


def written(text: str | None, column: Column) -> Any:
    """As TiCDC writes a canonical text, in plain JSON: what `texts` reads. A TIMESTAMP is in UTC. Raises UnfitValue for a label that is not
    known."""
    if text is None:
        return None
    match column.kind:
        case "enum":
            return str(_place(text, column) + 1 if text else 0)
        case "set":
            return str(sum(1 << _place(label, column) for label in text.split(",")) if text else 0)
        case "year":
            return str(int(text))
        case "binary":
            return b64encode(bytes.fromhex(text)).decode()
        case "timestamp":
            return {"location": "UTC", "value": text}
        case _:
            return text


def _place(label: str, column: Column) -> int:
    if label not in column.elements:
        raise UnfitValue(0, label, f"is none of the {len(column.elements)} labels that are known of the {column.kind} {column.name}")
    return column.elements.index(label)


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
