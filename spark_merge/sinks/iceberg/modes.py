"""What `append` and `merge` do in ways of their own (`TableMode`), and `append`. merge.py has the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from pyiceberg.schema import Schema
from pyiceberg.table import Table

from sidecar.shared.model.nouns import TableSchema
from spark_merge.port.contract import Head
from spark_merge.sinks.iceberg.evolution import evolved, renamed
from spark_merge.sinks.iceberg.lake import LakeChange
from spark_merge.sinks.iceberg.partitions import check_stays
from spark_merge.sinks.iceberg.position import Standings
from spark_merge.sinks.iceberg.types import Mode
from spark_merge.sinks.iceberg.uri import IcebergSettings
from spark_merge.sinks.iceberg.writer import LakeFile, LakeTarget
from spark_merge.sinks.lake.ddl import LakeAltered


@dataclass(frozen=True, slots=True)
class TableBatch:
    """What a batch that ends with `last` brings to `table`. `files`: those that it has not. `target`: what the files were written for, None
    without files. `standing`: of the commit."""

    table: Table
    last: Head
    files: Sequence[LakeFile]
    altered: LakeAltered | None
    target: tuple[TableSchema, LakeTarget] | None
    standing: Standings


class TableMode(Protocol):
    """Without state. Each call raises SinkError."""

    @property
    def name(self) -> Mode: ...

    def check_parted(self, table: Table, schema: TableSchema) -> None:
        """Whether they can be with the partitions of the table."""

    def merges(self, table: Table) -> bool:
        """`LakeTarget.merges`."""

    def beginning(self, table: Table, schema: Schema | None, standing: Standings) -> LakeChange | None:
        """What the table needs before it gets rows; `schema`: other columns than it has."""

    def change(self, batch: TableBatch) -> LakeChange | None:
        """The commit; None: there is nothing to commit."""


@dataclass(frozen=True, slots=True)
class AppendMode:
    settings: IcebergSettings
    name: Mode = "append"

    def check_parted(self, table: Table, schema: TableSchema) -> None:
        """With any partitions."""

    def merges(self, table: Table) -> bool:  # noqa: ARG002 - rows are only appended
        return False

    def beginning(self, table: Table, schema: Schema | None, standing: Standings) -> LakeChange | None:  # noqa: ARG002 - of merge
        return None if schema is None else LakeChange(standing.properties(), {}, schema=schema)

    def change(self, batch: TableBatch) -> LakeChange | None:
        schema = None if batch.altered is None else self._next_schema(batch.table, batch.altered)
        if not batch.files and schema is None:
            return None
        files = [file.data_file() for file in batch.files]
        return LakeChange(batch.standing.properties(), batch.standing.summary(), files, schema)

    def _next_schema(self, table: Table, altered: LakeAltered) -> Schema | None:
        before, after = altered.before, altered.after
        assert after is not None, "a table that is gone keeps its columns"
        another = before is None or before.table_id != after.table_id
        again = another or self.settings.retyped == "anew"
        schema = evolved(table.schema(), table.metadata.last_column_id, after, renamed(altered.columns), again=again)
        if schema is not None:
            check_stays(table, schema, self.name)
        return schema
