"""Actions of statements, against TiDB's own jobs in the recordings and by hand."""

from __future__ import annotations

import json

import pytest

from sidecar.errors import UnsupportedDdl
from sidecar.schema.ddl import Action
from sidecar.ticdc.ddl_text import action_of
from tests.support.recordings import recording


@pytest.mark.recordings
@pytest.mark.parametrize("name", ["ddl", "ddl-new"])
def test_each_recorded_job_has_the_action_that_its_text_tells(name: str) -> None:
    lines = (recording(name) / "schema" / "ddl_history.jsonl").read_text().splitlines()
    jobs = [json.loads(json.loads(line)["job_meta"]) for line in lines]
    judged = [job for job in jobs if job["query"]]
    assert len(judged) > 150
    for job in judged:
        # TiCDC makes a message a table of it, each a rename of one
        expected = Action.RENAME_TABLE if job["type"] == Action.RENAME_TABLES else Action(job["type"])
        assert action_of(job["query"]) is expected, job["query"]


@pytest.mark.parametrize(
    ("query", "action"),
    [
        ("create database if not exists d", Action.CREATE_SCHEMA),
        ("ALTER SCHEMA `d` CHARACTER SET = utf8mb4", Action.MODIFY_SCHEMA_CHARSET),
        ("CREATE TABLE t LIKE u;", Action.CREATE_TABLE),
        ("CREATE OR REPLACE VIEW v AS SELECT 1", Action.CREATE_VIEW),
        ("drop table if exists a, b", Action.DROP_TABLE),
        ("TRUNCATE t", Action.TRUNCATE_TABLE),
        ("FLASHBACK TABLE t TO BEFORE DROP", Action.RECOVER_TABLE),
        ("CREATE UNIQUE INDEX `drop` ON t (a)", Action.ADD_INDEX),
        ("DROP INDEX `PRIMARY` ON t", Action.DROP_PRIMARY_KEY),
        ("ALTER TABLE t DROP INDEX k", Action.DROP_INDEX),
        ("ALTER TABLE d.t ADD c INT COMMENT 'a, b'", Action.ADD_COLUMN),
        ("ALTER TABLE t ADD COLUMN (c DECIMAL(10,2))", Action.ADD_COLUMN),
        ("ALTER TABLE t ADD COLUMN (c INT, d INT)", Action.MULTI_SCHEMA_CHANGE),
        ("ALTER TABLE t ADD INDEX i (a, b), ALGORITHM = INPLACE, LOCK = NONE", Action.ADD_INDEX),
        ("ALTER TABLE t ADD INDEX i (a), ADD INDEX j (b)", Action.MULTI_SCHEMA_CHANGE),
        ("ALTER TABLE t ADD CONSTRAINT `key` UNIQUE (a)", Action.ADD_INDEX),
        ("ALTER TABLE t ADD PRIMARY KEY (a, b) /*T![clustered_index] NONCLUSTERED */", Action.ADD_PRIMARY_KEY),
        ("ALTER TABLE t ADD CONSTRAINT f FOREIGN KEY (a) REFERENCES u (a)", Action.ADD_FOREIGN_KEY),
        ("ALTER TABLE t ADD PARTITION (PARTITION p VALUES LESS THAN (1), PARTITION q VALUES LESS THAN (2))", Action.ADD_TABLE_PARTITION),
        ("ALTER TABLE t DROP PARTITION p, q", Action.DROP_TABLE_PARTITION),
        ("ALTER TABLE t TRUNCATE PARTITION p, q", Action.TRUNCATE_TABLE_PARTITION),
        ("ALTER TABLE t REORGANIZE PARTITION p, q INTO (PARTITION r VALUES LESS THAN (9))", Action.REORGANIZE_PARTITION),
        ("ALTER TABLE t PARTITION BY HASH (a) PARTITIONS 4", Action.ALTER_TABLE_PARTITIONING),
        ("ALTER TABLE t /*T![placement] PLACEMENT POLICY = p */", Action.ALTER_TABLE_PLACEMENT),
        ("ALTER TABLE t CHANGE a `add` INT -- , ADD b INT", Action.MODIFY_COLUMN),
        ("ALTER TABLE t ALTER COLUMN a SET DEFAULT 'x, y'", Action.SET_DEFAULT_VALUE),
        ("ALTER TABLE t ALTER INDEX i INVISIBLE", Action.ALTER_INDEX_VISIBILITY),
        ("ALTER TABLE t RENAME KEY a TO b", Action.RENAME_INDEX),
        ("ALTER TABLE t RENAME AS u", Action.RENAME_TABLE),
        ("ALTER TABLE t COMMENT = 'c'", Action.MODIFY_TABLE_COMMENT),
        ("ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4", Action.MODIFY_TABLE_CHARSET),
        ("ALTER TABLE t AUTO_INCREMENT = 7", Action.REBASE_AUTO_ID),
        ("ALTER TABLE t TTL = `c` + INTERVAL 1 DAY", Action.ALTER_TTL),
        ("ALTER TABLE t REMOVE TTL", Action.REMOVE_TTL),
        ("ALTER TABLE t ADD VECTOR INDEX ((VEC_COSINE_DISTANCE(v)))", Action.ADD_COLUMNAR_INDEX),
        ("ALTER TABLE t COALESCE PARTITION 2", Action.REORGANIZE_PARTITION),
        ("ALTER TABLE t ADD PARTITION PARTITIONS 2", Action.REORGANIZE_PARTITION),
        ("ALTER TABLE t ADD PARTITION (PARTITION p COMMENT 'VALUES')", Action.REORGANIZE_PARTITION),
        ("ALTER TABLE t FIRST PARTITION LESS THAN (9) IF EXISTS", Action.DROP_TABLE_PARTITION),
        ("ALTER TABLE t LAST PARTITION LESS THAN ('2024-01-01')", Action.ADD_TABLE_PARTITION),
        ("ALTER TABLE t MERGE FIRST PARTITION LESS THAN (9)", Action.REORGANIZE_PARTITION),
        ("ALTER TABLE t SPLIT MAXVALUE PARTITION LESS THAN (9)", Action.REORGANIZE_PARTITION),
        ("ALTER TABLE t COMMENT = 'x' PARTITION BY HASH (a)", Action.MULTI_SCHEMA_CHANGE),
        ("ALTER TABLE t ADD COLUMN c INT REMOVE TTL", Action.MULTI_SCHEMA_CHANGE),
        ("ALTER TABLE t ENGINE = InnoDB ROW_FORMAT = DYNAMIC COMMENT = 'x'", Action.MODIFY_TABLE_COMMENT),
        ("ALTER TABLE t ADD COLUMN (INDEX i (a, b))", Action.ADD_INDEX),
        ("# a comment\n/* another, */ RENAME TABLE a TO b", Action.RENAME_TABLE),
    ],
)
def test_a_statement_tells_its_action(query: str, action: Action) -> None:
    assert action_of(query) is action


@pytest.mark.parametrize("query", ["", "SELECT 1", "ALTER TABLE t WHATEVER", "CREATE", "ALTER TABLE"])
def test_what_is_no_schema_change_is_refused_by_its_text(query: str) -> None:
    with pytest.raises(UnsupportedDdl, match="is not known"):
        action_of(query)
