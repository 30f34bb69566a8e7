"""The tasks' part of `mode=merge`: of a table's live rows the last of each key, and the keys that they touch.

    live rows    a data file of the rows that are there afterwards, and a file of all keys that were touched: what a table had of these
                 before goes (an equality delete, with the `_commit_ts` of the last change, by which the driver distinguishes files of
                 several tasks)
    dump's rows  a data file; where the table takes them among its live rows (merge.py) their keys in a file beside it
    its deletes  a file of their keys

A file has a key once at most. Only a file with rows of several passes of dumps may repeat one (fold.py).
Memory: HELD_BYTES_MAX (writer.py), and the keys of what is held once more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.manifest import DataFileContent
from pyiceberg.schema import Schema

from sidecar.core.model import Seq, TableName, TableSchema
from sidecar.errors import SinkError
from spark_merge.codecs.encode.block import Block, counted_blocks
from spark_merge.port.contract import Counts, DumpPass, Outcome, Owner, Portion, Task
from spark_merge.port.keys import are_last, key_codes
from spark_merge.sinks.iceberg import writer
from spark_merge.sinks.iceberg.types import rows_of_block
from spark_merge.sinks.iceberg.writer import Files, LakeTarget, written_schema


@dataclass(frozen=True, slots=True)
class MergeWriter:
    """Picklable. As IcebergWriter, for targets of `mode=merge`."""

    targets: Mapping[TableName, LakeTarget]
    owner: Owner

    def __call__(self, task: Task, portions: Iterator[Portion]) -> Outcome:
        counts: Counts = {}
        tables: dict[TableName, _Table] = {}
        files = Files(self.owner)
        for portion in portions:
            seq, schema = portion.unit.seq, portion.schema
            target = self.targets.get(schema.name)
            for block in counted_blocks(portion, counts):
                if target is None or not schema.key or target.has(seq) or not block.rows:
                    continue
                if schema.name not in tables:
                    tables[schema.name] = _Table.of(target, schema)
                tables[schema.name].add(seq, block)
                if sum(one.bytes for one in tables.values()) > writer.HELD_BYTES_MAX:
                    max(tables.values(), key=lambda one: one.bytes).write(files)
        for one in tables.values():
            one.write(files)
        files.make_durable()
        return Outcome(task.id, counts, files.written)


@dataclass(slots=True)
class _Rows:
    """That are in no file yet. `puts`: which of them are no deletes."""

    rows: list[pa.Table] = field(default_factory=list)
    puts: list[pa.Array] = field(default_factory=list)
    passes: set[DumpPass] = field(default_factory=set)
    seqs: tuple[Seq, Seq] = (Seq(0), Seq(0))


@dataclass(slots=True)
class _Table:
    """Of a task."""

    target: LakeTarget
    table: TableSchema
    schema: Schema
    into: pa.Schema
    live: _Rows = field(default_factory=_Rows)
    dump: _Rows = field(default_factory=_Rows)
    bytes: int = 0

    @classmethod
    def of(cls, target: LakeTarget, table: TableSchema) -> _Table:
        schema = Schema.model_validate_json(target.schema)
        return cls(target, table, schema, written_schema(schema, table, "merge"))

    def add(self, seq: Seq, block: Block) -> None:
        held, rows = self.live if block.dump_pass is None else self.dump, rows_of_block(block, self.into, "merge")
        held.seqs = (min(held.seqs[0], seq), max(held.seqs[1], seq)) if held.rows else (seq, seq)
        held.rows.append(rows)
        held.puts.append(pc.not_equal(block.op, "delete"))
        if block.dump_pass is not None:
            held.passes.add(block.dump_pass)
        self.bytes += rows.nbytes

    def write(self, files: Files) -> None:
        live, dump = self.live, self.dump
        self.live, self.dump, self.bytes = _Rows(), _Rows(), 0
        if live.rows:
            self._write_live(files, live)
        if dump.rows:
            self._write_dump(files, dump)

    def _write_live(self, files: Files, held: _Rows) -> None:
        rows, puts = pa.concat_tables(held.rows), pa.chunked_array(held.puts).combine_chunks()
        keys = self._keys(rows)
        last = are_last(
            key_codes(keys.select(list(self.table.key))), ranks=puts.to_numpy(zero_copy_only=False), commit_ts=rows[0].to_numpy()
        )
        there = np.logical_and(last, puts.to_numpy(zero_copy_only=False))
        if there.any():
            self._put(files, held, rows.filter(pa.array(there)), keyed=True)
        self._put(
            files, held, keys.filter(pa.array(last)), content=DataFileContent.EQUALITY_DELETES, key=key_ids(self.schema, self.table.key)
        )

    def _write_dump(self, files: Files, held: _Rows) -> None:
        every, puts, reported = pa.concat_tables(held.rows), pa.chunked_array(held.puts), frozenset(held.passes)
        rows, gone = every.filter(puts), every.filter(pc.invert(puts))
        of_keys = {"passes": reported, "content": DataFileContent.EQUALITY_DELETES, "key": key_ids(self.schema, self.table.key)}
        keys = self._keys(rows)
        if rows.num_rows:
            self._put(files, held, rows, passes=reported, keyed=self.target.merges)
            if self.target.merges:
                self._put(files, held, keys, **of_keys)
        if gone.num_rows:
            self._put(files, held, self._keys(gone), **of_keys, deletes=True)

    def _put(self, files: Files, held: _Rows, rows: pa.Table, **reported: object) -> None:
        files.put(self.target, self.table.name, held.seqs, self.schema, rows, **reported)

    def _keys(self, rows: pa.Table) -> pa.Table:
        """With the first column, which is the rows' commit_ts."""
        result = rows.select([rows.column_names[0], *self.table.key])
        for name in self.table.key:
            if result[name].null_count:
                raise SinkError(
                    f"{self.table.name} has a key whose {name} is a date of no calendar, and an equality delete cannot name it",
                    hint="use mode=append, or leave the table out by the changefeed's filter",
                )
        return result


def key_ids(schema: Schema, key: Sequence[str]) -> tuple[int, ...]:
    return tuple(schema.find_field(name).field_id for name in key)
