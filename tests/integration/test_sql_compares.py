"""Keys of a table that is there, judged by a real MariaDB: where nothing is said of a collation, it takes no two texts for equal that
the source has as two, and each example is true. Unique keys are safe if the source has one that is in them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

import pytest

from sidecar.shared.model.nouns import Column, ColumnDefinition, IndexDefinition, IndexPart, TableDefinition, TableName, TableSchema
from sidecar.shared.mysql.flavour import Flavour
from sidecar.shared.mysql.session import MysqlSession
from spark_merge.ddl.parser import parsed
from spark_merge.ddl.routes import Routes
from spark_merge.sinks.mysql.compares import Servers, alike, coarser
from spark_merge.sinks.mysql.create import make_tables
from spark_merge.sinks.mysql.ddl_dialect import Replacements, rendered
from spark_merge.sinks.mysql.server_table import ServerColumn, ServerTable, UniqueIndex, read_table
from spark_merge.sinks.mysql.tables import read_tables, target_table
from tests.support.services.mariadb import MariaDb
from tests.support.sql_columns import target_session

pytestmark = pytest.mark.xdist_group("sql-target")

DATABASE = "comparing"
NAME = TableName(DATABASE, "t")
BY_BYTES = "binary"
AT_SOURCE = {
    "utf8mb4_bin": "utf8mb4_bin", "utf8mb4_0900_bin": "utf8mb4_nopad_bin", "utf8mb4_0900_ai_ci": "utf8mb4_uca1400_nopad_ai_ci",
    "utf8mb4_general_ci": "utf8mb4_general_ci", "utf8mb4_unicode_ci": "utf8mb4_unicode_ci", BY_BYTES: "utf8mb4_nopad_bin",
}  # fmt: skip
"""TiDB's collations, each with MariaDB's that compares so."""
AT_TARGET = [
    "utf8mb4_bin", "utf8mb4_nopad_bin", "utf8mb4_general_ci", "utf8mb4_general_nopad_ci", "utf8mb4_unicode_ci", "utf8mb4_unicode_nopad_ci",
    "utf8mb4_uca1400_ai_ci", "utf8mb4_uca1400_nopad_ai_ci", "utf8mb4_uca1400_as_cs", "utf8mb4_uca1400_nopad_as_cs",
    "utf8mb4_unicode_520_ci",
]  # fmt: skip
TEXTS = (
    "", " ", "a", "A", "a ", "a  ", "á", "ä", "b", "ß", "ss", "s", "s ", "æ", "ae", "ﬀ", "ff", "😀", "😁", "i", "ı", "İ", "Å", "a\t", "a\0",
)  # fmt: skip


@pytest.fixture(scope="module")
def session(mariadb: MariaDb) -> Iterator[MysqlSession]:
    with target_session(mariadb, DATABASE) as made:
        yield made


@pytest.mark.parametrize("charset", ["", "utf8mb4", "utf8", "latin1", "ascii", "gbk"])
@pytest.mark.parametrize("of", ["table", "column"])
def test_a_table_that_a_ddl_makes_compares_bytes_where_the_cluster_does(session: MysqlSession, charset: str, of: str) -> None:
    words = f" CHARACTER SET {charset} COLLATE {charset}_bin" if charset else ""
    column, table = (words, "") if of == "column" else ("", words)
    statement = parsed(f"CREATE TABLE {NAME} (k VARCHAR(20){column} PRIMARY KEY){table}", DATABASE)
    session.change(f"CREATE OR REPLACE TABLE {NAME} (k INT)")
    session.change(f"DROP TABLE {NAME}")
    session.change(rendered(statement, Flavour.MARIADB, rewrites=Replacements(by_bytes=True)))
    session.change(f"INSERT INTO {NAME} VALUES ('a'), ('a '), ('A')")
    made = read_table(session, NAME)
    assert made is not None
    assert coarser(ColumnDefinition("k", "varchar(20)", charset="utf8mb4", collation="utf8mb4_bin"), made.columns[0], by_bytes=True) is None


def equal(session: MysqlSession, collation: str, texts: tuple[str, ...]) -> set[tuple[str, str]]:
    """The pairs of different texts that it takes for one."""
    pairs = [(one, other) for one in texts for other in texts if one < other]
    terms = ", ".join([f"%s = %s COLLATE {collation}"] * len(pairs))
    (row,) = session.rows(f"SELECT {terms}", [text for pair in pairs for text in pair])
    return {pair for pair, same in zip(pairs, row, strict=True) if same}


@pytest.mark.parametrize("type_text", ["varchar(20)", "char(20)"])
@pytest.mark.parametrize("source", AT_SOURCE)
def test_a_collation_that_passes_takes_no_two_texts_for_one(session: MysqlSession, source: str, type_text: str) -> None:
    here = ColumnDefinition("k", type_text, charset="utf8mb4", collation="utf8mb4_general_ci" if source == BY_BYTES else source)
    texts = tuple(text for text in TEXTS if type_text.startswith("varchar") or not text.endswith(" "))
    known = equal(session, AT_SOURCE[source], texts)
    passed = set()
    for target in AT_TARGET:
        loss = coarser(here, ServerColumn("k", "varchar", target, generated=False, charset="utf8mb4"), by_bytes=source == BY_BYTES)
        more = equal(session, target, texts) - known
        if loss is None:
            passed.add(target)
            assert not more, target
        elif loss.values:
            one, other = sorted(loss.values)
            assert (one, other) in more, target
    assert AT_SOURCE[source] in passed
    assert "utf8mb4_nopad_bin" in passed
    assert ("utf8mb4_bin" in passed) == (type_text == "char(20)" or source not in ("utf8mb4_0900_bin", "utf8mb4_0900_ai_ci", BY_BYTES))


# ---- the rows of a partition -------------------------------------------------------------------------------------------

ORDERS = ("utf8mb4_bin", "utf8_bin", "utf8mb4_0900_bin", "latin1_bin", "ascii_bin", "gbk_bin")
"""Of TiDB, whose order Python knows, too."""
ORDERS_AT_TARGET = [
    f"{charset}_{end}" for charset in ("utf8mb4", "utf8mb3", "latin1", "ascii", "gbk") for end in ("bin", "nopad_bin", "general_ci")
    if (charset, end) not in (("ascii", "general_ci"), ("gbk", "general_ci"))
] + ["utf8mb4_uca1400_nopad_ai_ci", "utf8mb4_general_nopad_ci"]  # fmt: skip
CODECS = {"utf8mb4": "utf-8", "utf8": "utf-8", "utf8mb3": "utf-8", "latin1": "cp1252", "ascii": "ascii", "gbk": "gbk"}
PLAIN_BOUNDS, OTHER_BOUNDS = ("m", "é", "中"), ("m ", "m\t", "\n")
IN_ORDER = ("", " ", "l", "m", "m ", "m  ", "m\t", "m\n", "m \tx", "M", "n", "\n", "\t", "é", "É", "ÿ", "€", "Œ", "啊", "中", "文")


def known_to(collation: str, texts: Iterable[str]) -> list[str]:
    codec = CODECS[collation.partition("_")[0]]
    return [text for text in texts if text.encode(codec, "ignore").decode(codec) == text]


def tidbs_key(collation: str, text: str, *, by_bytes: bool) -> bytes:
    """pkg/util/collate: bin.go, gbk_bin.go."""
    if by_bytes or collation == "utf8mb4_0900_bin":
        return text.encode()
    return text.rstrip(" ").encode("gbk" if collation == "gbk_bin" else "utf-8")


@pytest.mark.parametrize("by_bytes", [False, True])
@pytest.mark.parametrize("source", ORDERS)
def test_texts_of_a_partition_are_alike_exactly_where_the_target_has_the_same_ones_in_it(
    session: MysqlSession, source: str, *, by_bytes: bool
) -> None:
    """In RANGE those before a bound, in LIST those that are equal to a value; with TiDB's rule as the judge, and a MariaDB."""
    here = ColumnDefinition("a", "varchar(9)", charset=source.partition("_")[0], collation=source)
    servers = Servers(by_bytes, by_bytes_there=False, tidb_there=False)
    passed: dict[str, set[str]] = {sign: set() for sign in "<="}
    for target in ORDERS_AT_TARGET:
        charset = target.partition("_")[0]
        there = ServerColumn("a", "varchar", target, generated=False, charset=charset)
        texts = known_to(source, known_to(target, IN_ORDER))
        for sign in "<=":
            kept, differ = True, False
            for bound in known_to(source, known_to(target, (*PLAIN_BOUNDS, *OTHER_BOUNDS))):
                one = f"CONVERT(%s USING {charset})"
                terms = ", ".join([f"{one} {sign} {one} COLLATE {target}"] * len(texts))
                (row,) = session.rows(f"SELECT {terms}", [part for text in texts for part in (text, bound)])
                keys = [tidbs_key(source, text, by_bytes=by_bytes) for text in texts]
                limit = tidbs_key(source, bound, by_bytes=by_bytes)
                same = list(map(bool, row)) == [key < limit if sign == "<" else key == limit for key in keys]
                said = alike(here, there, servers, [bound] if sign == "<" else None)
                assert same or not said, (target, sign, bound)
                if bound in PLAIN_BOUNDS:
                    kept, differ = kept and said, differ or not same
                elif sign == "=":
                    differ = differ or not same
            holds_all = len(texts) == len(known_to(source, IN_ORDER))
            assert kept or differ or not holds_all or source == "ascii_bin", f"{target} is refused by {sign} for no difference"
            if kept:
                passed[sign].add(target)
    exact = "gbk_nopad_bin" if source == "gbk_bin" and not by_bytes else "utf8mb4_nopad_bin"
    assert exact in passed["<"]
    assert "utf8mb4_bin" not in passed["<"]
    assert ("latin1_bin" in passed["="]) == (not by_bytes and source != "utf8mb4_0900_bin")
    assert ("latin1_nopad_bin" in passed["="]) == (by_bytes or source == "utf8mb4_0900_bin")
    assert not {"latin1_bin", "latin1_nopad_bin"} & passed["<"]


