from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.shared.errors import FeedUnsuitable
from sidecar.shared.model.nouns import MARK_TABLE, TableName
from sidecar.shared.ticdc.changefeed import Changefeed, ChangefeedName, Dispatcher, FeedFilter
from sidecar.shared.ticdc.topics import TOPIC_CHARS_MAX, marked_topics, topic_of, topics

ORDERS = TableName("shop", "orders")


def feed(*dispatchers: tuple[str, str], case_sensitive: bool = False) -> Changefeed:
    """Of matcher and topic, one after the other."""
    return Changefeed(
        ChangefeedName("default", "default", "demo"),
        "1",
        "kafka://h/main",
        filter=FeedFilter(case_sensitive=case_sensitive),
        dispatchers=tuple(Dispatcher((matcher,), topic, "table") for matcher, topic in dispatchers),
    )


def topic(expression: str, table: TableName) -> str:
    return topic_of(feed(("*.*", expression)), "main", table)


def test_without_dispatchers_all_is_in_the_default_topic() -> None:
    assert topic_of(feed(), "main", ORDERS) == "main"
    assert topics(feed(), "main", [ORDERS]) == {"main"}


def test_the_first_dispatcher_that_has_the_table_decides() -> None:
    changefeed = feed(("shop.item", "items"), ("shop.*", ""), ("*.*", "rest"), ("shop.orders", "never"))
    assert topic_of(changefeed, "main", TableName("shop", "item")) == "items"
    assert topic_of(changefeed, "main", ORDERS) == "main"
    assert topic_of(changefeed, "main", TableName("hr", "staff")) == "rest"
    assert topic_of(feed(("hr.*", "hr")), "main", ORDERS) == "main"


def test_matchers_fold_case_as_the_changefeed_says() -> None:
    assert topic_of(feed(("SHOP.*", "s")), "main", ORDERS) == "s"
    assert topic_of(feed(("SHOP.*", "s"), case_sensitive=True), "main", ORDERS) == "main"


@pytest.mark.parametrize(
    ("expression", "table", "name"),
    [
        ("{schema}_{table}", ORDERS, "shop_orders"),
        ("a.{schema}-{table}.z", ORDERS, "a.shop-orders.z"),
        ("{schema}", ORDERS, "shop"),
        ("{table}", ORDERS, "orders"),
        ("fixed.topic-1_x", ORDERS, "fixed.topic-1_x"),
        ("{schema}_{table}", TableName("My Shop", "größe$1"), "My_Shop_gr__e_1"),
        ("{schema}_{table}", TableName("{table}", "t"), "_table__t"),
        ("{schema}", TableName(".", "t"), "_"),
        ("{schema}", TableName("..", "t"), "__"),
        ("{schema}{table}", TableName(".", "."), "__"),
        ("{schema}.", TableName("...", "t"), "...."),
        ("p{schema}{table}", TableName("s" * 64, "t" * 200), "p" + "s" * 64 + "t" * (TOPIC_CHARS_MAX - 65)),
    ],
)
def test_names_are_put_into_the_expression(expression: str, table: TableName, name: str) -> None:
    assert topic(expression, table) == name


@given(st.text(min_size=1, max_size=64), st.text(min_size=1, max_size=64))
def test_any_names_make_a_topic_that_kafka_takes(schema: str, table: str) -> None:
    text = topic("x{schema}.{table}", TableName(schema, table))
    assert 0 < len(text) <= TOPIC_CHARS_MAX
    assert text == "main" or set(text) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


def test_every_topic_is_read_that_can_hold_rows_marks_or_ddls() -> None:
    changefeed = feed(("shop.item", "items"), ("changefeed_dump.*", "marks"), ("shop.*", "{schema}"))
    assert topics(changefeed, "main", [ORDERS, TableName("shop", "item"), TableName("hr", "staff")]) == {"main", "marks", "items", "shop"}
    assert topics(changefeed, "main", []) == {"main", "marks"}
    assert topics(changefeed, "main", [MARK_TABLE]) == {"main", "marks"}


def test_a_schema_with_capitals_has_two_topics_in_the_classic_architecture_and_neither_is_surely_marked() -> None:
    """Finding 3: after a RENAME its rows go to the topic of the schema in lower case, as on v9.0.0-beta.2."""
    changefeed = feed(("ex_shop2.*", "{schema}_{table}"))
    tables = [TableName("ex_Shop2", "Bb"), TableName("ex_shop2", "cc")]
    assert topics(changefeed, "main", tables) == {"main", "ex_Shop2_Bb", "ex_shop2_Bb", "ex_shop2_cc"}
    assert marked_topics(changefeed, "main", tables) == {"main", "ex_shop2_cc"}
    new = replace(changefeed, new_architecture=True)
    assert topics(new, "main", tables) == marked_topics(new, "main", tables) == {"main", "ex_Shop2_Bb", "ex_shop2_cc"}


def test_a_matcher_with_case_decides_for_each_spelling() -> None:
    changefeed = feed(("Shop.*", "{schema}_{table}"), ("*.*", "rest"), case_sensitive=True)
    assert topics(changefeed, "main", [TableName("Shop", "a")]) == {"main", "rest", "Shop_a"}


@pytest.mark.parametrize("expression", ["{table}{schema}", "a b", "{schema}{schema}", "{Schema}", "t/{table}", "{schema}_{table}_{table}"])
def test_what_is_no_topic_expression_is_refused(expression: str) -> None:
    with pytest.raises(FeedUnsuitable, match="dispatchers number 1"):
        topic(expression, ORDERS)


def test_a_matcher_that_is_no_rule_is_refused() -> None:
    with pytest.raises(FeedUnsuitable, match="dispatchers number 2, matcher"):
        topics(feed(("*.*", ""), ("shop", "x")), "main", [])
