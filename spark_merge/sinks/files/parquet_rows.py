"""A Parquet file of the files sink (codecs/encode/typed.py) back to canonical text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import IO

import pyarrow as pa
import pyarrow.parquet as pq

from sidecar.errors import SinkError
from spark_merge.ddl.eras import Era
from spark_merge.port.readable import RowsRead
from spark_merge.sinks.log_parts import LogEnvelope, era_rows
from spark_merge.sinks.parquet_rows import ParquetRows, Sources


def parquet_rows(data: IO[bytes], era: Era) -> Iterator[RowsRead]:
    """All rows, which are of `era`. Raises SinkError."""
    try:
        with pq.ParquetFile(data) as parquet:
            file, prefix = ParquetRows(parquet), json.loads(parquet.schema_arrow.metadata[b"ticdc-dump"])["prefix"]
            names = tuple(() if one.name is None else (one.name,) for one in era.columns)
            envelope, sources = LogEnvelope(*(prefix + name for name in LogEnvelope._fields)), Sources(names, names, prefix + "untyped")
            for _, rows in file.batches({*envelope, *sources.used()}):
                yield era_rows(rows, file, envelope, era, sources)
    except (pa.ArrowInvalid, OSError, ValueError, KeyError) as error:
        hint = "restore the file, or deliver to a new folder and dump again"
        raise SinkError(f"it is no Parquet file of ours: {error}", hint=hint) from error
