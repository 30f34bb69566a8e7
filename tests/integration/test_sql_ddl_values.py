"""What a DDL makes of the rows that are there: at a real MariaDB, with TiDB's rules as the judge (tests/support/tidb_casts.py)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pytest

from sidecar.core.model import Column, ColumnDefinition, TableDefinition, TableName, TableSchema, ts_at
from sidecar.errors import SinkError, UnsupportedDdl
from sidecar.log.manifest import DdlRecord
from sidecar.mysql.flavour import Flavour
from sidecar.mysql.roles import Role
from sidecar.rowcodec.kv_layout import layout_of
from spark_merge.ddl.parser import parsed
from spark_merge.ddl.routes import Routes, routes_of
from spark_merge.port.contract import Head
from spark_merge.sinks.mysql.create import make_tables
from spark_merge.sinks.mysql.ddl import DdlRunner, DdlSettings, MemoryDdlPosition
from spark_merge.sinks.mysql.ddl_values import rewrites
from spark_merge.sinks.mysql.formulas import is_certain, plain_columns
from spark_merge.sinks.mysql.statements import literal_of
from tests.lanes import LANE
from tests.support.kv_encoder import column as kv_column
from tests.support.kv_encoder import info
from tests.support.services.mariadb import MariaDb
from tests.support.services.mysql import PROGRAM
from tests.support.slow_canal import column as slow_column
from tests.support.sql_target import OneConnection, head_of
from tests.support.tidb_casts import TYPES, Typed, cast, values_of

pytestmark = [pytest.mark.xdist_group("sql-target")]

NAME = TableName("app", "t")
ID, ID_MADE = Column("id", "int", nullable=False), ColumnDefinition("id", "int(11)", nullable=False)
TS = ts_at(1_700_000_000_000)


DIALECT = Flavour.MYSQL if PROGRAM else Flavour.MARIADB


@pytest.fixture
def target(mariadb: MariaDb) -> Iterator[Target]:
    mariadb.execute("DROP DATABASE IF EXISTS app", "CREATE DATABASE app")
    yield Target(mariadb)
    mariadb.execute("DROP DATABASE app")


def table(*columns: tuple[Column, ColumnDefinition], name: TableName = NAME, partitioning: str = "") -> TableSchema:
    made = TableDefinition((ID_MADE, *(one for _, one in columns)), partitioning=partitioning)
    return TableSchema(name, (ID, *(one for one, _ in columns)), ("id",), definition=made)


def head(query: str, before: TableSchema | None, after: TableSchema | None) -> Head:
    tables = ({one.name: one} if one else {} for one in (before, after))
    name = (after or before or table()).name
    return head_of(0, [DdlRecord(TS, name.schema, name.table, query)], *tables)


@dataclass
class Target:
    server: MariaDb

    def carry_out(self, head: Head, routes: Routes | None = None) -> None:
        connect = lambda: OneConnection(self.server, role=Role.ALTER_TARGET)  # noqa: E731
        DdlRunner(connect, MemoryDdlPosition(), DdlSettings("log-1", routes or Routes())).carry_out(head)

    def column(self, one: Column) -> list[str | None]:
        """Its values in the order of the rows."""
        shown = {"binary": f"HEX({one.name})", "bit": f"{one.name} + 0"}.get(one.kind, f"CAST({one.name} AS CHAR)")
        connection = OneConnection(self.server, role=Role.ALTER_TARGET, conv={})
        rows = connection.rows(f"SELECT {shown} FROM app.t ORDER BY id")
        connection.close()
        return [text for (text,) in rows]

    def makes(self, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """A new table. `columns` and values in SQL."""
        connection = OneConnection(self.server, role=Role.ALTER_TARGET)
        connection.rows("DROP TABLE IF EXISTS app.t")
        made = ", ".join(("id int primary key", *columns))
        connection.rows(f"CREATE TABLE app.t ({made}) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin")
        if rows:
            values = ", ".join(f"({', '.join((str(number), *row))})" for number, row in enumerate(rows))
            connection.rows(f"INSERT INTO app.t VALUES {values}")
        connection.close()


# ---- MODIFY ------------------------------------------------------------------------------------------------------------


def _modify(old: Typed, new: Sequence[Typed]) -> Head:
    """A statement that gives columns a0, a1, … of `old` the types of `new`."""
    before = table(*(named(old, number) for number in range(len(new))))
    after = table(*(named(one, number) for number, one in enumerate(new)))
    return head("ALTER TABLE t " + ", ".join(f"MODIFY a{number} {one.text}" for number, one in enumerate(new)), before, after)


def named(one: Typed, number: int) -> tuple[Column, ColumnDefinition]:
    return replace(one.column, name=f"a{number}"), replace(one.definition, name=f"a{number}")


def _is_refused(old: Typed, new: Typed) -> bool:
    one = _modify(old, [new])
    statement = parsed(one.ddls[0].query, NAME.schema)
    try:
        rewrites(statement, one.ddls[0], one.schemas[NAME], one.next_schemas[NAME], DIALECT, moment=0)
    except UnsupportedDdl as error:
        return f"was {old.text} and is {new.text}" in error.message and "dumpstart --tables app.t" in error.hint
    return False


def _same(made: str | None, expected: str | None, new: Typed) -> bool:
    if new.column.kind in ("double", "float") and made is not None and expected is not None:
        return float(made) == float(expected)
    return made == expected


@pytest.mark.parametrize("old", TYPES, ids=lambda one: one.text)
def test_what_a_modify_leaves_is_what_tidb_makes_or_the_ddl_is_refused(target: Target, old: Typed) -> None:
    """A value that a strict session of TiDB refuses was clipped there, in a session that is not: the target may do nothing else."""
    done = [new for new in TYPES if new != old and not _is_refused(old, new)]
    assert done or old.column.kind in ("year", "double", "json"), "else nothing is looked at"
    values = values_of(old)
    casts = {(value, new.text): cast(value, old, new) for value in values for new in done}
    literal = literal_of(old.column)
    fits = [["NULL" if casts[value, new.text][1] else literal(value) for new in done] for value in values]
    target.makes([f"a{number} {old.text}" for number in range(len(done))], fits)
    target.carry_out(_modify(old, done))
    for number, new in enumerate(done):
        for value, made in zip(values, target.column(replace(new.column, name=f"a{number}")), strict=True):
            expected, refused = casts[value, new.text]
            assert _same(made, None if refused else expected, new), (old.text, new.text, value)
    clipped = [(value, new) for new in done for value in values if casts[value, new.text][1]]
    for value, new in clipped if LANE.whole else clipped[:: max(len(clipped) // 3, 1)]:
        target.makes([f"a0 {old.text}"], [[literal(value)]])
        try:
            target.carry_out(_modify(old, [new]))
        except SinkError:
            continue
        (made,) = target.column(replace(new.column, name="a0"))
        assert _same(made, casts[value, new.text][0], new), (old.text, new.text, value)


# ---- ADD COLUMN --------------------------------------------------------------------------------------------------------

EXISTING: tuple[tuple[str, str, str, str], ...] = (
    # the type, what the statement says, what the definition has as its default, what rows have then
    ("int(11)", "NULL", "", "NULL"),
    ("int(11)", "NOT NULL", "", "0"),
    ("int(11)", "DEFAULT '1.5'", "'1.5'", "2"),
    ("decimal(9,2)", "NOT NULL DEFAULT 1.005", "1.005", "1.01"),
    ("double", "DEFAULT 1e20", "'100000000000000000000'", "1e20"),
    ("varchar(30)", "NOT NULL", "", ""),
    ("varchar(30)", r"DEFAULT 'it''s \\ ü'", r"'it''s \\ ü'", "it's \\ ü"),
    ("date", "NOT NULL", "", "0000-00-00"),
    ("datetime", "NOT NULL", "", "0000-00-00 00:00:00"),
    ("timestamp", "NOT NULL", "", "0000-00-00 00:00:00"),
    ("datetime", "DEFAULT '2020-01-01 00:00:00.7'", "'2020-01-01 00:00:01'", "2020-01-01 00:00:01"),
    ("datetime(3)", "DEFAULT '2020-01-01 00:00:00'", "'2020-01-01 00:00:00.000'", "2020-01-01 00:00:00.000"),
    ("time", "DEFAULT '00:00:59.5'", "'00:01:00'", "00:01:00"),
    ("timestamp", "DEFAULT '2020-01-01 08:00:00'", "'2020-01-01 00:00:00'", "2020-01-01 00:00:00"),
    ("year(4)", "DEFAULT 24", "'24'", "2024"),
    ("year(4)", "NOT NULL", "", "0000"),
    ("enum('x','y')", "NOT NULL", "", "x"),
    ("set('x','y')", "NOT NULL DEFAULT 'y,x'", "'y,x'", "x,y"),
    ("json", "NOT NULL", "", "null"),
    ("json", "NULL", "", "NULL"),
    ("binary(4)", "NOT NULL", "", "00000000"),
    ("binary(4)", "DEFAULT 'ab'", "'ab'", "61620000"),
    ("bit(8)", "DEFAULT b'101'", "b'101'", "5"),
    ("timestamp", "DEFAULT CURRENT_TIMESTAMP", "CURRENT_TIMESTAMP", "2023-11-14 22:13:20"),
)


def _column(kind: str, says: str, default: str) -> tuple[Column, ColumnDefinition]:
    made = next((one for one in TYPES if one.text == kind), None)
    column = made.column if made else slow_column("a", kind)
    column = replace(column, name="a", nullable="NOT NULL" not in says)
    charset = "utf8mb4" if column.kind in ("text", "enum", "set") else ""
    made_of = ColumnDefinition("a", kind, nullable=column.nullable, default=default or None, charset=charset)
    return column, made_of


@pytest.mark.parametrize(("kind", "says", "default", "expected"), EXISTING)
def test_what_rows_have_in_a_new_column_is_what_the_log_says(target: Target, kind: str, says: str, default: str, expected: str) -> None:
    """Whatever the zone of its author, and whatever the target makes of the text."""
    column, made = _column(kind, says, default)
    target.makes([], [[]])
    target.carry_out(head(f"ALTER TABLE t ADD COLUMN a {kind} {says}", table(), table((column, made))))
    (value,) = target.column(column)
    shown = "NULL" if value is None else value
    assert shown == expected or (column.kind == "double" and float(shown) == float(expected))


def test_moments_of_two_zones_are_both_the_logs(target: Target) -> None:
    """A session has one clock, and TiDB put its author's time into the DATETIME."""
    origins = {"a": ("timestamp", "2023-11-14 22:13:19"), "b": ("datetime", "2023-11-15 06:13:19")}
    described = info(
        [
            kv_column(1, "id", "int", primary=True),
            *(kv_column(2 + n, name, kind, origin_default=text) for n, (name, (kind, text)) in enumerate(origins.items())),
        ],
        int_handle=True,
    )
    columns = [
        (Column(name, kind), ColumnDefinition(name, kind, default="CURRENT_TIMESTAMP"))  # type: ignore[arg-type]  # the kinds above
        for name, (kind, _) in origins.items()
    ]
    after = replace(table(*columns), table_id=104, physical_ids=(104,), layout=layout_of(1, described, new_collation=True))
    target.makes([], [[]])
    adds = ", ".join(f"ADD COLUMN {name} {kind} DEFAULT CURRENT_TIMESTAMP" for name, (kind, _) in origins.items())
    target.carry_out(head(f"ALTER TABLE t {adds}", table(), after))
    assert {name: target.column(column) for name, (column, _) in zip(origins, columns, strict=True)} == {
        name: [text] for name, (_, text) in origins.items()
    }


