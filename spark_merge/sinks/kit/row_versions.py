"""Rows of an output that has a stream of versions, as a reader of it gets them (spark_merge/port/readable.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import Column, TableSchema
from spark_merge.ddl.eras import Era
from spark_merge.port.contract import RANK_CHUNK, RANK_DELETE, RANK_PUT
from spark_merge.port.readable import RowsRead, Versions

_T = TypeVar("_T")


def ranks(deleted: pa.Array, from_dump: pa.Array | None = None) -> pa.Array:
    live = pc.if_else(deleted, pa.scalar(RANK_DELETE, pa.int32()), pa.scalar(RANK_PUT, pa.int32()))
    return live if from_dump is None else pc.if_else(from_dump, pa.scalar(RANK_CHUNK, pa.int32()), live)


def rows_read(era: Era, rows: Mapping[str, pa.Array], versions: Versions, *, types: Mapping[str, Column] | None = None) -> RowsRead:
    """Rows of `era`, as `Era.present`. Raises SinkError for a row without its key, too."""
    schema = era.schema
    columns = era.present(rows, len(versions.commit_ts), types=types)
    table = pa.table(columns, names=list(schema.column_names()))
    check_keys(schema, table)
    return RowsRead(table, versions)


def check_keys(schema: TableSchema, rows: pa.Table) -> None:
    for name in schema.key:
        if rows.column(name).null_count:
            raise SinkError(
                f"{schema.name} cannot be read back: a row has no value of {name}, which is in its key",
                hint="somebody else has changed the output: restore it, or deliver to a new output and dump the table into it",
            )


def dealt(items: Iterable[_T], size: Callable[[_T], int], parts: int) -> list[tuple[_T, ...]]:
    """Into at most `parts` groups of about the same size, none empty."""
    groups: list[list[_T]] = [[] for _ in range(max(parts, 1))]
    sizes = [0] * len(groups)
    for item in sorted(items, key=size, reverse=True):
        least = sizes.index(min(sizes))
        groups[least].append(item)
        sizes[least] += size(item) + 1
    return [tuple(group) for group in groups if group]
