from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Any

import pytest

from sidecar.shared.errors import ConfigError
from sidecar.shared.model.nouns import TableName
from sidecar.shared.ticdc.dispatch import Hashing, Router, TopicPartitionRule

ITEM, ORDERS, STAFF = TableName("shop", "item"), TableName("shop", "orders"), TableName("hr", "staff")


def router(*dispatchers: Mapping[str, Any], protocol: str = "open-protocol", case_sensitive: bool = False) -> Router:
    return Router.of(dispatchers, default_topic="main", protocol=protocol, case_sensitive=case_sensitive)


def test_without_dispatchers_all_goes_to_one_topic_by_table() -> None:
    assert router().topic(ITEM) == "main"
    assert router().partition_rule(ITEM) == TopicPartitionRule("table")
    assert router().topics([ITEM, STAFF]) == {"main"}


def test_the_first_rule_that_has_the_table_decides_topic_and_partition() -> None:
    result = router(
        {"matcher": ["shop.item"], "partition": "index-value", "index": "uk"},
        {"matcher": ["shop.*"], "topic": "{schema}_{table}", "partition": "ts"},
        {"matcher": ["*.*", "!hr.*"], "partition": "columns", "columns": ["a", "B"]},
    )
    assert (result.topic(ITEM), result.partition_rule(ITEM)) == ("main", TopicPartitionRule("index-value", "uk"))
    assert (result.topic(ORDERS), result.partition_rule(ORDERS)) == ("shop_orders", TopicPartitionRule("ts"))
    assert result.partition_rule(TableName("a", "b")) == TopicPartitionRule("columns", columns=("a", "B"))
    assert (result.topic(STAFF), result.partition_rule(STAFF)) == ("main", TopicPartitionRule("table"))
    assert result.topics([ITEM, ORDERS]) == {"main", "shop_orders"}


def test_the_default_topic_is_marked_though_no_table_is_in_it() -> None:
    assert router({"matcher": ["*.*"], "topic": "t_{table}"}).topics([ITEM]) == {"main", "t_item"}


def test_matchers_fold_case_as_the_changefeed_says() -> None:
    rule = {"matcher": ["SHOP.*"], "topic": "upper"}
    assert router(rule).topic(ITEM) == "upper"
    assert router(rule, case_sensitive=True).topic(ITEM) == "main"


@pytest.mark.parametrize(
    ("written", "kind"),
    [("", "table"), ("default", "table"), ("Table", "table"), ("TS", "ts"), ("index-value", "index-value"), ("rowid", "index-value")],
)
def test_dispatchers_by_name(written: str, kind: str) -> None:
    assert router({"matcher": ["*.*"], "partition": written}).partition_rule(ITEM).kind == kind
    assert router({"matcher": ["*.*"], "dispatcher": written, "partition": ""}).partition_rule(ITEM).kind == kind


def test_what_is_no_dispatcher_is_by_table_as_in_ticdc_and_reported() -> None:
    result = router(
        {"matcher": ["*.*"], "partition": "round-robin"}, {"matcher": ["*.*"], "partition": "ts", "index": "uk", "columns": ["a"]}
    )
    assert result.partition_rule(ITEM) == TopicPartitionRule("table")
    assert ["round-robin" in result.warnings[0], "index 'uk'" in result.warnings[1], "columns" in result.warnings[2]] == [True] * 3
    assert router({"matcher": ["*.*"], "partition": "rowid"}).warnings == ()


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({"matcher": ["*.*"], "dispatcher": "ts", "partition": "table"}, "dispatcher and partition cannot be configured both"),
        ({"matcher": ["*.*"], "topic": "a b"}, "'a b' of sink.dispatchers number 1 is no topic expression"),
        ({"matcher": ["*.*"], "topic": "{table}_{schema}"}, "no topic expression"),
        ({"matcher": ["shop"]}, "sink.dispatchers number 1, matcher"),
        ({"matcher": "shop.*"}, "number 1 cannot be used"),
        ({"matcher": ["*.*"], "partiton": "ts"}, "partiton"),
        ({"matcher": ["*.*"], "target-schema": "copy"}, "target-schema or target-table"),
    ],
)
def test_what_ticdc_or_we_refuse_is_named(rule: Mapping[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        router(rule)


def test_nulls_in_the_json_of_etcd_are_absent() -> None:
    rule = {"matcher": ["*.*"], "dispatcher": "", "partition": "ts", "index": "", "columns": None, "topic": "", "target-schema": ""}
    assert router(rule).partition_rule(ITEM) == TopicPartitionRule("ts")


def test_a_schemas_ddl_goes_to_the_default_topic_and_a_tables_to_its_own() -> None:
    result = router({"matcher": ["*.*"], "topic": "{schema}_{table}"})
    assert result.ddl_topic(ITEM) == "shop_item"
    assert result.ddl_topic(TableName("shop", "")) == "main"


def test_a_ddl_goes_to_all_partitions_but_of_canal_json_to_the_first() -> None:
    assert list(router().ddl_partitions(3)) == [0, 1, 2]
    assert list(router(protocol="canal-json").ddl_partitions(3)) == [0]


@pytest.mark.parametrize(
    ("release", "classic", "new"),
    [
        ("", ("own", "null", True, False), ("own", None, False, False)),
        ("v7.5.2", ("written", "null", True, False), ("own", None, False, True)),
        ("v8.5.4", ("own", "null", True, False), ("own", None, False, True)),
        ("v8.5.7", ("own", "null", True, False), ("own", None, False, False)),
        ("v9.0.0-beta.1", ("written", "null", True, False), ("own", None, False, False)),
        ("v9.0.0-beta.2", ("lower", "null", True, False), ("lower", None, False, True)),
    ],
)
def test_releases_hash_differently(release: str, classic: tuple[object, ...], new: tuple[object, ...]) -> None:
    for architecture, expected in (("classic", classic), ("new", new)):
        hashing = Hashing.of(architecture, release)  # type: ignore[arg-type]  # a Literal
        assert (hashing.names, hashing.null, hashing.shifted, hashing.whole_seconds) == expected


def test_a_release_that_misreads_named_columns_is_not_followed_there() -> None:
    hashing = Hashing.of("new", "v9.0.0-beta.2")
    for rule in ({"partition": "columns", "columns": ["a"]}, {"partition": "index-value", "index": "uk"}):
        with pytest.raises(ConfigError, match=r"number 1 names .* the new architecture of v9.0.0-beta.2"):
            Router.of([{"matcher": ["*.*"], **rule}], default_topic="main", protocol="open-protocol", hashing=hashing)
    plain = Router.of([{"matcher": ["*.*"], "partition": "index-value"}], default_topic="main", protocol="open-protocol", hashing=hashing)
    assert plain.partition_rule(ITEM) == TopicPartitionRule("index-value", hashing=hashing)


def test_what_is_no_release_is_refused() -> None:
    with pytest.raises(ConfigError, match="'nightly' is no release of TiCDC"):
        Hashing.of("classic", "nightly")


def test_it_can_be_sent_to_a_task() -> None:
    result = router({"matcher": ["shop.*"], "partition": "ts", "topic": "x"})
    assert result.topic(ITEM) == "x"
    assert pickle.loads(pickle.dumps(result)) == result
