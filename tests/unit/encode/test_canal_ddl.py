"""canal-json's words for DDLs; those of the recordings are compared in test_canal_parity.py."""

from __future__ import annotations

import pytest

from spark_merge.codecs.encode.canal_ddl import canal_word

WORDS = {
    "create table t (id int)": "CREATE",
    "create table t like u": "CREATE",
    "rename table a to b": "RENAME",
    "ALTER TABLE a RENAME TO b": "RENAME",
    "create unique index i on t (a)": "CINDEX",
    "ALTER TABLE t ADD PRIMARY KEY (a)": "CINDEX",
    "alter table t add constraint fk foreign key (a) references u (b)": "CINDEX",
    "drop index i on t": "DINDEX",
    "ALTER TABLE t DROP PRIMARY KEY": "DINDEX",
    "ALTER TABLE t ADD COLUMN `index` int": "ALTER",
    "ALTER TABLE t ADD INDEX i (a), ADD INDEX j (b)": "ALTER",
    "ALTER TABLE t RENAME INDEX a TO b": "ALTER",
    "ALTER TABLE t DROP PARTITION p0, p1": "ALTER",
    "ALTER TABLE t PARTITION BY HASH(id) PARTITIONS 2": "ALTER",
    "drop table t": "ERASE",
    "truncate table t": "TRUNCATE",
    "create database d": "QUERY",
    "drop view v": "QUERY",
    "ALTER TABLE p EXCHANGE PARTITION p0 WITH TABLE t": "QUERY",
    "ALTER TABLE t CACHE": "QUERY",
    "a statement of a later version": "QUERY",
}


@pytest.mark.parametrize("query", WORDS)
def test_a_statement_has_ticdcs_word(query: str) -> None:
    assert canal_word(query) == WORDS[query]
