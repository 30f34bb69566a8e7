"""The DDLs of a segment, and which sinks refuse what takes rows away without a change of each."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sidecar.core.model import Column, CommitTs, Seq, TableName, TableSchema
from sidecar.errors import SinkError
from sidecar.log.manifest import DdlRecord, Manifest
from spark_merge.contract import Head
from spark_merge.ddl.effects import Fate
from spark_merge.ddl.logged import logged_ddls
from spark_merge.ddl.routes import Routes
from spark_merge.ddl.statement import Kind, Partitions
from spark_merge.sinks.clickhouse.ddl import followed
from spark_merge.sinks.delta.ddl import alterations
from spark_merge.sinks.opensearch.changes import changes
from spark_merge.sinks.opensearch.fields import Forms

A, B = (TableSchema(TableName("s", name), (Column("id", "int", nullable=False), Column("v", "int")), ("id",)) for name in "ab")


def head(query: str, *, table: str = "a", before: tuple[TableSchema, ...] = (A, B), after: tuple[TableSchema, ...] = (A, B)) -> Head:
    ddl = DdlRecord(CommitTs(90), "s", table, query)
    manifest = Manifest(Seq(3), 1, CommitTs(0), CommitTs(90), None, 0, 0, {}, "s", "c", (ddl,), next_schemas="n")
    return Head(manifest, {one.name: one for one in before}, {one.name: one for one in after})


@pytest.mark.parametrize(
    ("query", "kind", "partitions"),
    [
        ("ALTER TABLE a DROP PARTITION p0", Kind.ALTER_TABLE, Partitions.ROWS_LEAVE),
        ("ALTER TABLE a DROP /* old */ PARTITION p0", Kind.ALTER_TABLE, Partitions.ROWS_LEAVE),
        ("alter table a drop partition if exists p0, p1", Kind.ALTER_TABLE, Partitions.ROWS_LEAVE),
        ("ALTER TABLE a TRUNCATE PARTITION ALL", Kind.ALTER_TABLE, Partitions.ROWS_LEAVE),
        ("ALTER TABLE a TRUNCATE\n\tPARTITION p0", Kind.ALTER_TABLE, Partitions.ROWS_LEAVE),
        ("ALTER TABLE a EXCHANGE PARTITION p0 WITH TABLE b", Kind.EXCHANGE, Partitions.ROWS_LEAVE),
        ("ALTER TABLE a REORGANIZE PARTITION p0 INTO (PARTITION p1 VALUES LESS THAN (5))", Kind.ALTER_TABLE, Partitions.REARRANGED),
        ("ALTER TABLE a COALESCE PARTITION 2", Kind.ALTER_TABLE, Partitions.REARRANGED),
        ("ALTER TABLE a REMOVE PARTITIONING", Kind.ALTER_TABLE, Partitions.REARRANGED),
        ("ALTER TABLE a PARTITION BY HASH (id) PARTITIONS 4", Kind.ALTER_TABLE, Partitions.REARRANGED),
        ("ALTER TABLE a ADD PARTITION PARTITIONS 2", Kind.ALTER_TABLE, Partitions.REARRANGED),
        ("ALTER TABLE a ADD PARTITION (PARTITION p9 VALUES LESS THAN (90))", Kind.ALTER_TABLE, Partitions.UNTOUCHED),
        ("ALTER TABLE a PARTITION p0 ATTRIBUTES = 'merge_option=allow'", Kind.ALTER_TABLE, Partitions.UNTOUCHED),
        ("ALTER TABLE a PARTITION p0 PLACEMENT POLICY = near", Kind.ALTER_TABLE, Partitions.UNTOUCHED),
        ("ALTER TABLE a ADD COLUMN x INT COMMENT 'drop partition key'", Kind.ALTER_TABLE, Partitions.UNTOUCHED),
        ("ALTER TABLE a COMMENT = 'TRUNCATE PARTITION p0'", Kind.ALTER_TABLE, Partitions.UNTOUCHED),
        ("ALTER TABLE a ADD COLUMN `drop partition p0` INT", Kind.ALTER_TABLE, Partitions.UNTOUCHED),
        ("ALTER TABLE a /* DROP PARTITION p0 */ ADD INDEX i (v)", Kind.ALTER_TABLE, Partitions.UNTOUCHED),
    ],
)
def test_what_a_statement_does_with_partitions_is_the_same_at_every_sink(query: str, kind: Kind, partitions: Partitions) -> None:
    found = head(query)
    ((ddl,)) = logged_ddls(found, found.ddls)
    assert (ddl.problem, ddl.statement.kind, ddl.statement.partitions) == (None, kind, partitions)
    asked = (
        lambda: alterations(found, Routes(), frozenset()),
        lambda: followed(found),
        lambda: changes(found, Forms()),
    )
    for ask in asked:
        if partitions is Partitions.ROWS_LEAVE:
            with pytest.raises(SinkError):
                ask()
        else:
            ask()


@pytest.mark.parametrize(
    ("query", "table", "after", "gone"),
    [
        ("TRUNCATE TABLE a", "a", (A, B), {"a"}),
        ("truncate s.a", "a", (A, B), {"a"}),
        ("DROP TABLE a", "a", (B,), {"a"}),
        ("DROP TABLE IF EXISTS `s`.`A`", "a", (B,), {"a"}),
        ("DROP TABLE a, b", "a", (B,), {"a"}),
        ("DROP TABLE a, b", "b", (A,), {"b"}),
        ("DROP TABLE s.none, s.a", "a", (B,), {"a"}),
        ("DROP DATABASE s", "", (), {"a", "b"}),
        ("DROP SCHEMA other", "", (A, B), set()),
        ("ALTER TABLE a COMMENT = 'TRUNCATE TABLE b'", "a", (A, B), set()),
        ("CREATE TABLE c (id INT PRIMARY KEY) COMMENT 'drop table a'", "c", (A, B), set()),
    ],
)
def test_a_record_empties_its_own_tables(query: str, table: str, after: tuple[TableSchema, ...], gone: set[str]) -> None:
    """TiCDC sends DROP TABLE a, b as a record for each table, with the whole text: rows of b that come between the two stay until b's."""
    found = head(query, table=table, after=after)
    names = {TableName("s", name) for name in gone}
    assert {one.before.name for one in alterations(found, Routes(), frozenset()) if one.emptied} == names
    assert {one.name for one in followed(found) if one.fate in (Fate.EMPTIED, Fate.DROPPED)} == names
    open_search = changes(found, Forms())
    assert {one.name for one in open_search.dropped} | {one.name for _, one in open_search.emptied} == names


