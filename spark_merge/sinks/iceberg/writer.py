"""The Iceberg sink's part in tasks: portions to Parquet files of one table, which no table names until the batch is accepted.

A file has as many of the task's segments as fit, for readers of Iceberg pay for each file. Its name holds the last of them, its writer and
the attempt (sinks/folder/layout.py). What Iceberg's manifests say of a file (its statistics) is made here, so the driver opens none.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyiceberg.io.pyarrow import compute_statistics_plan, data_file_statistics_from_parquet_metadata, parquet_path_to_id_mapping
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record

from sidecar.shared.errors import SinkError
from sidecar.shared.log import storage
from sidecar.shared.log.storage import Folder
from sidecar.shared.model.nouns import FIRST_SEQ, Seq, TableName, TableSchema
from spark_merge.codecs.encode.block import counted_blocks
from spark_merge.codecs.encode.typed import ROW_GROUP_ROWS_MAX
from spark_merge.port.contract import Counts, DumpPass, Outcome, Owner, Portion, Task
from spark_merge.sinks.folder.layout import file_path
from spark_merge.sinks.formats.parquet import parquet_writer
from spark_merge.sinks.iceberg.partitions import Place, parted
from spark_merge.sinks.iceberg.types import Mode, arrow_schema, in_order, rows_of
from spark_merge.sinks.kit.held import HeldByFile, HeldRows

UNPARTITIONED = PartitionSpec().model_dump_json()


@dataclass(frozen=True, slots=True)
class LakeTarget:
    """A table, for who writes files of it. `version`: which table, and which of its schemas. `location`: of its data files, as Iceberg
    names it; `folder`: the same. `schema`: Iceberg's, as JSON. `metrics`: the table's properties that say which statistics are kept.
    `spec`: its partitions, as JSON. `due`: the first segment that it has not. `merges`, of `mode=merge`: a dump's rows come with keys."""

    version: str
    location: str
    folder: Folder
    schema: str
    metrics: Mapping[str, str] = field(default_factory=dict)
    spec: str = UNPARTITIONED
    due: Seq = FIRST_SEQ
    merges: bool = False


@dataclass(frozen=True, slots=True)
class LakeFile:
    """A file of one table, of these segments. `version`: as of its LakeTarget. `statistics`: arguments of pyiceberg's DataFile. `spec_id`,
    `place`: which partitions, and which of them. `key`: field ids, of a file of keys whose rows of before go. `passes`: of a dump's rows in
    `mode=merge`, none for live ones. `keyed`: another file has the keys of these rows. `deletes`: of keys that a dump deletes."""

    first: Seq
    last: Seq
    table: TableName
    version: str
    path: str
    size: int
    statistics: Mapping[str, Any]
    spec_id: int = 0
    place: Place = ()
    content: DataFileContent = DataFileContent.DATA
    key: tuple[int, ...] = ()
    passes: frozenset[DumpPass] = frozenset()
    keyed: bool = False
    deletes: bool = False

    @property
    def name(self) -> str:
        """In its table's folder."""
        return self.path.rpartition("/")[2]

    def data_file(self) -> DataFile:
        return DataFile.from_args(
            content=self.content,
            file_path=self.path,
            file_format=FileFormat.PARQUET,
            partition=Record(*self.place),
            file_size_in_bytes=self.size,
            sort_order_id=None,
            spec_id=self.spec_id,
            equality_ids=list(self.key) or None,
            key_metadata=None,
            **self.statistics,
        )


@dataclass(frozen=True, slots=True)
class IcebergWriter:
    """Picklable. A table that is no target has no rows here: it has no key, or holds the marks. The outcome's note: `list[LakeFile]`."""

    targets: Mapping[TableName, LakeTarget]
    owner: Owner

    def __call__(self, task: Task, portions: Iterator[Portion]) -> Outcome:
        counts: Counts = {}
        tables: dict[TableName, _Table] = {}
        files = Files(self.owner)
        held = HeldByFile[TableName](lambda name, rows: tables[name].write(files, rows))
        for portion in portions:
            seq, schema = portion.unit.seq, portion.schema
            target, blocks = self.targets.get(schema.name), counted_blocks(portion, counts)
            if target is None or not schema.key or seq < target.due:
                deque(blocks, maxlen=0)
                continue
            if schema.name not in tables:
                tables[schema.name] = _Table.of(target, schema)
            table = tables[schema.name]
            for rows in rows_of(blocks, table.into):
                held.add(schema.name, seq, rows, copies=2 if table.spec.fields else 1)
        held.write_all()
        files.make_durable()
        return Outcome(task.id, counts, files.written)


