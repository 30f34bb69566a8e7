"""Schemas from the information_schema of a real server are those of TiDB's own TableInfo; estimates and keys of its tables."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from sidecar.adapters.tidb.infos import TidbInfos
from sidecar.adapters.tidb.schema import TidbSchemas
from sidecar.shared.errors import FeedUnsuitable, RefusedRequest, SourceError, UnfitKeys
from sidecar.shared.model.nouns import CommitTs, TableDefinition, TableName, TableSchema
from sidecar.shared.mysql.account import Account
from sidecar.shared.mysql.retry import carried_out
from sidecar.shared.mysql.roles import Role
from sidecar.shared.mysql.session import MysqlSession
from sidecar.shared.reads.row import RowImage, read_row
from sidecar.shared.rowcodec.table_info import table_schema
from sidecar.shared.sql.text import quoted_text
from tests.support.recordings import recording
from tests.support.services.mariadb import MariaDb

pytestmark = pytest.mark.xdist_group("mariadb")

TABLE = TableName("app", "t")


@pytest.fixture
def schemas(mariadb: MariaDb) -> Iterator[TidbSchemas]:
    mariadb.execute("CREATE DATABASE app")
    yield TidbSchemas(mariadb.settings())
    mariadb.execute("DROP DATABASE app")


# ---- schemas --------------------------------------------------------------------------------------------------------


def test_labels_with_odd_characters_are_read_from_the_type_as_the_server_shows_it(mariadb: MariaDb, schemas: TidbSchemas) -> None:
    odd = ("C:\\dir", "a\\", "b\nc", "it's", "\\n", "x,y)", "ü", "")
    mariadb.execute(f"CREATE TABLE app.t (id INT PRIMARY KEY, e ENUM({','.join(map(quoted_text, odd))}))")
    assert schemas.tables()[TableName("app", "t")].columns[1].elements == odd


def as_mariadb(ddl: str) -> str:
    """TiDB's own words out, and its collation for the one that MariaDB has instead."""
    without = re.sub(r"\b(non)?clustered\b", "", ddl)
    return without.replace("auto_random", "auto_increment").replace("utf8mb4_0900_ai_ci", "utf8mb4_uca1400_ai_ci")


def recorded_tables(folder: Path) -> tuple[list[str], dict[TableName, TableSchema]]:
    """The DDL that made the recorded tables, and their schemas by TiDB's TableInfo."""
    start_ts = json.loads((folder / "recording.json").read_text())["start_ts"]
    expected = {}
    for path in (folder / "schema" / start_ts).glob("*.*.json"):
        schema = table_schema(json.loads(path.read_text()), schema=path.name.split(".")[0])
        expected[schema.name] = schema
    ddls: dict[str, str] = {}
    for line in (folder / "schema" / "ddl_history.jsonl").read_text().splitlines():
        job = json.loads(line)["job_meta"]
        job = json.loads(job) if isinstance(job, str) else job
        match = re.match(r"create table (?:if not exists )?(?:changefeed_dump\.)?(\w+)", job.get("query", ""))
        if match and TableName(job["schema_name"], match[1]) in expected:
            ddls.setdefault(
                f"{job['schema_name']}.{match[1]}", re.sub(match[0], f"create table {job['schema_name']}.{match[1]}", job["query"])
            )
    return [as_mariadb(ddl) for ddl in ddls.values()], expected


def as_reported(schema: TableSchema) -> TableDefinition:
    """Without what MariaDB has otherwise: ids of indexes, tables that are not clustered, default collations, a decimal's default with all
    its digits."""
    definition = schema.definition
    assert definition is not None
    columns = [
        replace(column, collation="", default=column.default and column.default.replace(".0000", "")) for column in definition.columns
    ]
    indexes = sorted((replace(index, id=0) for index in definition.indexes), key=lambda index: (not index.primary, index.name))
    return replace(definition, columns=tuple(columns), indexes=tuple(indexes), clustered=True, charset="", collation="")


