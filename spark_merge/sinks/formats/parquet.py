"""Parquet files of rows of all times: how they are written, and their rows as versions of rows again (spark_merge/port/readable.py), for
every sink that has such files. The columns are codecs/encode/typed.py's, values are read back by codecs/encode/untyped.py.

Each file has rows of one or more eras (ddl/eras.py); of each its own columns are read. A row's version is what the envelope says: a delete,
a live put, or a dump's row, at its commit_ts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import IO, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sidecar.shared.errors import SinkError
from sidecar.shared.log.storage import Folder
from sidecar.shared.model.nouns import Seq, TableSchema
from spark_merge.codecs.encode.block import Block
from spark_merge.codecs.encode.typed import ROW_GROUP_ROWS_MAX, dictionary_columns, file_schema, typed
from spark_merge.ddl.eras import Era
from spark_merge.port.readable import RowsRead, Versions
from spark_merge.sinks.formats.parquet_rows import ColumnSources, ParquetRows, Source, WantedKeys, key_columns, of_keys, opened, present
from spark_merge.sinks.kit.row_versions import ranks, rows_read


@contextmanager
def parquet_writer(out: Any, into: pa.Schema, **options: Any) -> Iterator[pq.ParquetWriter]:
    """The file is whole when the block ends without error."""
    settings = {"compression": "zstd", "compression_level": 1} | options  # measured: faster than snappy, two thirds of its bytes
    writer = pq.ParquetWriter(out, into, **settings)
    try:
        yield writer
        writer.close()
    except BaseException:
        writer.is_open = False  # or its destructor continues to write to a file that is given up
        raise


FEW_ROWS = 16
"""A file of so few rows is not packed: that costs half of the writing, and gains nothing (measured)."""

_NOT_PACKED: Mapping[str, Any] = {"compression": "none", "compression_level": None}


@contextmanager
def writing_parquet(out: Any, schema: TableSchema) -> Iterator[Callable[[Block], object]]:
    into, held, writers = file_schema(schema), list[pa.Table](), list[pq.ParquetWriter]()

    def begin(options: Mapping[str, Any]) -> None:
        dictionary = list(dictionary_columns(schema))
        writers.append(stack.enter_context(parquet_writer(out, into, use_dictionary=dictionary, **options)))
        for rows in held:
            writers[0].write_table(rows, row_group_size=ROW_GROUP_ROWS_MAX)

    def write(block: Block) -> None:
        rows = typed(block, into)
        if writers:
            writers[0].write_table(rows, row_group_size=ROW_GROUP_ROWS_MAX)
            return
        held.append(rows)
        if len(held) > 1 or rows.num_rows > FEW_ROWS:
            begin({})

    with ExitStack() as stack:
        yield write
        if not writers:
            begin(_NOT_PACKED)


# ---- read back ---------------------------------------------------------------------------------------------------------


class LogEnvelope(NamedTuple):
    """Where files have the columns that versions are made of."""

    commit_ts: Source
    op: Source
    origin: Source


@dataclass(frozen=True, slots=True)
class LogFile:
    """`eras`: those that may have rows in it, and where their columns are. `upto`: where the rows' segments are, and the last one that
    counts; None: all do."""

    folder: Folder
    name: str
    bytes: int
    envelope: LogEnvelope
    eras: tuple[tuple[Era, ColumnSources], ...]
    upto: tuple[Source, Seq] | None = None


@dataclass(frozen=True, slots=True)
class LogPart:
    """`ReadPart` of a log of changes: each row is a version."""

    schema: TableSchema
    files: tuple[LogFile, ...]
    wanted: WantedKeys | None = None

    def __call__(self) -> Iterator[RowsRead]:
        for file in self.files:
            sources = [one for _, one in file.eras]
            with opened(file.folder, file.name) as parquet_rows:
                groups = parquet_rows.groups_with(self.wanted, key_columns(self.schema, sources))
                envelope = {*file.envelope, *(() if file.upto is None else file.upto[:1])}
                for _, every in parquet_rows.batches(envelope.union(*(one.used() for one in sources)), groups):
                    rows = every
                    if file.upto is not None:
                        rows = every.filter(pc.less_equal(every.column(parquet_rows.name_of(file.upto[0])), file.upto[1]))
                    for era, own in file.eras:
                        mine = _of_era(rows, parquet_rows.name_of(file.envelope.commit_ts), era)
                        if mine.num_rows:
                            read = era_rows(mine, parquet_rows, file.envelope, era, own)
                            yield of_keys(read.rows, self.wanted, read.versions)


def _of_era(rows: pa.Table, commit_ts: str | None, era: Era) -> pa.Table:
    times = rows.column(commit_ts)
    if not rows.num_rows:
        return rows
    bounds = pc.min_max(times)
    if era.after_ts < bounds["min"].as_py() and bounds["max"].as_py() <= era.upto_ts:
        return rows
    return rows.filter(pc.and_(pc.greater(times, era.after_ts), pc.less_equal(times, era.upto_ts)))


def era_rows(rows: pa.Table, file: ParquetRows, envelope: LogEnvelope, era: Era, sources: ColumnSources) -> RowsRead:
    """`rows`: of `file`, all of `era`. Raises SinkError."""
    era.check()
    for one, where in zip(era.columns, sources.columns, strict=True):
        if one.name is not None and not any(map(file.name_of, where)):
            raise era.without(one)
    try:
        text = present(rows, file, sources, era.schema)
    except SinkError as error:
        since = " and ".join(dict.fromkeys(repr(one.redefined) for one in era.columns if one.redefined))
        raise SinkError(f"{error.message}; these rows are from before {since}" if since else error.message, hint=error.hint) from error
    named = {one.name: column for one, column in zip(era.columns, text.columns, strict=True) if one.name is not None}
    return rows_read(era, named, _versions(rows, file, envelope), types=era.present_types)


def _versions(rows: pa.Table, file: ParquetRows, envelope: LogEnvelope) -> Versions:
    commit_ts, op, origin = (rows.column(file.name_of(source)).combine_chunks() for source in envelope)
    deleted = pc.equal(op, "delete")
    return Versions(commit_ts, ranks(deleted, pc.equal(origin, "dump")), deleted)


def parquet_file_rows(data: IO[bytes], era: Era) -> Iterator[RowsRead]:
    """All rows, which are of `era`. Raises SinkError."""
    try:
        with pq.ParquetFile(data) as parquet:
            file, prefix = ParquetRows(parquet), json.loads(parquet.schema_arrow.metadata[b"ticdc-dump"])["prefix"]
            names = tuple(() if one.name is None else (one.name,) for one in era.columns)
            envelope, sources = (
                LogEnvelope(*(prefix + name for name in LogEnvelope._fields)),
                ColumnSources(names, names, prefix + "untyped"),
            )
            for _, rows in file.batches({*envelope, *sources.used()}):
                yield era_rows(rows, file, envelope, era, sources)
    except (pa.ArrowInvalid, OSError, ValueError, KeyError) as error:
        hint = "restore the file, or deliver to a new folder and dump again"
        raise SinkError(f"it is no Parquet file of ours: {error}", hint=hint) from error