@pytest.mark.parametrize(
    ("kind", "says", "default", "why"),
    [
        ("datetime", "DEFAULT CURRENT_TIMESTAMP", "CURRENT_TIMESTAMP", "time of its author's zone"),
        ("timestamp", "DEFAULT '2020-01-01 08:00:00'", None, "its author's session decides"),
        ("varchar(40)", "DEFAULT (date_format(now(), '%Y-%m-%d'))", "date_format(now(), '%Y-%m-%d')", "the target computes it for itself"),
        ("date", "DEFAULT (current_date())", "curdate()", "its author's session decides"),
    ],
)
@pytest.mark.parametrize("flavour", Flavour)
def test_a_value_that_only_its_authors_session_knew_stops_the_ddl_at_each_target(
    flavour: Flavour, kind: str, says: str, default: str | None, why: str
) -> None:
    column, made = _column(kind, says, default or "")
    after = table((column, made)) if default else replace(table((column, made)), definition=None)
    one = head(f"ALTER TABLE t ADD COLUMN a {kind} {says}", table(), after)
    statement = parsed(one.ddls[0].query, NAME.schema)
    with pytest.raises(UnsupportedDdl, match=why) as caught:
        rewrites(statement, one.ddls[0], table(), after, flavour, moment=0)
    assert f"ddl-done={TS}" in caught.value.hint


