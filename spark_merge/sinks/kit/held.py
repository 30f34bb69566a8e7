"""Rows of a task that are in no file yet: a lake's file has as many of the task's segments as fit. And which files a table has not.

Readers pay for each file. Row groups of few rows cost a third more CPU, and 40 % more bytes (measured with 12 columns).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

import pyarrow as pa

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import Seq
from spark_merge.port.contract import DumpPass
from spark_merge.port.foreign import noting

HELD_BYTES_MAX = 64 << 20
"""Of memory, in a task, before the largest of it becomes a file: of some 10 MB."""

COLUMN_BYTES = 900
"""Of a column of a part, beside its values: Arrow's and Python's objects (measured)."""

PARTS_JOINED, JOINED_BYTES_MAX = 64, 4 << 20
"""So many parts of one file become one, if they are no larger. A row of 100 columns takes 84 kB as a part, and 1 kB among others."""

K = TypeVar("K", bound=Hashable)


@dataclass(slots=True)
class HeldRows:
    """`first`, `last`: their segments. `passes`: of a dump's rows, empty for live ones. `bytes`: of memory. `loose`: how many parts at the
    end are not joined."""

    first: Seq
    last: Seq
    parts: list[pa.Table] = field(default_factory=list)
    passes: set[DumpPass] = field(default_factory=set)
    bytes: int = 0
    loose: int = 0

    def rows(self) -> pa.Table:
        return pa.concat_tables(self.parts)

    def add(self, rows: pa.Table, *, copies: int) -> int:
        """How many bytes more they take."""
        before = self.bytes
        self.parts.append(rows)
        self.bytes += _size(rows) * copies
        self.loose += 1
        if self.loose == PARTS_JOINED:
            self.loose, ends = 0, self.parts[-PARTS_JOINED:]
            if sum(one.nbytes for one in ends) <= JOINED_BYTES_MAX:
                self.parts[-PARTS_JOINED:] = [joined := pa.concat_tables(ends).combine_chunks()]
                self.bytes += (_size(joined) - sum(map(_size, ends))) * copies
        return self.bytes - before


def _size(rows: pa.Table) -> int:
    """A text shares the buffer of the block that it came in, with the texts of all its columns: that stays with it."""
    size: int = rows.get_total_buffer_size() + COLUMN_BYTES * rows.num_columns
    return size


class HeldByFile(Generic[K]):
    """By what becomes one file. `write` makes it."""

    def __init__(self, write: Callable[[K, HeldRows], object]) -> None:
        self._write = write
        self._held: dict[K, HeldRows] = {}
        self._bytes = 0

    def add(self, under: K, seq: Seq, rows: pa.Table, *, dump_pass: DumpPass | None = None, copies: int = 1) -> None:
        """`copies`: how often the rows are in memory while they are written."""
        held = self._held.setdefault(under, HeldRows(seq, seq))
        held.first, held.last = min(held.first, seq), max(held.last, seq)
        if dump_pass is not None:
            held.passes.add(dump_pass)
        self._bytes += held.add(rows, copies=copies)
        if self._bytes > HELD_BYTES_MAX:
            self._make_file(max(self._held, key=lambda one: self._held[one].bytes))

    def write_all(self) -> None:
        for under in list(self._held):
            self._make_file(under)

    def _make_file(self, under: K) -> None:
        held = self._held.pop(under)
        self._bytes -= held.bytes
        with noting(lambda: f"the file of {under}, segments {held.first} to {held.last}"):
            self._write(under, held)


# ---- when files are brought to their table ---------------------------------------------------------------------------


class OfSegments(Protocol):
    @property
    def first(self) -> Seq: ...
    @property
    def last(self) -> Seq: ...


F = TypeVar("F", bound=OfSegments)


def missing(files: Sequence[F], due: Seq, *, table: str) -> list[F]:
    """Those whose segments the table has not; `due`: the first segment of these. A task writes none that its table had at the plan. So the
    table has a part of a file only where an earlier worker has brought it since: raises SinkError."""
    result = [file for file in files if file.last >= due]
    if any(file.first < due for file in result):
        raise SinkError(
            f"{table} has got segments up to {due - 1} from an earlier worker while this batch was written",
            hint="nothing: the batch is done again from there",
        )
    return result
