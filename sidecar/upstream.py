"""The changefeed's feed, source, scope and schemas, made from its definition in etcd and the sidecar's settings.

The tables change under way, by DDLs. Who passes a DDL is told of the tables after it (`FollowedSchemas`); the scope follows them, and
with it what operators may dump and which topics are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from msgspec.structs import replace

from sidecar.adapters.changefeed_info import client_settings, kafka_place
from sidecar.adapters.tidb import TidbSource, WriteChunk
from sidecar.adapters.tidb_follow import FollowedSchemas
from sidecar.adapters.tidb_schema import TidbSchemas
from sidecar.config import Config, KafkaSection, SourceSection, read_secret
from sidecar.core.changefeed import Changefeed, ChangefeedName
from sidecar.core.event_filter import FilterRules, Left, Through, dump_scope
from sidecar.core.model import MARK_TABLE, TableName, TableSchema
from sidecar.core.topics import topics
from sidecar.definition import check_suitable
from sidecar.feeds.kafka import KafkaFeed

DEFAULT = "default"
NAMES_RETRY_S = 10.0


def mark_row_id(name: ChangefeedName) -> str:
    """How the watermark row names this changefeed: by its id alone where that is unique, in the default namespace and cluster."""
    return name.id if (name.cluster, name.namespace) == (DEFAULT, DEFAULT) else str(name)


class LiveScope:
    """What the changefeed carries. `follow` gives it a new definition or other tables; the other calls may come from any thread."""

    def __init__(self, changefeed: Changefeed, *, server_tz: str) -> None:
        self._changefeed = changefeed
        self._server_tz = server_tz
        self._through: dict[TableName, Through | Left] = {}
        self.warnings: tuple[str, ...] = ()

    def follow(self, changefeed: Changefeed, schemas: Mapping[TableName, TableSchema]) -> dict[TableName, TableSchema]:
        """The tables of `schemas` that the changefeed has, the watermark table among them. Raises FeedUnsuitable."""
        found = dump_scope(changefeed, schemas, server_tz=self._server_tz)
        self._changefeed, self._through, self.warnings = changefeed, dict(found.tables), found.warnings
        rules = FilterRules.of(changefeed)
        return {table: schema for table, schema in schemas.items() if table == MARK_TABLE or rules.has(table)}

    def through(self, table: TableName) -> tuple[bool, str]:
        """Whether existing rows of `table` may be dumped, and the predicate of those that may, or why not."""
        found = self._through.get(table)
        match found:
            case Through(predicate):
                return True, predicate or ""
            case Left(reason):
                return False, reason
            case None:
                return False, "the changefeed's table rules leave it out, or the DDL that made it has not come by the feed yet"


def ddls_hidden(changefeed: Changefeed, tables: Mapping[TableName, TableSchema]) -> bool:
    """Whether the changefeed's filter leaves DDLs of any of `tables` out of the feed. Raises FeedUnsuitable."""
    rules = FilterRules.of(changefeed)
    return bool(changefeed.filter.ignore_txn_start_ts) or any(rules.hidden_ddls(table) for table in tables if rules.has(table))


def schemas_of(
    source: TidbSchemas, scope: LiveScope, changefeed: Changefeed, existing: Mapping[TableName, TableSchema], note: Callable[[str], None]
) -> FollowedSchemas:
    """For one term; `existing`: all tables of the present. Raises FeedUnsuitable."""

    def narrow(tables: Mapping[TableName, TableSchema]) -> Mapping[TableName, TableSchema]:
        check_suitable(changefeed, tables)  # a setting can be wrong for a table that has just come
        return scope.follow(changefeed, tables)

    return FollowedSchemas(source, narrow=narrow, ddls_hidden=ddls_hidden(changefeed, existing), note=note)


def feed_of(
    changefeed: Changefeed,
    settings: KafkaSection,
    tables: Callable[[], Mapping[TableName, TableSchema]],
    names: Callable[[], Iterable[TableName]],
) -> KafkaFeed:
    """`tables`: those that the feed carries where the log is, another mapping whenever they change; `names`: all that the source has
    at present, asked only if tables have topics of their own.

    Raises ConfigError for settings that cannot be used, FeedLost if no broker answers, FeedUnsuitable for a dispatcher that is not
    understood.
    """
    place, rules = kafka_place(changefeed), FilterRules.of(changefeed)
    client = client_settings(changefeed) | dict(settings.client)
    if settings.sasl_password_file:
        client["sasl.password"] = read_secret(settings.sasl_password_file)

    def present() -> frozenset[str]:
        return topics(changefeed, place.topic, filter(rules.has, names()))

    return KafkaFeed(
        settings.brokers or place.brokers,
        _TopicsOf(changefeed, place.topic, tables),
        present=present if any(dispatcher.topic for dispatcher in changefeed.dispatchers) else None,
        client=client,
        group=settings.group or f"ticdc-dump-{changefeed.name.namespace}-{changefeed.name.id}",
        queue_bytes_max=settings.queue_bytes_max,
    )


class _TopicsOf:
    """The topics of `tables`, made out again when there is another mapping of them."""

    def __init__(self, changefeed: Changefeed, default_topic: str, tables: Callable[[], Mapping[TableName, TableSchema]]) -> None:
        self._changefeed, self._default_topic, self._tables = changefeed, default_topic, tables
        self._of, self._found = tables(), topics(changefeed, default_topic, tables())

    def __call__(self) -> frozenset[str]:
        if (now := self._tables()) is not self._of:
            self._of, self._found = now, topics(self._changefeed, self._default_topic, now)
        return self._found


def present_names(settings: SourceSection) -> Callable[[], frozenset[TableName]]:
    """The source's tables of the moment of the call. It raises SourceLost sooner than the dump's statements give up: the stream waits."""
    return TidbSchemas(replace(settings, retry_s=min(settings.retry_s, NAMES_RETRY_S))).names


def source_of(config: Config, changefeed: Changefeed, write_chunk: WriteChunk) -> TidbSource:
    """It is told its schemas by `follow`. Raises ConfigError. Asks nothing of the server yet."""
    return TidbSource(config.source, schemas={}, write_chunk=write_chunk, changefeed_id=mark_row_id(changefeed.name))
