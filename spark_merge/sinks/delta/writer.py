"""The Delta sink's part in tasks: portions to Parquet files of one table, which nobody sees until a commit names them.

A file has as many of the task's segments as fit (../held.py). Its name holds the last of them, its writer and the attempt, as in the files
sink. In `mode=merge` the files of live rows and of a dump's deletes are for the driver alone, in a folder of their own; those of a dump's
rows have the table's own columns and lie where the table can take them as they are. Knows no deltalake.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from sidecar.shared.log import storage
from sidecar.shared.log.storage import Folder
from sidecar.shared.model.nouns import Seq, TableName
from spark_merge.codecs.encode.block import counted_blocks
from spark_merge.codecs.encode.typed import ROW_GROUP_ROWS_MAX, typed
from spark_merge.port.contract import Counts, DumpPass, Outcome, Owner, Portion, Task
from spark_merge.sinks.delta.columns import Layout, Mode
from spark_merge.sinks.formats.parquet import parquet_writer
from spark_merge.sinks.kit.held import HeldByFile, HeldRows

STAGED = "_staged"


@dataclass(frozen=True, slots=True)
class TablePlace:
    """`place`: of the Delta table below the output's folder. `key`: the handle key's Delta columns. `due`: the first segment that
    is written. The table has those before it, and perhaps more."""

    place: str
    layout: Layout
    key: tuple[str, ...]
    due: Seq


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """Of the segments `first` to `last`. `path` is relative to the output's folder, `name` to the table's. `stats` as Delta's log has them,
    JSON. `passes`: of a dump's rows and deletes, empty for live ones."""

    first: Seq
    last: Seq
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


class _FileOf(NamedTuple):
    """What becomes a file. `dump`: a dump's rows or deletes, and not live ones."""

    table: TableName
    staged: bool
    dump: bool


@dataclass(frozen=True, slots=True)
class DeltaWriter:
    """Picklable. The outcome's note is its files: `list[WrittenFile]`; none for a table whose rows all fell in windows."""

    folder: Folder
    mode: Mode
    targets: Mapping[TableName, TablePlace]
    owner: Owner

    def __call__(self, task: Task, portions: Iterator[Portion]) -> Outcome:
        counts: Counts = {}
        files: list[WrittenFile] = []
        attempt = secrets.token_hex(4)
        held = HeldByFile[_FileOf](lambda under, rows: files.append(self._written(under, rows, f"{len(files)}", attempt)))
        for portion in portions:
            to, seq = self.targets[portion.schema.name], portion.unit.seq
            for block in counted_blocks(portion, counts):
                if block.rows and seq >= to.due:
                    dump = block.dump_pass is not None
                    under = _FileOf(portion.schema.name, self.mode == "merge" and (not dump or block.deletes), dump)
                    held.add(under, seq, typed(block, to.layout.files()), dump_pass=block.dump_pass)
        held.write_all()
        storage.make_durable(self.folder, [file.path for file in files])
        return Outcome(task.id, counts, files)

    def _written(self, under: _FileOf, held: HeldRows, part: str, attempt: str) -> WrittenFile:
        to = self.targets[under.table]
        into = to.layout.files() if under.staged or self.mode == "append" else merged_columns(to.layout)
        name = f"{held.last:020d}-{part}.{self.owner.epoch}-{self.owner.incarnation}-{attempt}.parquet"
        path = f"{STAGED}/{to.place}/{name}" if under.staged else f"{to.place}/{name}"
        with storage.new_file(self.folder, path, durable=False) as out:
            with parquet_writer(out, into) as writer:
                writer.write_table(held.rows().select(into.names), row_group_size=ROW_GROUP_ROWS_MAX)
            metadata, size = writer.writer.metadata, out.tell()
        now_ms, passes = time.time_ns() // 1_000_000, frozenset(held.passes)
        return WrittenFile(held.first, held.last, under.table, path, name, metadata.num_rows, size, _stats(metadata), now_ms, passes)


def merged_columns(layout: Layout) -> pa.Schema:
    """Of a table of `mode=merge`, and of a dump's rows in it."""
    whole = layout.files()
    names = [layout.envelope("commit_ts"), layout.envelope("untyped"), *(column.name for column in layout.columns)]
    return pa.schema([whole.field(name) for name in names])


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
