"""A log's schemas hold the whole cluster, as the schema history needs it to go on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sidecar.replay.kv_rows import DDL_JOB_TABLE_INFO
from sidecar.shared.errors import FeedUnsuitable
from sidecar.shared.log.schemas_file import schemas_from_json, schemas_to_json
from sidecar.shared.model.nouns import CommitTs, TableName, TableSchema
from sidecar.shared.rowcodec.kv_layout import DDL_JOB_TABLE, KvSnapshot, ddl_job_entry, kv_table_of, layout_of, schema_entry, snapshot_of
from sidecar.shared.rowcodec.kv_table import kv_table
from tests.support.kv_encoder import column, info

INFO: dict[str, Any] = info(
    [column(1, "id", "bigint", primary=True), column(2, "v", "varchar", collation="utf8mb4_general_ci")], int_handle=True
)
NAME = TableName("Shop", "t")
TS = CommitTs(100)


def entries() -> dict[TableName, TableSchema]:
    """A table, a view, a schema without tables, and the table of the jobs."""
    view = {"id": 9, "name": {"O": "v", "L": "v"}, "view": {"view_select": "select ü"}}
    made = [
        schema_entry("Shop", 1, new_collation=True),
        schema_entry("empty", 2, new_collation=True),
        schema_entry("mysql", 3, new_collation=True),
        replace(kv_table(INFO, schema="Shop").schema, table_id=104, layout=layout_of(1, INFO, new_collation=True)),
        TableSchema(TableName("Shop", "v"), (), (), table_id=9, layout=layout_of(1, view, new_collation=True)),
        ddl_job_entry(DDL_JOB_TABLE_INFO, 3, new_collation=True),
    ]
    return {entry.name: entry for entry in made}


def through_the_log(tables: dict[TableName, TableSchema]) -> dict[TableName, TableSchema]:
    return schemas_from_json(schemas_to_json(tables), name="schemas.json")


def found() -> KvSnapshot:
    return snapshot_of(through_the_log(entries()), ts=TS)


def test_schemas_tables_and_views_come_back_with_their_ids_and_infos() -> None:
    snapshot = found()
    schemas = {(schema.schema_id, schema.name): [one["id"] for one in schema.tables] for schema in snapshot.schemas}
    assert schemas == {(1, "Shop"): [104, 9], (2, "empty"): [], (3, "mysql"): []}
    (shop,) = [schema for schema in snapshot.schemas if schema.name == "Shop"]
    assert next(iter(shop.tables)) == INFO
    assert (snapshot.ts, snapshot.ddl_job, snapshot.new_collation) == (TS, DDL_JOB_TABLE_INFO, True)


@pytest.mark.parametrize("new_collation", [True, False])
def test_a_tables_decoder_is_made_of_its_entry_alone(new_collation: bool) -> None:
    entry = TableSchema(NAME, (), (), layout=layout_of(1, INFO, new_collation=new_collation))
    assert kv_table_of(entry) == kv_table(INFO, schema="Shop", new_collation=new_collation)
    assert kv_table_of(entry) is kv_table_of(replace(entry))


def test_a_table_under_another_name_is_another_decoder() -> None:
    layout = layout_of(1, INFO, new_collation=True)
    names = [kv_table_of(TableSchema(TableName(schema, "t"), (), (), layout=layout)).schema.name.schema for schema in ("Shop", "other")]
    assert names == ["Shop", "other"]


@pytest.mark.parametrize("layout", ["", "abc", "é", layout_of(1, None, new_collation=True)])
def test_a_table_without_a_layout_of_its_own_is_refused(layout: str) -> None:
    with pytest.raises(FeedUnsuitable, match=r"layout of Shop\.t"):
        kv_table_of(TableSchema(NAME, (), (), layout=layout))


@pytest.mark.parametrize(
    ("gone", "text"), [(DDL_JOB_TABLE, "mysql.tidb_ddl_job"), (TableName("Shop", ""), "the schemas file does not hold it")]
)
def test_schemas_that_lack_what_the_history_needs_are_refused(gone: TableName, text: str) -> None:
    tables = entries()
    del tables[gone]
    with pytest.raises(FeedUnsuitable, match=text):
        snapshot_of(tables, ts=TS)


def test_the_schemas_of_another_feeds_log_are_refused() -> None:
    with pytest.raises(FeedUnsuitable, match="new log"):
        snapshot_of({NAME: TableSchema(NAME, (), ())}, ts=TS)
