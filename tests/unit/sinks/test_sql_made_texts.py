"""A table that the SQL sink makes passes the sink's own check of it: for each target, collations of the source, character set and type, and
each way to make it: by create-tables, or by a DDL that names a character set for a column, for the table or not at all."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

import pytest

from sidecar.shared.errors import UnsupportedDdl
from sidecar.shared.log.manifest import DdlRecord
from sidecar.shared.model.nouns import Column, ColumnDefinition, IndexDefinition, IndexPart, TableDefinition, TableName, TableSchema
from sidecar.shared.mysql.collation import PADS
from sidecar.shared.mysql.flavour import Flavour
from sidecar.shared.partition.clause import read_clause
from spark_merge.ddl.parser import parsed
from spark_merge.ddl.routes import Routes
from spark_merge.sinks.mysql.by_bytes import charset_by_bytes
from spark_merge.sinks.mysql.compares import Servers, alike
from spark_merge.sinks.mysql.create import make_tables
from spark_merge.sinks.mysql.ddl_dialect import TableCharset, rendered
from spark_merge.sinks.mysql.ddl_partitions import _decides_alone, other_rows
from spark_merge.sinks.mysql.ddl_values import AtTarget, rewrites
from spark_merge.sinks.mysql.server_table import ServerColumn, read_table
from spark_merge.sinks.mysql.tables import target_table
from tests.support.sql_columns import LABELS, SqlColumn
from tests.support.sql_target import AsInTheLog

NAME = TableName("s", "t")
COLLATIONS = {
    "utf8mb4": ("bin", "general_ci", "unicode_ci", "0900_ai_ci", "0900_bin"), "utf8": ("bin", "general_ci", "unicode_ci"),
    "latin1": ("bin",), "ascii": ("bin",), "gbk": ("bin", "chinese_ci"), "gb18030": ("bin", "chinese_ci"),
}  # fmt: skip
"""TiDB's."""
WIDTHS = {"utf8mb4": 4, "utf8": 3, "latin1": 1, "ascii": 1, "gbk": 2, "gb18030": 4}
VARCHAR_BYTES_MAX = 65_533
SHORT = ("char(3)", "varchar(20)")
BY_PREFIX = ("tinytext", "text", "mediumtext", "longtext")
LONG = "varchar(20000)"
"""A key has the beginning of it, too."""
_COLUMN = re.compile(r"`(\w+)` ([a-z]+(?:\([^)]*\))?)((?: CHARACTER SET \w+)?(?: COLLATE \w+)?)", re.IGNORECASE)
_CHARSET = re.compile(r" CHARACTER SET (\w+) COLLATE (\w+)")


class Server(NamedTuple):
    version: str
    flavour: Flavour
    by_bytes: bool = False


SERVERS = {
    "MariaDB": Server("11.4.2-MariaDB", Flavour.MARIADB), "MySQL": Server("8.4.3", Flavour.MYSQL),
    "TiDB": Server("8.0.11-TiDB-v8.5.1", Flavour.TIDB),
    "TiDB without new collations": Server("8.0.11-TiDB-v8.5.1", Flavour.TIDB, by_bytes=True),
}  # fmt: skip


