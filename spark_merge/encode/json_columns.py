"""JSON lines (json_lines.py) as columns again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl
import pyarrow as pa


@dataclass(frozen=True, slots=True)
class JsonColumns:
    """`images`: of each column the text after the change, of a deleted row before it. `deleted`, `from_dump`: pa.bool_."""

    commit_ts: pa.Array
    deleted: pa.Array
    from_dump: pa.Array
    images: Mapping[str, pa.Array]


def json_columns(lines: bytes, names: Sequence[str]) -> JsonColumns:
    """Of the columns `names`; one that a line does not have is null there. Raises ValueError for what are no such lines."""
    image = pl.Struct({name: pl.String() for name in names})
    fields = {"commit_ts": pl.String(), "op": pl.String(), "origin": pl.String(), "before": image, "after": image}
    try:
        frame = pl.read_ndjson(lines, schema=fields)
    except pl.exceptions.PolarsError as error:
        raise ValueError(str(error)) from error
    deleted = frame["op"] == "delete"
    found = {name: frame["after"].struct.field(name) for name in names}
    if deleted.any():
        old = frame["before"].struct
        found = {name: old.field(name).zip_with(deleted, column) for name, column in found.items()}
    return JsonColumns(
        _arrow(frame["commit_ts"], pa.string()).cast(pa.int64()),
        _arrow(deleted, pa.bool_()),
        _arrow(frame["origin"] == "dump", pa.bool_()),
        {name: _arrow(column, pa.string()) for name, column in found.items()},
    )


def _arrow(series: pl.Series, kind: pa.DataType) -> pa.Array:
    return series.alias("").to_arrow().cast(kind)  # a name can be one that Arrow cannot have
