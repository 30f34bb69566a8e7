"""Rows of some keys in both places, compared value by value: the second look at what differs.

A key is a difference when it has differed at two positions, and nothing in the log changed it between the positions at which the two sides
were read. A key that is equal once is no difference. One that changes each time that it is looked at is moving.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from sidecar.shared.log.verification import CellDifference, RowDifference
from sidecar.shared.model.canonical import equal_text
from sidecar.shared.model.nouns import Kind, TableSchema
from spark_merge.port.keys import key_text
from spark_merge.port.readable import ReadPart, RowsRead, Versions, rows_of

Row = tuple[str | None, ...]


class LookedRows(NamedTuple):
    """Rows of some keys (merge.key_text) in both places. `twice`: the sink has them in several rows. `moved`: the log has a change."""

    ours: dict[str, Row]
    theirs: dict[str, Row]
    twice: set[str]
    moved: set[str]


def key_of(text: str) -> tuple[str, ...]:
    """The columns of a `merge.key_text`."""
    return tuple(json.loads(text, strict=False))


def source_rows(schema: TableSchema, part: ReadPart) -> dict[str, Row]:
    """By `merge.key_text`."""
    return by_key(schema, [row.rows for row in rows_of(part)])


@dataclass(frozen=True, slots=True)
class RowsOfKeys:
    """Of a sink's part the rows with these keys (merge.key_text): it may have more. Picklable."""

    part: ReadPart
    key: tuple[str, ...]
    wanted: tuple[str, ...]

    def __call__(self) -> list[RowsRead]:
        wanted = pa.array(self.wanted, pa.string())
        looked_at = []
        for read in rows_of(self.part):
            if read.rows.num_rows:
                at = pc.is_in(key_text([read.rows.column(name) for name in self.key]), value_set=wanted).combine_chunks()
                versions = None if read.versions is None else Versions(*(column.filter(at) for column in read.versions))
                looked_at.append(RowsRead(read.rows.filter(at), versions))
        return looked_at


def by_key(schema: TableSchema, tables: Sequence[pa.Table]) -> dict[str, Row]:
    key: dict[str, Row] = {}
    for rows in tables:
        if rows.num_rows:
            keys = key_text([rows.column(name) for name in schema.key]).to_pylist()
            images = zip(*(rows.column(name).to_pylist() for name in schema.column_names()), strict=True)
            key.update(zip(keys, images, strict=True))
    return key


def keys_read_twice(schema: TableSchema, rows: pa.Table) -> set[str]:
    """The keys (merge.key_text) of more than one of these rows."""
    if not rows.num_rows:
        return set()
    counted = pc.value_counts(key_text([rows.column(name) for name in schema.key]).combine_chunks())
    return set(counted.field("values").filter(pc.greater(counted.field("counts"), 1)).to_pylist())


def difference(schema: TableSchema, key: str, source: Row | None, sink: Row | None, *, twice: bool = False) -> RowDifference | None:
    """None: both have the same, or neither has the row. `twice`: the sink has the key in more than one row, of which `sink` is one."""
    if source is None or sink is None:
        if source is sink:
            return None
        return RowDifference("missing" if sink is None else "extra", key_of(key))
    cells = tuple(
        CellDifference(column.name, ours, theirs)
        for column, ours, theirs in zip(schema.columns, source, sink, strict=True)
        if not _are_equal(column.kind, ours, theirs)
    )
    if twice:
        return RowDifference("duplicate", key_of(key), cells)
    return RowDifference("different", key_of(key), cells) if cells else None


def _are_equal(kind: Kind, ours: str | None, theirs: str | None) -> bool:
    """A sink may have a text that is no value of the kind: somebody has put it there."""
    try:
        return equal_text(kind, ours, theirs)
    except (ValueError, RecursionError):
        return False
