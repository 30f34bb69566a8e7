"""The storage sink's part in tasks: portions to staged files, of one table or partition each, in output order.

A staged file's name holds its writer and the attempt, so a task that runs twice, or outlives its driver, is in nobody's way.

- Of each table and partition one file at a time is written; the next one begins where that has file-size bytes.
- A task has FILES_OPEN_MAX of them open at once: more tables than that take turns, and have more files.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import IO, Self

import pyarrow as pa

from sidecar.shared.log import storage
from sidecar.shared.log.storage import Folder
from sidecar.shared.model.nouns import Seq, TableSchema
from sidecar.shared.partition.ids import is_partitioned
from spark_merge.codecs.encode.block import Block, blocks, of_changes
from spark_merge.codecs.encode.by_table import by_table
from spark_merge.codecs.encode.messages import changes_of
from spark_merge.codecs.encode.split import RAW_KEY_VALUES, split
from spark_merge.port.contract import CHANGES, ChunkPiece, Counts, Outcome, Owner, Piece, Portion, Rows, Task
from spark_merge.sinks.formats.csv_lines import csv_header, csv_lines
from spark_merge.sinks.formats.messages import message_lines
from spark_merge.sinks.storage.layout import StoragePlace, staged_path
from spark_merge.sinks.storage.names import Staged
from spark_merge.sinks.storage.options import StorageOptions
from spark_merge.sinks.storage.partitions import by_partition

FILES_OPEN_MAX = 8
"""An S3 upload holds 8 MiB."""


@dataclass(frozen=True, slots=True)
class StorageWriter:
    """Picklable. The outcome's note is `tuple[Staged, …]` in output order. `codec`: of the batch's segments."""

    folder: Folder
    options: StorageOptions
    owner: Owner
    codec: str

    def __call__(self, task: Task, portions: Iterator[Portion]) -> Outcome:
        counts: Counts = {}
        with _Files(self) as files:
            for portion in portions:
                place = (portion.unit.seq, portion.schema.name)
                counts.setdefault(place, Rows())
                for together in by_table([portion]):
                    for schema, piece in together:
                        counts[place] = counts[place].plus(Rows.of(piece))
                        self._write(files, portion.unit.seq, schema, piece)
        storage.make_durable(self.folder, [one.path for one in files.staged])
        return Outcome(task.id, counts, tuple(files.staged))

    def _write(self, files: _Files, seq: Seq, schema: TableSchema, piece: Piece) -> None:
        parted = self.options.partitions and is_partitioned(schema)
        if isinstance(piece, ChunkPiece) and self.options.json is None and not parted:
            for block in blocks(schema, seq, piece):
                self._write_csv(files, StoragePlace(schema.name), block)
            return
        if isinstance(piece, ChunkPiece):
            changes = changes_of(piece, schema)
        else:
            changes = split(piece if self.codec == RAW_KEY_VALUES else piece.select(CHANGES.names), schema)
        if changes.num_rows:
            for partition, rows in by_partition(changes, schema) if parted else [(0, changes)]:
                place, keys_only = StoragePlace(schema.name, partition), isinstance(piece, ChunkPiece) and piece.deletes
                self._write_rows(files, seq, place, rows.select(CHANGES.names), schema, keys_only=keys_only)

    def _write_rows(self, files: _Files, seq: Seq, place: StoragePlace, rows: pa.Table, schema: TableSchema, *, keys_only: bool) -> None:
        if self.options.json is None:
            for batch in rows.combine_chunks().to_batches():
                self._write_csv(files, place, of_changes(schema, seq, batch))
        else:
            end = self.options.csv.terminator.encode()
            files.write(place, schema, message_lines(self.options.json, schema, rows, end, keys_only=keys_only))

    def _write_csv(self, files: _Files, place: StoragePlace, block: Block) -> None:
        for data in csv_lines(block, self.options.csv):
            files.write(place, block.schema, data)


class _Files:
    """Those of one task. `staged`: in the order in which they were begun."""

    def __init__(self, writer: StorageWriter) -> None:
        self._writer, self._attempt = writer, secrets.token_hex(4)
        self._open: OrderedDict[StoragePlace, _File] = OrderedDict()
        self.staged: list[Staged] = []

    def write(self, place: StoragePlace, schema: TableSchema, data: bytes | memoryview) -> None:
        file = self._open.get(place) or self._begin(place, schema)
        self._open.move_to_end(place)
        file.write(data)
        if file.bytes >= self._writer.options.file_bytes:
            self._open.pop(place).end()

    def _begin(self, place: StoragePlace, schema: TableSchema) -> _File:
        if len(self._open) == FILES_OPEN_MAX:
            self._open.popitem(last=False)[1].end()
        path = staged_path(self._writer.owner, self._attempt, len(self.staged))
        file = self._open[place] = _File(self._writer.folder, path)
        self.staged.append(Staged(place, path))
        if self._writer.options.json is None:
            file.write(csv_header(schema, self._writer.options.csv))
        return file

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool | None:
        """Each is whole, or given up."""
        ending = ExitStack()
        for file in self._open.values():
            ending.push(file.stack)
        return ending.__exit__(kind, error, trace)


class _File:
    def __init__(self, folder: Folder, path: str) -> None:
        self.stack = ExitStack()
        self._out: IO[bytes] = self.stack.enter_context(storage.new_file(folder, path, durable=False))
        self.bytes = 0

    def write(self, data: bytes | memoryview) -> None:
        self._out.write(data)
        self.bytes += len(data)

    def end(self) -> None:
        self.stack.close()
