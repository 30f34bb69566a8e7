"""Where names of the source are at the target: routes, the log's spelling, and what of a DDL is the log's."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sidecar.shared.errors import ConfigError, SinkError, UnsupportedDdl
from sidecar.shared.log.manifest import DdlRecord, Manifest
from sidecar.shared.model.nouns import Column, CommitTs, Seq, TableName, TableSchema
from sidecar.shared.mysql.flavour import Flavour
from spark_merge.ddl.names import at_target, of_the_log, places, table_of, together
from spark_merge.ddl.parser import parsed
from spark_merge.ddl.reader import TokenReader, words
from spark_merge.ddl.routes import SEPARATE, Routes, check_disjoint, routes_of
from spark_merge.port.contract import Head
from spark_merge.sinks.mysql.ddl_dialect import rendered

ROUTES = routes_of(" shop.*=>shop_copy.* , Shop.Orders => copy.orders2,`we,ird`.`a.b`=>x.`y z`")


def head(*tables: TableName, after: tuple[TableName, ...] = ()) -> Head:
    column = (Column("id", "int"),)
    manifest = Manifest(Seq(1), 1, CommitTs(1), CommitTs(2), None, 0, 0, {}, "schemas", "kv")
    return Head(manifest, {one: TableSchema(one, column, ()) for one in tables}, {one: TableSchema(one, column, ()) for one in after})


def carried(text: str, table: str, value: Head, routes: Routes = ROUTES) -> str:
    statement = of_the_log(parsed(text, "shop"), DdlRecord(CommitTs(2), "shop", table, text), value)
    return rendered(at_target(statement, routes), Flavour.MARIADB)


# ---- routes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "target"),
    [
        (("shop", "item"), ("shop_copy", "item")),
        (("SHOP", "Item"), ("shop_copy", "Item")),
        (("shop", "ORDERS"), ("copy", "orders2")),
        (("we,ird", "a.b"), ("x", "y z")),
        (("other", "item"), ("other", "item")),
    ],
)
def test_a_tables_own_rule_goes_before_its_schemas(name: tuple[str, str], target: tuple[str, str]) -> None:
    assert ROUTES.target(TableName(*name)) == TableName(*target)
    assert routes_of("").target(TableName(*name)) == TableName(*name)


@pytest.mark.parametrize(
    "text",
    ["shop", "a.b=>c", "a.*=>b.c", "a.b=>b.*", "a.b>c.d", "a.b=>c.d;",
     "*.*=>a.*", "a.b=>c.d e.f=>g.h", "a.*=>b.*,A.*=>c.*", "a.'b'=>c.d("],
)  # fmt: skip
def test_what_is_no_route_is_refused_with_how_one_is_written(text: str) -> None:
    with pytest.raises(ConfigError, match=r"(?s)routes .*schema\.table=>other\.table2"):
        routes_of(text)


def test_two_tables_that_would_be_one_are_refused() -> None:
    routes = routes_of("a.*=>x.*, b.*=>x.*")
    check_disjoint([TableName("a", "t"), TableName("b", "u")], lambda name: str(routes.target(name).folded()), hint=SEPARATE)
    with pytest.raises(SinkError, match=r"a\.t and b\.T would both be x\.t"):
        check_disjoint([TableName("a", "t"), TableName("b", "T")], lambda name: str(routes.target(name).folded()), hint=SEPARATE)


@pytest.mark.parametrize(
    ("routes", "message"),
    [
        ("shop.orders=>copy.orders", "take shop.orders elsewhere"),
        ("shop.*=>all.*, mall.*=>all.*", "bring mall there too"),
        ("mall.t=>shop.t", "bring mall.t there too"),
    ],
)
def test_a_schema_is_dropped_only_where_its_tables_are_alone(routes: str, message: str) -> None:
    with pytest.raises(SinkError, match=message):
        routes_of(routes).check_schema_goes_alone("Shop")
    routes_of("shop.*=>copy.*, shop.t=>copy.u").check_schema_goes_alone("shop")


# ---- DDLs ---------------------------------------------------------------------------------------------------------------


def test_names_are_spelled_as_in_the_log_and_then_routed() -> None:
    result = head(TableName("shop", "Item"), TableName("shop", "orders"), after=(TableName("shop", "New"),))
    assert carried("alter table SHOP.item add a int", "Item", result) == "ALTER TABLE `shop_copy`.`Item` add `a` int"
    assert carried("alter table orders rename new", "New", result) == "ALTER TABLE `copy`.`orders2` rename TO `shop_copy`.`New`"
    assert carried("drop database Shop", "", result) == "DROP DATABASE `shop_copy`"


def test_of_a_drop_of_several_tables_only_the_records_own_is_taken() -> None:
    result = head(TableName("shop", "a"), TableName("shop", "b"))
    assert carried("drop table a, `B`", "b", result) == "DROP TABLE `shop_copy`.`b`"
    with pytest.raises(UnsupportedDdl, match=r"came for shop\.c, which it does not name"):
        carried("drop table a, b", "c", result)


TWO = (("s", "t"), ("s2", "t"), ("s", "u"))


@pytest.mark.parametrize("kind", ["TABLE", "VIEW"])
@pytest.mark.parametrize("text", ["t, s2.t", "s2.t, t", "s2.t, s.t", "t, `S2`.`T`, u", "s2.t, s.t, s.u, u2"])
@pytest.mark.parametrize("own", TWO[:2])
def test_of_tables_of_one_name_in_two_schemas_a_drop_takes_the_records_own_once(kind: str, text: str, own: tuple[str, str]) -> None:
    """`t` is of its author's schema `s`, and the record's schema is all that is known of it."""
    query = f"DROP {kind} {text}"
    statement = of_the_log(parsed(query, own[0]), DdlRecord(CommitTs(2), *own, query), head(*(TableName(*one) for one in TWO)))
    assert rendered(statement, Flavour.MARIADB) == f"DROP {kind} `{own[0]}`.`{own[1]}`"


@pytest.mark.parametrize(
    ("text", "message", "moves"),
    [
        ("RENAME TABLE t TO x, s2.t TO s2.x", "s", ["s.t>s.x", "s2.t>s2.x"]),
        ("RENAME TABLE s2.t TO s2.x, t TO x", "s2", ["s2.t>s2.x", "s.t>s.x"]),
        ("RENAME TABLE t TO s2.x, s2.t TO x", "s2", ["s.t>s2.x", "s2.t>s.x"]),
        ("RENAME TABLE t TO s2.x, s2.t TO s.x", "s2", ["s.t>s2.x", "s2.t>s.x"]),
        ("ALTER TABLE t RENAME s2.x", "s2", ["s.t>s2.x"]),
        ("ALTER TABLE s2.t RENAME x", "s", ["s2.t>s.x"]),
    ],
)
def test_of_tables_of_one_name_in_two_schemas_each_is_renamed_as_its_id_shows(text: str, message: str, moves: list[str]) -> None:
    names = {TableName(*source.split(".")): TableName(*target.split(".")) for source, target in (move.split(">") for move in moves)}
    result = head(*names, after=tuple(names.values()))
    ids = {name: number for number, move in enumerate(names.items(), 1) for name in move}
    tables = [{name: replace(one, table_id=ids[name]) for name, one in side.items()} for side in (result.schemas, result.next_schemas)]
    result = replace(result, schemas=tables[0], next_schemas=tables[1])
    statement = of_the_log(parsed(text, message), DdlRecord(CommitTs(2), message, "x", text), result)
    assert [f"{source}>{target}" for source, target in statement.moves] == moves
    assert statement.tables() == tuple(name for move in names.items() for name in move)


def test_of_a_rename_of_several_tables_only_those_of_the_log_are_taken() -> None:
    result = head(TableName("shop", "a"), TableName("shop", "b"))
    text = "rename table a to tmp, other.x to other.y, b to a, tmp to b"
    expected = "RENAME TABLE `shop_copy`.`a` to `shop_copy`.`tmp`, `shop_copy`.`b` to `shop_copy`.`a`, `shop_copy`.`tmp` to `shop_copy`.`b`"
    assert carried(text, "tmp", result) == expected
    assert carried("rename table x to y", "x", head()) == "RENAME TABLE `shop_copy`.`x` to `shop_copy`.`y`"


@pytest.mark.parametrize(
    ("moves", "expected"),
    [
        ("a>x b>y", "a>x b>y"),
        ("a>tmp b>a tmp>b", "a>tmp b>a tmp>b"),
        ("a>b b>a", "a>a__ticdc_dump b>a a__ticdc_dump>b"),
        ("a>b b>c", "b>c a>b"),
        ("a>b b>c c>a x>y", "x>y a>a__ticdc_dump c>a b>c a__ticdc_dump>b"),
    ],
)
def test_renames_of_one_commit_are_done_as_if_at_once(moves: str, expected: str) -> None:
    pairs = [tuple(move.split(">")) for move in moves.split()]
    statements = [parsed(f"rename table {source} to {target}", "s") for source, target in pairs]
    statement = together(statements, head(*(TableName("s", one) for one in "abcx")))
    assert " ".join(f"{source.table}>{target.table}" for source, target in statement.moves) == expected
    assert rendered(statement, Flavour.MARIADB).count(" TO ") == len(statement.moves)


@pytest.mark.parametrize(
    ("text", "table", "named"),
    [
        ("create table t (a int, foreign key (a) references p(id))", ("s", "t"), [("s", "t"), ("s", "p")]),
        ("alter table t rename to o.u", ("o", "u"), [("s", "t"), ("o", "u")]),
        ("drop index i on t", ("s", "t"), [("s", "t")]),
        ("drop table t", None, [("s", "t")]),
        ("create database d", None, [("d", "")]),
    ],
)
def test_what_a_ddl_names_and_which_table_it_leaves(text: str, table: tuple[str, str] | None, named: list[tuple[str, str]]) -> None:
    statement = parsed(text, "s")
    assert table_of(statement) == table
    assert list(places(statement)) == named


def test_a_name_without_a_schema_that_goes_to_another_one_is_found_by_its_id() -> None:
    """The job of `USE shop; RENAME TABLE a TO side.b` is one of `side`, which may have an `a` as well."""
    before, after, other = TableName("shop", "A"), TableName("side", "b"), TableName("side", "a")
    result = head(before, other, after=(after, other))
    ids = {before: 7, after: 7, other: 8}
    tables = [{name: replace(one, table_id=ids[name]) for name, one in side.items()} for side in (result.schemas, result.next_schemas)]
    result = replace(result, schemas=tables[0], next_schemas=tables[1])
    for text in ("rename table a to side.b", "alter table a rename to side.b"):
        statement = of_the_log(parsed(text, "side"), DdlRecord(CommitTs(2), "side", "b", text), result)
        assert statement.moves == ((before, after),)
        assert statement.tables() == (before, after)


def test_a_reader_passes_over_nothing_that_was_not_requested() -> None:
    reader = TokenReader("alter table a.b", "s")
    assert not reader.skip("ALTER VIEW")
    assert reader.take("ALTER TABLE|VIEW")
    assert reader.table() == TableName("a", "b")
    assert reader.made() == (" alter", " table", TableName("a", "b"))
    assert reader.at_end()
    with pytest.raises(UnsupportedDdl, match="at 'its end': a number was expected"):
        reader.number()
    assert words("a b a") == {"a", "b"}
