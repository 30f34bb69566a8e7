"""Parquet files of a log of changes as versions of rows (spark_merge/readable.py), for every sink that has such files.

Each file has rows of one or more stretches (ddl/lineage.py); of each its own columns are read. A row's version is what the envelope says:
a delete, a live put, or a dump's row, at its commit_ts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sidecar.core.model import TableSchema
from sidecar.errors import SinkError
from sidecar.log.storage import Folder
from spark_merge.contract import RANK_CHUNK, RANK_DELETE, RANK_PUT
from spark_merge.ddl.lineage import Stretch
from spark_merge.readable import RowsRead, Versions
from spark_merge.sinks.parquet_rows import ParquetRows, Source, Sources, WantedKeys, key_columns, of_keys, opened, present


@dataclass(frozen=True, slots=True)
class LogEnvelope:
    """Where files have the columns that versions are made of."""

    seq: Source
    commit_ts: Source
    op: Source
    origin: Source


@dataclass(frozen=True, slots=True)
class LogFile:
    """`stretches`: those that may have rows in it, and where their columns are."""

    folder: Folder
    name: str
    bytes: int
    envelope: LogEnvelope
    stretches: tuple[tuple[Stretch, Sources], ...]


@dataclass(frozen=True, slots=True)
class LogPart:
    """`ReadPart` of a log of changes: each row is a version."""

    schema: TableSchema
    files: tuple[LogFile, ...]
    wanted: WantedKeys | None = None

    def __call__(self) -> Iterator[RowsRead]:
        for file in self.files:
            with opened(file.folder, file.name) as found:
                envelope = file.envelope
                used = {envelope.seq, envelope.commit_ts, envelope.op, envelope.origin}.union(*(one.used() for _, one in file.stretches))
                for _, rows in found.batches(
                    used, found.groups_with(self.wanted, key_columns(self.schema, [one for _, one in file.stretches]))
                ):
                    yield from self._of_batch(found, file, rows)

    def _of_batch(self, found: ParquetRows, file: LogFile, rows: pa.Table) -> Iterator[RowsRead]:
        seqs = rows.column(found.name_of(file.envelope.seq))
        bounds = pc.min_max(seqs)
        first, last = bounds["min"].as_py(), bounds["max"].as_py()
        for stretch, sources in file.stretches:
            if not stretch.meets(first, last):
                continue
            mine = rows.filter(_within(seqs, stretch)) if _cuts(stretch, first, last) else rows
            if mine.num_rows:
                stretch.check(found.place)
                try:
                    _check_has(found, sources, self.schema)
                    text = present(mine, found, sources, self.schema)
                except SinkError as error:
                    raise _before_a_ddl(error, stretch) from error
                yield of_keys(text, self.wanted, _versions(mine, found, file.envelope))


def _check_has(file: ParquetRows, sources: Sources, schema: TableSchema) -> None:
    """A file has all columns that the table had when its rows were written."""
    for column, where in zip(schema.columns, sources.columns, strict=True):
        if where and not any(map(file.name_of, where)):
            raise SinkError(
                f"{file.place} has no column {column.name} of the type that it has by now: what it had before is not in the table any more",
                hint="deliver to a new place, and dump again",
            )


def _before_a_ddl(error: SinkError, stretch: Stretch) -> SinkError:
    since = f"; these rows, up to segment {stretch.upto}, are from before the DDL {stretch.ddl!r}" if stretch.ddl else ""
    return SinkError(f"{error.message}{since}", hint=error.hint)


def _cuts(stretch: Stretch, first: int, last: int) -> bool:
    return (stretch.after is not None and first <= stretch.after) or (stretch.upto is not None and last > stretch.upto)


def _within(seqs: Any, stretch: Stretch) -> Any:
    found = seqs.is_valid()
    if stretch.after is not None:
        found = pc.and_(found, pc.greater(seqs, stretch.after))
    return found if stretch.upto is None else pc.and_(found, pc.less_equal(seqs, stretch.upto))


def _versions(rows: pa.Table, file: ParquetRows, envelope: LogEnvelope) -> Versions:
    commit_ts, op, origin = (
        rows.column(file.name_of(source)).combine_chunks() for source in (envelope.commit_ts, envelope.op, envelope.origin)
    )
    deleted = pc.equal(op, "delete")
    ranks = pc.if_else(pc.equal(origin, "dump"), RANK_CHUNK, pc.if_else(deleted, RANK_DELETE, RANK_PUT))
    return Versions(commit_ts, ranks.cast(pa.int32()), deleted)
