"""Fields of csv (csv_lines.py) as canonical text again, a column at a time."""

from __future__ import annotations

from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from sidecar.core.model import Column
from spark_merge.codecs.encode.csv_lines import CsvForm
from spark_merge.codecs.encode.local_time import UTC
from spark_merge.codecs.values import from_bytes, from_floats, parse_floats
from spark_merge.codecs.zone import ServerZone


def canonical_texts(column: Column, values: pa.Array, form: CsvForm) -> pa.Array:
    """`values`: fields without quotes and escapes, null where NULL. Raises ValueError for a text that is no value."""
    match column.kind:
        case "year":
            return pc.utf8_lpad(values, 4, "0")
        case "float" | "double":
            return from_floats(parse_floats(values), column)
        case "binary":
            return from_bytes(_bytes(values, form), column)
        case "timestamp":
            return values if form.zone.key == UTC.key else _moments(values, form.zone.key)
        case _:
            return values


def _bytes(values: pa.Array, form: CsvForm) -> pa.Array:
    found: Any = pl.Series(pl.from_arrow(values), dtype=pl.String)
    try:
        decoded = found.str.decode("base64" if form.base64 else "hex", strict=True)
    except pl.exceptions.PolarsError as error:
        raise ValueError(str(error)) from error
    return decoded.to_arrow().cast(pa.binary())


def _moments(values: pa.Array, zone: str) -> pa.Array:
    """Each text once: a table has few of the hours in which zones change, and Python's zones know them all."""
    server = ServerZone(zone, "first")
    encoded = values.dictionary_encode()
    texts = [None if text is None else server.utc_text(text) for text in encoded.dictionary.to_pylist()]
    return pa.array(texts, pa.string()).take(encoded.indices)
