"""Where messages go that are written as Debezium's connectors do, and those of avro. The URI's topic is Debezium's `topic.prefix`.

    rows            {prefix}.{schema}.{table}, or where a dispatcher of the changefeed's file sends the table; by handle key, unless the
                    dispatcher says otherwise
    DDLs            {prefix}, its partition 0: Debezium's schema change topic
    resolved marks  __debezium-heartbeat.{prefix}, its partition 0: Debezium's heartbeat topic

The rule: neither a DDL nor a mark is ever in a topic of rows, so that readers which know Debezium's rows alone can read these topics whole.
A dispatcher that sends rows to one of the other two is refused. Source: debezium-core io/debezium/schema/AbstractTopicNamingStrategy.java,
DefaultTopicNamingStrategy.java.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import TableName
from sidecar.shared.ticdc.dispatch import Router, TopicPartitionRule
from sidecar.shared.ticdc.topics import substituted

_HEARTBEATS = "__debezium-heartbeat."


@dataclass(frozen=True, slots=True)
class DebeziumRouter(Router):
    """`default_topic`: the prefix."""

    @property
    def heartbeat_topic(self) -> str:
        return f"{_HEARTBEATS}{self.default_topic}"

    @property
    def without_rows(self) -> frozenset[str]:
        return frozenset({self.default_topic, self.heartbeat_topic})

    def topic(self, table: TableName) -> str:
        """Of its rows. Raises SinkError."""
        rule = self._rule_of(table)
        expression = (rule.topic if rule else "") or f"{self.default_topic}.{{schema}}.{{table}}"
        topic = substituted(expression, self.default_topic, table)
        if topic in self.without_rows:
            raise SinkError(
                f"a dispatcher sends rows of {table} to {topic}, which has DDLs or resolved marks alone",
                hint="give the dispatcher in the file of config= another topic, or none",
            )
        return topic

    def topics(self, tables: Iterable[TableName]) -> frozenset[str]:
        return self.without_rows | {self.topic(table) for table in tables}

    def mark_topics(self, tables: Iterable[TableName]) -> frozenset[str]:  # noqa: ARG002  (none of them)
        return frozenset({self.heartbeat_topic})

    def partition_rule(self, table: TableName) -> TopicPartitionRule:
        rule = self._rule_of(table)
        if rule is None or not rule.says_partition:
            return TopicPartitionRule("index-value", hashing=self.hashing)
        return rule.partition

    def ddl_topic(self, before: TableName) -> str:  # noqa: ARG002  (whatever the table)
        return self.default_topic

    def ddl_topics(self, written: Mapping[str, int]) -> frozenset[str]:
        return frozenset({self.default_topic}) & written.keys()

    def ddl_partitions(self, count: int) -> range:
        return range(min(count, 1))