@pytest.mark.parametrize("name", ["demo", "shop", "filter", "rowformats"])
def test_schemas_are_those_of_tidbs_own_table_info(mariadb: MariaDb, name: str) -> None:
    ddls, expected = recorded_tables(recording(name))
    databases = {table.schema for table in expected}
    mariadb.execute("SET sql_mode = ''", *(f"CREATE DATABASE {database}" for database in databases), *ddls)
    try:
        result = TidbSchemas(mariadb.settings()).tables()
        without_ids = {table: replace(schema.undefined(), table_id=0, physical_ids=()) for table, schema in expected.items()}
        assert {table: result[table].undefined() for table in expected} == without_ids
        assert {table: as_reported(result[table]) for table in expected} == {
            table: as_reported(schema) for table, schema in expected.items()
        }
        assert len(expected) > 1
    finally:
        mariadb.execute(*(f"DROP DATABASE {database}" for database in databases))


def test_views_sequences_and_system_tables_are_no_tables(mariadb: MariaDb, schemas: TidbSchemas) -> None:
    mariadb.execute("CREATE TABLE app.t (id int PRIMARY KEY)", "CREATE VIEW app.v AS SELECT 1 AS one", "CREATE SEQUENCE app.s")
    assert list(schemas.tables()) == [TABLE]


def test_the_handle_key_is_the_primary_or_the_smallest_unique_key_that_cannot_be_null(mariadb: MariaDb, schemas: TidbSchemas) -> None:
    mariadb.execute(
        "CREATE TABLE app.pk (a int NOT NULL, b int, UNIQUE (a), PRIMARY KEY (b, a))",
        "CREATE TABLE app.small (a int NOT NULL, b int NOT NULL, c int NOT NULL, UNIQUE (a, b), UNIQUE (c))",
        "CREATE TABLE app.nullable (a int, b int NOT NULL, UNIQUE (a), KEY (b))",
        "CREATE TABLE app.virtual (a int NOT NULL, v int AS (a + 1) VIRTUAL, UNIQUE (v), UNIQUE (a, v))",
        "CREATE TABLE app.stored (a int, s int AS (a + 1) STORED)",
    )
    result = {name.table: schema for name, schema in schemas.tables().items()}
    assert {name: schema.key for name, schema in result.items()} == {
        "pk": ("b", "a"), "small": ("c",), "nullable": (), "virtual": (), "stored": ()
    }  # fmt: skip
    assert result["virtual"].column_names() == ("a",)
    assert result["stored"].column_names() == ("a", "s")


def test_a_type_that_is_not_known_is_refused_with_its_name(mariadb: MariaDb, schemas: TidbSchemas) -> None:
    mariadb.execute("CREATE TABLE app.t (id int PRIMARY KEY, place point)")
    with pytest.raises(FeedUnsuitable, match=r"app\.t, column place: type point"):
        schemas.tables()


def test_many_tables_cost_a_handful_of_queries(mariadb: MariaDb, schemas: TidbSchemas) -> None:
    mariadb.execute(*(f"CREATE TABLE app.t{number} (id int PRIMARY KEY) ENGINE=Aria" for number in range(50)))
    (before,) = mariadb.execute("SHOW GLOBAL STATUS LIKE 'Com_select'")
    assert len(schemas.tables()) == 50
    (after,) = mariadb.execute("SHOW GLOBAL STATUS LIKE 'Com_select'")
    assert int(after[1]) - int(before[1]) < 10


# ---- estimates ------------------------------------------------------------------------------------------------------