class Target:
    """A server with one table, which it shows as it was made: a column without a character set has the table's."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._columns: dict[str, tuple[str, str, str]] = {}
        self._charset = ("", "")
        self._unique: tuple[str, int | None] = ("", None)

    def close(self) -> None: ...

    def rows(self, sql: str, values: Any = None) -> tuple[tuple[Any, ...], ...]:
        if sql.startswith("SELECT VERSION"):
            return ((self._server.version,),)
        if sql == f"SELECT {PADS}":
            return ((int(not self._server.by_bytes),),)
        if sql.startswith("CREATE TABLE"):
            sql = sql.partition(" PARTITION BY ")[0]
            inside, _, options = sql.rpartition(")")
            made = _CHARSET.search(options)
            assert made, "the table has what later columns have"
            self._charset = (made[1], made[2])
            self._take(inside)
        elif sql.startswith("ALTER TABLE"):
            self._take(sql)
        elif "GENERATION_EXPRESSION" in sql:
            return tuple((name, kind, "NO", "") for name, (kind, _, _) in self._columns.items())
        elif "COLUMN_TYPE" in sql:
            return tuple(
                (name, kind.partition("(")[0], collation or None, "", charset or None, kind, "NO", int(not self._server.by_bytes))
                for name, (kind, charset, collation) in self._columns.items()
            )
        elif "STATISTICS" in sql:
            return (("PRIMARY", "id", None), ("u", *self._unique))
        return ()

    def _take(self, text: str) -> None:
        for name, kind, words in _COLUMN.findall(re.sub(r"`s`.`t`", "", text)):
            charset = _CHARSET.fullmatch(words)
            given = (charset[1], charset[2]) if charset else self._charset
            assert bool(charset) == bool(words), words
            assert ("_0900_" if self._server.flavour is Flavour.MARIADB else "nopad") not in words, "it has no such collation"
            self._columns[name] = (kind.lower(), *(("", "") if kind.lower().startswith("bigint") else given))
            if kind.lower().startswith("varchar"):
                assert int(kind[8:-1]) * WIDTHS[given[0]] <= VARCHAR_BYTES_MAX, kind
        self._unique = ("v", 10 if self._columns.get("v", ("",))[0] in (*BY_PREFIX, LONG) else None)


class Case(NamedTuple):
    column: SqlColumn
    new_collation: bool
    partitioning: str = ""

    def schema(self, *, with_text: bool = True) -> TableSchema:
        one = self.column
        prefix = 10 if one.type_text in (*BY_PREFIX, LONG) else -1
        unique = IndexDefinition("u", (IndexPart("v", prefix),), unique=True)
        definition = TableDefinition(
            (ColumnDefinition("id", "bigint(20)", nullable=False), *([one.definition(nullable=False)] if with_text else [])),
            (IndexDefinition("PRIMARY", (IndexPart("id"),), unique=True, primary=True), *([unique] if with_text else [])),
            charset=one.charset,
            collation=one.collation,
            partitioning=self.partitioning,
            new_collation=self.new_collation,
        )
        columns = (Column("id", "int", nullable=False), *([one.column(nullable=False)] if with_text else []))
        return TableSchema(NAME, columns, ("id",), definition=definition)


def cases() -> Iterator[Case]:
    for new_collation, (charset, ends) in product((True, False), COLLATIONS.items()):
        for end in ends:
            long = [LONG] if WIDTHS[charset] * 20_000 <= VARCHAR_BYTES_MAX else []
            for text in (*SHORT, *long, *BY_PREFIX, *LABELS[2:4]) if end == ends[0] else SHORT:
                yield Case(SqlColumn(text, charset, f"{charset}_{end}"), new_collation)


def created(target: Target, server: Server, case: Case) -> None:
    make_tables(target, [case.schema()], Routes())
    assert make_tables(target, [case.schema()], Routes()) == [], "a worker that begins again takes it for the same"


def carried_out(target: Target, server: Server, query: str, before: TableSchema | None, after: TableSchema) -> None:
    """As DdlRunner does."""
    statement, definition = parsed(query, NAME.schema), after.definition
    assert definition is not None
    record = DdlRecord(1, NAME.schema, NAME.table, query)  # type: ignore[arg-type]
    made = rewrites(statement, record, before, after, AtTarget(server.flavour, AsInTheLog(before), by_bytes=server.by_bytes))
    target.rows(rendered(statement, server.flavour, TableCharset(definition.charset, definition.collation), made))


def by_words_of_the_column(target: Target, server: Server, case: Case) -> None:
    one = case.column
    words = f"{one.type_text} CHARACTER SET {one.charset} COLLATE {one.collation}"
    carried_out(target, server, f"CREATE TABLE t (id BIGINT PRIMARY KEY, v {words} NOT NULL, UNIQUE (v))", None, case.schema())


def by_words_of_the_table(target: Target, server: Server, case: Case) -> None:
    one = case.column
    default = f"{one.charset}_{'chinese_ci' if one.charset.startswith('gb') else 'bin'}"
    charset = f"CHARSET {one.charset}{'' if one.collation == default else f' COLLATE {one.collation}'}"
    carried_out(target, server, f"CREATE TABLE t (id BIGINT PRIMARY KEY, v {one.type_text} NOT NULL) {charset}", None, case.schema())


def by_the_schemas(target: Target, server: Server, case: Case) -> None:
    carried_out(target, server, f"CREATE TABLE t (id BIGINT PRIMARY KEY, v {case.column.type_text} NOT NULL)", None, case.schema())


def added(target: Target, server: Server, case: Case) -> None:
    before = case.schema(with_text=False)
    carried_out(target, server, "CREATE TABLE t (id BIGINT PRIMARY KEY)", None, before)
    carried_out(target, server, f"ALTER TABLE t ADD COLUMN v {case.column.type_text} NOT NULL", before, case.schema())


def modified(target: Target, server: Server, case: Case) -> None:
    created(target, server, case)
    carried_out(target, server, f"ALTER TABLE t MODIFY v {case.column.type_text} NOT NULL COMMENT 'x'", case.schema(), case.schema())


WAYS = {one.__name__: one for one in (created, by_words_of_the_column, by_words_of_the_table, by_the_schemas, added, modified)}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", SERVERS)
def test_what_we_make_passes_our_own_check(name: str, way: str) -> None:
    server, problems, passed = SERVERS[name], {}, 0
    for case in cases():
        target = Target(server)
        if (name, case.column.charset) == ("MariaDB", "gb18030"):
            with pytest.raises(UnsupportedDdl, match="gb18030"):  # it has no such character set
                WAYS[way](target, server, case)
            continue
        WAYS[way](target, server, case)
        problem = target_table(case.schema(), NAME, read_table(target, NAME), server.flavour).problem
        passed += 1
        if problem:
            problems[case] = problem
    assert passed > 80
    assert not problems, f"{len(problems)}, such as {next(iter(problems.items()))}"


PARTITIONS = {
    "RANGE": "PARTITION BY RANGE COLUMNS (`v`) (PARTITION `p0` VALUES LESS THAN ('m'), PARTITION `p1` VALUES LESS THAN (MAXVALUE))",
    "LIST": "PARTITION BY LIST COLUMNS (`v`) (PARTITION `p0` VALUES IN ('m', 'n'))",
}
_ALL = {f"{charset}_{end}" for charset, ends in COLLATIONS.items() for end in ends}
_BY_CODE_POINTS = {"utf8mb4_bin", "utf8mb4_0900_bin", "utf8_bin", "latin1_bin", "ascii_bin"}
OTHERS = {
    "MariaDB RANGE": {"utf8mb4_0900_ai_ci"},
    "MySQL RANGE": _ALL - _BY_CODE_POINTS - {"utf8mb4_0900_ai_ci"},
    "TiDB without new collations RANGE": _ALL - _BY_CODE_POINTS,
    "TiDB without new collations LIST": _ALL - {"utf8mb4_0900_bin"},
}
"""The source's collations by which the target compares, or orders, no column."""