@pytest.mark.parametrize("by_bytes_there", [False, True])
def test_a_number_is_not_ordered_as_its_text_is(*, by_bytes_there: bool) -> None:
    """9 is before 10, and '9' is behind '10'."""
    there = ServerColumn("a", "varchar", "utf8mb4_nopad_bin", generated=False, charset="utf8mb4")
    servers = Servers(by_bytes=False, by_bytes_there=by_bytes_there, tidb_there=by_bytes_there)
    assert not alike(ColumnDefinition("a", "int(11)"), there, servers, ["10"])
    assert alike(ColumnDefinition("a", "date"), ServerColumn("a", "date", None, generated=False), servers, ["2020-01-01"])


# ---- unique keys ------------------------------------------------------------------------------------------------------

WORD = ColumnDefinition("w", "varchar(20)", charset="utf8mb4", collation="utf8mb4_bin")
COLUMNS = (Column("a", "int", nullable=False), Column("b", "int"), Column("w", "text"))
DEFINED = (ColumnDefinition("a", "int(11)", nullable=False), ColumnDefinition("b", "int(11)"), WORD)


def unique(*parts: IndexPart, name: str = "u") -> IndexDefinition:
    return IndexDefinition(name, parts, unique=True)


KEY = IndexDefinition("PRIMARY", (IndexPart("a"),), unique=True, primary=True)
LOWER = unique(IndexPart(expression="lower(`w`)"))