@pytest.mark.parametrize("flavour", Flavour)
@pytest.mark.parametrize(
    ("old", "new"), [("timestamp", "datetime"), ("datetime", "timestamp"), ("timestamp", "varchar(30)"), ("time", "datetime")]
)
def test_what_the_authors_zone_or_day_decides_stops_the_ddl_at_each_target(flavour: Flavour, old: str, new: str) -> None:
    was, now = (next(one for one in TYPES if one.text == text) for text in (old, new))
    one = _modify(was, [now])
    with pytest.raises(UnsupportedDdl, match=f"was {old} and is .*, and the (time zone|day)"):
        rewrites(parsed(one.ddls[0].query, "app"), one.ddls[0], one.schemas[NAME], one.next_schemas[NAME], flavour, moment=0)


# ---- generated columns -------------------------------------------------------------------------------------------------


def _generated(kind: str, formula: str) -> TableDefinition:
    known = {"i": "int(11)", "j": "bigint(20)", "d": "decimal(9,2)", "f": "double", "s": "varchar(20)", "at": "timestamp", "js": "json"}
    columns = [ColumnDefinition(name, text) for name, text in known.items()]
    return TableDefinition((*columns, ColumnDefinition("g", kind, generated=formula, stored=True)))


@pytest.mark.parametrize(
    ("kind", "formula", "certain"),
    [
        ("bigint(20)", "`i` + `j` * 2", True),
        ("decimal(20,4)", "`d` * (`i` - 1)", True),
        ("varchar(60)", "concat(`s`, _utf8mb4'-', `s`)", True),
        ("varchar(60)", "concat(`s`, '-')", True),
        ("double", "`i` + 1", False),
        ("bigint(20)", "`f` + 1", False),
        ("bigint(20)", "`d` / 3", False),
        ("bigint(20)", "`d` + 1.5", False),
        ("varchar(60)", "concat(`f`)", False),
        ("bigint(20)", "length(`s`)", False),
        ("varchar(60)", "json_unquote(json_extract(`js`, '$.a'))", False),
        ("datetime", "`at`", False),
        ("varchar(60)", "lower(`s`)", False),
    ],
)
def test_a_stored_formula_stays_where_each_server_has_the_same_result(kind: str, formula: str, certain: bool) -> None:
    definition = _generated(kind, formula)
    assert is_certain(definition.columns[-1], definition) is certain
    assert plain_columns(definition, Flavour.MYSQL) == plain_columns(definition, Flavour.MARIADB) == ({"g"} - ({"g"} if certain else set()))
    assert plain_columns(definition, Flavour.TIDB) == frozenset()


