"""A Parquet file of the files sink (encode/typed.py) back to canonical text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import IO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sidecar.core.model import TableSchema
from sidecar.errors import SinkError
from spark_merge.ddl.eras import Era
from spark_merge.encode.untyped import texts
from spark_merge.readable import RowsRead, Versions
from spark_merge.sinks.row_versions import ranks, rows_read

BATCH_ROWS = 65_536
_ENVELOPE = ("commit_ts", "op", "origin", "untyped")
_RESTORE = "restore the file, or deliver to a new folder and dump again"


def parquet_rows(file: IO[bytes], era: Era) -> Iterator[RowsRead]:
    """All rows, which are of `era`. Raises SinkError."""
    era.check()
    there = [(one, one.name) for one in era.columns if one.name is not None]
    names = [name for _, name in there]
    written = TableSchema(era.schema.name, tuple(one.column for one, _ in there), ())
    try:
        with pq.ParquetFile(file) as parquet:
            envelope = [_prefix(parquet) + name for name in _ENVELOPE]
            if missing := sorted({*names, *envelope} - set(parquet.schema_arrow.names)):
                raise SinkError(
                    f"{era.schema.name} cannot be read back: its rows up to {era.upto_ts} have no column {missing[0]}, and no DDL of the"
                    " output tells since when it is there",
                    hint="deliver to a new folder and dump the table into it",
                )
            for batch in parquet.iter_batches(BATCH_ROWS, columns=[*envelope, *names], use_threads=False):
                yield _rows(pa.Table.from_batches([batch]), era, written, names, envelope)
    except (pa.ArrowInvalid, OSError, ValueError, KeyError) as error:
        raise SinkError(f"it is no Parquet file of ours: {error}", hint=_RESTORE) from error


def _rows(table: pa.Table, era: Era, written: TableSchema, names: list[str], envelope: list[str]) -> RowsRead:
    commit_ts, op, origin, untyped = (table.column(name).combine_chunks() for name in envelope)
    found = texts(table.select(names), written, untyped, written_as=[(name,) for name in names])
    gone = pc.equal(op, "delete")
    versions = Versions(commit_ts, ranks(gone, pc.equal(origin, "dump")), gone)
    columns = zip(names, found.columns, strict=True)
    return rows_read(era.decoded(), {name: column.combine_chunks() for name, column in columns}, versions)


def _prefix(parquet: pq.ParquetFile) -> str:
    return str(json.loads(parquet.schema_arrow.metadata[b"ticdc-dump"])["prefix"])
