"""What DDLs did to tables, told by the schemas before and after them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sidecar.shared.errors import SinkError
from sidecar.shared.log.manifest import DdlRecord, Manifest
from sidecar.shared.model.nouns import MARK_TABLE, Column, ColumnDefinition, CommitTs, Seq, TableDefinition, TableName, TableSchema
from spark_merge.port.contract import Head
from spark_merge.sinks.opensearch.changes import IndexChanges, changes
from tests.support.sql_types import sql_type

ID, PRICE, NOTE = Column("id", "int", nullable=False), Column("price", "decimal", length=10, scale=2), Column("note", "text")
ORDERS = TableSchema(TableName("shop", "orders"), (ID, PRICE, NOTE), ("id",), table_id=7, physical_ids=(7,))


def after(
    query: str, before: list[TableSchema], now: list[TableSchema], *, table: TableName = ORDERS.name, again: bool = False
) -> IndexChanges:
    ddls = (DdlRecord(CommitTs(100), table.schema, table.table, query),) if query else ()
    manifest = Manifest(Seq(3), 1, CommitTs(0), CommitTs(100), None, 0, 0, {}, "s", "c", ddls, next_schemas="t")
    head = Head(manifest, {one.name: one for one in before}, {one.name: one for one in now})
    return changes(head, again=again)


def names_of(value: IndexChanges) -> dict[str, list[str]]:
    return {
        "dropped": [one.name.table for one in value.dropped],
        "made": [one.name.table for one in value.made],
        "emptied": [one.name.table for _, one in value.emptied],
        "kept": [f"{one.before.name.table} {one.after.name.table}" for one in value.kept],
    }


def test_a_table_is_followed_by_its_id() -> None:
    other = replace(ORDERS, name=TableName("shop", "items"), table_id=8, physical_ids=(8,))
    swapped = [replace(ORDERS, name=other.name), replace(other, name=ORDERS.name)]
    assert names_of(after("RENAME TABLE orders TO t, items TO orders, t TO items", [ORDERS, other], swapped))["kept"] == [
        "orders items",
        "items orders",
    ]
    made = after("CREATE TABLE items (id int primary key)", [ORDERS], [ORDERS, other], table=other.name)
    assert names_of(made) == {"dropped": [], "made": ["items"], "emptied": [], "kept": []}
    assert names_of(after("DROP TABLE items", [ORDERS, other], [ORDERS], table=other.name))["dropped"] == ["items"]
    assert names_of(after("TRUNCATE TABLE orders", [ORDERS], [replace(ORDERS, table_id=9, physical_ids=(9,))]))["emptied"] == ["orders"]


def test_without_ids_the_statement_says_that_it_is_a_rename_or_a_truncate() -> None:
    plain = replace(ORDERS, table_id=0, physical_ids=())
    moved = replace(plain, name=TableName("shop", "bills"))
    assert names_of(after("RENAME TABLE shop.orders TO shop.bills", [plain], [moved]))["kept"] == ["orders bills"]
    assert names_of(after("truncate orders", [plain], [plain]))["emptied"] == ["orders"]


@pytest.mark.parametrize("query", ["CREATE INDEX k ON orders (note)", "DROP INDEX k ON orders", "ALTER TABLE orders COMMENT 'truncate'"])
def test_what_is_no_matter_of_rows_leaves_them(query: str) -> None:
    indexed = replace(ORDERS, definition=TableDefinition(()))
    (kept,) = after(query, [ORDERS], [indexed]).kept
    assert not kept.reshaped


def test_partitions_that_are_made_otherwise_keep_their_rows() -> None:
    parted = replace(ORDERS, physical_ids=(71, 72))
    for query, now in (
        ("ALTER TABLE orders REMOVE PARTITIONING", replace(ORDERS, table_id=9, physical_ids=(9,))),
        ("ALTER TABLE orders REORGANIZE PARTITION p0 INTO (PARTITION p1 VALUES LESS THAN (5))", replace(ORDERS, physical_ids=(72, 73))),
        ("", replace(ORDERS, physical_ids=(72,))),
    ):
        assert names_of(after(query, [parted], [now]))["kept"] == ["orders orders"]


@pytest.mark.parametrize(
    "query", ["ALTER TABLE orders TRUNCATE PARTITION p0", "ALTER TABLE orders DROP PARTITION p0", "alter table orders something new"]
)
def test_partitions_that_take_rows_with_them_are_refused_until_the_operator_lets_the_table_begin_again(query: str) -> None:
    parted, now = replace(ORDERS, physical_ids=(71, 72)), replace(ORDERS, physical_ids=(72,))
    with pytest.raises(SinkError, match=r"segment 3, the DDL at commit_ts 100, .* rows of shop\.orders come or go") as refused:
        after(query, [parted], [now])
    assert "ddl-anew=100" in refused.value.hint
    assert "ddl-done=100" in refused.value.hint
    assert names_of(after(query, [parted], [now], again=True))["emptied"] == ["orders"]


def test_an_exchange_concerns_both_tables() -> None:
    other = replace(ORDERS, name=TableName("shop", "aside"), table_id=8, physical_ids=(8,))
    parted = replace(ORDERS, physical_ids=(71, 72))
    now = [replace(ORDERS, physical_ids=(8, 72)), replace(other, table_id=71, physical_ids=(71,))]
    query = "ALTER TABLE orders EXCHANGE PARTITION p0 WITH TABLE aside"
    with pytest.raises(SinkError, match="come or go"):
        after(query, [parted, other], now)
    assert names_of(after(query, [parted, other], now, again=True))["emptied"] == ["orders", "aside"]


@pytest.mark.parametrize("query", ["RECOVER TABLE orders", "RENAME TABLE secret.o TO shop.orders", "CREATE UNIQUE INDEX u ON orders (id)"])
def test_a_table_that_comes_with_rows_is_refused(query: str) -> None:
    with pytest.raises(SinkError, match=r"rows of shop\.orders arrive without a change event of each"):
        after(query, [], [ORDERS])
    assert names_of(after(query, [], [ORDERS], again=True))["made"] == ["orders"]


def test_columns_are_followed_by_what_the_statement_renames() -> None:
    now = replace(ORDERS, columns=(ID, replace(PRICE, name="cost"), replace(NOTE, name="price")))
    (kept,) = after("ALTER TABLE orders RENAME COLUMN price TO cost, CHANGE note price text", [ORDERS], [now]).kept
    assert [(source.column.name, source.name) for source in kept.sources] == [("id", "id"), ("cost", "price"), ("price", "note")]
    assert kept.reshaped
    (dropped,) = after("ALTER TABLE orders DROP COLUMN note", [ORDERS], [replace(ORDERS, columns=(ID, PRICE))]).kept
    assert not dropped.reshaped


def test_a_column_that_comes_is_null_or_the_log_must_say_what_it_is() -> None:
    more = replace(ORDERS, columns=(*ORDERS.columns, Column("more", "int")))
    defined = replace(more, definition=TableDefinition((ColumnDefinition("more", "int(11)"),)))
    (kept,) = after("ALTER TABLE orders ADD COLUMN more int", [ORDERS], [defined]).kept
    assert kept.added == frozenset({"more"})
    assert not kept.reshaped
    with pytest.raises(SinkError, match="in its new column more, which is not in this log"):
        after("ALTER TABLE orders ADD COLUMN more int", [ORDERS], [more])


@pytest.mark.parametrize(
    ("column", "default", "text"),
    [
        (Column("c", "int"), "'5'", "5"),
        (Column("c", "decimal", length=9, scale=3), "'1.5'", "1.500"),
        (Column("c", "decimal", length=9, scale=3), "-1", "-1.000"),
        (Column("c", "text"), "'it''s'", "it's"),
        (Column("c", "enum", elements=("a", "b")), "'b'", "b"),
        (Column("c", "datetime", scale=3), "'2020-01-02 03:04:05'", "2020-01-02 03:04:05.000"),
        (Column("c", "year"), "'0000'", "0000"),
        (Column("c", "int", nullable=False), None, "0"),
        (Column("c", "text", nullable=False), None, ""),
        (Column("c", "enum", nullable=False, elements=("a", "b")), None, "a"),
        (Column("c", "double"), "NULL", None),
    ],
)
def test_a_literal_default_is_what_rows_of_before_have(column: Column, default: str | None, text: str | None) -> None:
    definition = TableDefinition((ColumnDefinition("c", sql_type(column), default=default),))
    now = replace(ORDERS, columns=(*ORDERS.columns, column), definition=definition)
    (kept,) = after("ALTER TABLE orders ADD COLUMN c …", [ORDERS], [now]).kept
    assert (kept.sources[-1].absent, kept.reshaped) == (text, text is not None)


@pytest.mark.parametrize(
    ("column", "default"),
    [
        (Column("c", "datetime"), "CURRENT_TIMESTAMP"),
        (Column("c", "time"), "'1:2'"),
        (Column("c", "binary"), "'a'"), (Column("c", "bit"), "b'1'"), (Column("c", "decimal", length=3, scale=1), "'99.95'"),
    ],
)  # fmt: skip
def test_a_default_that_may_be_anything_is_refused(column: Column, default: str) -> None:
    now = replace(
        ORDERS, columns=(*ORDERS.columns, column), definition=TableDefinition((ColumnDefinition("c", sql_type(column), default=default),))
    )
    with pytest.raises(SinkError, match="in its new column c, which is not in this log"):
        after("ALTER TABLE orders ADD COLUMN c …", [ORDERS], [now])


@pytest.mark.parametrize(
    ("was", "now", "how"),
    [
        (Column("c", "int"), Column("c", "uint"), ""),
        (Column("c", "decimal", length=10, scale=2), Column("c", "decimal", length=20, scale=2), "same"),
        (Column("c", "decimal", length=10, scale=2), Column("c", "decimal", length=20, scale=5), "scale"),
        (Column("c", "decimal", length=10, scale=2), Column("c", "decimal", length=10, scale=1), ""),
        (Column("c", "enum", elements=("a",)), Column("c", "enum", elements=("a", "b")), "same"),
        (Column("c", "int"), Column("c", "text"), "text"),
        (Column("c", "double"), Column("c", "text"), ""),
        (Column("c", "bit", length=8), Column("c", "int"), "same"),
        (Column("c", "year"), Column("c", "int"), "same"),
        (Column("c", "float"), Column("c", "double"), "same"),
        (Column("c", "int"), Column("c", "decimal", length=20, scale=0), "scale"),
        (Column("c", "int"), Column("c", "decimal", length=21, scale=2), "scale"),
        (Column("c", "int"), Column("c", "decimal", length=10, scale=0), ""),
        (Column("c", "set", elements=("a", "b")), Column("c", "set", elements=("b", "a")), ""),
        (Column("c", "enum", elements=("a", "b")), Column("c", "enum", elements=("a",)), ""),
        (Column("c", "timestamp"), Column("c", "text"), ""),
        (Column("c", "json"), Column("c", "text"), ""),
        (Column("c", "text"), Column("c", "int"), ""),
        (Column("c", "binary", length=4), Column("c", "binary", length=8), ""),
        (Column("c", "datetime", scale=3), Column("c", "datetime", scale=0), ""),
    ],
)
def test_values_of_a_column_that_changes_its_type_are_followed_where_they_are_certain(was: Column, now: Column, how: str) -> None:
    definitions = (TableDefinition((ColumnDefinition("c", sql_type(column)),)) for column in (was, now))
    before, later = (replace(ORDERS, columns=(ID, one), definition=made) for one, made in zip((was, now), definitions, strict=True))
    if how:
        (kept,) = after("ALTER TABLE orders MODIFY c …", [before], [later]).kept
        assert kept.sources[1].how == how
    else:
        with pytest.raises(SinkError, match=r"column c of shop\.orders was"):
            after("ALTER TABLE orders MODIFY c", [before], [later])


def test_another_handle_key_is_refused() -> None:
    with pytest.raises(SinkError, match=r"the handle key of shop\.orders was \(id\) and is \(note\)"):
        after("ALTER TABLE orders DROP PRIMARY KEY", [ORDERS], [replace(ORDERS, key=("note",))])


def test_a_table_that_loses_its_key_is_refused_and_keeps_its_index_until_the_operator_lets_it_go() -> None:
    with pytest.raises(SinkError, match=r"shop\.orders has no key any more"):
        after("ALTER TABLE orders DROP PRIMARY KEY", [ORDERS], [replace(ORDERS, key=())])
    assert names_of(after("ALTER TABLE orders DROP PRIMARY KEY", [ORDERS], [replace(ORDERS, key=())], again=True))["dropped"] == ["orders"]


def test_a_table_that_leaves_the_log_keeps_its_index_where_no_statement_drops_it() -> None:
    assert names_of(after("", [ORDERS], [])) == {"dropped": [], "made": [], "emptied": [], "kept": []}
    with pytest.raises(SinkError, match="is not understood"):
        after("DROP TABLE 'orders'", [ORDERS], [])
    assert names_of(after("DROP TABLE 'orders'", [ORDERS], [], again=True))["dropped"] == ["orders"]


def test_marks_and_tables_without_a_key_are_nobodys() -> None:
    marks, keyless = replace(ORDERS, name=MARK_TABLE), replace(ORDERS, key=())
    assert names_of(after("DROP TABLE x", [marks, keyless], [])) == {"dropped": [], "made": [], "emptied": [], "kept": []}