@pytest.mark.parametrize("kind", PARTITIONS)
@pytest.mark.parametrize("way", ["created", "by_words_of_the_column", "modified"])
@pytest.mark.parametrize("name", SERVERS)
def test_the_partitions_that_we_make_pass_our_own_check(name: str, way: str, kind: str) -> None:
    server = SERVERS[name]
    refused: set[str] = set()
    passed: set[str] = set()
    for case in cases():
        if case.column.type_text not in SHORT or (name, case.column.charset) == ("MariaDB", "gb18030"):
            continue
        case, target = case._replace(partitioning=PARTITIONS[kind]), Target(server)
        WAYS[way](target, server, case)
        there = AsInTheLog(case.schema())
        there.table = read_table(target, NAME)
        problem = target_table(case.schema(), NAME, there.table, server.flavour).problem
        assert not problem, (case, problem)
        other = other_rows(["p0"], case.schema(), there, server.flavour)
        collation = case.column.collation if case.new_collation else "bytes"
        (refused if other else passed).add(collation)
        assert other is None or not other.remedy, "what helps is what we make"
    assert refused == OTHERS.get(f"{name} {kind}", set())
    assert not refused & passed


@pytest.mark.parametrize(
    ("bounds", "decides"),
    [
        ("('m')", [True]),
        ("('m',100)", [False, True]),
        ("('m',MAXVALUE)", [True, True]),
        ("(1,'m')", [False, True]),
        ("('m',MAXVALUE,3)", [False, False, True]),
    ],
)
def test_a_text_that_is_not_the_last_of_its_bound_must_end_as_at_the_source(bounds: str, decides: list[bool]) -> None:
    """'m ' is 'm' at TiDB, so the next column decides; at a collation that keeps spaces it is behind it."""
    columns = ", ".join(f"`c{number}`" for number in range(len(decides)))
    clause = read_clause(f"PARTITION BY RANGE COLUMNS({columns}) (PARTITION `p0` VALUES LESS THAN {bounds})")
    assert [_decides_alone(clause, place) for place in range(len(decides))] == decides
    source = ColumnDefinition("v", "varchar(9)", charset="utf8mb4", collation="utf8mb4_bin")
    kept = ServerColumn("v", "", "utf8mb4_nopad_bin", False, "utf8mb4", "varchar(9)", True)
    servers = Servers(by_bytes=False, by_bytes_there=False, tidb_there=False)
    assert alike(source, kept, servers, ["m"], decides=True)
    assert not alike(source, kept, servers, ["m"], decides=False)