def test_estimates_come_in_the_order_of_the_request_and_name_what_cannot_be_dumped(mariadb: MariaDb, schemas: TidbSchemas) -> None:
    mariadb.execute("CREATE TABLE app.t (id int, name varchar(9), PRIMARY KEY (name, id))", "INSERT INTO app.t VALUES (1, 'a'), (2, 'b')")
    mariadb.execute("CREATE TABLE app.heap (id int)", "CREATE TABLE app.price (p double PRIMARY KEY)", "ANALYZE TABLE app.t")
    names = [TableName("app", name) for name in ("price", "t", "nowhere", "heap")]
    price, table, nowhere, heap = schemas.estimates(names)
    assert [estimate.table for estimate in (price, table, nowhere, heap)] == names
    assert (table.rows, table.read_by, table.refused) == (2, "key (name, id)", None)
    assert (table.bytes or 0) > 0
    assert "p is a double" in (price.refused or "")
    assert "does not exist" in (nowhere.refused or "")
    assert "does not replicate" in (heap.refused or "")


def test_no_tables_have_no_estimates(schemas: TidbSchemas) -> None:
    assert list(schemas.estimates([])) == []


# ---- keys -----------------------------------------------------------------------------------------------------------


def test_a_key_predicate_picks_exactly_its_rows(mariadb: MariaDb, schemas: TidbSchemas) -> None:
    columns = "s varchar(20) character set gbk, e enum('x','y'), n decimal(5,1), f float"
    mariadb.execute(f"CREATE TABLE app.t ({columns}, PRIMARY KEY (s, e, n, f))")
    mariadb.execute(
        "INSERT INTO app.t VALUES ('中''', 'y', -1.5, 11.99), ('中''', 'x', -1.5, 11.99), ('a\\\\', 'x', 0, 0), ('b', 'x', 0, 0)"
    )
    predicate = schemas.key_predicate(TABLE, [("中'", "y", "-1.5", "11.989999771118164"), ("a\\", "x", "0.0", "0.0"), ("c", "x", "0", "1")])
    assert mariadb.execute(f"SELECT s FROM app.t WHERE {predicate} ORDER BY s") == (("a\\",), ("中'",))


def test_keys_come_back_in_canonical_text_and_each_once(mariadb: MariaDb, schemas: TidbSchemas) -> None:
    mariadb.execute("CREATE TABLE app.t (n decimal(5,1), d datetime(3), i int, PRIMARY KEY (n, d, i))")
    same = [("1.50", "2024-01-01 00:00:00", "007"), ("1.5", "2024-01-01 00:00:00.000", "7")]
    assert schemas.keys(TABLE, [*same, ("-0.0", "2024-01-01 00:00:00.12", "-1")]) == (
        ("1.5", "2024-01-01 00:00:00.000", "7"),
        ("0.0", "2024-01-01 00:00:00.120", "-1"),
    )


def test_no_keys_pick_no_rows(mariadb: MariaDb, schemas: TidbSchemas) -> None:
    mariadb.execute("CREATE TABLE app.t (id int PRIMARY KEY)", "INSERT INTO app.t VALUES (1)")
    assert mariadb.execute(f"SELECT * FROM app.t WHERE {schemas.key_predicate(TABLE, [])}") == ()


@pytest.mark.parametrize("key", [("one",), ("1", "2"), ()])
def test_a_key_that_does_not_fit_is_refused(mariadb: MariaDb, schemas: TidbSchemas, key: tuple[str, ...]) -> None:
    mariadb.execute("CREATE TABLE app.t (id int PRIMARY KEY)")
    with pytest.raises(UnfitKeys, match=r"--keys of app\.t") as refused:
        schemas.keys(TABLE, [("1",), key, ("2",), ("two",)])
    assert refused.value.keys == (key, ("two",)), "all of them, so that a repair can leave them out"


def test_keys_of_a_table_without_one_are_refused(mariadb: MariaDb, schemas: TidbSchemas) -> None:
    mariadb.execute("CREATE TABLE app.heap (id int)")
    for name in ("heap", "nowhere"):
        with pytest.raises(RefusedRequest, match=f"app.{name} does not exist or has no key"):
            schemas.keys(TableName("app", name), [("1",)])


def read(mariadb: MariaDb, table: TableName, key: dict[str, str]) -> RowImage | None:
    with closing(MysqlSession(Account.of(mariadb.settings()), Role.READ_SOURCE)) as session:
        key_of = lambda columns: tuple(key[column.name] for column in columns)  # noqa: E731 - as short as it is used
        return carried_out(session, lambda: read_row(session, table, key.keys(), key_of), doing="reading a row")


