"""Which Kafka topic TiCDC sends a table to.

- The first dispatcher whose matcher has the table decides; none, or one without a topic: the changefeed's default topic.
- A topic is a name, or an expression `[prefix][{schema}][middle][{table}][suffix]` of letters, digits, `.`, `_`, `-`.
  In the names put into it, characters that Kafka does not allow become `_`; the whole is cut at 249 characters; `.` and `..`,
  which Kafka refuses, become `_` and `__`. Two tables can share a topic that way.
- Resolved marks go to the default topic and to that of each replicated table; a table's or a view's DDL to its own topic, a
  schema's DDL to the default topic. So the topics of all tables and views, the watermark table's among them, and the default topic
  are all there is to read. Avro's and Pulsar's own rules are not here: neither can carry a dump.
- The classic architecture has the schema in lower case from a RENAME on, until the table's next DDL or TiCDC's next start: TiDB writes
  it so into the job. Rows, DDLs and marks go to the topic of that name meanwhile. So a table of a schema with capitals has two topics,
  of which one at a time is marked.

Source: pingcap/tiflow cdc/sink/dmlsink/mq/dispatcher/event_router.go, topic/expression.go, cdc/entry/schema/snapshot.go; pingcap/ticdc
downstreamadapter/sink/eventrouter (the same rules); tried on v9.0.0-beta.2.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from sidecar.shared.errors import FeedUnsuitable
from sidecar.shared.model.nouns import MARK_TABLE, TableName, lowered
from sidecar.shared.ticdc.changefeed import Changefeed
from sidecar.shared.ticdc.table_rules import TableRules, compiled

TOPIC_CHARS_MAX = 249
_EXPRESSION = re.compile(r"[A-Za-z0-9._-]*(\{schema\})?([A-Za-z0-9._-]*\{table\})?[A-Za-z0-9._-]*")
_REFUSED_BY_KAFKA = {".": "_", "..": "__"}
EXPRESSION_HINT = "write it as [prefix]{schema}[middle]{table}[suffix], with letters, digits, '.', '_' and '-' around the names"


def topic_of(changefeed: Changefeed, default_topic: str, table: TableName) -> str:
    """The topic of `table`'s rows. Raises FeedUnsuitable for a dispatcher that is not understood."""
    return _topic(_dispatchers(changefeed), default_topic, table)


def topics(changefeed: Changefeed, default_topic: str, tables: Iterable[TableName]) -> frozenset[str]:
    """Every topic that can carry rows, marks, DDL or resolved marks where `tables` are the replicated ones.

    Raises FeedUnsuitable for a dispatcher that is not understood.
    """
    return written_topics(changefeed, default_topic, (MARK_TABLE, *tables))


def written_topics(changefeed: Changefeed, default_topic: str, tables: Iterable[TableName]) -> frozenset[str]:
    """The same of a changefeed that may be without the watermark table."""
    dispatchers = _dispatchers(changefeed)
    spelled = (name for table in tables for name in spellings(changefeed, table))
    return frozenset({default_topic} | {_topic(dispatchers, default_topic, name) for name in spelled})


def marked_topics(changefeed: Changefeed, default_topic: str, tables: Iterable[TableName]) -> frozenset[str]:
    """Those that TiCDC surely sends each resolved mark to where `tables` are replicated, with a key. Raises as `topics`."""
    one = (table for table in tables if len(spellings(changefeed, table)) == 1)
    return topics(changefeed, default_topic, one)


def spellings(changefeed: Changefeed, table: TableName) -> tuple[TableName, ...]:
    """How TiCDC may call `table`: as TiDB does and, in the classic architecture, with the schema in lower case."""
    low = TableName(lowered(table.schema), table.table)
    return (table,) if changefeed.new_architecture or low == table else (table, low)


def _dispatchers(changefeed: Changefeed) -> list[tuple[TableRules, str]]:
    """Each dispatcher's compiled matcher and topic."""
    dispatchers = []
    for number, dispatcher in enumerate(changefeed.dispatchers, 1):
        setting = f"sink.dispatchers number {number}"
        rules = compiled(f"{setting}, matcher", dispatcher.matcher, case_sensitive=changefeed.filter.case_sensitive)
        if wrong := not_an_expression(dispatcher.topic, setting):
            raise FeedUnsuitable(wrong, hint=EXPRESSION_HINT)
        dispatchers.append((rules, dispatcher.topic))
    return dispatchers


def _topic(dispatchers: list[tuple[TableRules, str]], default_topic: str, table: TableName) -> str:
    return substituted(next((topic for rules, topic in dispatchers if rules.matches(table)), ""), default_topic, table)


def not_an_expression(topic: str, setting: str) -> str:
    """Why TiCDC refuses `topic`, the topic of `setting`; empty if it takes it."""
    return "" if _EXPRESSION.fullmatch(topic) else f"the topic {topic!r} of {setting} is no topic expression"


def substituted(expression: str, default_topic: str, table: TableName) -> str:
    """The topic of `table` by a dispatcher's expression; an empty one is the default topic."""
    if not expression:
        return default_topic
    topic = expression.replace("{schema}", _allowed(table.schema)).replace("{table}", _allowed(table.table))[:TOPIC_CHARS_MAX]
    return _REFUSED_BY_KAFKA.get(topic, topic) if "{" in expression else topic


def _allowed(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "_", name)
