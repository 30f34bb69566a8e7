"""The formats of which a file has the rows of one table: each with how it is written, and its inverse."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import IO, Any, NamedTuple

from sidecar.shared.model.nouns import TableSchema
from spark_merge.codecs.encode.block import Block
from spark_merge.ddl.eras import Era
from spark_merge.port.readable import RowsRead
from spark_merge.sinks.folder.layout import FileFormat
from spark_merge.sinks.formats.json_lines import json_file_rows, writing_json_lines
from spark_merge.sinks.formats.parquet import parquet_file_rows, writing_parquet


class Format(NamedTuple):
    """`writing`: a function that writes a block to the file, which is whole when the block of the `with` ends. `rows`: all rows of a file,
    which are of one era. Both raise SinkError."""

    writing: Callable[[Any, TableSchema], AbstractContextManager[Callable[[Block], object]]]
    rows: Callable[[IO[bytes], Era], Iterator[RowsRead]]


FORMATS: Mapping[FileFormat, Format] = {
    "jsonl": Format(writing_json_lines, json_file_rows),
    "parquet": Format(writing_parquet, parquet_file_rows),
}