def test_a_row_is_read_by_the_key_that_its_message_has(mariadb: MariaDb, schemas: TidbSchemas) -> None:
    """Beside a DDL SQL can have another handle key already."""
    columns = "e enum('x','y') NOT NULL, n decimal(5,1) NOT NULL, s varchar(20) character set gbk NOT NULL, v binary(2), u int NOT NULL"
    mariadb.execute(f"CREATE TABLE app.t ({columns}, PRIMARY KEY (s, e, n), UNIQUE KEY (u))")
    mariadb.execute("INSERT INTO app.t VALUES ('y', -1.5, '中''', x'01', 7), ('x', -1.5, '中''', NULL, 8)")
    whole = RowImage(schemas.tables()[TABLE].columns, ["y", "-1.5", "中'", "0100", "7"])
    assert read(mariadb, TABLE, {"s": "中'", "n": "-1.5", "e": "y"}) == whole
    assert read(mariadb, TABLE, {"u": "7"}) == whole
    assert read(mariadb, TABLE, {"u": "9"}) is None


@pytest.mark.parametrize(
    ("table", "key", "says"),
    [
        ("nowhere", {"id": "1"}, "it is not there"),
        ("t", {"gone": "1", "id": "1"}, "it does not have gone, of the key that the message has"),
        ("t", {}, "the message has no column of its key"),
        ("t", {"v": "1"}, "2 rows have it"),
        ("t", {"id": "one"}, "one"),
    ],
)
def test_a_row_that_its_key_does_not_name_is_refused(
    mariadb: MariaDb, schemas: TidbSchemas, table: str, key: dict[str, str], says: str
) -> None:
    mariadb.execute("CREATE TABLE app.t (id int PRIMARY KEY, v int)", "INSERT INTO app.t VALUES (1, 1), (2, 1)")
    with pytest.raises(SourceError, match=says) as refused:
        read(mariadb, TableName("app", table), key)
    assert refused.value.hint


def test_a_cluster_that_limits_selects_loses_no_table(mariadb: MariaDb, schemas: TidbSchemas) -> None:
    """`sql_select_limit` cuts information_schema without a word: tables would be taken for dropped."""
    names = [f"t{number}" for number in range(5)]
    mariadb.execute(*(f"CREATE TABLE app.{name} (id int PRIMARY KEY, v int)" for name in names))
    mariadb.execute("SET GLOBAL sql_select_limit = 2")
    try:
        result = schemas.tables()
        assert {name.table: len(schema.columns) for name, schema in result.items() if name.schema == "app"} == dict.fromkeys(names, 2)
    finally:
        mariadb.execute("SET GLOBAL sql_select_limit = DEFAULT")


def test_names_are_of_views_too(mariadb: MariaDb, schemas: TidbSchemas) -> None:
    """Finding 14i: the topic of a view has its CREATE and DROP."""
    mariadb.execute("CREATE TABLE app.t (id int PRIMARY KEY)", "CREATE VIEW app.v AS SELECT id FROM app.t")
    assert schemas.names().keys() == {TABLE, TableName("app", "v")}
    assert schemas.tables().keys() == {TABLE}


# ---- what only TiDB has ---------------------------------------------------------------------------------------------


def test_a_server_that_is_no_tidb_has_no_such_time(mariadb: MariaDb) -> None:
    schemas = TidbSchemas(mariadb.settings())
    assert schemas.now_ts() is None
    assert schemas.names() == {}
    with pytest.raises(SourceError, match="is MariaDB, which cannot tell what there was at TSO 7"):
        schemas.tables(CommitTs(7))


def test_a_server_that_is_no_tidb_is_refused(mariadb: MariaDb) -> None:
    with pytest.raises(SourceError, match="is no TiDB"):
        TidbInfos(mariadb.settings()).snapshot()
