"""`feed = "kafka"`: the changefeed's own sink, read from its topics. Which of them follows the changefeed's tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from msgspec.structs import replace

from sidecar.adapters.tidb.schema import TidbSchemas
from sidecar.feeds.contract import Brought, Note
from sidecar.feeds.encoded.make import Begins, of_messages, schemas_of
from sidecar.feeds.kafka.feed import KafkaFeed
from sidecar.feeds.kafka.lanes import TableTopics
from sidecar.feeds.kafka.reading import KafkaSettings
from sidecar.shared.config import Config, KafkaSection, SourceSection
from sidecar.shared.config_files import read_secret
from sidecar.shared.errors import ConfigError
from sidecar.shared.model.nouns import TableName, TableSchema
from sidecar.shared.process.checks import listed
from sidecar.shared.ticdc.changefeed import UNKNOWN, Changefeed, ChangefeedName
from sidecar.shared.ticdc.changefeed_info import client_settings, kafka_place
from sidecar.shared.ticdc.event_filter import FilterRules
from sidecar.shared.ticdc.scope import LiveScope
from sidecar.shared.ticdc.suitability import check_suitable
from sidecar.shared.ticdc.topics import marked_topics, topics

NAMES_RETRY_S = 10.0
BY_PASSWORD = frozenset({"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"})


def make(config: Config, changefeed: Changefeed, scope: LiveScope, note: Note) -> Brought:
    source = TidbSchemas(config.source)
    check_suitable(changefeed, source.tables())
    begins = Begins("kafka.begin", config.kafka.begin, "the topics' oldest messages")
    schemas = schemas_of(source, scope, changefeed, note, from_now=begins.now)
    names = present_names(config.source)

    def place() -> dict[str, str]:
        of_tables = topics(changefeed, kafka_place(changefeed).topic, schemas.tables)
        beginning = {"log_begins": begins.in_words(schemas.began)} if schemas.began is not None else {}
        return {"brokers": brokers_of(changefeed, config.kafka), "topics": listed(sorted(of_tables)), **beginning}

    feed = partial(feed_of, changefeed, config.kafka, lambda: schemas.tables, names)
    return of_messages(config, changefeed, source, schemas, feed, place)


def feed_of(
    changefeed: Changefeed,
    settings: KafkaSection,
    tables: Callable[[], Mapping[TableName, TableSchema]],
    names: Callable[[], Mapping[TableName, int]],
) -> KafkaFeed:
    """`tables`: those that the feed carries where the log is, another mapping whenever they change; `names`: tables and views that the
    source has at present, with their ids, called only if tables have topics of their own. Raises as `reading`; FeedLost if no broker
    answers.

    A topic is surely marked if a table with a key has it where the log is and still does: one of the same name may have no key.
    """
    place, rules = kafka_place(changefeed), FilterRules.of(changefeed)

    def present() -> TableTopics:
        now, logged = {name: number for name, number in names().items() if rules.has(name)}, tables()
        same = [name for name, table in logged.items() if table.key and name in now and table.table_id in (0, now[name])]
        return TableTopics(topics(changefeed, place.topic, now), marked_topics(changefeed, place.topic, same))

    return reading(changefeed, settings, _TopicsOf(changefeed, place.topic, tables), present)


def group_of(name: ChangefeedName, settings: KafkaSection) -> str:
    """The consumer group whose offsets tell lag monitors how far we are."""
    return settings.group or f"ticdc-dump-{name.namespace}-{name.id}"


def reading(
    changefeed: Changefeed, settings: KafkaSection, of_tables: Callable[[], frozenset[str]], present: Callable[[], TableTopics]
) -> KafkaFeed:
    """A feed of these topics; `present` is called only if tables have topics of their own.

    Raises ConfigError for settings that cannot be used, FeedUnsuitable for a dispatcher that is not understood.
    """
    return KafkaFeed(
        KafkaSettings(
            brokers_of(changefeed, settings),
            group_of(changefeed.name, settings),
            settings.queue_bytes_max,
            client_of(changefeed, settings),
        ),
        of_tables,
        present=present if any(dispatcher.topic for dispatcher in changefeed.dispatchers) else None,
    )


def brokers_of(changefeed: Changefeed, settings: KafkaSection) -> str:
    return settings.brokers or kafka_place(changefeed).brokers


def client_of(changefeed: Changefeed, settings: KafkaSection) -> dict[str, str]:
    """The settings of librdkafka: TiCDC's own way in, and the operator's settings over it. Raises ConfigError."""
    client = client_settings(changefeed) | dict(settings.client)
    if settings.sasl_password_file:
        client["sasl.password"] = read_secret(settings.sasl_password_file)
    if changefeed.state == UNKNOWN and client.get("sasl.mechanism") in BY_PASSWORD and not client.get("sasl.password"):
        raise ConfigError(
            f"the definition of changefeed {changefeed.name} has no password for Kafka's {client['sasl.mechanism']}: TiCDC hides it",
            hint="write it to a file that only this user can read, and set kafka.sasl_password_file",
        )
    return client


class _TopicsOf:
    """The topics of `tables`, made out again when there is another mapping of them."""

    def __init__(self, changefeed: Changefeed, default_topic: str, tables: Callable[[], Mapping[TableName, TableSchema]]) -> None:
        self._changefeed, self._default_topic, self._tables = changefeed, default_topic, tables
        self._of, self._topics = tables(), topics(changefeed, default_topic, tables())

    def __call__(self) -> frozenset[str]:
        if (now := self._tables()) is not self._of:
            self._of, self._topics = now, topics(self._changefeed, self._default_topic, now)
        return self._topics


def present_names(settings: SourceSection) -> Callable[[], Mapping[TableName, int]]:
    """The source's tables and views of the moment of the call, with their ids. It raises SourceLost sooner than the dump's statements
    give up: the stream waits, and says for whom."""
    return TidbSchemas(replace(settings, retry_s=min(settings.retry_s, NAMES_RETRY_S))).names