@pytest.mark.parametrize(
    ("there", "here", "problem"),
    [
        ((), (), ""),
        ((("b", None),), (), r"unique key \(b\): the source has none of these"),
        ((("b", None),), (unique(IndexPart("b")),), ""),
        ((("b", None), ("w", None)), (unique(IndexPart("b")),), ""),
        ((("b", None),), (unique(IndexPart("b"), IndexPart("w")),), r"unique key \(b\): the source has none"),
        ((("w", 5),), (unique(IndexPart("w")),), r"unique key \(w\(5\)\): two rows whose w begins with the same 5"),
        ((("w", 5),), (unique(IndexPart("w", 6)),), "begins with the same 5"),
        ((("w", 5),), (unique(IndexPart("w", 5)),), ""),
        ((("w", None),), (unique(IndexPart("w", 5)),), ""),
        (((None, None),), (), r"unique key \(an expression\)"),
        (((None, None),), (LOWER,), ""),
        (((None, None), ("b", None)), (unique(IndexPart("b")),), ""),
        ((("A", None), ("b", None)), (), ""),
    ],
)
def test_a_unique_key_is_safe_if_one_of_the_source_is_in_it(there: UniqueIndex, here: tuple[IndexDefinition, ...], problem: str) -> None:
    definition = TableDefinition(DEFINED, (KEY, *here))
    schema = TableSchema(NAME, COLUMNS, ("a",), definition=definition)
    columns = (
        ServerColumn("a", "int", None, generated=False, type_text="int(11)", nullable=False),
        ServerColumn("b", "int", None, generated=False, type_text="int(11)"),
        ServerColumn("w", "varchar", "utf8mb4_bin", generated=False, charset="utf8mb4", type_text="varchar(20)"),
    )
    table = ServerTable(columns, ((("a", None),), *([there] if there else [])))
    result = target_table(schema, NAME, table, Flavour.MARIADB)
    assert re.search(problem, result.problem), result.problem
    assert bool(result.problem) == bool(problem)


