"""A Kafka sink by its URI: `kafka://b1:9092,b2:9092/topic?protocol=open-protocol&…`, with TiCDC's own parameters and a few of ours.

What a changefeed's config file says (`config=FILE`: shared/ticdc/changefeed_file.py) holds here too, the URI before it; how the brokers
are reached is read as a changefeed's is (shared/ticdc/changefeed_info.py). A parameter of TiCDC's that is not declared here is rejected.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from urllib.parse import urlencode, urlunsplit

from sidecar.shared.codecs.registry import WRITTEN
from sidecar.shared.errors import ConfigError, SinkError, TicdcDumpError
from sidecar.shared.log.storage.folder import checked_folder
from sidecar.shared.model.nouns import CommitTs
from sidecar.shared.ticdc.changefeed import Changefeed, ChangefeedName
from sidecar.shared.ticdc.changefeed_file import ChangefeedFile, rules_of
from sidecar.shared.ticdc.changefeed_info import client_settings, kafka_place
from sidecar.shared.ticdc.dispatch import Hashing, Router
from spark_merge.codecs.encode.messages import Architecture
from spark_merge.codecs.protocols import encoder
from spark_merge.port.contract import Sink
from spark_merge.port.kinds import SinkKind, SinkUri
from spark_merge.sinks.kafka.client import SinkCluster
from spark_merge.sinks.kafka.debezium_topics import DebeziumRouter
from spark_merge.sinks.kafka.output import ClaimFolder, Output
from spark_merge.sinks.kafka.schema_registry import RegistryOptions, SchemaRegistry
from spark_merge.sinks.kafka.sink import KafkaSink
from spark_merge.sinks.kafka.topics import TopicReader
from spark_merge.sinks.kit.errors import sink_error
from spark_merge.sinks.kit.options import block, commit_tss, flag, names_of, number, one_of, option, read, text, texts_of

PROTOCOL = next(iter(WRITTEN))
LIBRDKAFKA_BYTES_MAX = 1_000_000_000
TOPIC_CHARS_MAX = 249

TLS_SCHEME = "kafka+ssl"
"""By the machine's authorities, unless `ca` names others. TiCDC itself reads its scheme as `kafka:`, without TLS."""

_NAME = ChangefeedName("", "", "sink")

CLIENT = {
    "kafka-client-id": "The client's name.",
    "ca": "The authority of the brokers' certificates. It means TLS, and so does `kafka+ssl:`.",
    "cert": "The client's certificate.",
    "key": "The key of `cert`.",
    "enable-tls": "`true`: TLS, as with `kafka+ssl:`.",
    "insecure-skip-verify": "`true`: certificates are not checked.",
    "sasl-mechanism": "`PLAIN`, `SCRAM-SHA-256`, `SCRAM-SHA-512` or `GSSAPI`.",
    "sasl-user": "The account.",
    "sasl-password": "Its password. A cluster's tasks need `TICDC_DUMP_KAFKA_PASSWORD` in their environment instead.",
    "sasl-gssapi-auth-type": "For `GSSAPI` (Kerberos), only `keytab` is possible.",
    "sasl-gssapi-keytab-path": "The keytab.",
    "sasl-gssapi-service-name": "The Kerberos service of the brokers.",
    "sasl-gssapi-user": "The Kerberos principal, without its realm.",
    "sasl-gssapi-realm": "The realm of the principal.",
}
"""How the brokers are reached, by TiCDC's names. They are read by sidecar/shared/ticdc/changefeed_info.py."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The content of messages that the sink itself encodes."""

    content_compatible: bool = option("content-compatible", flag(), False,
        "With `canal-json`: types with lengths and labels, and `only-output-updated-columns`.")  # fmt: skip
    updated_columns: bool = option("only-output-updated-columns", flag(), False,
        "With `canal-json`: `old` of an update has only the columns that changed.")  # fmt: skip
    handle_key_columns: bool = option("delete-only-output-handle-key-columns", flag(), False,
        "A deleted row has only the columns of the handle key.")  # fmt: skip


