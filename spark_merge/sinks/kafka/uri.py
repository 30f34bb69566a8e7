"""A Kafka sink by its URI: `kafka://b1:9092,b2:9092/topic?protocol=open-protocol&…`, with TiCDC's own parameters.

    TiCDC's   protocol, partition-num, replication-factor, auto-create-topic, max-message-bytes, compression, kafka-client-id, ca, cert,
              key, enable-tls, insecure-skip-verify, sasl-…, enable-tidb-extension, delete-only-output-handle-key-columns,
              only-output-updated-columns, content-compatible
    ours      config, architecture, release, time-zone, position-topic, transactions

What a changefeed's config file says (`config=FILE`: sidecar/ticdc/changefeed_file.py) holds here too, the URI before it; how the brokers
are reached is read as a changefeed's is (sidecar/ticdc/changefeed_info.py). What TiCDC has and is not in this list is refused by name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from urllib.parse import urlencode, urlunsplit

from sidecar.codecs.registry import CARRIERS
from sidecar.errors import ConfigError, SinkError
from sidecar.ticdc.changefeed import Changefeed, ChangefeedName
from sidecar.ticdc.changefeed_file import ChangefeedFile, rules_of
from sidecar.ticdc.changefeed_info import client_settings, kafka_place
from sidecar.ticdc.dispatch import Hashing, Router
from spark_merge.contract import Sink
from spark_merge.encode.messages import Architecture
from spark_merge.protocols import encoder
from spark_merge.sinks.kafka.client import Cluster
from spark_merge.sinks.kafka.output import Output
from spark_merge.sinks.kafka.position import PositionReader
from spark_merge.sinks.kafka.sink import KafkaSink
from spark_merge.sinks.kind import SinkKind, SinkUri
from spark_merge.sinks.parameters import Parameters

_TLS_AND_LOGIN = frozenset({
    "ca", "cert", "key", "enable-tls", "insecure-skip-verify", "sasl-mechanism", "sasl-user", "sasl-password", "sasl-gssapi-auth-type",
    "sasl-gssapi-keytab-path", "sasl-gssapi-service-name", "sasl-gssapi-user", "sasl-gssapi-realm",
})  # fmt: skip
_SHAPES = frozenset({"delete-only-output-handle-key-columns", "only-output-updated-columns", "content-compatible"})
"""What changes a message's content."""

_TICDC = _TLS_AND_LOGIN | _SHAPES | {
    "protocol", "partition-num", "replication-factor", "auto-create-topic", "max-message-bytes", "compression", "kafka-client-id",
    "enable-tidb-extension",
}  # fmt: skip
_OURS = frozenset({"config", "architecture", "release", "time-zone", "position-topic", "transactions"})

MESSAGE_BYTES_MAX = 10 << 20
"""TiCDC's default of max-message-bytes."""

LIBRDKAFKA_BYTES_MAX = 1_000_000_000
TOPIC_CHARS_MAX = 249

TLS_SCHEME = "kafka+ssl"
"""By the machine's authorities, unless `ca` names others. TiCDC itself reads its scheme as `kafka:`, without TLS."""

_NAME = ChangefeedName("", "", "sink")


def _open(uri: SinkUri) -> Sink:
    return KafkaSink(output_of(uri), log_id=uri.log_id)


def _holds_rows(uri: SinkUri) -> bool:
    """Its topic has rows, and we have no position for it."""
    output = output_of(uri)
    reader = PositionReader(output.cluster, output.position_topic)
    try:
        return not reader.partitions(output.position_topic) and not reader.is_empty(output.topic)
    finally:
        reader.close()


def _position_topic(uri: SinkUri, topic: str) -> str:
    return uri.parameters.get("position-topic") or position_topic_of(topic)


def _leaves(uri: SinkUri) -> str:
    topic = _position_topic(uri, uri.parts.path.strip("/"))
    return f"kafka-topics.sh --bootstrap-server … --delete --topic {topic}: it holds the position, for a sink that is not to go on"


