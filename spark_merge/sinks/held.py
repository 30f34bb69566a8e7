"""Rows of a task that are in no file yet: a lake's file has as many of the task's segments as fit.

Readers pay for each file. And small row groups cost a third more to write, and take 40 % more bytes (measured with 12 columns).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import pyarrow as pa

from sidecar.core.model import Seq
from spark_merge.port.contract import DumpPass

HELD_BYTES_MAX = 64 << 20
"""Of Arrow, in a task, before the largest of it becomes a file: of some 10 MB."""

K = TypeVar("K", bound=Hashable)


@dataclass(slots=True)
class HeldRows:
    """`first`, `last`: their segments. `passes`: of a dump's rows, empty for live ones. `bytes`: what they take here."""

    first: Seq
    last: Seq
    parts: list[pa.Table] = field(default_factory=list)
    passes: set[DumpPass] = field(default_factory=set)
    bytes: int = 0

    def rows(self) -> pa.Table:
        return pa.concat_tables(self.parts)


class Held(Generic[K]):
    """`write`: makes a file of what it is given, under the name by which it was held."""

    def __init__(self, write: Callable[[K, HeldRows], object]) -> None:
        self._write = write
        self._held: dict[K, HeldRows] = {}
        self._bytes = 0

    def add(self, under: K, seq: Seq, rows: pa.Table, *, dump_pass: DumpPass | None = None, copies: int = 1) -> None:
        """`copies`: how often the rows are in memory while they are written."""
        held = self._held.setdefault(under, HeldRows(seq, seq))
        held.first, held.last = min(held.first, seq), max(held.last, seq)
        held.parts.append(rows)
        held.bytes += (more := rows.nbytes * copies)
        self._bytes += more
        if dump_pass is not None:
            held.passes.add(dump_pass)
        if self._bytes > HELD_BYTES_MAX:
            self._make_file(max(self._held, key=lambda one: self._held[one].bytes))

    def write_all(self) -> None:
        for under in list(self._held):
            self._make_file(under)

    def _make_file(self, under: K) -> None:
        held = self._held.pop(under)
        self._bytes -= held.bytes
        self._write(under, held)
