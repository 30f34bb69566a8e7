"""Tables that never change, for recordings without DDLs, for tests, and for sources that cannot tell of a DDL."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sidecar.core.model import MARK_TABLE, Change, CommitTs, Ddl, TableName, TableSchema
from sidecar.errors import UnsupportedDdl


@dataclass(frozen=True, slots=True)
class StillSchemas:
    """`Schemas` of a source whose tables do not change: a DDL of theirs stops the sidecar, with everything below it delivered."""

    tables: Mapping[TableName, TableSchema]

    @property
    def since_ts(self) -> CommitTs:
        return CommitTs(0)

    def begin(self) -> Mapping[TableName, TableSchema]:
        return self.tables

    def resume(self, tables: Mapping[TableName, TableSchema], *, upto_ts: CommitTs) -> Mapping[TableName, TableSchema]:  # noqa: ARG002
        return tables

    def after(self, ddls: Sequence[Ddl]) -> Mapping[TableName, TableSchema]:
        for ddl in ddls:
            if ddl.schema != MARK_TABLE.schema and (ddl.table or any(ddl.schema == table.schema for table in self.tables)):
                raise UnsupportedDdl(
                    f"DDL at commit_ts {ddl.commit_ts} in {ddl.lane}@{ddl.position} changes {ddl.schema}.{ddl.table}: {ddl.query}",
                    hint="this source cannot tell what its tables are after a DDL (it is no TiDB): "
                    "everything below its commit_ts is delivered and nothing else is lost; "
                    "start a new changefeed and a new log after it, and dump again",
                )
        return self.tables

    def named(self, changes: Iterable[Change]) -> Iterable[Change]:
        return changes