@dataclass(frozen=True, slots=True)
class _Table:
    """As its files have it. `spec`: a table with partitions has its rows once more while they are parted."""

    target: LakeTarget
    name: TableName
    schema: Schema
    spec: PartitionSpec
    into: pa.Schema

    @classmethod
    def of(cls, target: LakeTarget, table: TableSchema) -> _Table:
        schema = Schema.model_validate_json(target.schema)
        return cls(target, table.name, schema, PartitionSpec.model_validate_json(target.spec), written_schema(schema, table, "append"))

    def write(self, files: Files, held: HeldRows) -> None:
        files.put(self.target, self.name, (held.first, held.last), self.schema, held.rows())


def written_schema(there: Schema, table: TableSchema, mode: Mode) -> pa.Schema:
    """Of the table's rows. Raises SinkError for a column that Iceberg's has not."""
    try:
        return arrow_schema(in_order(there, table, mode))
    except KeyError as error:
        raise SinkError(
            f"{table.name} has a column {error} that its Iceberg table has not",
            hint="the log's schemas do not fit its rows: report this",
        ) from error


class Files:
    """Of one try of a task, or of the driver's part."""

    def __init__(self, owner: Owner) -> None:
        self.written: list[LakeFile] = []
        self._owner, self._attempt = owner, secrets.token_hex(4)
        self._unsynced: list[tuple[Folder, str]] = []

    def put(self, target: LakeTarget, name: TableName, seqs: tuple[Seq, Seq], schema: Schema, rows: pa.Table, **reported: Any) -> None:
        """A file for each partition. `reported`: fields of LakeFile besides."""
        spec = PartitionSpec.model_validate_json(target.spec)
        for place, part in parted(rows, spec, schema, of=name):
            self.put_at(target, name, seqs, schema, part, place=place, spec_id=spec.spec_id, **reported)

    def put_at(self, target: LakeTarget, name: TableName, seqs: tuple[Seq, Seq], schema: Schema, rows: pa.Table, **reported: Any) -> None:
        path = file_path(name, seqs[1], "parquet", part=len(self.written), owner=self._owner, attempt=self._attempt)
        file = path.rpartition("/")[2]
        with storage.new_file(target.folder, file, durable=False) as out:
            size, statistics = write_parquet(out, schema, rows, target.metrics)
        self._unsynced.append((target.folder, file))
        self.written.append(LakeFile(*seqs, name, target.version, f"{target.location}/{file}", size, statistics, **reported))

    def make_durable(self) -> None:
        by_root = {folder.root: folder for folder, _ in self._unsynced}
        for root, folder in by_root.items():
            storage.make_durable(folder, [file for to, file in self._unsynced if to.root == root])


def write_parquet(out: Any, schema: Schema, rows: pa.Table, metrics: Mapping[str, str]) -> tuple[int, Mapping[str, Any]]:
    """How many bytes it has, and its statistics as arguments of a DataFile."""
    with parquet_writer(out, rows.schema, store_decimal_as_integer=True, store_schema=False) as writer:
        writer.write_table(rows, row_group_size=ROW_GROUP_ROWS_MAX)
    fields = Schema(*(schema.find_field(name) for name in rows.schema.names))
    file_statistics = data_file_statistics_from_parquet_metadata(
        parquet_metadata=writer.writer.metadata,
        stats_columns=compute_statistics_plan(fields, dict(metrics)),
        parquet_column_mapping=parquet_path_to_id_mapping(fields),
    )
    return out.tell(), file_statistics.to_serialized_dict()
