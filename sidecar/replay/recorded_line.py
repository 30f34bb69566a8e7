"""What a recording without TiCDC's own messages contains: the tables at its start, the DDL jobs, and what became of each row."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from sidecar.replay.judge.rows import Row
from sidecar.shared.model.nouns import CommitTs, TableName
from sidecar.shared.rowcodec.kv_layout import KvSnapshot
from sidecar.shared.rowcodec.kv_table import KvTable
from sidecar.shared.schema.ddl import DdlJob, Step
from sidecar.shared.schema.history import SchemaHistory


class RowChange(NamedTuple):
    """The row of `table` (as it was called then) before and after one commit; None: no row. `physical_id`: under which it was or is."""

    commit_ts: CommitTs
    table: TableName
    physical_id: int
    before: Row | None
    after: Row | None


class RecordedLine(Protocol):
    """Everything up to the recording's end."""

    def snapshot(self) -> KvSnapshot:
        """The tables at its start."""

    def jobs(self) -> Iterable[DdlJob | Step]:
        """In commit order."""

    def rows(self, schemas: SchemaHistory[KvTable]) -> Iterable[RowChange]:
        """Of tables with a handle key that are there at the moment, by commit_ts. `schemas` knows all jobs."""