def test_a_generated_column_whose_value_may_differ_takes_the_value_of_the_feed(target: Target) -> None:
    """As a plain column it is written, and by CREATE TABLE as by create-tables."""
    made = (ColumnDefinition("f", "float"), ColumnDefinition("g", "double", nullable=False, generated="`f` * 3", stored=True))
    columns = (Column("f", "float"), Column("g", "double", nullable=False))
    after = table(*zip(columns, made, strict=True))
    target.carry_out(head("CREATE TABLE t (id INT PRIMARY KEY, f FLOAT, g DOUBLE AS (f * 3) STORED NOT NULL)", None, after))
    session = OneConnection(target.server)
    try:
        assert make_tables(session, [after], Routes()) == [], "it is what create-tables expects"
        session.rows("INSERT INTO app.t VALUES (1, 0.1, 0.5)")
        assert session.rows("SELECT g FROM app.t") == ((0.5,),)
    finally:
        session.close()


# ---- partitions --------------------------------------------------------------------------------------------------------


def _parted(partitioning: str) -> TableSchema:
    return table((Column("a", "timestamp", nullable=False), ColumnDefinition("a", "timestamp", nullable=False)), partitioning=partitioning)


BY_BOUND = (
    "PARTITION BY RANGE (UNIX_TIMESTAMP(`a`)) (PARTITION `p0` VALUES LESS THAN (1577865600), PARTITION `p1` VALUES LESS THAN (1577952000))"
)
"""Of an author at -08:00: 2020-01-01 08:00:00 in UTC."""


