"""Tables that never change, for recordings without DDLs, for tests, and for sources that cannot tell of a DDL."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sidecar.shared.model.nouns import Change, CommitTs, Ddl, TableName, TableSchema
from sidecar.shared.schema.unfollowed import check_untouched


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
        check_untouched(self.tables.keys(), ddls)
        return self.tables

    def named(self, changes: Iterable[Change]) -> Iterable[Change]:
        return changes
