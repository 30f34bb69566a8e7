"""TiCDC's event router: the topic of a table, what puts its rows into partitions, and where its DDLs go.

    Router.of(dispatchers, …) ─► topic(table)   partition_rule(table) ─► spark_merge/sinks/kafka/partitions.py
                              └► topics(tables) for resolved marks, ddl_topic(table), ddl_partitions(count)

- The first dispatcher whose matcher has the table decides, for topic and partition alike; behind them all is `*.*`, the changefeed's
  topic, by table. Topic expressions are those of sidecar/shared/ticdc/topics.py.
- default and table    crc32(schema + table)
  index-value          the same, xor crc32(column + value) of each column of the handle key, or of the index that is named (rowid: its
                       old name)
  columns              the same of the columns that are named
  ts                   commit_ts
  all modulo the partitions of the topic. Letters of a dispatcher's name may be large; what is no dispatcher's name is by table, as TiCDC
  takes it with a warning (`warnings`). `dispatcher` is `partition`'s old name: TiCDC refuses both in one rule.
- The value is the row's after the change, for a delete before it. TiCDC makes an update that changes a handle key's or a unique index's
  value a delete and an insert, so the old key's partition has the delete and the new key's the insert. An update that changes a named
  column alone stays one row, in the new value's partition: with `columns` and `ts` a row's changes may lie in several partitions.
- Not all releases hash alike (`Hashing.of`). `columns` and named indexes in the new architecture of v9.0.0-beta.2 are refused: it reads the
  values of the table's first columns as if they were of the named ones' types.

Source: pingcap/tiflow cdc/sink/dmlsink/mq/dispatcher, pkg/hash, cdc/model/schema_storage.go, cdc/sink/ddlsink/mq; pingcap/ticdc
downstreamadapter/sink/eventrouter, pkg/common; tags v7.5.0 to v8.5.7 and v9.0.0-beta.2.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, Self, TypeAlias

import msgspec

from sidecar.shared.codecs.registry import protocol_of
from sidecar.shared.errors import ConfigError, RefusedRequest
from sidecar.shared.model.nouns import TableName
from sidecar.shared.ticdc.table_rules import TableRules
from sidecar.shared.ticdc.topics import EXPRESSION_HINT, not_an_expression, substituted

Kind: TypeAlias = Literal["table", "index-value", "columns", "ts"]
Architecture: TypeAlias = Literal["classic", "new"]

_KINDS: dict[str, Kind] = {
    "": "table", "default": "table", "table": "table", "index-value": "index-value", "rowid": "index-value", "columns": "columns",
    "ts": "ts",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Hashing:
    """What differs between TiCDC's releases in a value's or a column's text.

    `names`: of a column in the hash: the table's own spelling, in lower case, or (`columns` only, else the table's own) as the dispatcher
    spells it. `null`: NULL's text; None: it adds nothing. `shifted`: the place of a named column is counted with the virtual generated ones
    before it, which rows do not have: so it is another column's value. `whole_seconds`: of TIME without its fraction. `named`: whether
    indexes and columns can be named. `zone`: of the TiCDC server, in which TIMESTAMPs are texts.
    """

    names: Literal["own", "lower", "written"] = "own"
    null: str | None = "null"
    shifted: bool = True
    whole_seconds: bool = False
    named: bool = True
    zone: str = "UTC"

    @classmethod
    def of(cls, architecture: Architecture, release: str = "", zone: str = "UTC") -> Hashing:
        """`release` as TiCDC reports it, `v8.5.4`; empty: the newest. Raises ConfigError."""
        version = _version(release)
        in_beta_2 = release.removeprefix("v").startswith("9.0.0-beta.2")
        written = version < (8, 5, 3) or release.removeprefix("v").startswith("9.0.0-beta.1")
        new = architecture == "new"
        return cls(
            names="lower" if in_beta_2 else "written" if written and not new else "own",
            null=None if new else "null",
            shifted=not new,
            whole_seconds=new and (in_beta_2 or version < (8, 5, 6)),
            named=not (new and in_beta_2),
            zone=zone,
        )


def _version(release: str) -> tuple[int, int, int]:
    if not release:
        return (99, 0, 0)
    match = re.match(r"v?(\d+)\.(\d+)\.(\d+)", release)
    if match is None:
        raise ConfigError(f"{release!r} is no release of TiCDC", hint="give it as `cdc version` prints it: v8.5.4")
    return (int(match[1]), int(match[2]), int(match[3]))


@dataclass(frozen=True, slots=True)
class TopicPartitionRule:
    """`index`: of index-value, empty for the handle key. `columns`: of columns. Names are looked up without case."""

    kind: Kind = "table"
    index: str = ""
    columns: tuple[str, ...] = ()
    hashing: Hashing = Hashing()


@dataclass(frozen=True, slots=True)
class Rule:
    """A dispatcher. `topic` is an expression, empty for the changefeed's topic. `says_partition`: it names how partitions are chosen."""

    matcher: tuple[str, ...]
    topic: str
    partition: TopicPartitionRule
    says_partition: bool = True


class _Dispatcher(msgspec.Struct, forbid_unknown_fields=True, rename="kebab"):
    matcher: list[str] | None = None
    dispatcher: str | None = None
    partition: str | None = None
    index: str | None = None
    columns: list[str] | None = None
    topic: str | None = None
    target_schema: str | None = None
    target_table: str | None = None