def test_a_partitions_bound_is_that_of_its_authors_zone(target: Target) -> None:
    """Else DROP PARTITION takes rows that TiDB keeps."""
    after = _parted(BY_BOUND)
    first = BY_BOUND.partition(", PARTITION `p1`")[0] + ")"
    text = "PARTITION BY RANGE (UNIX_TIMESTAMP(a)) (PARTITION p0 VALUES LESS THAN (UNIX_TIMESTAMP('2020-01-01 00:00:00')))"
    target.carry_out(head(f"CREATE TABLE t (id INT, a TIMESTAMP NOT NULL) {text}", None, _parted(first)))
    add = "ALTER TABLE t ADD PARTITION (PARTITION p1 VALUES LESS THAN (UNIX_TIMESTAMP('2020-01-02 00:00:00')))"
    target.carry_out(head(add, _parted(first), after))
    target.server.execute("SET time_zone = '+00:00'", *(f"INSERT INTO app.t VALUES (1, '2020-01-0{day} 07:59:59')" for day in (1, 2)))
    target.carry_out(head("ALTER TABLE t DROP PARTITION p0", after, after))
    assert target.server.execute("SELECT COUNT(*), MIN(DAY(a)) FROM app.t") == ((1, 2),)


def test_a_bound_that_the_log_does_not_have_stops_the_ddl(target: Target) -> None:
    add = "ALTER TABLE t ADD PARTITION (PARTITION p1 VALUES LESS THAN (UNIX_TIMESTAMP('2020-01-02 00:00:00')))"
    with pytest.raises(UnsupportedDdl, match=r"of partition p1 hangs on its author's time zone"):
        target.carry_out(head(add, _parted(""), _parted("")))


LEAVES = ("ALTER TABLE t TRUNCATE PARTITION p1", "ALTER TABLE t EXCHANGE PARTITION p1 WITH TABLE o")