@pytest.mark.parametrize("flavour", Flavour)
@pytest.mark.parametrize("charset", [*COLLATIONS, "binary"])
def test_what_a_column_is_made_with_is_made_of_it_again(charset: str, flavour: Flavour) -> None:
    """create-tables writes it, and the statement's way to the target begins with it."""
    made = charset_by_bytes(charset, flavour)
    assert charset_by_bytes(made.collation.partition("_")[0], flavour).collation == made.collation
    assert charset_by_bytes(made.charset, flavour) == made


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("text latin1", {"MariaDB": "text", "MySQL": "mediumtext", "TiDB": "mediumtext", "TiDB without new collations": "text"}),
        ("text utf8", dict.fromkeys(SERVERS, "text")),
        ("mediumtext gbk", {"MariaDB": "mediumtext", "MySQL": "longtext", "TiDB": "longtext", "TiDB without new collations": "mediumtext"}),
        ("varchar(20000) latin1", dict.fromkeys(("MySQL", "TiDB"), "mediumtext") | {"MariaDB": "varchar(20000)"}),
        ("varchar(300) latin1", dict.fromkeys(SERVERS, "varchar(300)")),
    ],
)
def test_a_text_is_made_wider_where_its_character_set_becomes_wider(source: str, expected: Mapping[str, str]) -> None:
    kind, charset = source.split()
    for name, made in expected.items():
        target = Target(SERVERS[name])
        make_tables(target, [Case(SqlColumn(kind, charset, f"{charset}_bin"), new_collation=False).schema()], Routes())
        table = read_table(target, NAME)
        assert table is not None
        assert table.columns[1].type_text == made, name


def judged(before: str, after: str, server: str, *, reread: bool = False) -> None:
    """MODIFY of the text column by a cluster that compares bytes."""
    was, now = (Case(SqlColumn(one, "latin1", "latin1_bin"), new_collation=False).schema() for one in (before, after))
    query = f"ALTER TABLE t MODIFY v {after} CHARACTER SET latin1 COLLATE latin1_bin NOT NULL"
    record = DdlRecord(1, NAME.schema, NAME.table, query)  # type: ignore[arg-type]
    rewrites(parsed(query, NAME.schema), record, was, now, AtTarget(SERVERS[server].flavour, AsInTheLog(was), reread=reread))


@pytest.mark.parametrize("server", ["MySQL", "MariaDB"])
def test_a_type_that_is_made_wider_stops_where_it_would_take_what_tidb_cut(server: str) -> None:
    """At MySQL TINYTEXT becomes TEXT for its bytes; MariaDB keeps the character set, and a strict session stops at a longer value."""
    stops = pytest.raises(UnsupportedDdl, match="its type at the target is text, which holds what TiDB cut")
    with stops if server == "MySQL" else nullcontext():
        judged("text", "tinytext", server)
    judged("text", "tinytext", server, reread=True)
    judged("tinytext", "text", server)


@pytest.mark.parametrize(("before", "after", "stops"), [("varchar(20)", "varchar(10)", True), ("varchar(10)", "varchar(20)", False)])
def test_no_dump_gives_leave_to_clip_a_key(before: str, after: str, stops: bool) -> None:
    was, now = (replace(Case(SqlColumn(one, "utf8mb4", "utf8mb4_bin"), new_collation=True).schema(), key=("v",)) for one in (before, after))
    query = f"ALTER TABLE t MODIFY v {after} NOT NULL"
    record = DdlRecord(1, NAME.schema, NAME.table, query)  # type: ignore[arg-type]
    for reread in (False, True):
        refused = pytest.raises(UnsupportedDdl, match="it is of the key") if stops and reread else nullcontext()
        with refused:
            rewrites(parsed(query, NAME.schema), record, was, now, AtTarget(Flavour.MARIADB, AsInTheLog(was), reread=reread))
