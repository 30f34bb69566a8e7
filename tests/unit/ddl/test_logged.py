"""The DDLs of a segment. What they do to tables: tests/scenarios/effects_*.txt."""

from __future__ import annotations

from dataclasses import replace

from sidecar.core.model import Column, CommitTs, Seq, TableName, TableSchema
from sidecar.log.manifest import DdlRecord, Manifest
from spark_merge.contract import Head
from spark_merge.ddl.logged import logged_ddls
from spark_merge.ddl.statement import StatementKind

TABLE = TableSchema(TableName("s", "a"), (Column("id", "int", nullable=False),), ("id",))


def head(query: str) -> Head:
    ddl = DdlRecord(CommitTs(90), "s", "a", query)
    manifest = Manifest(Seq(3), 1, CommitTs(0), CommitTs(90), None, 0, 0, {}, "s", "c", (ddl,), next_schemas="n")
    return Head(manifest, {TABLE.name: TABLE}, {TABLE.name: TABLE})


def test_a_text_that_ticdc_restored_has_its_backslashes_escaped_and_an_authors_text_is_as_it_is() -> None:
    restored = "ALTER TABLE `a` COMMENT = 'C:\\temp\\'"
    by_author = "ALTER TABLE `a` COMMENT = 'C:\\\\temp\\\\'"
    layout = replace(TABLE, layout="of key-values")
    for query, table in ((restored, TABLE), (by_author, layout)):
        found = replace(head(query), schemas={TABLE.name: table})
        ((ddl,)) = logged_ddls(found, found.ddls)
        assert (ddl.problem, ddl.statement.text) == (None, by_author)


def test_of_a_text_that_is_not_understood_the_first_words_count() -> None:
    for query, kind in (
        ("CREATE TABLE a (id INT PRIMARY KEY) SOMETHING NEW", StatementKind.CREATE_TABLE),
        ("TRUNCATE TABLE a SOMETHING", StatementKind.TRUNCATE),
        ("ALTER TABLE a SOMETHING NEW", StatementKind.ALTER_TABLE),
        ("RECOVER TABLE a", StatementKind.UNREAD),
        ("ALTER TABLE a \x01", StatementKind.UNREAD),
    ):
        found = head(query)
        ((ddl,)) = logged_ddls(found, found.ddls)
        assert ddl.problem is not None
        assert (ddl.statement.kind, ddl.statement.tables()) == (kind, ())
