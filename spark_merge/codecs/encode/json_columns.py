"""JSON lines (json_lines.py) as columns again. Arrow gets no name of a column: it cannot have each of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc


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
    images = _fields(frame["after"])
    if deleted.any():
        is_deleted = _arrow(deleted, pa.bool_())
        images = [pc.if_else(is_deleted, old, new) for old, new in zip(_fields(frame["before"]), images, strict=True)]
    return JsonColumns(
        _arrow(frame["commit_ts"], pa.string()).cast(pa.int64()),
        _arrow(deleted, pa.bool_()),
        _arrow(frame["origin"] == "dump", pa.bool_()),
        dict(zip(names, images, strict=True)),
    )


def _fields(images: pl.Series) -> list[pa.Array]:
    """All columns of an image at once, null where there is none: polars goes through the whole struct for each field alone."""
    numbered = images.struct.rename_fields([str(number) for number in range(len(images.struct.fields))])
    return [one.cast(pa.string()) for one in numbered.to_arrow().flatten()]


def _arrow(series: pl.Series, kind: pa.DataType) -> pa.Array:
    return series.to_arrow().cast(kind)
