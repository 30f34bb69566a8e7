"""Topics as Debezium has them: rows alone in theirs."""

from __future__ import annotations

from typing import Any

import pytest

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import Column, TableName, TableSchema
from sidecar.shared.ticdc.dispatch import TopicPartitionRule
from spark_merge.sinks.kafka.debezium_topics import DebeziumRouter
from spark_merge.sinks.kafka.topics import check_apart

ORDERS = TableName("shop", "orders")


def router(*dispatchers: dict[str, Any]) -> DebeziumRouter:
    return DebeziumRouter.of(dispatchers, default_topic="p", protocol="debezium")


def test_each_table_has_a_topic_and_ddls_and_marks_have_theirs() -> None:
    made = router()
    assert made.topic(ORDERS) == "p.shop.orders"
    assert made.topic(TableName("s h", "é")) == "p.s_h._"
    assert made.ddl_topic(ORDERS) == made.ddl_topic(TableName("shop", "")) == "p"
    assert made.mark_topics([ORDERS]) == {"__debezium-heartbeat.p"}
    assert made.topics([ORDERS]) == {"p", "__debezium-heartbeat.p", "p.shop.orders"}
    assert list(made.ddl_partitions(3)) == [0]
    assert made.ddl_topics({"p": 1, "p.shop.orders": 3}) == {"p"}
    assert made.ddl_topics({"p.shop.orders": 3}) == frozenset()


def test_rows_go_by_their_key_unless_a_dispatcher_says_otherwise() -> None:
    made = router(
        {"matcher": ["shop.*"], "topic": "of-{schema}"}, {"matcher": ["a.*"], "partition": "table"}, {"matcher": ["b.*"], "partition": "ts"}
    )
    assert made.topic(ORDERS) == "of-shop"
    assert made.topic(TableName("a", "t")) == "p.a.t"
    kinds = {schema: made.partition_rule(TableName(schema, "t")).kind for schema in ("shop", "a", "b", "c")}
    assert kinds == {"shop": "index-value", "a": "table", "b": "ts", "c": "index-value"}
    assert made.partition_rule(TableName("c", "t")) == TopicPartitionRule("index-value")


@pytest.mark.parametrize("topic", ["p", "__debezium-heartbeat.p", "__debezium-heartbeat.{schema}"])
def test_rows_are_never_where_ddls_and_marks_are(topic: str) -> None:
    made = router({"matcher": ["p.*"], "topic": topic})
    with pytest.raises(SinkError, match=r"rows of p\.t to .*p, which has DDLs or resolved marks alone"):
        made.topics([TableName("p", "t")])


@pytest.mark.parametrize(
    ("one", "other", "where"),
    [
        (("shop", "订单"), ("shop", "客户"), "topic p.shop.__;"),
        (("a", "b.c"), ("a.b", "c"), "topic p.a.b.c;"),
        (("app", "prod_x"), ("app_prod", "x"), "topics p.app.prod_x and p.app_prod.x, which are one to Kafka;"),
    ],
    ids=["letters", "dots", "dot and line"],
)
def test_two_tables_of_one_topic_are_refused(one: tuple[str, str], other: tuple[str, str], where: str) -> None:
    tables = {name: TableSchema(name, (Column("id", "int"),), ("id",)) for name in (TableName(*one), TableName(*other), ORDERS)}
    with pytest.raises(SinkError) as error:
        check_apart(router(), tables)
    assert where in error.value.message
    first = sorted([TableName(*one), TableName(*other)])[0]
    check_apart(router({"matcher": [f'"{first.schema}"."{first.table}"'], "topic": "own"}), tables)