def made_key(session: MysqlSession, key: ColumnDefinition, at_target: str, *, new_collation: bool = True) -> str:
    """What is said of a table whose key is that column."""
    column = Column("k", "text" if key.charset else "int" if "int" in key.type_text else "datetime", nullable=False, scale=6)
    indexes = (IndexDefinition("PRIMARY", (IndexPart("k"),), unique=True, primary=True),)
    definition = TableDefinition((key,), indexes, new_collation=new_collation)
    schema = TableSchema(NAME, (column,), ("k",), definition=definition)
    session.rows(f"DROP TABLE IF EXISTS {NAME}")
    if at_target:
        session.rows(f"CREATE TABLE {NAME} (k {at_target} NOT NULL PRIMARY KEY)")
    else:
        make_tables(session, [schema], Routes())
    return read_tables(session, [schema], {NAME: NAME})[NAME].problem


def test_a_handle_key_is_compared_as_at_the_source(session: MysqlSession) -> None:
    key = replace(WORD, name="k", nullable=False)
    assert made_key(session, key, "VARCHAR(20) COLLATE utf8mb4_bin") == ""
    assert "'a' and 'A' would be one value there" in made_key(session, key, "VARCHAR(20) COLLATE utf8mb4_general_ci")
    assert "'a' and 'a ' would be" in made_key(session, replace(key, collation="utf8mb4_0900_bin"), "VARCHAR(20) COLLATE utf8mb4_bin")
    assert made_key(session, replace(key, collation="utf8mb4_0900_bin"), "VARCHAR(20) COLLATE utf8mb4_nopad_bin") == ""
    moment = ColumnDefinition("k", "datetime(6)", nullable=False)
    assert "would be one value there" in made_key(session, moment, "DATETIME")
    number = ColumnDefinition("k", "bigint(20)", nullable=False)
    assert "compares as DOUBLE" in made_key(session, number, "VARCHAR(30)")
    assert made_key(session, number, "DECIMAL(20, 0)") == ""


@pytest.mark.parametrize("charset", ["utf8mb4", "utf8", "latin1", "ascii", "gbk"])
def test_create_tables_makes_keys_that_compare_bytes_where_the_cluster_does(session: MysqlSession, charset: str) -> None:
    key = replace(WORD, name="k", nullable=False, charset=charset, collation=f"{charset}_bin")
    assert "(the cluster has no new collations): 'a' and 'a ' would be" in made_key(
        session, key, f"VARCHAR(20) CHARACTER SET {charset} COLLATE {charset}_bin", new_collation=False
    )
    assert made_key(session, key, "", new_collation=False) == ""
    table = read_table(session, NAME)
    assert table is not None
    assert (table.columns[0].collation or "").endswith("_nopad_bin")
    session.change(f"INSERT INTO {NAME} VALUES ('a'), ('a '), ('A')")
