"""The tasks' part of `mode=merge`: of a table's live rows the last of each key, and the keys that they touch.

    live rows    a data file of the rows that are there afterwards, and a file of all keys that were touched: what a table had of these
                 before goes (an equality delete, with the `_commit_ts` of the last change, by which the driver distinguishes files of
                 several tasks)
    dump's rows  a data file; where the table takes them among its live rows (merge.py) their keys in a file beside it
    its deletes  a file of their keys

A file has a key once at most. Only a file with rows of several passes of dumps may repeat one (fold.py).
Memory: HELD_BYTES_MAX (../held.py), and the keys of what is held once more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.manifest import DataFileContent
from pyiceberg.schema import Schema

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import TableName, TableSchema
from spark_merge.codecs.encode.block import Block, counted_blocks
from spark_merge.port.contract import Counts, Outcome, Owner, Portion, Task
from spark_merge.port.keys import are_last, key_codes
from spark_merge.sinks.iceberg.types import rows_of_block
from spark_merge.sinks.iceberg.writer import Files, LakeTarget, written_schema
from spark_merge.sinks.kit.held import HeldByFile, HeldRows


@dataclass(frozen=True, slots=True)
class MergeWriter:
    """Picklable. As IcebergWriter, for targets of `mode=merge`."""

    targets: Mapping[TableName, LakeTarget]
    owner: Owner

    def __call__(self, task: Task, portions: Iterator[Portion]) -> Outcome:
        counts: Counts = {}
        tables: dict[TableName, _Table] = {}
        files = Files(self.owner)
        held = HeldByFile[tuple[TableName, bool]](lambda under, rows: tables[under[0]].write(files, rows))
        for portion in portions:
            seq, schema = portion.unit.seq, portion.schema
            target = self.targets.get(schema.name)
            for block in counted_blocks(portion, counts):
                if target is None or not schema.key or seq < target.due or not block.rows:
                    continue
                if schema.name not in tables:
                    tables[schema.name] = _Table.of(target, schema)
                rows = tables[schema.name].rows_of(block)
                held.add((schema.name, block.dump_pass is None), seq, rows, dump_pass=block.dump_pass)
        held.write_all()
        files.make_durable()
        return Outcome(task.id, counts, files.written)


@dataclass(frozen=True, slots=True)
class _Table:
    """As its files have it."""

    target: LakeTarget
    table: TableSchema
    schema: Schema
    into: pa.Schema

    @classmethod
    def of(cls, target: LakeTarget, table: TableSchema) -> _Table:
        schema = Schema.model_validate_json(target.schema)
        return cls(target, table, schema, written_schema(schema, table, "merge"))

    def rows_of(self, block: Block) -> pa.Table:
        """And last a column that says which of them are no deletes."""
        return rows_of_block(block, self.into, "merge").append_column("puts", pc.not_equal(block.op, "delete"))

    def write(self, files: Files, held: HeldRows) -> None:
        marked = held.rows()
        last = marked.num_columns - 1  # by its place: a table may have a column of that name
        rows, puts = marked.remove_column(last), marked.column(last)
        if held.passes:
            self._write_dump(files, held, rows, puts)
        else:
            self._write_live(files, held, rows, puts.to_numpy())

    def _write_live(self, files: Files, held: HeldRows, rows: pa.Table, puts: Any) -> None:
        keys = self._keys(rows)
        last = are_last(key_codes(keys.select(list(self.table.key))), ranks=puts, commit_ts=rows[0].to_numpy())
        there = np.logical_and(last, puts)
        if there.any():
            self._put(files, held, rows.filter(pa.array(there)), keyed=True)
        self._put(
            files, held, keys.filter(pa.array(last)), content=DataFileContent.EQUALITY_DELETES, key=key_ids(self.schema, self.table.key)
        )

    def _write_dump(self, files: Files, held: HeldRows, every: pa.Table, puts: pa.ChunkedArray) -> None:
        rows, gone, reported = every.filter(puts), every.filter(pc.invert(puts)), frozenset(held.passes)
        of_keys = {"passes": reported, "content": DataFileContent.EQUALITY_DELETES, "key": key_ids(self.schema, self.table.key)}
        keys = self._keys(rows)
        if rows.num_rows:
            self._put(files, held, rows, passes=reported, keyed=self.target.merges)
            if self.target.merges:
                self._put(files, held, keys, **of_keys)
        if gone.num_rows:
            self._put(files, held, self._keys(gone), **of_keys, deletes=True)

    def _put(self, files: Files, held: HeldRows, rows: pa.Table, **reported: object) -> None:
        files.put(self.target, self.table.name, (held.first, held.last), self.schema, rows, **reported)

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