def output_of(uri: SinkUri) -> Output:
    """Reads the config file and asks nobody. Raises SinkError, ConfigError."""
    if not uri.parts.netloc.rpartition("@")[2] or not uri.parts.path.strip("/"):
        raise SinkError("a kafka: sink's URI names brokers and a topic", hint="write kafka://broker:9092/topic?protocol=…")
    file = _file(uri.parameters.get("config", ""))
    tls = {"enable-tls": "true"} if uri.parts.scheme == TLS_SCHEME else {}
    given = {**file.parameters, **uri.parameters, **tls}
    settings = Parameters({name: value for name, value in given.items() if value})
    found = Changefeed(_NAME, "", urlunsplit((*uri.parts[:3], urlencode(given), "")))
    place = kafka_place(found)
    architecture: Architecture = settings.one_of("architecture", ("classic", "new"))
    protocol = settings.one_of("protocol", tuple(CARRIERS), file.protocol or None)
    if CARRIERS[protocol].needs_extension and settings.text("enable-tidb-extension", "true") != "true":
        raise SinkError(
            f"a kafka: sink writes {protocol} with the TiDB extension alone",
            hint="set enable-tidb-extension=true, or leave it out: without it a consumer has neither commit-ts nor resolved marks",
        )
    zone = settings.text("time-zone", "UTC")
    shapes = {name: str(settings.flag(name, otherwise=False)).lower() for name in _SHAPES}
    max_message_bytes = settings.number("max-message-bytes", MESSAGE_BYTES_MAX, LIBRDKAFKA_BYTES_MAX, least=0)
    return Output(
        cluster=Cluster.of(place.brokers, client_settings(found) | dict(_more_of_the_client(settings))),
        topic=place.topic,
        position_topic=_position_topic(uri, place.topic),
        protocol=protocol,
        encoder=encoder(protocol, architecture=architecture, options={**shapes, "time-zone": zone, "enable-tidb-extension": "true"}),
        router=Router.of(
            file.dispatchers,
            default_topic=place.topic,
            protocol=protocol,
            case_sensitive=file.case_sensitive,
            hashing=Hashing.of(architecture, settings.text("release"), zone),
        ),
        max_message_bytes=max_message_bytes,
        partition_num=settings.number("partition-num", 0, LIBRDKAFKA_BYTES_MAX, least=0) or None,
        replicas=settings.number("replication-factor", 1, LIBRDKAFKA_BYTES_MAX, least=0),
        auto_create=settings.flag("auto-create-topic", otherwise=True),
        transactions=settings.flag("transactions", otherwise=True),
        producer={
            "message.max.bytes": str(min(max_message_bytes + 4096, LIBRDKAFKA_BYTES_MAX)),
            "compression.type": settings.one_of("compression", ("none", "gzip", "snappy", "lz4", "zstd")),
        },
    )


def position_topic_of(topic: str) -> str:
    """One name for one output topic: so another log's is found, and refused."""
    name = f"_ticdc_dump_{topic}"
    return name if len(name) <= TOPIC_CHARS_MAX else f"{name[:216]}-{hashlib.sha256(topic.encode()).hexdigest()[:32]}"


def _file(path: str) -> ChangefeedFile:
    if not path:
        return ChangefeedFile()
    try:
        with open(path, encoding="utf-8") as file:
            return rules_of(file.read())
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"config={path} of a kafka: sink cannot be read: {error}", hint="name the changefeed's own config file"
        ) from error


def _more_of_the_client(found: Parameters) -> Iterator[tuple[str, str]]:
    """What `client_settings` does not say: TLS with the authority's certificate alone, and the client's name."""
    if (ca := found.text("ca")) and not (found.text("cert") and found.text("key")):
        yield "security.protocol", "SASL_SSL" if found.text("sasl-mechanism") else "SSL"
        yield "ssl.ca.location", ca
    if client_id := found.text("kafka-client-id"):
        yield "client.id", client_id


KAFKA = SinkKind(_open, _TICDC | _OURS, _holds_rows, leaves=_leaves)
