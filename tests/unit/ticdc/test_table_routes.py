"""Under which name a changefeed sends a table, and whose a name in its feed is."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.shared.errors import FeedUnsuitable
from sidecar.shared.model.nouns import Column, Lane, TableName, TableSchema
from sidecar.shared.ticdc.changefeed import Changefeed, ChangefeedName, Dispatcher, FeedFilter
from sidecar.shared.ticdc.table_routes import TableRoutes, names_in_feed, with_own_name
from tests.support.changes import put

T = TableName("shop", "t")


def routes(*rules: tuple[str, str, str], case_sensitive: bool = False) -> TableRoutes:
    each = tuple(Dispatcher((matcher,), "", "", schema, table) for matcher, schema, table in rules)
    name, rules_of = ChangefeedName("default", "default", "c"), FeedFilter(case_sensitive=case_sensitive)
    return TableRoutes.of(Changefeed(name, "i", "kafka://h:9092/t", filter=rules_of, dispatchers=each))


@pytest.mark.parametrize(
    ("schema", "table", "target"),
    [
        ("sales", "", ("sales", "t")),
        ("", "sold", ("shop", "sold")),
        ("{schema}_bak", "{table}_bak", ("shop_bak", "t_bak")),
        ("all", "{schema}_{table}", ("all", "shop_t")),
        ("{table}", "{schema}", ("t", "shop")),
        ("{schema}{schema}", "x{y}", ("shopshop", "x{y}")),
    ],
)
def test_a_target_is_filled_in(schema: str, table: str, target: tuple[str, str]) -> None:
    """pingcap/ticdc pkg/routing/router_test.go."""
    assert routes(("shop.*", schema, table)).target(T) == target


def test_a_schema_that_is_called_like_a_placeholder_is_filled_in_twice_as_in_ticdc() -> None:
    assert routes(("*.*", "{schema}", "")).target(TableName("{table}", "t")) == ("t", "t")


def test_the_first_dispatcher_with_a_target_decides_and_others_do_not_count() -> None:
    by = routes(("shop.*", "", ""), ("shop.t", "one", ""), ("*.*", "two", ""))
    assert (by.target(T), by.target(TableName("hr", "u"))) == (("one", "t"), ("two", "u"))
    assert routes(("hr.*", "x", "")).target(T) == T
    assert routes(("SHOP.T", "x", "")).target(T) == ("x", "t")
    assert routes(("SHOP.T", "x", ""), case_sensitive=True).target(T) == T
    assert (by.feed_name(T), routes(("*.*", "shop", "")).feed_name(T)) == (("one", "t"), None)


def test_a_matcher_that_is_none_is_named() -> None:
    with pytest.raises(FeedUnsuitable, match=r"sink\.dispatchers number 1, matcher"):
        routes(("shop", "x", ""))


# ---- whose a name is ------------------------------------------------------------------------------------------------

NAMES = st.builds(TableName, st.sampled_from(["a", "b", "c"]), st.sampled_from(["t", "u", "v"]))
EXPRESSIONS = st.sampled_from(["", "a", "c", "{schema}", "{table}", "x_{schema}", "{schema}_{table}"])
RULES = st.tuples(st.sampled_from(["*.*", "a.*", "b.t", "c.?"]), EXPRESSIONS, EXPRESSIONS)


def schemas(names: set[TableName], by: TableRoutes) -> dict[TableName, TableSchema]:
    return {name: TableSchema(name, (Column("id", "int"),), ("id",), feed_name=by.feed_name(name)) for name in names}


@given(st.lists(RULES, max_size=3), st.sets(NAMES, max_size=6))
def test_every_row_gets_its_tables_name_back_unless_two_tables_have_one(rules: list[tuple[str, str, str]], tables: set[TableName]) -> None:
    by = routes(*rules)
    targets = [by.target(name) for name in tables]
    assert bool(by.conflicts(tables)) is (len(set(targets)) < len(targets))
    for target, one, other in by.conflicts(tables):
        assert one != other
        assert by.target(one) == by.target(other) == target
    if by.conflicts(tables):
        return
    names = names_in_feed(schemas(tables, by))
    for name in tables:
        sent = put(100, "1")._replace(schema=by.target(name).schema, table=by.target(name).table)
        own = with_own_name(sent, names) if names else sent
        assert (own.schema, own.table) == name


def test_a_name_that_no_table_has_stops_with_its_place_though_a_table_has_it_in_tidb() -> None:
    names = names_in_feed(schemas({T}, routes(("shop.*", "sales", ""))))
    with pytest.raises(FeedUnsuitable, match=r"a@7 has a change of shop.t at commit_ts 100, a name under which the changefeed sends no"):
        with_own_name(put(100, "1")._replace(schema="shop", table="t", lane=Lane("a"), position=7), names)


def test_a_table_without_a_key_has_no_name_in_the_feed_and_where_nothing_is_routed_nobody_looks() -> None:
    by = routes(("shop.*", "sales", ""))
    two = schemas({T, TableName("sales", "t")}, by)
    two[TableName("sales", "t")] = replace(two[TableName("sales", "t")], key=())
    assert names_in_feed(two) == {TableName("sales", "t"): T}
    assert names_in_feed(schemas({T}, routes())) == {}


def test_a_name_that_two_tables_have_but_for_case_is_that_of_the_exact_one_or_of_none() -> None:
    names = names_in_feed(schemas({T, TableName("crm", "t")}, routes(("shop.*", "Sales", ""), ("crm.*", "SALES", ""))))
    sent = put(100, "1")._replace(schema="SALES", table="t", lane=Lane("a"), position=7)
    assert with_own_name(sent, names)[2:4] == ("crm", "t")
    with pytest.raises(FeedUnsuitable, match="a name under which the changefeed sends no table"):
        with_own_name(sent._replace(schema="sales"), names)


def test_a_name_in_another_case_is_the_tables() -> None:
    names = names_in_feed(schemas({T}, routes(("shop.*", "Sales", ""))))
    assert with_own_name(put(100, "1")._replace(schema="sales", table="T"), names)[2:4] == tuple(T)
