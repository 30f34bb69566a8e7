"""What a SQL target must have before anything is delivered, at a real MariaDB; and that the rights of deploy/SQL-SINK.md are enough."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import pytest

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import Column, ColumnDefinition, IndexDefinition, IndexPart, TableDefinition, TableName, TableSchema
from spark_merge.sinks.mysql import fit
from spark_merge.sinks.mysql.sink import MYSQL
from spark_merge.sinks.registry import holds_rows, misfits, open_sink
from spark_merge.testing.histories import COLUMNS
from spark_merge.testing.story import Story
from tests.support.services.mariadb import MariaDb
from tests.support.sql_place import history_place, uri_of

pytestmark = pytest.mark.xdist_group("sql-target")

numbers = itertools.count(2000)
SCHEMA = TableSchema(TableName("fit", "t"), COLUMNS, ("id", "part"))


@pytest.fixture
def db(mariadb: MariaDb) -> Iterator[MariaDb]:
    drop = ("DROP DATABASE IF EXISTS fit", "DROP DATABASE IF EXISTS ours_fit", "DROP USER IF EXISTS few@'%'")
    mariadb.execute(
        *drop, "CREATE DATABASE fit", f"CREATE TABLE {SCHEMA.name} (id VARCHAR(20), part INT, v VARCHAR(20), PRIMARY KEY (id, part))"
    )
    mariadb.execute("CREATE DATABASE ours_fit", "CREATE USER few@'%' IDENTIFIED BY 'few'")
    mariadb.execute("GRANT SELECT, INSERT, UPDATE, DELETE, CREATE ON ours_fit.* TO few@'%'")
    yield mariadb
    mariadb.execute(*drop)


def uri(db: MariaDb, **parameters: str) -> str:
    return uri_of(db, "ours_fit", **parameters).replace(f"{db.user}:{quote(db.password, safe='')}", "few:few")


def reported(db: MariaDb, *schemas: TableSchema, **parameters: str) -> list[str]:
    return [what for what, _ in misfits(uri(db, **parameters), schemas or [SCHEMA], log_id="log-1")]


def test_a_right_that_is_missing_is_found_and_nothing_is_written(db: MariaDb) -> None:
    db.execute(f"INSERT INTO {SCHEMA.name} VALUES ('a', 1, 'x')", "GRANT SELECT, INSERT ON fit.* TO few@'%'")
    assert MYSQL.misfits is fit.misfits
    (problem,) = reported(db)
    assert "DELETE command denied" in problem
    db.execute("GRANT DELETE ON fit.* TO few@'%'")
    assert reported(db) == []
    assert db.execute(f"SELECT * FROM {SCHEMA.name}") == (("a", 1, "x"),)
    assert not db.execute("SHOW TABLES FROM ours_fit"), "nothing of ours is made"


def test_a_table_or_a_column_that_is_missing_is_found(db: MariaDb) -> None:
    db.execute("GRANT SELECT, INSERT, DELETE ON fit.* TO few@'%'", f"ALTER TABLE {SCHEMA.name} DROP COLUMN v")
    other = replace(SCHEMA, name=TableName("fit", "other"))
    column, table = reported(db, SCHEMA, other)
    assert "has no column v" in column
    assert "table fit.other is not at the target" in table
    assert reported(db, other, create_tables="true") == []


def test_a_column_or_a_key_that_keeps_less_than_the_source_is_found(db: MariaDb) -> None:
    """Nothing of it was said, and rows and digits were lost without an error."""
    columns = (Column("id", "text", nullable=False), Column("part", "int", nullable=False), Column("v", "datetime", scale=6))
    defined = (
        ColumnDefinition("id", "varchar(20)", nullable=False, charset="utf8mb4", collation="utf8mb4_0900_bin"),
        ColumnDefinition("part", "int(11)", nullable=False),
        ColumnDefinition("v", "datetime(6)"),
    )
    primary = IndexDefinition("PRIMARY", (IndexPart("id"), IndexPart("part")), unique=True, primary=True)
    schema = TableSchema(SCHEMA.name, columns, SCHEMA.key, definition=TableDefinition(defined, (primary,)))
    db.execute("GRANT SELECT, INSERT, DELETE ON fit.* TO few@'%'", f"ALTER TABLE {SCHEMA.name} MODIFY v DATETIME(3)")
    (digits,) = reported(db, schema)
    assert digits == (
        "column v of fit.t is datetime(3) at the target, and datetime(6) in fit.t: '2024-01-02 12:00:00.000001' and"
        " '2024-01-02 12:00:00.000002' would be one value there"
    )
    db.execute(f"ALTER TABLE {SCHEMA.name} MODIFY v DATETIME(6)")
    (key,) = reported(db, schema)
    assert "two rows of fit.t may be one in fit.t at the target, by its key column id, compared by utf8mb4_bin" in key
    db.execute(f"ALTER TABLE {SCHEMA.name} MODIFY id VARCHAR(20) COLLATE utf8mb4_nopad_bin")
    assert reported(db, schema) == []
    assert reported(db, replace(schema, definition=None)) == []


def test_a_target_that_is_away_says_so(db: MariaDb, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_merge.sinks.mysql.server.RETRY_S", 0.1)
    away = uri(db).replace(f":{db.port}/", ":1/")
    with pytest.raises(SinkError, match="error 2003"):
        misfits(away, [SCHEMA], log_id="log-1")


def test_rows_of_another_consumer_are_found_and_ours_are_not_its(db: MariaDb) -> None:
    routes = quote("shop.*=>fit.*")
    assert not holds_rows(uri(db, routes=routes), log_id="log-1")
    db.execute(f"INSERT INTO {SCHEMA.name} VALUES ('a', 1, 'x')", "GRANT SELECT ON fit.* TO few@'%'")
    assert holds_rows(uri(db, routes=routes), log_id="log-1")
    assert holds_rows(uri(db), log_id="log-1"), "without routes: whatever the account may see"
    assert not holds_rows(uri(db, routes=quote("shop.*=>elsewhere.*")), log_id="log-1")
    open_sink(uri(db), log_id="log-1").open(epoch=1)
    db.execute("UPDATE ours_fit.sink SET accepted_seq = 0, accepted_ts = 5, accepted_id = 'x'")
    assert not holds_rows(uri(db, routes=routes), log_id="log-1")
    assert not holds_rows(uri(db, routes=routes), log_id="log-2"), "whose log it is, the sink says"


def test_the_rights_of_the_page_are_enough_for_rows(mariadb: MariaDb, tmp_path: Path) -> None:
    """SELECT, INSERT and DELETE where rows go; our own schema's besides."""
    place = history_place(mariadb, number := next(numbers), tables=12)
    mariadb.execute(f"CREATE DATABASE pos{number}", "DROP USER IF EXISTS rows_only@'%'", "CREATE USER rows_only@'%' IDENTIFIED BY 'rows'")
    mariadb.execute(
        f"GRANT SELECT, INSERT, UPDATE, DELETE, CREATE ON pos{number}.* TO rows_only@'%'",
        "GRANT SELECT, INSERT, DELETE ON s.* TO rows_only@'%'",
    )
    narrow = place.uri.replace(f"{mariadb.user}:{quote(mariadb.password, safe='')}", "rows_only:rows")
    story = Story(tmp_path, replace(place, uri=narrow, make=lambda log_id: open_sink(narrow, log_id=log_id)), seed=5)
    story.finish()
    story.check_end()
