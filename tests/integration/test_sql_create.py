"""Tables made at a real MariaDB from what the log tells are the source's: columns, kinds, keys, partitions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from sidecar.adapters.tidb.schema import TidbSchemas
from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import (
    Column,
    ColumnDefinition,
    IndexDefinition,
    IndexPart,
    TableDefinition,
    TableName,
    TableSchema,
)
from sidecar.shared.ticdc.selected_columns import CompiledSelector, SelectedColumns
from sidecar.shared.ticdc.table_rules import TableRules
from spark_merge.ddl.routes import Routes, routes_of
from spark_merge.sinks.mysql.create import Made, make_tables
from tests.lanes import LANE
from tests.support.recordings import recording
from tests.support.services.mariadb import MariaDb
from tests.support.services.mysql import PROGRAM
from tests.support.sql_target import OneConnection, recorded_schemas

pytestmark = [pytest.mark.xdist_group("sql-target"), pytest.mark.recordings]

RECORDINGS = ("shop", "ddl", "ddl-new", "filter", *(("demo", "shop-new", "rowformats", "restart", "large", "tz") if LANE.whole else ()))
MARIADBS = {"utf8mb4_0900_ai_ci": "utf8mb4_uca1400_nopad_ai_ci"}
DATABASES = ("copied", "side_copy", "mall_copy", "warehouse_copy", "app")
ROUTES = routes_of("shop.*=>copied.*, mall.*=>mall_copy.*, side.*=>side_copy.*, warehouse.*=>warehouse_copy.*")


@pytest.fixture
def target(mariadb: MariaDb) -> Iterator[OneConnection]:
    session = OneConnection(mariadb)
    yield session
    session.close()
    mariadb.execute(*(f"DROP DATABASE IF EXISTS {database}" for database in DATABASES))


@pytest.mark.parametrize("moment", ["start_ts", "end_ts"])
@pytest.mark.parametrize("name", RECORDINGS)
def test_every_recorded_table_is_made_with_its_columns_kinds_and_key(
    mariadb: MariaDb, target: OneConnection, name: str, moment: str
) -> None:
    schemas = recorded_schemas(recording(name), moment)
    made = make_tables(target, schemas.values(), ROUTES)
    result = TidbSchemas(mariadb.settings()).tables()
    expected = {
        ROUTES.target(one): replace(schema, name=ROUTES.target(one), table_id=0, physical_ids=()) for one, schema in schemas.items()
    }
    assert {one.name for one in made} == expected.keys()
    assert {table: result[table].undefined() for table in expected} == {table: one.undefined() for table, one in expected.items()}
    assert all(one.partitioned for one in made)
    parted = {table for table, schema in expected.items() if schema.definition and schema.definition.partitioning}
    assert parted == {table for table in expected if "PARTITION BY" in mariadb.execute(f"SHOW CREATE TABLE {table}")[0][1]}
    assert make_tables(target, schemas.values(), ROUTES) == [], "what is there is only looked at"


@pytest.mark.parametrize("name", ["shop", "filter"])
def test_charsets_and_collations_are_the_sources(mariadb: MariaDb, target: OneConnection, name: str) -> None:
    schemas = recorded_schemas(recording(name), "end_ts")
    make_tables(target, schemas.values(), ROUTES)
    for table, schema in schemas.items():
        assert schema.definition is not None
        to = ROUTES.target(table)
        results = mariadb.execute(
            "SELECT COLUMN_NAME, CHARACTER_SET_NAME, COLLATION_NAME FROM information_schema.columns"
            f" WHERE TABLE_SCHEMA = '{to.schema}' AND TABLE_NAME = '{to.table}'"
        )
        expected = {
            (one.name, one.charset, one.collation if PROGRAM else MARIADBS.get(one.collation, one.collation))
            for one in schema.definition.columns
            if one.charset
        }
        assert {row for row in results if row[1] is not None} - {row for row in results if row[0] in _json_columns(schema)} == expected


def _json_columns(schema: TableSchema) -> set[str]:
    return {column.name for column in schema.columns if column.kind == "json"}


# ---- what is there, and what cannot be ---------------------------------------------------------------------------------


def table(**changes: object) -> TableSchema:
    columns = (
        ColumnDefinition("id", "bigint(20)", nullable=False),
        ColumnDefinition("word", "varchar(20)", charset="utf8mb4", collation="utf8mb4_bin", default="'it''s'"),
        ColumnDefinition("at", "timestamp(3)", default="CURRENT_TIMESTAMP(3)", on_update="CURRENT_TIMESTAMP(3)"),
        ColumnDefinition("twice", "bigint(20)", generated="`id` * 2", stored=True),
        ColumnDefinition("size", "int(11)", generated="length(`word`)"),
        ColumnDefinition("mood", "enum('a','b\\c','d''e')", charset="utf8mb4", collation="utf8mb4_bin"),
    )
    indexes = (
        IndexDefinition("PRIMARY", (IndexPart("id"),), unique=True, primary=True),
        IndexDefinition("word", (IndexPart("word", 3),)),
        IndexDefinition("low", (IndexPart(expression="lower(`word`)"),)),
    )
    definition = TableDefinition(columns, indexes, charset="utf8mb4", collation="utf8mb4_bin")
    seen = (
        Column("id", "int", nullable=False), Column("word", "text"), Column("at", "timestamp", scale=3), Column("twice", "int"),
        Column("mood", "enum", elements=("a", "b\\c", "d'e")),
    )  # fmt: skip
    return TableSchema(TableName("app", "t"), seen, ("id",), definition=replace(definition, **changes))  # type: ignore[arg-type]


def test_generated_columns_defaults_labels_and_prefixes_are_made(mariadb: MariaDb, target: OneConnection) -> None:
    assert make_tables(target, [table()], Routes()) == [Made(TableName("app", "t"))]
    mariadb.execute("INSERT INTO app.t (id, mood) VALUES (4, 'b\\\\c')")
    (row,) = mariadb.execute("SELECT word, twice, size, mood FROM app.t")
    assert row == ("it's", 8, 4, "b\\c")
    text = mariadb.execute("SHOW CREATE TABLE app.t")[0][1]
    assert "KEY `word` (`word`(3))" in text
    assert ("low" in text) == bool(PROGRAM), "MariaDB has no index on an expression"


def test_partitions_that_the_target_cannot_have_are_left_out(mariadb: MariaDb, target: OneConnection) -> None:
    unable = table(partitioning="PARTITION BY HASH (length(`word`)) PARTITIONS 2")  # not in the primary key
    assert make_tables(target, [unable], Routes()) == [Made(TableName("app", "t"), partitioned=False)]
    assert "PARTITION" not in mariadb.execute("SHOW CREATE TABLE app.t")[0][1]


@pytest.mark.parametrize(
    ("statement", "difference"),
    [
        ("ALTER TABLE app.t MODIFY word varchar(30)", r"word varchar\(30\) and not word varchar\(20\)"),
        ("ALTER TABLE app.t DROP COLUMN mood", "nothing and not mood enum"),
        ("ALTER TABLE app.t ADD COLUMN more int", "more int and not nothing"),
        ("ALTER TABLE app.t MODIFY at timestamp(3) NOT NULL", "at timestamp.3. not null and not at"),
        ("ALTER TABLE app.t DROP PRIMARY KEY", r"no unique key of exactly \(id\)"),
    ],
)
def test_a_table_of_that_name_with_other_columns_is_refused_with_the_difference(
    mariadb: MariaDb, target: OneConnection, statement: str, difference: str
) -> None:
    make_tables(target, [table()], Routes())
    mariadb.execute(statement)
    with pytest.raises(SinkError, match=difference):
        make_tables(target, [table()], Routes())


WORDLESS = SelectedColumns((CompiledSelector("", TableRules.of(["*.*"]), TableRules.of(["column.*", "!column.word"])),)).narrowed(table())


def test_a_table_is_made_without_the_columns_that_the_changefeed_leaves_out(mariadb: MariaDb, target: OneConnection) -> None:
    """And without what is made of them: an index, a virtual column. The expression of an index may be over one."""
    assert make_tables(target, [WORDLESS], Routes()) == [Made(TableName("app", "t"))]
    assert [row[0] for row in mariadb.execute("SHOW COLUMNS FROM app.t")] == ["id", "at", "twice", "mood"]
    assert [row[2] for row in mariadb.execute("SHOW INDEX FROM app.t")] == ["PRIMARY"]


def test_a_stored_column_over_one_that_is_omitted_is_plain(mariadb: MariaDb, target: OneConnection) -> None:
    definition = WORDLESS.definition
    assert definition is not None
    columns = tuple(replace(one, generated="length(`word`)") if one.name == "twice" else one for one in definition.columns)
    make_tables(target, [replace(WORDLESS, definition=replace(definition, columns=columns))], Routes())
    mariadb.execute("INSERT INTO app.t (id, twice) VALUES (4, 9)")
    assert mariadb.execute("SELECT twice FROM app.t") == ((9,),)


def test_a_table_that_has_them_is_fit_unless_a_unique_key_of_it_hangs_on_them(mariadb: MariaDb, target: OneConnection) -> None:
    make_tables(target, [table()], Routes())
    assert make_tables(target, [WORDLESS], Routes()) == []
    mariadb.execute("ALTER TABLE app.t ADD UNIQUE (mood, word)")
    unique = IndexDefinition("u", (IndexPart("mood"), IndexPart("word")), unique=True)
    assert WORDLESS.definition is not None
    narrowed = replace(WORDLESS, definition=replace(WORDLESS.definition, indexes=(*WORDLESS.definition.indexes, unique)))
    with pytest.raises(SinkError, match=r"may be one in app\.t at the target, by its unique key \(mood, word\)"):
        make_tables(target, [narrowed], Routes())


def test_a_log_without_definitions_and_routes_that_meet_are_refused(target: OneConnection) -> None:
    with pytest.raises(SinkError, match=r"app\.t: the log does not say"):
        make_tables(target, [replace(table(), definition=None)], Routes())
    other = replace(table(), name=TableName("app", "u"))
    with pytest.raises(SinkError, match="would both be"):
        make_tables(target, [table(), other], routes_of("app.u=>app.t"))