def test_of_a_text_that_is_not_understood_the_first_words_count() -> None:
    for query, kind in (
        ("CREATE TABLE a (id INT PRIMARY KEY) SOMETHING NEW", Kind.CREATE_TABLE),
        ("TRUNCATE TABLE a SOMETHING", Kind.TRUNCATE),
        ("ALTER TABLE a SOMETHING NEW", Kind.ALTER_TABLE),
        ("RECOVER TABLE a", Kind.UNREAD),
        ("ALTER TABLE a \x01", Kind.UNREAD),
    ):
        found = head(query)
        ((ddl,)) = logged_ddls(found, found.ddls)
        assert ddl.problem is not None
        assert (ddl.statement.kind, ddl.statement.tables()) == (kind, ())


@pytest.mark.parametrize("query", ["ALTER TABLE a DROP PARTITION p0 SOMETHING NEW", "FLASHBACK TABLE a", "ALTER TABLE a \x01"])
def test_a_text_that_is_not_understood_is_refused_where_the_schemas_do_not_show_its_rows(query: str) -> None:
    found = head(query)
    with pytest.raises(SinkError, match="cannot be carried out"):
        alterations(found, Routes(), frozenset())
    with pytest.raises(SinkError, match="segment 3"):
        changes(found, Forms())
    known = tuple(replace(one, table_id=at, physical_ids=(at,)) for at, one in enumerate((A, B), 7))
    assert not changes(head(query, before=known, after=known), Forms()).emptied
