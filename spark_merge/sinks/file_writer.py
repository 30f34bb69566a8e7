"""The files sink's part in Spark's tasks: deliveries to one file for each segment and table.

A file is written in a stream and appears whole under its name, which tells its segment and table and nothing of the
attempt: so a redone batch, or a task that Spark runs twice, replaces it with the same rows. A table whose rows all fell
in windows still gets its (empty) file: a file for every table with deliveries is the whole rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, assert_never

import pyarrow as pa
import pyarrow.parquet as pq

from sidecar import storage
from sidecar.core.model import TableName, TableSchema
from sidecar.storage import Folder
from spark_merge.encode.block import Block, of_changes, of_chunk, schema_of
from spark_merge.encode.json_lines import json_lines
from spark_merge.encode.typed import dictionary_columns, file_schema, typed
from spark_merge.sinks.deliveries import Counts, FileOf, Piece, by_file, delivered, open_chunk
from spark_merge.sinks.layout import FileFormat, file_path, storage_errors

ROW_GROUP_ROWS_MAX = 131_072
"""What a reader of the Parquet file must hold at least; a chunk or a batch of changes is a row group of its own below that."""


@dataclass(frozen=True, slots=True)
class FileWriter:
    """Picklable. `log` is the Folder that chunk paths are relative to."""

    folder: Folder
    file_format: FileFormat
    schemas: Mapping[TableName, TableSchema]
    log: object

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        written: list[pa.RecordBatch] = []
        paths: list[str] = []
        for file, pieces in by_file(batches):
            schema = schema_of(self.schemas, file.table)
            path = file_path(file.table, file.seq, self.file_format, part=file.part)
            counts = Counts()
            with (
                storage_errors(f"{self.folder}/{path}"),
                storage.new_file(self.folder, path, durable=False) as out,
                self._encoder(out, schema) as write,
            ):
                for piece in pieces:
                    block = self._block(file, schema, piece, counts)
                    if block.rows:
                        write(block)
            paths.append(path)
            written.append(delivered(file, path, counts))
        with storage_errors(self.folder):
            storage.make_durable(self.folder, paths)
        yield from written

    def _block(self, file: FileOf, schema: TableSchema, piece: Piece, counts: Counts) -> Block:
        if isinstance(piece, pa.RecordBatch):
            counts.from_log += piece.num_rows
            return of_changes(schema, file.seq, piece)
        found = open_chunk(self.log, schema, piece)
        counts.from_dump += found.rows.num_rows
        counts.dropped += found.dropped
        return of_chunk(schema, file.seq, commit_ts=piece.commit_ts, dump_id=piece.dump_id, survivors=found)

    @contextmanager
    def _encoder(self, out: IO[bytes], schema: TableSchema) -> Iterator[Callable[[Block], object]]:
        match self.file_format:
            case "jsonl":
                yield lambda block: out.write(json_lines(block))
            case "parquet":
                with _parquet(out, schema) as write:
                    yield write
            case _ as never:
                assert_never(never)


@contextmanager
def _parquet(out: IO[bytes], schema: TableSchema) -> Iterator[Callable[[Block], object]]:
    into = file_schema(schema)
    writer = pq.ParquetWriter(
        out,
        into,
        compression="zstd",
        compression_level=1,  # measured: faster than snappy, two thirds of its bytes
        use_dictionary=dictionary_columns(schema),
    )
    try:
        yield lambda block: writer.write_table(typed(block, into), row_group_size=ROW_GROUP_ROWS_MAX)
        writer.close()
    except BaseException:
        writer.is_open = False  # or its destructor goes on writing to a file that is given up
        raise
