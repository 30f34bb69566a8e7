"""DDLs of a source that cannot say what its tables are after one."""

from __future__ import annotations

import pytest

from sidecar.shared.errors import UnsupportedDdl
from sidecar.shared.model.nouns import MARK_TABLE, CommitTs, Ddl, Lane, Rank, TableName
from sidecar.shared.schema.unfollowed import check_untouched

TABLES = [TableName("shop", "item")]


def ddl(schema: str, table: str) -> Ddl:
    return Ddl(lane=Lane("t/0"), position=7, commit_ts=CommitTs(5), rank=Rank(0), schema=schema, table=table, query="ALTER ...")


@pytest.mark.parametrize(("schema", "table"), [("shop", "item"), ("shop", "other"), ("other", "new"), ("shop", "")])
def test_a_ddl_of_a_table_or_of_a_schema_with_tables_ends_the_feed_and_is_named(schema: str, table: str) -> None:
    with pytest.raises(UnsupportedDdl, match=f"commit_ts 5 in t/0@7 changes {schema}.{table}"):
        check_untouched(TABLES, [ddl(schema, table)])


@pytest.mark.parametrize(("schema", "table"), [(MARK_TABLE.schema, MARK_TABLE.table), ("other", "")])
def test_one_of_the_watermark_table_or_of_a_schema_without_tables_changes_nothing(schema: str, table: str) -> None:
    check_untouched(TABLES, [ddl(schema, table)])
