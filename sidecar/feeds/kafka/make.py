"""`feed = "kafka"`: the changefeed's own sink, read from its topics; its tables after a DDL are TiDB's at that TSO.

The tables change under way, by DDLs. Who passes a DDL is told of the tables after it (`FollowedSchemas`); the scope follows them, and
with it which topics are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from msgspec.structs import replace

from sidecar.adapters.tidb.follow import FollowedSchemas
from sidecar.adapters.tidb.schema import TidbSchemas
from sidecar.config import Config, KafkaSection, SourceSection, read_secret
from sidecar.core.model import TableName, TableSchema
from sidecar.feeds.contract import Brought, Note
from sidecar.feeds.kafka.feed import KafkaFeed
from sidecar.feeds.kafka.reading import KafkaSettings
from sidecar.process.checks import listed
from sidecar.ticdc.changefeed import Changefeed
from sidecar.ticdc.changefeed_info import client_settings, codec_of, kafka_place
from sidecar.ticdc.event_filter import FilterRules
from sidecar.ticdc.scope import LiveScope, ddls_hidden
from sidecar.ticdc.suitability import check_suitable
from sidecar.ticdc.topics import topics

NAMES_RETRY_S = 10.0


def make(config: Config, changefeed: Changefeed, scope: LiveScope, note: Note) -> Brought:
    source = TidbSchemas(config.source)
    existing = source.tables()
    check_suitable(changefeed, existing)
    schemas = schemas_of(source, scope, changefeed, existing, note)
    names = present_names(config.source)
    opened: list[KafkaFeed] = []

    def feed() -> KafkaFeed:
        opened.append(feed_of(changefeed, config.kafka, lambda: schemas.tables, names))
        return opened[-1]

    def place() -> dict[str, str]:
        of_tables = topics(changefeed, kafka_place(changefeed).topic, schemas.tables)
        return {"brokers": brokers_of(changefeed, config.kafka), "topics": listed(sorted(of_tables))}

    return Brought(codec_of(changefeed), schemas, feed, lambda: opened[-1].still_because() if opened else "", place)


def schemas_of(
    source: TidbSchemas, scope: LiveScope, changefeed: Changefeed, existing: Mapping[TableName, TableSchema], note: Note
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
    at present, asked only if tables have topics of their own. Raises as `reading`; FeedLost if no broker answers."""
    place, rules = kafka_place(changefeed), FilterRules.of(changefeed)

    def present() -> frozenset[str]:
        return topics(changefeed, place.topic, filter(rules.has, names()))

    return reading(changefeed, settings, _TopicsOf(changefeed, place.topic, tables), present)


def reading(
    changefeed: Changefeed, settings: KafkaSection, of_tables: Callable[[], frozenset[str]], present: Callable[[], frozenset[str]]
) -> KafkaFeed:
    """A feed of these topics; `present` is asked only if tables have topics of their own.

    Raises ConfigError for settings that cannot be used, FeedUnsuitable for a dispatcher that is not understood.
    """
    return KafkaFeed(
        KafkaSettings(
            brokers_of(changefeed, settings),
            settings.group or f"ticdc-dump-{changefeed.name.namespace}-{changefeed.name.id}",
            settings.queue_bytes_max,
            client_of(changefeed, settings),
        ),
        of_tables,
        present=present if any(dispatcher.topic for dispatcher in changefeed.dispatchers) else None,
    )


def brokers_of(changefeed: Changefeed, settings: KafkaSection) -> str:
    return settings.brokers or kafka_place(changefeed).brokers


def client_of(changefeed: Changefeed, settings: KafkaSection) -> dict[str, str]:
    """What librdkafka is told: TiCDC's own way in, and the operator's settings over it. Raises ConfigError."""
    client = client_settings(changefeed) | dict(settings.client)
    if settings.sasl_password_file:
        client["sasl.password"] = read_secret(settings.sasl_password_file)
    return client


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
