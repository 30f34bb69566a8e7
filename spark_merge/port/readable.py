"""Reading a sink's rows back: the optional part of the sink's port that a verification needs.

    Readable.reading ─► Reading: a position, parts ─► in tasks, each part: RowsRead, RowsRead, …

- Reading writes nothing and does not become the sink's writer: it runs beside the sink's worker.
- The rows are those that the sink has, in the log's canonical text (shared/model/nouns.py, Kind), with the columns of the table's schema at
  the sink's position.
- Where a sink has a stream or a log of rows, a key comes several times, and the greatest version counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa

from sidecar.shared.model.nouns import TableSchema
from sidecar.shared.process.progress import progressed
from spark_merge.port.contract import Accepted
from spark_merge.port.keys import are_last, key_text


class Versions(NamedTuple):
    """Of rows that are versions of keys: `commit_ts` pa.int64, `rank` pa.int32 (contract.RANK_…), `deleted` pa.bool_. Two versions of a key
    with one commit_ts and rank are equal. Of a deleted row only the handle key's columns count."""

    commit_ts: pa.Array
    rank: pa.Array
    deleted: pa.Array


class RowsRead(NamedTuple):
    """`rows`: a pa.string column for each column of the schema, by its name and in its order. `versions`: of each row; None where the sink
    has each key once."""

    rows: pa.Table
    versions: Versions | None = None


class ReadPart(Protocol):
    """Some of the rows. Picklable; makes its own connections, and may run on any machine and more than once."""

    def __call__(self) -> Iterator[RowsRead]:
        """In bounded memory. Raises SinkError."""


class RowForm(Protocol):
    """What a sink promises to have of the source's rows, where its types cannot hold every value. Picklable."""

    def __call__(self, rows: pa.Table) -> pa.Table:
        """Canonical text in and out, the same rows: columns of the requested schema in, those of `Reading.schema` out."""


@dataclass(frozen=True, slots=True)
class Reading:
    """`accepted`: the position of which the rows are if `exact`; else each row is as of this position or of a later one. None: before the
    first segment. `form`: None where the sink holds every value. `schema`: of the rows, where it is not the requested one: column rules of
    the sink mask some columns; None: the requested one. It has the same handle key."""

    accepted: Accepted | None
    exact: bool
    parts: tuple[ReadPart, ...]
    form: RowForm | None = None
    schema: TableSchema | None = None


@runtime_checkable
class Readable(Protocol):
    """A sink whose rows can be read. It may be closed, and another process may be its worker."""

    finds_keys: bool
    """Whether `reading` with `keys` returns these rows alone, without a read of the others."""

    def reading(self, schema: TableSchema, *, parts: int, keys: pa.Table | None = None) -> Reading:
        """All rows of the table, in about `parts` parts, or in fewer. `keys`: at least the rows with these handle keys (pa.string columns
        named and ordered as `schema.key`), where the sink can find them without reading all.

        Raises SinkError where the rows cannot be read, with the reason and what to change: a setting that omits columns, a schema change
        that the output does not record.
        """


def rows_of(part: ReadPart) -> Iterator[RowsRead]:
    """All of the part; each piece is progress. Whatever reads a sink's rows reads them here, so no sink has to think of it."""
    for rows in part():
        progressed()
        yield rows


def newest(reading: Reading, schema: TableSchema) -> pa.Table:
    """Every row once, as a reader of the sink has them: all in memory, in any order."""
    return newest_of([piece for part in reading.parts for piece in rows_of(part)], schema)


def newest_of(value: Sequence[RowsRead], schema: TableSchema) -> pa.Table:
    """As `newest`, of what all parts have given."""
    columns = list(schema.column_names())
    if not value:
        return pa.table({name: pa.array([], pa.string()) for name in columns})
    rows = pa.concat_tables([piece.rows.select(columns) for piece in value])
    if value[0].versions is None or not rows.num_rows:
        return rows
    versions = [piece.versions for piece in value if piece.versions is not None]
    commit_ts, rank, deleted = (
        np.concatenate([column.to_numpy(zero_copy_only=False) for column in each]) for each in zip(*versions, strict=True)
    )
    codes = key_text([rows.column(name) for name in schema.key]).combine_chunks().dictionary_encode().indices.to_numpy()
    return rows.filter(pa.array(are_last(codes, ranks=rank, commit_ts=commit_ts) & ~deleted))