@dataclass(frozen=True, slots=True)
class AvroContent:
    """Of messages of avro (spark_merge/codecs/encode/avro.py). The namespace is ours, all others are TiCDC's."""

    decimals: str = option("avro-decimal-handling-mode", one_of("precise", "string"), "precise",
        "A DECIMAL: `bytes` with the logical type `decimal`, or a `string`.")  # fmt: skip
    unsigned: str = option("avro-bigint-unsigned-handling-mode", one_of("long", "string"), "long",
        "A BIGINT UNSIGNED: a `long`, or a `string`. With `long` a value from 2^63 on stops the sink.")  # fmt: skip
    before: bool = option("avro-include-before-value", flag(), False,
        "An update has its row before, a delete its row.")  # fmt: skip
    namespace: str = option("avro-namespace", text("a name"), "default",
        "The namespace of the schemas: that of the changefeed, or its keyspace.")  # fmt: skip


@dataclass(frozen=True, slots=True)
class AvroParameters:
    """Of avro, and of the registry, which debezium-avro has too."""

    registry: RegistryOptions = block(RegistryOptions)
    content: AvroContent = block(AvroContent)


_DECIMALS = replace(one_of("precise", "string"), hint="write {name}=precise or {name}=string: double loses digits")


@dataclass(frozen=True, slots=True)
class DebeziumParameters:
    """Of messages as Debezium's connectors write them, by Debezium's names; `debezium-disable-schema` is TiCDC's."""

    no_schema: bool = option("debezium-disable-schema", flag(), False,
        "`true`: messages have no schema.")  # fmt: skip
    decimals: str = option("decimal-handling-mode", _DECIMALS, "precise",
        "A DECIMAL: bytes of a Connect `Decimal`, or text.")  # fmt: skip
    unsigned: str = option("bigint-unsigned-handling-mode", one_of("precise", "string", "long"), "precise",
        "A BIGINT UNSIGNED: the same, or an `int64`. With `long` a value above 2^63-1 stops the sink.")  # fmt: skip
    invalid_dates: str = option("invalid-dates", one_of("error", "null-or-epoch"), "error",
        "A [date that no calendar has](#dates-that-no-calendar-has).")  # fmt: skip
    tombstones: bool = option("tombstones-on-delete", flag(), True,
        "A record without a value behind each delete.")  # fmt: skip


_LARGE_ROWS = replace(
    one_of("none", "claim-check"), hint="write {name}=claim-check: with handle-key-only each reader would have to ask TiDB for the row"
)


@dataclass(frozen=True, slots=True)
class LargeRowOptions:
    """TiCDC's, of rows that are larger than a message (large_rows.py)."""

    handled: str = option("large-message-handle-option", _LARGE_ROWS, "none",
        "What becomes of a [large row](#large-rows): an error, or a file.")  # fmt: skip
    folder: str = option("claim-check-storage-uri", text("a folder, or `s3://…`"), "",
        "Its folder, percent-encoded.")  # fmt: skip
    raw: bool = option("claim-check-raw-value", flag(), False,
        "With `canal-json`: the file is the message's value.")  # fmt: skip


@dataclass(frozen=True, slots=True)
class UriOptions:
    """What the URI alone says."""

    config: str = option("config", text("a file"), "",
        "The changefeed's [file](#where-a-row-goes).")  # fmt: skip
    position_topic: str = option("position-topic", text("a topic"), "",
        "The sink's own topic.", shown="`_ticdc_dump_{topic}`")  # fmt: skip
    ddl_done: frozenset[CommitTs] = commit_tss("ddl-done",
        "DDLs that are [not sent](#ddls-that-the-sink-cannot-name).")  # fmt: skip


