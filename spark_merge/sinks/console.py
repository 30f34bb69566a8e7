"""The console sink: one line a delivered segment, with its rows by table. For looking, not for keeping.

It remembers nothing beyond the process: every start delivers the log from its beginning again.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TextIO

import pyarrow as pa

from sidecar.core.model import Seq, TableName, TableSchema
from sidecar.errors import SinkError
from spark_merge.contract import Delivered, SegmentHead
from spark_merge.encode.block import schema_of
from spark_merge.sinks.deliveries import Counts, by_file, delivered, open_chunk


class ConsoleSink:
    """`out` is standard output if it is not given."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = sys.stdout if out is None else out
        self._accepted: Seq | None = None

    @property
    def parts(self) -> int:
        return 1

    def accepted(self) -> Seq | None:
        return self._accepted

    def writer(self, schemas: Mapping[TableName, TableSchema], log: object) -> CountingWriter:
        return CountingWriter(schemas, log)

    def accept(self, heads: Iterable[SegmentHead], delivered: Iterable[Delivered]) -> None:
        outcomes = {outcome.seq: outcome.tables for outcome in delivered}
        for head in heads:
            if self._accepted is not None and head.seq != self._accepted + 1:
                raise SinkError(f"segment {head.seq} came after {self._accepted}", hint="report this: segments come in order")
            self._out.write(_line(head, outcomes.get(head.seq, {})) + "\n")
            self._accepted = head.seq
        self._out.flush()


@dataclass(frozen=True, slots=True)
class CountingWriter:
    """Counts what a real sink would write. Of chunks it reads the keys only. Picklable."""

    schemas: Mapping[TableName, TableSchema]
    log: object

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for file, pieces in by_file(batches):
            schema = schema_of(self.schemas, file.table)
            keys = replace(schema, columns=tuple(column for column in schema.columns if column.name in schema.key))
            counts = Counts()
            for piece in pieces:
                if isinstance(piece, pa.RecordBatch):
                    counts.from_log += piece.num_rows
                else:
                    found = open_chunk(self.log, keys, piece)
                    counts.from_dump += found.rows.num_rows
                    counts.dropped += found.dropped
            yield delivered(file, "", counts)


def _line(head: SegmentHead, tables: Mapping[TableName, tuple[int, int, int]]) -> str:
    parts = [
        f"{table}: {from_log} live" + (f", {from_dump} dumped, {dropped} dropped" if from_dump or dropped else "")
        for table, (from_log, from_dump, dropped) in sorted(tables.items())
    ]
    parts += [f"ddl: {query}" for _, _, _, query in head.ddls]
    return f"segment {head.seq} up to {head.upto_ts}  " + ("; ".join(parts) or "no rows")
