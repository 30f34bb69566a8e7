"""What columns of a table that is there hold, judged by a real MariaDB: each type of the source into each type of the target. Values are
written as the sink writes them and read back. Where `lost` says nothing, none is rejected and no two are one; each example that it gives is
true; and for the same type, or what create-tables makes, it says nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

import pymysql
import pytest

from sidecar.shared.model.nouns import IndexDefinition, IndexPart, TableDefinition, TableName, TableSchema
from sidecar.shared.mysql.errors import Warned
from sidecar.shared.mysql.session import MysqlSession
from sidecar.shared.rowcodec.type_cast import TEXT_BYTES, column_type
from spark_merge.ddl.routes import Routes
from spark_merge.sinks.mysql.create import make_tables
from spark_merge.sinks.mysql.holds import holding_type, lost
from spark_merge.sinks.mysql.server_table import ServerColumn, read_table
from spark_merge.sinks.mysql.statements import literal_of
from spark_merge.sinks.mysql.tables import read_tables
from tests.support.services.mariadb import MariaDb
from tests.support.sql_columns import COLUMNS, LONGEST, SqlColumn, target_session, values

pytestmark = pytest.mark.xdist_group("sql-target")

DATABASE = "holding"
MORE = ["varchar(20) character set utf16", "year(2)", "uuid", "inet6", "float(5,1)", "double(8,2) unsigned", "binary(3)", "varchar(0)"]
TARGETS = [f"{one.type_text} {f'character set {one.charset}' * bool(one.charset)}" for one in COLUMNS if one.type_text != "json"] + MORE
"""But JSON, which at MariaDB is a LONGTEXT with a CHECK."""


@pytest.fixture(scope="module")
def session(mariadb: MariaDb) -> Iterator[MysqlSession]:
    with target_session(mariadb, DATABASE) as made:
        yield made


@pytest.fixture(scope="module")
def targets(session: MysqlSession) -> Mapping[TableName, ServerColumn]:
    """A table for each type, with the type's column."""
    made = {}
    for number, text in enumerate(TARGETS):
        name = TableName(DATABASE, f"t{number}")
        session.rows(f"CREATE TABLE {name} (n INT PRIMARY KEY, v {text})")
        table = read_table(session, name)
        assert table is not None
        made[name] = table.columns[1]
    return made


def written(session: MysqlSession, name: TableName, one: SqlColumn, texts: Sequence[str]) -> list[object]:
    """As they are read back. Raises where one is rejected, or the server warns."""
    literal = literal_of(one.column())
    rows = ", ".join(f"({number}, {literal(text)})" for number, text in enumerate(texts))
    try:
        session.change(f"INSERT INTO {name} VALUES {rows}")
        return [value for _, value in session.rows(f"SELECT n, v FROM {name} ORDER BY n")]
    finally:
        session.rows(f"DELETE FROM {name}")


@pytest.mark.parametrize("one", COLUMNS, ids=str)
def test_what_is_said_to_hold_holds_and_each_example_is_true(
    session: MysqlSession, targets: Mapping[TableName, ServerColumn], one: SqlColumn
) -> None:
    wrong = []
    for name, target in targets.items():
        loss = lost(one.typed(), target, session.flavour)
        texts = values(one) if loss is None else list(loss.values)
        if loss is not None and not texts:
            continue
        results: list[object] | None = None
        with suppress(pymysql.err.MySQLError, Warned):
            results = written(session, name, one, texts)
        holds = results is not None and len(set(results)) == len(texts) and (loss is None or len(texts) == 2)
        if holds != (loss is None):
            wrong.append((target.spelled(), loss, texts, results))
    assert not wrong


@pytest.mark.parametrize("one", COLUMNS, ids=str)
def test_a_type_holds_itself_and_what_create_tables_makes_of_it(session: MysqlSession, one: SqlColumn) -> None:
    name = TableName(DATABASE, "made")
    columns = (SqlColumn("bigint(20)"), one)
    definition = TableDefinition(
        (columns[0].definition("id", nullable=False), one.definition()),
        (IndexDefinition("PRIMARY", (IndexPart("id"),), unique=True, primary=True),),
    )
    schema = TableSchema(name, (columns[0].column("id", nullable=False), one.column()), ("id",), definition=definition)
    session.rows(f"DROP TABLE IF EXISTS {name}")
    make_tables(session, [schema], Routes())
    assert not read_tables(session, [schema], {name: name})[name].problem


WIDER = [one for one in COLUMNS if one.charset not in ("", "utf8mb4")]


@pytest.mark.parametrize("one", WIDER, ids=str)
def test_a_text_that_comes_into_a_wider_character_set_has_a_type_that_holds_it(session: MysqlSession, one: SqlColumn) -> None:
    """As at MySQL and TiDB, where utf8mb4 alone has a collation that compares bytes (by_bytes.py)."""
    name = TableName(DATABASE, "wider")
    session.rows(f"DROP TABLE IF EXISTS {name}")
    session.rows(f"CREATE TABLE {name} (n INT PRIMARY KEY, v {holding_type(one.definition(), 'utf8mb4')} COLLATE utf8mb4_nopad_bin)")
    room = TEXT_BYTES.get(column_type(one.definition()).name, 0)
    longest = ["é" * room] if one.charset == "latin1" and room < LONGEST else []  # each is a byte of latin1
    texts = [*values(one), *longest]
    assert written(session, name, one, texts) == texts


def test_a_null_and_a_value_that_the_target_computes_are_not_held(session: MysqlSession) -> None:
    name = TableName(DATABASE, "computed")
    one = SqlColumn("int(11)")
    definition = TableDefinition(
        (one.definition("id", nullable=False), one.definition()),
        (IndexDefinition("PRIMARY", (IndexPart("id"),), unique=True, primary=True),),
    )
    schema = TableSchema(name, (one.column("id", nullable=False), one.column()), ("id",), definition=definition)
    cases = {"INT NOT NULL": "NULL would be rejected", "INT AS (id + 1) STORED": "is generated at the target", "INT": ""}
    for text, problem in cases.items():
        session.rows(f"DROP TABLE IF EXISTS {name}")
        session.rows(f"CREATE TABLE {name} (id INT PRIMARY KEY, v {text})")
        result = read_tables(session, [schema], {name: name})[name].problem
        assert problem in result
        assert bool(result) == bool(problem)