@dataclass(frozen=True, slots=True)
class KafkaOptions:
    """What the URI says, or the changefeed's file."""

    protocol: str = option("protocol", one_of(*WRITTEN), PROTOCOL,
        "The messages' protocol.", shown=f"the file's, else `{PROTOCOL}`")  # fmt: skip
    partition_num: int = option("partition-num", number(0, LIBRDKAFKA_BYTES_MAX), 0,
        "Partitions of the default topic. A missing topic gets 3.", shown="what the topic has")  # fmt: skip
    replicas: int = option("replication-factor", number(0, LIBRDKAFKA_BYTES_MAX), 1, "Replicas of a created topic.")
    auto_create: bool = option("auto-create-topic", flag(), True, "Creates a missing topic.")
    max_message_bytes: int = option("max-message-bytes", number(0, LIBRDKAFKA_BYTES_MAX), 10 << 20,
        "As TiCDC counts it: key, value and 36 bytes. A larger one: [large rows](#large-rows).")  # fmt: skip
    large_rows: LargeRowOptions = block(LargeRowOptions)
    compression: str = option("compression", one_of("none", "gzip", "snappy", "lz4", "zstd"), "none", "Of Kafka's batches.")
    tidb_extension: str = option("enable-tidb-extension", text("`true` or `false`"), "",
        "With `canal-json`, only `true`. With `avro`: a row has its operation and commit-ts.",
        shown="`true`, with `avro` `false`")  # fmt: skip
    architecture: Architecture = option("architecture", one_of("classic", "new"), "classic",
        "Whose messages and hashes.")  # fmt: skip
    release: str = option("release", text("a release, as `v8.5.4`"), "", "TiCDC's, whose hashes are used.", shown="the newest")
    time_zone: str = option("time-zone", text("a time zone"), "UTC",
        "The TiCDC server's `--tz`, in which TIMESTAMPs are written.")  # fmt: skip
    transactions: bool = option("transactions", flag(), True,
        "`false`: [at least once](#without-transactions).")  # fmt: skip
    shape: Shape = block(Shape)


def _open(uri: SinkUri) -> Sink:
    return KafkaSink(output_of(uri), log_id=uri.log_id)


def _holds_rows(uri: SinkUri) -> bool:
    """Its topic has rows, and we have no position for it."""
    output = output_of(uri)
    with closing(TopicReader(output.cluster, output.position_topic)) as reader:
        if reader.partitions(output.position_topic):
            return False
        return not all(reader.is_empty(topic) for topic in output.router.topics(()))


def _leaves(uri: SinkUri) -> str:
    topic = read(UriOptions, uri.parameters).position_topic or position_topic_of(uri.parts.path.strip("/"))
    how = f"kafka-topics.sh --bootstrap-server … --delete --topic {topic}: it holds the position, for a sink that is not to continue"
    with suppress(TicdcDumpError):  # of the changefeed's file, which may be gone
        if (claims := output_of(uri).claims) is not None:
            how += f". {claims.folder} has rows that the topic's messages name: it goes with the topic"
    return how


