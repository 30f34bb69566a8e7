"""The changefeed's feed, source and scope, made from its definition in etcd and the sidecar's settings."""

from __future__ import annotations

from collections.abc import Mapping

from sidecar.adapters.changefeed_info import client_settings, kafka_place
from sidecar.adapters.tidb import TidbSource, WriteChunk
from sidecar.config import Config, KafkaSection, read_secret
from sidecar.core.changefeed import Changefeed, ChangefeedName
from sidecar.core.event_filter import FilterRules, Left, Through, dump_scope
from sidecar.core.model import MARK_TABLE, TableName, TableSchema
from sidecar.core.topics import topics
from sidecar.feeds.kafka import KafkaFeed

DEFAULT = "default"


def mark_row_id(name: ChangefeedName) -> str:
    """How the watermark row names this changefeed: by its id alone where that is unique, in the default namespace and cluster."""
    return name.id if (name.cluster, name.namespace) == (DEFAULT, DEFAULT) else str(name)


class LiveScope:
    """What the changefeed carries. `follow` gives it a new definition; the other calls may come from any thread."""

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
                return False, "the changefeed's table rules leave it out, or it was created after the sidecar attached"


def feed_of(changefeed: Changefeed, settings: KafkaSection, tables: Mapping[TableName, TableSchema]) -> KafkaFeed:
    """Raises ConfigError for settings that cannot be used, FeedLost if no broker answers."""
    place = kafka_place(changefeed)
    client = client_settings(changefeed) | dict(settings.client)
    if settings.sasl_password_file:
        client["sasl.password"] = read_secret(settings.sasl_password_file)
    wanted = topics(changefeed, place.topic, [*tables, MARK_TABLE])
    return KafkaFeed(
        settings.brokers or place.brokers,
        lambda: wanted,
        client=client,
        group=settings.group or f"ticdc-dump-{changefeed.name.namespace}-{changefeed.name.id}",
        queue_bytes_max=settings.queue_bytes_max,
    )


def source_of(config: Config, changefeed: Changefeed, schemas: Mapping[TableName, TableSchema], write_chunk: WriteChunk) -> TidbSource:
    """Raises ConfigError. Asks nothing of the server yet."""
    return TidbSource(config.source, schemas=schemas, write_chunk=write_chunk, changefeed_id=mark_row_id(changefeed.name))
