"""DDLs of a source that cannot say what its tables are after one: it is no TiDB, or has no time that can be named."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from sidecar.shared.errors import UnsupportedDdl
from sidecar.shared.model.nouns import MARK_TABLE, Ddl, TableName


def check_untouched(tables: Collection[TableName], ddls: Iterable[Ddl]) -> None:
    """Raises UnsupportedDdl for a DDL of one of the tables or of a schema that has one."""
    for ddl in ddls:
        if ddl.schema != MARK_TABLE.schema and (ddl.table or any(ddl.schema == table.schema for table in tables)):
            raise UnsupportedDdl(
                f"DDL at commit_ts {ddl.commit_ts} in {ddl.lane}@{ddl.position} changes {ddl.schema}.{ddl.table}: {ddl.query}",
                hint="this source cannot tell what its tables are after a DDL (it is no TiDB): "
                "everything below its commit_ts is delivered and nothing else is lost; "
                "start a new changefeed and a new log after it, and dump again",
            )
