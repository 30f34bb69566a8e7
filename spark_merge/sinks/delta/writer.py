"""The Delta sink's part in tasks: portions to Parquet files of one segment and table, which nobody sees until a commit names them.

A file's name holds its segment, part, owner and attempt, as in the files sink. In `mode=merge` the files of live rows and of a dump's
deletes are for the driver alone, in a folder of their own; those of a dump's rows have the table's own columns and lie where the table can
take them as they are. Knows no deltalake.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sidecar.core.model import Seq, TableName
from sidecar.log import storage
from sidecar.log.storage import Folder
from spark_merge.codecs.encode.block import counted_blocks
from spark_merge.codecs.encode.typed import ROW_GROUP_ROWS_MAX, typed
from spark_merge.port.contract import Counts, DumpPass, Outcome, Owner, Portion, Task
from spark_merge.sinks.delta.columns import Layout, Mode
from spark_merge.sinks.errors import storage_errors
from spark_merge.sinks.formats.parquet import parquet_writer

STAGED = "_staged"


@dataclass(frozen=True, slots=True)
class TablePlace:
    """`place`: of the Delta table below the output's folder. `key`: the handle key's Delta columns."""

    place: str
    layout: Layout
    key: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """`path` is relative to the output's folder, `name` to the table's. `stats` as Delta's log has them, JSON. `passes`: of a
    dump's rows and deletes, empty for live ones."""

    seq: Seq
    table: TableName
    path: str
    name: str
    rows: int
    bytes: int
    stats: str
    written_ms: int
    passes: frozenset[DumpPass] = frozenset()

    @property
    def staged(self) -> bool:
        """Whether it has the whole envelope, and no table takes it as it is."""
        return self.path.startswith(f"{STAGED}/")


@dataclass(frozen=True, slots=True)
class DeltaWriter:
    """Picklable. The outcome's note is its files: `list[WrittenFile]`; a portion whose rows all fell in windows has none."""

    folder: Folder
    mode: Mode
    owner: Owner
    tables: Mapping[TableName, TablePlace]

    def __call__(self, task: Task, portions: Iterator[Portion]) -> Outcome:
        attempt = secrets.token_hex(4)
        counts: Counts = {}
        files: list[WrittenFile] = []
        for portion in portions:
            unit = portion.unit
            part = f"-{unit.part}" if unit.part else ""
            name = f"{unit.seq:020d}{part}.{self.owner.epoch}-{self.owner.incarnation}-{attempt}.parquet"
            files += self._written(name, portion, counts)
        with storage_errors(self.folder):
            storage.make_durable(self.folder, [file.path for file in files])
        return Outcome(task.id, counts, files)

    def _written(self, name: str, portion: Portion, counts: Counts) -> Iterator[WrittenFile]:
        """One or two; none without rows."""
        to, aside = self.tables[portion.schema.name], self.mode == "merge"
        whole, passes = to.layout.files(), set[DumpPass]()
        with ExitStack() as opened:
            made: dict[bool, _File] = {}
            for block in counted_blocks(portion, counts):
                if block.dump_pass is not None and block.rows:
                    passes.add(block.dump_pass)
                staged = aside and (portion.unit.live or block.deletes)
                if block.rows and staged not in made:
                    kept = whole if staged or not aside else merged_columns(to.layout)
                    path = f"{STAGED}/{to.place}/{name}" if staged else f"{to.place}/{name}"
                    made[staged] = opened.enter_context(_new_file(self.folder, path, kept))
                if block.rows:
                    made[staged].write(typed(block, whole))
        seq, table, now_ms = portion.unit.seq, portion.schema.name, time.time_ns() // 1_000_000
        for one in made.values():
            stats = _stats(one.metadata)
            yield WrittenFile(seq, table, one.path, name, one.metadata.num_rows, one.bytes, stats, now_ms, frozenset(passes))


def merged_columns(layout: Layout) -> pa.Schema:
    """Of a table of `mode=merge`, and of a dump's rows in it."""
    whole = layout.files()
    names = [layout.envelope("commit_ts"), layout.envelope("untyped"), *(column.name for column in layout.columns)]
    return pa.schema([whole.field(name) for name in names])


class _File:
    """A Parquet file that is written. `metadata` and `bytes` when it is whole."""

    def __init__(self, path: str, writer: pq.ParquetWriter, names: Sequence[str]) -> None:
        self.path, self.bytes = path, 0
        self.metadata: Any = None
        self._writer, self._names = writer, names

    def write(self, rows: pa.Table) -> None:
        self._writer.write_table(rows.select(self._names), row_group_size=ROW_GROUP_ROWS_MAX)


@contextmanager
def _new_file(folder: Folder, path: str, into: pa.Schema) -> Iterator[_File]:
    with storage_errors(f"{folder}/{path}"), storage.new_file(folder, path, durable=False) as out:
        with parquet_writer(out, into) as writer:
            file = _File(path, writer, into.names)
            yield file
        file.metadata, file.bytes = writer.writer.metadata, out.tell()


def _stats(metadata: Any) -> str:
    """For readers that skip files (statistics.py): of whole numbers only, whose least and greatest are exact in any form."""
    least: dict[str, int] = {}
    most: dict[str, int] = {}
    nulls: dict[str, int] = {}
    whole = {column.name for column in metadata.schema.to_arrow_schema() if pa.types.is_integer(column.type)}
    for group in (metadata.row_group(number) for number in range(metadata.num_row_groups)):
        for column in (group.column(number) for number in range(group.num_columns)):
            name, result = column.path_in_schema, column.statistics
            if name in whole and result is not None:
                nulls[name] = nulls.get(name, 0) + result.null_count
                if result.has_min_max:
                    least[name] = min(least.get(name, result.min), result.min)
                    most[name] = max(most.get(name, result.max), result.max)
    reported = {"numRecords": metadata.num_rows, "minValues": least, "maxValues": most, "nullCount": nulls}
    return json.dumps(reported, separators=(",", ":"), ensure_ascii=False)
