"""Rows as JSON lines in their order (formats/json_lines.py), in blocks that a body can be cut out of.

Encoding is column work, of one table at a time. Where tables alternate row by row, the runs of a block are encoded table by table and their
lines are put back in order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sidecar.shared.model.nouns import Seq, TableSchema
from spark_merge.codecs.encode.block import blocks
from spark_merge.codecs.encode.runs import TableRun
from spark_merge.port.contract import ChunkPiece, Counts, Portion, counted
from spark_merge.sinks.formats.json_lines import json_lines

BLOCK_BYTES = 1 << 20
"""Of Arrow's, about so many are encoded at once: a little more as text."""

BLOCK_ROWS = 4096
KEY_BYTES_MAX = 200

SHORT_ROWS = 32
"""Runs of so few are as large as the rows of their portion are on average: to ask Arrow for their bytes costs as much as to encode them."""


@dataclass(frozen=True, slots=True)
class Lines:
    """`ends`: of each line where the next one begins. `tables`: of which of the `schemas` each line is."""

    schemas: tuple[TableSchema, ...]
    data: bytes
    ends: npt.NDArray[np.int64]
    tables: npt.NDArray[np.int64]

    @classmethod
    def of(cls, schemas: Sequence[TableSchema], data: bytes, tables: npt.NDArray[np.int64] | None = None) -> Lines:
        """Without `tables` all are of the first schema."""
        ends = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n")) + 1
        return cls(tuple(schemas), data, ends, np.zeros(len(ends), np.int64) if tables is None else tables)

    @property
    def rows(self) -> int:
        return len(self.ends)

    def firsts(self) -> list[tuple[TableSchema, int]]:
        """Each table with its first line, in their order."""
        numbers, lines = np.unique(self.tables, return_index=True)
        return sorted(
            ((self.schemas[table], line) for table, line in zip(numbers.tolist(), lines.tolist(), strict=True)), key=lambda one: one[1]
        )

    def first_key(self) -> str:
        """Of the first line, as JSON, for an error."""
        start = self.data.find(b'"key":') + len(b'"key":')
        return self.data[start : self.data.find(b',"before":', start)][:KEY_BYTES_MAX].decode(errors="replace")

    def fitting(self, bytes_max: int, extra: Mapping[int, int]) -> int:
        """How many lines from the first on have so many bytes together, at most. `extra`: what stands before a line, by its number."""
        ends = self.ends.copy()
        for line, size in extra.items():
            ends[line:] += size
        return int(np.searchsorted(ends, bytes_max, side="right"))

    def split(self, rows: int) -> tuple[Lines, Lines]:
        if rows <= 0:
            return Lines(self.schemas, b"", self.ends[:0], self.tables[:0]), self
        at = int(self.ends[rows - 1])
        first = Lines(self.schemas, self.data[:at], self.ends[:rows], self.tables[:rows])
        return first, Lines(self.schemas, self.data[at:], self.ends[rows:] - at, self.tables[rows:])


def lines(seq: Seq, portions: Iterator[Portion], counts: Counts) -> Iterator[Lines]:
    """All rows of a segment, in its order; `counts` grows by them."""
    held: list[TableRun] = []
    rows = size = 0
    for portion in portions:
        for piece in counted(portion, counts):
            for run, nbytes in _runs(TableRun(portion.schema, piece), portion.row_bytes):
                held.append(run)
                rows, size = rows + run.rows, size + nbytes
                if rows >= BLOCK_ROWS or size >= BLOCK_BYTES:
                    yield _encoded(seq, held)
                    held, rows, size = [], 0, 0
    if held:
        yield _encoded(seq, held)


def passed(portions: Iterator[Portion], counts: Counts) -> None:
    """As `lines` of what is sent already: counted alone."""
    for portion in portions:
        for _ in counted(portion, counts):
            continue


def _runs(whole: TableRun, row_bytes: int) -> Iterator[tuple[TableRun, int]]:
    """With about their bytes. `row_bytes`: of the portion, where that knows it."""
    count = whole.rows
    if 0 < count <= SHORT_ROWS and row_bytes:
        yield whole, row_bytes * count
        return
    size = max(1, whole.nbytes)
    rows = max(1, min(BLOCK_ROWS, count * BLOCK_BYTES // size))
    for start in range(0, count, rows):
        run = whole.slice(start, rows)
        yield run, size * run.rows // count


def _encoded(seq: Seq, runs: Sequence[TableRun]) -> Lines:
    schemas = {run.schema.name: run.schema for run in runs}
    if len(schemas) == 1 or len(runs) == 1:
        return Lines.of(tuple(schemas.values()), b"".join(_texts(seq, run) for run in _together(runs)))
    numbers = {name: number for number, name in enumerate(schemas)}
    tables = np.repeat([numbers[run.schema.name] for run in runs], [run.rows for run in runs])
    line_texts = [b""] * len(tables)
    for name, number in numbers.items():
        mine = _together([run for run in runs if run.schema.name == name])
        texts = b"".join(_texts(seq, run) for run in mine).splitlines(keepends=True)
        for line, text in zip(np.flatnonzero(tables == number).tolist(), texts, strict=True):
            line_texts[line] = text
    return Lines.of(tuple(schemas.values()), b"".join(line_texts), tables)


def _together(runs: Sequence[TableRun]) -> Iterator[TableRun]:
    """Of one table: changes that stand side by side as one run."""
    changes: list[pa.Table] = []
    for run in runs:
        if isinstance(run.piece, ChunkPiece):
            if changes:
                yield TableRun(run.schema, pa.concat_tables(changes))
            changes = []
            yield run
        else:
            changes.append(run.piece)
    if changes:
        yield TableRun(runs[0].schema, pa.concat_tables(changes))


def _texts(seq: Seq, run: TableRun) -> bytes:
    run_blocks = blocks(run.schema, seq, run.piece)
    return b"".join(map(json_lines, run_blocks))