@pytest.mark.parametrize("query", LEAVES)
@pytest.mark.parametrize(
    ("clause", "at_target", "same"),
    [
        ("PARTITION BY HASH (`id`) PARTITIONS 4", "PARTITION BY HASH (id) PARTITIONS 4", True),
        ("PARTITION BY RANGE (`id`) (PARTITION `p1` VALUES LESS THAN (9))",) * 2 + (True,),
        ("PARTITION BY KEY (`id`) PARTITIONS 4", "PARTITION BY KEY (id) PARTITIONS 4", False),
        ("PARTITION BY KEY (`id`) PARTITIONS 4", "PARTITION BY HASH (id) PARTITIONS 4", False),
        ("PARTITION BY HASH (`id`) PARTITIONS 4", "PARTITION BY LINEAR HASH (id) PARTITIONS 4", False),
        ("PARTITION BY HASH (`id` DIV 2) PARTITIONS 4", "PARTITION BY HASH (id DIV 2) PARTITIONS 4", False),
        ("PARTITION BY HASH (`id`) PARTITIONS 4", "PARTITION BY HASH (id) PARTITIONS 8", False),
        ("PARTITION BY HASH (`id`) PARTITIONS 4", "COMMENT 'PARTITION BY RANGE' PARTITION BY KEY (id) PARTITIONS 4", False),
    ],
)
def test_rows_leave_with_a_partition_only_where_it_has_the_same_rows(
    target: Target, query: str, clause: str, at_target: str, same: bool
) -> None:
    target.server.execute(f"CREATE TABLE app.t (id INT PRIMARY KEY) {at_target}", "CREATE TABLE app.o (id INT PRIMARY KEY)")
    target.server.execute("INSERT INTO app.t VALUES (1), (2), (3), (4)")
    schema = table(partitioning=clause)
    if same:
        target.carry_out(head(query, schema, schema))
        return
    with pytest.raises(UnsupportedDdl, match=r"rows of app\.t are in other partitions there"):
        target.carry_out(head(query, schema, schema))
    assert target.server.execute("SELECT COUNT(*) FROM app.t") == ((4,),)


# ---- several tables in one place ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "query",
    [
        "TRUNCATE TABLE t", "DROP TABLE t", "RENAME TABLE t TO u", "ALTER TABLE t DROP COLUMN a", "ALTER TABLE t ADD COLUMN b INT",
        "ALTER TABLE t RENAME TO u", "ALTER TABLE t TRUNCATE PARTITION p1", "CREATE INDEX i ON t (a)",
        "ALTER TABLE o EXCHANGE PARTITION p1 WITH TABLE t",
    ],
)  # fmt: skip
def test_a_ddl_of_a_table_that_shares_its_place_is_refused(target: Target, query: str) -> None:
    """It would take or change the rows of the others: all shards are in one table."""
    column = (Column("a", "int"), ColumnDefinition("a", "int(11)"))
    names = [TableName("one", "t"), TableName("two", "t"), TableName("one", "o")]
    tables = {name: table(column, name=name) for name in names}
    target.server.execute("CREATE TABLE app.t (id INT PRIMARY KEY, a INT)", "INSERT INTO app.t VALUES (1, 1)")
    one = head_of(0, [DdlRecord(TS, "one", "t", query)], tables, tables)
    with pytest.raises(SinkError, match=r"the routes bring rows of two\.t there too") as caught:
        target.carry_out(one, routes_of("one.*=>app.*,two.*=>app.*"))
    assert "ddl-done" in caught.value.hint
    assert target.server.execute("SELECT * FROM app.t") == ((1, 1),)


def test_a_table_whose_name_changes_and_whose_place_does_not_is_alone(target: Target) -> None:
    before, after = (table(name=TableName("one", name)) for name in ("t", "u"))
    target.server.execute("CREATE TABLE app.t (id INT PRIMARY KEY)")
    target.carry_out(
        head_of(0, [DdlRecord(TS, "one", "t", "ALTER TABLE t RENAME TO u")], {before.name: before}, {after.name: after}),
        routes_of("one.*=>app.*"),
    )
    assert target.server.execute("SHOW TABLES FROM app") == (("u",),)
