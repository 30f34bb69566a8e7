"""The DDLs of a segment. What they do to tables: tests/scenarios/effects_*.txt."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sidecar.shared.log.manifest import DdlRecord, Manifest
from sidecar.shared.model.nouns import Column, CommitTs, Seq, TableName, TableSchema
from spark_merge.ddl.logged import logged_ddls
from spark_merge.ddl.statement import StatementKind
from spark_merge.port.contract import Head

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
        result = replace(head(query), schemas={TABLE.name: table})
        ((ddl,)) = logged_ddls(result, result.ddls)
        assert (ddl.problem, ddl.statement.text) == (None, by_author)


def test_of_a_text_that_is_not_understood_the_first_words_count() -> None:
    for query, kind in (
        ("CREATE TABLE a (id INT PRIMARY KEY) SOMETHING NEW", StatementKind.CREATE_TABLE),
        ("TRUNCATE TABLE a SOMETHING", StatementKind.TRUNCATE),
        ("ALTER TABLE a SOMETHING NEW", StatementKind.ALTER_TABLE),
        ("RECOVER TABLE a", StatementKind.UNREAD),
        ("ALTER TABLE a \x01", StatementKind.UNREAD),
    ):
        result = head(query)
        ((ddl,)) = logged_ddls(result, result.ddls)
        assert ddl.problem is not None
        assert (ddl.statement.kind, ddl.statement.tables()) == (kind, ())


@pytest.mark.parametrize(
    "query",
    ["CREATE INDEX i ON a (id) SOMETHING NEW", "ALTER TABLE a ADD VECTOR INDEX ((VEC_L2_DISTANCE(v))) SOMETHING", "DROP VIEW a SOMETHING",
     "ALTER TABLE a ADD CONSTRAINT f FOREIGN KEY (id) REFERENCES b (id) SOMETHING", "CREATE DEFINER = \x01 VIEW a AS SELECT 1"],
)  # fmt: skip
def test_a_statement_that_keeps_the_rows_whatever_its_options_are_is_no_problem(query: str) -> None:
    result = head(query)
    ((ddl,)) = logged_ddls(result, result.ddls)
    assert (ddl.statement.kind, ddl.problem) == (StatementKind.NOTHING, None)


@pytest.mark.parametrize("query", ["ALTER TABLE a ADD INDEX i (id), SOMETHING NEW", "ALTER TABLE a COMMENT = 'x' SOMETHING NEW"])
def test_a_statement_with_more_than_that_stays_a_problem(query: str) -> None:
    result = head(query)
    ((ddl,)) = logged_ddls(result, result.ddls)
    assert ddl.problem is not None
