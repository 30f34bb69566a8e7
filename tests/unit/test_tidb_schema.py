"""Schemas from information_schema are those of TiDB's own TableInfo, and what orders reads is decided by them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sidecar.adapters.tidb_schema import TableFacts, TidbSchemas, labels, read_key
from sidecar.adapters.tidb_sql import Flavour
from sidecar.codecs.table_info import table_schema
from sidecar.core.model import Column, TableName, TableSchema
from sidecar.errors import FeedUnsuitable, RefusedRequest, SourceError
from tests.support.recordings import recording
from tests.support.services.mariadb import MariaDb

pytestmark = pytest.mark.xdist_group("tidb-source")

TABLE = TableName("app", "t")
ID, NAME, PRICE = Column("id", "int", nullable=False), Column("name", "text", nullable=False), Column("price", "double", nullable=False)


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDb]:
    with MariaDb(tmp_path_factory.mktemp("mariadb")) as server:
        yield server


@pytest.fixture
def schemas(db: MariaDb) -> Iterator[TidbSchemas]:
    db.execute("CREATE DATABASE app")
    yield TidbSchemas(db.settings())
    db.execute("DROP DATABASE app")


def facts(*, clustered: bool | None = True, partitioned: bool = False) -> TableFacts:
    return TableFacts(rows=1, bytes=1, clustered=clustered, partitioned=partitioned, charsets={"name": ("utf8mb4", "utf8mb4_bin")})


# ---- what orders the SELECTs ----------------------------------------------------------------------------------------


def test_a_clustered_primary_key_orders_the_reads() -> None:
    key = read_key(TableSchema(TABLE, (ID, NAME), ("name", "id")), facts(), Flavour.TIDB)
    assert [(part.column.name, part.charset, part.collation) for part in key.columns] == [
        ("name", "utf8mb4", "utf8mb4_bin"),
        ("id", "", ""),
    ]


def test_tidb_reads_a_table_without_a_clustered_key_by_rowid_whatever_its_key_is() -> None:
    assert read_key(TableSchema(TABLE, (ID, PRICE), ("price",)), facts(clustered=False), Flavour.TIDB).by_rowid


def test_a_partitioned_table_is_never_read_by_rowid() -> None:
    """EXCHANGE PARTITION can leave two rows of it with one _tidb_rowid."""
    unclustered = facts(clustered=False, partitioned=True)
    assert not read_key(TableSchema(TABLE, (ID, PRICE), ("id",)), unclustered, Flavour.TIDB).by_rowid
    with pytest.raises(SourceError, match="price is a double"):
        read_key(TableSchema(TABLE, (ID, PRICE), ("price",)), unclustered, Flavour.TIDB)


def test_other_servers_have_no_rowid() -> None:
    assert not read_key(TableSchema(TABLE, (ID,), ("id",)), facts(clustered=None), Flavour.MARIADB).by_rowid


def test_a_table_without_a_key_is_refused_also_where_a_rowid_would_help() -> None:
    with pytest.raises(SourceError, match="does not replicate"):
        read_key(TableSchema(TABLE, (ID,), ()), facts(clustered=False), Flavour.TIDB)


# ---- schemas --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column_type", "expected"),
    [
        ("enum('a','b')", ("a", "b")),
        ("enum('')", ("",)),
        ("set('it''s','x,y)','ü')", ("it's", "x,y)", "ü")),
        (r"enum('a\\b','c\'d','e\nf')", ("a\\b", "c'd", "e\nf")),
    ],
)
def test_labels_are_read_from_the_type(column_type: str, expected: tuple[str, ...]) -> None:
    assert labels(column_type) == expected


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
        found = re.match(r"create table (?:if not exists )?(?:changefeed_dump\.)?(\w+)", job.get("query", ""))
        if found and TableName(job["schema_name"], found[1]) in expected:
            ddls.setdefault(
                f"{job['schema_name']}.{found[1]}", re.sub(found[0], f"create table {job['schema_name']}.{found[1]}", job["query"])
            )
    return [as_mariadb(ddl) for ddl in ddls.values()], expected


@pytest.mark.parametrize("name", ["demo", "shop", "filter", "rowformats"])
def test_schemas_are_those_of_tidbs_own_table_info(db: MariaDb, name: str) -> None:
    ddls, expected = recorded_tables(recording(name))
    databases = {table.schema for table in expected}
    db.execute("SET sql_mode = ''", *(f"CREATE DATABASE {database}" for database in databases), *ddls)
    try:
        found = TidbSchemas(db.settings()).tables()
        without_ids = {table: replace(schema, table_id=0, physical_ids=()) for table, schema in expected.items()}
        assert {table: found.get(table) for table in expected} == without_ids
        assert len(expected) > 1
    finally:
        db.execute(*(f"DROP DATABASE {database}" for database in databases))


def test_views_sequences_and_system_tables_are_no_tables(db: MariaDb, schemas: TidbSchemas) -> None:
    db.execute("CREATE TABLE app.t (id int PRIMARY KEY)", "CREATE VIEW app.v AS SELECT 1 AS one", "CREATE SEQUENCE app.s")
    assert list(schemas.tables()) == [TABLE]


def test_the_handle_key_is_the_primary_or_the_smallest_unique_key_that_cannot_be_null(db: MariaDb, schemas: TidbSchemas) -> None:
    db.execute(
        "CREATE TABLE app.pk (a int NOT NULL, b int, UNIQUE (a), PRIMARY KEY (b, a))",
        "CREATE TABLE app.small (a int NOT NULL, b int NOT NULL, c int NOT NULL, UNIQUE (a, b), UNIQUE (c))",
        "CREATE TABLE app.nullable (a int, b int NOT NULL, UNIQUE (a), KEY (b))",
        "CREATE TABLE app.virtual (a int NOT NULL, v int AS (a + 1) VIRTUAL, UNIQUE (v), UNIQUE (a, v))",
        "CREATE TABLE app.stored (a int, s int AS (a + 1) STORED)",
    )
    found = {name.table: schema for name, schema in schemas.tables().items()}
    assert {name: schema.key for name, schema in found.items()} == {
        "pk": ("b", "a"), "small": ("c",), "nullable": (), "virtual": (), "stored": ()
    }  # fmt: skip
    assert found["virtual"].column_names() == ("a",)
    assert found["stored"].column_names() == ("a", "s")


def test_a_type_that_is_not_known_is_refused_with_its_name(db: MariaDb, schemas: TidbSchemas) -> None:
    db.execute("CREATE TABLE app.t (id int PRIMARY KEY, place point)")
    with pytest.raises(FeedUnsuitable, match=r"app\.t, column place: type point"):
        schemas.tables()


def test_many_tables_cost_a_handful_of_queries(db: MariaDb, schemas: TidbSchemas) -> None:
    db.execute(*(f"CREATE TABLE app.t{number} (id int PRIMARY KEY) ENGINE=Aria" for number in range(200)))
    (before,) = db.execute("SHOW GLOBAL STATUS LIKE 'Com_select'")
    assert len(schemas.tables()) == 200
    (after,) = db.execute("SHOW GLOBAL STATUS LIKE 'Com_select'")
    assert int(after[1]) - int(before[1]) < 10


# ---- estimates ------------------------------------------------------------------------------------------------------


def test_estimates_come_in_the_order_asked_for_and_name_what_cannot_be_dumped(db: MariaDb, schemas: TidbSchemas) -> None:
    db.execute("CREATE TABLE app.t (id int, name varchar(9), PRIMARY KEY (name, id))", "INSERT INTO app.t VALUES (1, 'a'), (2, 'b')")
    db.execute("CREATE TABLE app.heap (id int)", "CREATE TABLE app.price (p double PRIMARY KEY)", "ANALYZE TABLE app.t")
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


def test_a_key_predicate_picks_exactly_its_rows(db: MariaDb, schemas: TidbSchemas) -> None:
    columns = "s varchar(20) character set gbk, e enum('x','y'), n decimal(5,1), f float"
    db.execute(f"CREATE TABLE app.t ({columns}, PRIMARY KEY (s, e, n, f))")
    db.execute("INSERT INTO app.t VALUES ('中''', 'y', -1.5, 11.99), ('中''', 'x', -1.5, 11.99), ('a\\\\', 'x', 0, 0), ('b', 'x', 0, 0)")
    predicate = schemas.key_predicate(TABLE, [("中'", "y", "-1.5", "11.989999771118164"), ("a\\", "x", "0.0", "0.0"), ("c", "x", "0", "1")])
    assert db.execute(f"SELECT s FROM app.t WHERE {predicate} ORDER BY s") == (("a\\",), ("中'",))


def test_no_keys_pick_no_rows(db: MariaDb, schemas: TidbSchemas) -> None:
    db.execute("CREATE TABLE app.t (id int PRIMARY KEY)", "INSERT INTO app.t VALUES (1)")
    assert db.execute(f"SELECT * FROM app.t WHERE {schemas.key_predicate(TABLE, [])}") == ()


@pytest.mark.parametrize("key", [("one",), ("1", "2"), ()])
def test_a_key_that_does_not_fit_is_refused(db: MariaDb, schemas: TidbSchemas, key: tuple[str, ...]) -> None:
    db.execute("CREATE TABLE app.t (id int PRIMARY KEY)")
    with pytest.raises(RefusedRequest, match=r"--keys of app\.t"):
        schemas.key_predicate(TABLE, [("1",), key])


def test_keys_of_a_table_without_one_are_refused(db: MariaDb, schemas: TidbSchemas) -> None:
    db.execute("CREATE TABLE app.heap (id int)")
    for name in ("heap", "nowhere"):
        with pytest.raises(RefusedRequest, match=f"app.{name} does not exist or has no key"):
            schemas.key_predicate(TableName("app", name), [("1",)])