@dataclass(frozen=True, slots=True)
class Router:
    """Picklable, and knows no table before the first call. `warnings`: what an operator should know of its dispatchers."""

    rules: tuple[Rule, ...]
    default_topic: str
    protocol: str
    case_sensitive: bool = False
    hashing: Hashing = Hashing()
    warnings: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        dispatchers: Sequence[Mapping[str, Any]],
        *,
        default_topic: str,
        protocol: str,
        case_sensitive: bool = False,
        hashing: Hashing | None = None,
    ) -> Self:
        """`dispatchers` as TiCDC's config has them, names in kebab-case. Raises ConfigError for what TiCDC refuses, and for tables that
        are sent under other names, which no consumer of the feed's own topic has seen."""
        hashing = hashing or Hashing()
        warnings: list[str] = []
        rules = tuple(_rule(number, one, hashing, case_sensitive, warnings) for number, one in enumerate(dispatchers, 1))
        return cls(rules, default_topic, protocol, case_sensitive, hashing, tuple(warnings))

    def topic(self, table: TableName) -> str:
        """Of its rows."""
        rule = self._rule_of(table)
        return substituted(rule.topic if rule else "", self.default_topic, table)

    @property
    def without_rows(self) -> frozenset[str]:
        """Topics that have no rows, and one partition."""
        return frozenset()

    def topics(self, tables: Iterable[TableName]) -> frozenset[str]:
        """Those that are written while `tables` are replicated."""
        return frozenset({self.default_topic} | {self.topic(table) for table in tables})

    def mark_topics(self, tables: Iterable[TableName]) -> frozenset[str]:
        """Those of them that a resolved mark goes to, to all partitions of each."""
        return self.topics(tables)

    def partition_rule(self, table: TableName) -> TopicPartitionRule:
        rule = self._rule_of(table)
        return rule.partition if rule else TopicPartitionRule(hashing=self.hashing)

    def ddl_topic(self, before: TableName) -> str:
        """`before`: the table's name before the DDL, of a new table its name. The default topic for a schema's DDL (no table)."""
        return self.topic(before) if before.table else self.default_topic

    def ddl_topics(self, written: Mapping[str, int]) -> frozenset[str]:
        """Those of the topics that have been `written` in which there may be a DDL."""
        return frozenset(written)

    def ddl_partitions(self, count: int) -> range:
        """Of a topic of so many partitions, those that a DDL goes to."""
        protocol = protocol_of(self.protocol)
        return range(min(count, 1)) if protocol is not None and protocol.ddls_to_first_partition else range(count)

    def _rule_of(self, table: TableName) -> Rule | None:
        return next((rule for rule in self.rules if _matcher(rule.matcher, self.case_sensitive).matches(table)), None)


@lru_cache(maxsize=1024)
def _matcher(rules: tuple[str, ...], case_sensitive: bool) -> TableRules:
    """Compiled where it is used: what is compiled cannot be sent to a task."""
    return TableRules.of(rules, case_sensitive=case_sensitive)


def _rule(number: int, mapping: Mapping[str, Any], hashing: Hashing, case_sensitive: bool, warnings: list[str]) -> Rule:
    setting = f"sink.dispatchers number {number}"
    try:
        dispatcher = msgspec.convert(mapping, _Dispatcher)
    except msgspec.ValidationError as error:
        names = "matcher, partition, index, columns, topic"
        raise ConfigError(f"{setting} cannot be used: {error}", hint=f"write it as TiCDC's config has it, with {names}") from error
    if dispatcher.dispatcher and dispatcher.partition:
        raise ConfigError(
            f"dispatcher and partition cannot be configured both, as they are in {setting}",
            hint=f"keep partition = {dispatcher.partition!r}, and take dispatcher out",
        )
    if dispatcher.target_schema or dispatcher.target_table:
        raise ConfigError(
            f"{setting} has target-schema or target-table: rows are written under their own table's name only", hint="take them out"
        )
    topic = dispatcher.topic or ""
    if wrong := not_an_expression(topic, setting):
        raise ConfigError(wrong, hint=EXPRESSION_HINT)
    matcher = tuple(dispatcher.matcher or ())
    try:
        _matcher(matcher, case_sensitive)
    except RefusedRequest as error:
        raise ConfigError(f"{setting}, matcher: {error.message}", hint=error.hint) from error
    says_partition = bool(dispatcher.partition or dispatcher.dispatcher)
    return Rule(matcher, topic, _partition_rule(setting, dispatcher, hashing, warnings), says_partition)


def _partition_rule(setting: str, dispatcher: _Dispatcher, hashing: Hashing, warnings: list[str]) -> TopicPartitionRule:
    written = dispatcher.partition or dispatcher.dispatcher or ""
    kind = _KINDS.get(written.lower())
    if kind is None:
        warnings.append(f"{setting}: {written!r} is no dispatcher that TiCDC has, and it takes it for default: rows go by table")
    index, columns = (dispatcher.index or "") if kind == "index-value" else "", tuple(dispatcher.columns or ()) if kind == "columns" else ()
    if dispatcher.index and not index:
        warnings.append(f"{setting}: index {dispatcher.index!r} is of index-value only, and nothing here")
    if dispatcher.columns and not columns:
        warnings.append(f"{setting}: columns are of the columns dispatcher only, and nothing here")
    if (index or columns) and not hashing.named:
        raise ConfigError(
            f"{setting} names {'an index' if index else 'columns'}, whose values the new architecture of v9.0.0-beta.2 does not find",
            hint="use index-value without an index, or say which release of TiCDC rows are to be put as",
        )
    return TopicPartitionRule(kind or "table", index, columns, hashing)
