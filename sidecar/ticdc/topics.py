"""Which Kafka topic TiCDC sends a table to.

- The first dispatcher whose matcher has the table decides; none, or one without a topic: the changefeed's default topic.
- A topic is a name, or an expression `[prefix][{schema}][middle][{table}][suffix]` of letters, digits, `.`, `_`, `-`.
  In the names put into it, characters that Kafka does not allow become `_`; the whole is cut at 249 characters; `.` and `..`,
  which Kafka refuses, become `_` and `__`. Two tables can share a topic that way.
- Resolved marks go to the default topic and to that of each replicated table; a table's DDL to that table's topic, a
  schema's DDL to the default topic. So the topics of all tables, the watermark table's among them, and the default topic
  are all there is to read. Avro's and Pulsar's own rules are left out: neither can carry a dump.

Source: pingcap/tiflow cdc/sink/dmlsink/mq/dispatcher/event_router.go, topic/expression.go; pingcap/ticdc
downstreamadapter/sink/eventrouter (the same rules).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from sidecar.core.model import MARK_TABLE, TableName
from sidecar.errors import FeedUnsuitable
from sidecar.ticdc.changefeed import Changefeed
from sidecar.ticdc.table_rules import TableRules, compiled

TOPIC_CHARS_MAX = 249
_EXPRESSION = re.compile(r"[A-Za-z0-9._-]*(\{schema\})?([A-Za-z0-9._-]*\{table\})?[A-Za-z0-9._-]*")
_REFUSED_BY_KAFKA = {".": "_", "..": "__"}


def topic_of(changefeed: Changefeed, default_topic: str, table: TableName) -> str:
    """The topic of `table`'s rows. Raises FeedUnsuitable for a dispatcher that is not understood."""
    return _topic(_dispatchers(changefeed), default_topic, table)


def topics(changefeed: Changefeed, default_topic: str, tables: Iterable[TableName]) -> frozenset[str]:
    """Every topic that can carry rows, marks, DDL or resolved marks where `tables` are the replicated ones.

    Raises FeedUnsuitable for a dispatcher that is not understood.
    """
    dispatchers = _dispatchers(changefeed)
    return frozenset({default_topic} | {_topic(dispatchers, default_topic, table) for table in (MARK_TABLE, *tables)})


def _dispatchers(changefeed: Changefeed) -> list[tuple[TableRules, str]]:
    """Each dispatcher's compiled matcher and topic."""
    found = []
    for number, dispatcher in enumerate(changefeed.dispatchers, 1):
        setting = f"sink.dispatchers number {number}"
        rules = compiled(f"{setting}, matcher", dispatcher.matcher, case_sensitive=changefeed.filter.case_sensitive)
        if not _EXPRESSION.fullmatch(dispatcher.topic):
            raise FeedUnsuitable(
                f"the topic {dispatcher.topic!r} of {setting} is no topic expression",
                hint="write it as [prefix]{schema}[middle]{table}[suffix], with letters, digits, '.', '_' and '-' around the names",
            )
        found.append((rules, dispatcher.topic))
    return found


def _topic(dispatchers: list[tuple[TableRules, str]], default_topic: str, table: TableName) -> str:
    expression = next((topic for rules, topic in dispatchers if rules.matches(table)), "")
    if not expression:
        return default_topic
    topic = expression.replace("{schema}", _allowed(table.schema)).replace("{table}", _allowed(table.table))[:TOPIC_CHARS_MAX]
    return _REFUSED_BY_KAFKA.get(topic, topic) if "{" in expression else topic


def _allowed(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "_", name)
