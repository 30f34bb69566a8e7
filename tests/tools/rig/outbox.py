"""Rows on their way to Kafka: grouped and encoded as TiCDC's MQ worker does (tiflow cdc/sink/dmlsink/mq/worker.go).

open-protocol batches rows of one group (topic, partition, and with the table rule the table) and sends the groups in any
order: only inside a group is there an order. canal-json sends row by row in order.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from itertools import islice
from random import Random
from typing import Any

from sidecar.shared.model.nouns import TableName
from tests.tools.rig import canal_json, open_protocol
from tests.tools.rig.binlog import Ddl
from tests.tools.rig.changes import Change
from tests.tools.rig.dispatch import Dispatcher, dispatcher_of, partition_of, topic_of

Outgoing = tuple[str, int, bytes | None, bytes]
"""Topic, partition, key, value."""


class Outbox:
    """`partitions`: of each topic in use; the owner may raise them. `count` returns those of a topic not met before.
    `protocol`: open-protocol or canal-json."""

    def __init__(self, protocol: str, topic: str, dispatchers: tuple[Dispatcher, ...], count: Callable[[str], int]) -> None:
        if protocol not in ("open-protocol", "canal-json"):
            raise ValueError(f"the rig does not write {protocol}")
        self.partitions: dict[str, int] = {}
        self.rows = 0
        self._protocol = protocol
        self._topic = topic
        self._dispatchers = dispatchers
        self._count = count
        self._groups: dict[tuple[str, int, str], list[tuple[bytes, bytes]]] = {}
        self._in_order: list[Outgoing] = []
        self._order = Random(0)

    def open(self, tables: Iterable[TableName]) -> None:
        """The changefeed's own topic and those of `tables` are in use."""
        self._use(self._topic)
        for table in tables:
            self._use(topic_of(dispatcher_of(self._dispatchers, table), table, self._topic))

    def _use(self, topic: str) -> int:
        if topic not in self.partitions:
            self.partitions[topic] = self._count(topic)
        return self.partitions[topic]

    def add(self, change: Change, commit_ts: int) -> None:
        image = change.before if change.after is None else change.after
        assert image is not None
        rule = dispatcher_of(self._dispatchers, change.table.name)
        topic = topic_of(rule, change.table.name, self._topic)
        partition = partition_of(rule, change.table, image, self._use(topic))
        self.rows += 1
        if self._protocol == "canal-json":
            self._in_order.append((topic, partition, *canal_json.row(change, commit_ts, now_ms=_now_ms())))
        else:
            group = str(change.table.name) if rule.partition == "table" else ""
            self._groups.setdefault((topic, partition, group), []).append(open_protocol.row(change, commit_ts))

    def take(self) -> list[Outgoing]:
        """The messages of every row added since the last time."""
        results, self._in_order, self.rows = self._in_order, [], 0
        groups = list(self._groups.items())
        self._groups = {}
        self._order.shuffle(groups)
        for (topic, partition, _), rows in groups:
            entries = iter(rows)
            while batch := list(islice(entries, open_protocol.ROWS_MAX)):
                results.append((topic, partition, *open_protocol.message(batch)))
        return results

    def resolved(self, ts: int) -> list[Outgoing]:
        """To every partition of every topic."""
        message: tuple[Any, bytes] = (
            canal_json.resolved(ts, now_ms=_now_ms()) if self._protocol == "canal-json" else open_protocol.resolved(ts)
        )
        return [(topic, partition, *message) for topic, count in self.partitions.items() for partition in range(count)]

    def ddl(self, ddl: Ddl, commit_ts: int) -> list[Outgoing]:
        """To every partition of the table's topic, a schema's to the changefeed's; canal-json to the first partition."""
        table = TableName(ddl.schema, ddl.table)
        topic = topic_of(dispatcher_of(self._dispatchers, table), table, self._topic) if ddl.table else self._topic
        partitions = self._use(topic)
        fields: dict[str, Any] = {
            "commit_ts": commit_ts, "schema": ddl.schema, "table": ddl.table, "query": ddl.query, "action": ddl.action,
        }  # fmt: skip
        if self._protocol == "canal-json":
            return [(topic, 0, *canal_json.ddl(**fields, now_ms=_now_ms()))]
        return [(topic, partition, *open_protocol.ddl(**fields)) for partition in range(partitions)]


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