def output_of(uri: SinkUri) -> Output:
    """Reads the config file and asks nobody. Raises SinkError, ConfigError."""
    if not uri.parts.netloc.rpartition("@")[2] or not uri.parts.path.strip("/"):
        raise SinkError("a kafka: sink's URI names brokers and a topic", hint="write kafka://broker:9092/topic?protocol=…")
    of_uri = read(UriOptions, uri.parameters)
    file = _file(of_uri.config)
    tls = {"enable-tls": "true"} if uri.parts.scheme == TLS_SCHEME else {}
    given = {**file.parameters, **uri.parameters, **tls}
    values = {name: value for name, value in {"protocol": file.protocol, **given}.items() if value}
    feed = Changefeed(_NAME, "", urlunsplit((*uri.parts[:3], urlencode(given), "")))
    place = kafka_place(feed)
    options = read(KafkaOptions, values)
    record = WRITTEN[options.protocol]
    extension = options.tidb_extension or ("true" if record.needs_extension else "false")
    if record.needs_extension and extension != "true":
        raise SinkError(
            f"a kafka: sink writes {options.protocol} with the TiDB extension alone",
            hint="set enable-tidb-extension=true, or leave it out: without it a consumer has neither commit-ts nor resolved marks",
        )
    debezium, avro = read(DebeziumParameters, values), read(AvroParameters, values)
    registry = SchemaRegistry.of(avro.registry) if record.by_registry else None
    shape = {**texts_of(options.shape), **texts_of(avro.content), "time-zone": options.time_zone, "enable-tidb-extension": extension}
    if record.rows_alone:
        shape |= {**texts_of(debezium), "topic-prefix": place.topic}
    return Output(
        cluster=SinkCluster.of(place.brokers, client_settings(feed) | dict(_more_of_the_client(values))),
        topic=place.topic,
        position_topic=of_uri.position_topic or position_topic_of(place.topic),
        protocol=options.protocol,
        shape=shape,
        tombstones=record.as_debezium and debezium.tombstones,
        encoder=encoder(options.protocol, architecture=options.architecture, options=shape, schema_ids=registry),
        registry=registry,
        router=(DebeziumRouter if record.rows_alone else Router).of(
            file.dispatchers,
            default_topic=place.topic,
            protocol=options.protocol,
            case_sensitive=file.case_sensitive,
            hashing=Hashing.of(options.architecture, options.release, options.time_zone),
        ),
        max_message_bytes=options.max_message_bytes,
        partition_num=options.partition_num or None,
        replicas=options.replicas,
        auto_create=options.auto_create,
        transactions=options.transactions,
        ddl_done=of_uri.ddl_done,
        claims=_claims(options, uri.log_id),
        producer={
            "message.max.bytes": str(min(options.max_message_bytes + 4096, LIBRDKAFKA_BYTES_MAX)),
            "compression.type": options.compression,
        },
    )


def _claims(options: KafkaOptions, log_id: str) -> ClaimFolder | None:
    """None: such rows stop the sink. Raises SinkError, ConfigError."""
    large = options.large_rows
    if large.handled == "none":
        return None
    if WRITTEN[options.protocol].rows_alone:
        raise ConfigError(
            f"large-message-handle-option=claim-check: readers of {options.protocol} know no rows in files",
            hint="leave it out, and raise max-message-bytes; TiCDC refuses it too",
        )
    if not large.folder:
        raise SinkError(
            "large-message-handle-option=claim-check of a kafka: sink has no claim-check-storage-uri",
            hint="set it to the folder for rows that are larger than a message",
        )
    if large.raw and not WRITTEN[options.protocol].raw_claims:
        raise SinkError(
            f"claim-check-raw-value=true: with {options.protocol} a row is in the message's key too",
            hint="leave it out, or set protocol=canal-json",
        )
    folder = checked_folder(large.folder, "claim-check-storage-uri of a kafka: sink")
    return ClaimFolder(folder.opened_for(sink_error), large.raw, log_id)


def position_topic_of(topic: str) -> str:
    """One name for one output topic: so another log's is detected, and refused."""
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


def _more_of_the_client(values: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """What `client_settings` does not say: TLS with the authority's certificate alone, and the client's name."""
    if "ca" in values and not ("cert" in values and "key" in values):
        yield "security.protocol", "SASL_SSL" if "sasl-mechanism" in values else "SSL"
        yield "ssl.ca.location", values["ca"]
    if "kafka-client-id" in values:
        yield "client.id", values["kafka-client-id"]


OPTIONS = (UriOptions, KafkaOptions, CLIENT)
KAFKA = SinkKind(_open, names_of(*OPTIONS, DebeziumParameters, AvroParameters), _holds_rows, leaves=_leaves)
