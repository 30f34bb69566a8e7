"""What a Kafka sink's URI says: TiCDC's words, ours, and what is refused by name before any broker is asked."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from sidecar.shared.errors import ConfigError, SinkError
from sidecar.shared.model.nouns import TableName
from spark_merge.codecs.encode.avro import AvroEncoder
from spark_merge.codecs.encode.avro_schema import AvroShape
from spark_merge.codecs.encode.debezium import DebeziumEncoder
from spark_merge.codecs.encode.debezium_fields import DebeziumOptions
from spark_merge.port.kinds import SinkUri
from spark_merge.sinks.kafka.client import SinkCluster
from spark_merge.sinks.kafka.debezium_topics import DebeziumRouter
from spark_merge.sinks.kafka.output import Output
from spark_merge.sinks.kafka.schema_registry import SchemaRegistry
from spark_merge.sinks.kafka.sink import KafkaSink
from spark_merge.sinks.kafka.uri import output_of, position_topic_of
from spark_merge.sinks.kafka.write_modes import AcknowledgedMode, TransactionalMode, write_mode
from spark_merge.sinks.registry import leaves, name_of, open_sink


def output(text: str) -> Output:
    parts = urlsplit(text)
    parameters = dict(pair.split("=", 1) for pair in parts.query.split("&") if pair)
    return output_of(SinkUri(text, parts, parameters, "log-1"))


def test_a_plain_uri_has_ticdcs_defaults() -> None:
    result = output("kafka://b1:9092,b2:9092/orders")
    assert result.cluster == SinkCluster("b1:9092,b2:9092")
    assert (result.topic, result.position_topic, result.protocol) == ("orders", "_ticdc_dump_orders", "open-protocol")
    assert (result.max_message_bytes, result.partition_num, result.replicas, result.auto_create) == (10 << 20, None, 1, True)
    assert result.router.topic(TableName("s", "t")) == "orders"
    assert pickle.loads(pickle.dumps(result)) == result
    assert str(result) == "kafka://b1:9092,b2:9092/orders"


@pytest.mark.parametrize(
    ("parameters", "protocol"), [("", "SSL"), ("enable-tls=false", "SSL"), ("sasl-mechanism=PLAIN&sasl-user=u&sasl-password=p", "SASL_SSL")]
)
def test_its_scheme_means_tls(parameters: str, protocol: str) -> None:
    assert output(f"kafka+ssl://b:9093/orders?{parameters}").cluster.settings()["security.protocol"] == protocol
    assert output("kafka://b:9092/orders").cluster.settings().get("security.protocol", "PLAINTEXT") == "PLAINTEXT"


@pytest.mark.parametrize("uri", ["kafka://b:9092", "kafka://b:9092/", "kafka:///orders", "kafka://u:p@/orders"])
def test_brokers_and_topic_are_required_in_words_of_a_sink(uri: str) -> None:
    with pytest.raises(SinkError, match="a kafka: sink's URI names brokers and a topic"):
        output(uri)


def test_ticdcs_parameters_are_taken() -> None:
    result = output(
        "kafka://b:9092/orders?protocol=canal-json&enable-tidb-extension=true&partition-num=4&replication-factor=3&max-message-bytes=1000"
        "&compression=zstd&auto-create-topic=false&kafka-client-id=merged&position-topic=where"
    )
    assert (result.protocol, result.partition_num, result.replicas, result.max_message_bytes) == ("canal-json", 4, 3, 1000)
    assert (result.auto_create, result.position_topic) == (False, "where")
    assert result.producer["compression.type"] == "zstd"
    assert result.cluster.settings()["client.id"] == "merged"


def test_a_secret_does_not_travel_and_a_process_without_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = pickle.dumps(output("kafka://far:9093/orders?sasl-mechanism=PLAIN&sasl-user=u&sasl-password=hunter2"))
    assert b"hunter2" not in sent
    arrived: Output = pickle.loads(sent)
    assert arrived.cluster.settings()["sasl.password"] == "hunter2"
    for name in [name for name in os.environ if name.startswith("TICDC_DUMP_KAFKA_")]:
        monkeypatch.delenv(name)
    with pytest.raises(SinkError, match="secrets do not travel"):
        arrived.cluster.settings()
    monkeypatch.setenv("TICDC_DUMP_KAFKA_PASSWORD", "hunter3")
    assert arrived.cluster.settings()["sasl.password"] == "hunter3"


def test_a_login_and_tls_are_as_in_ticdcs_uris_and_are_not_shown() -> None:
    uri = "kafka+ssl://b:9093/orders?sasl-mechanism=SCRAM-SHA-256&sasl-user=u&sasl-password=hunter2&ca=/ca.pem"
    result = output(uri)
    client = dict(result.cluster.client)
    assert client["security.protocol"] == "SASL_SSL"
    assert (client["sasl.mechanism"], client["sasl.username"]) == ("SCRAM-SHA-256", "u")
    assert result.cluster.settings()["sasl.password"] == "hunter2"
    assert client["ssl.ca.location"] == "/ca.pem"
    for shown in (repr(result), str(result), name_of(uri)):
        assert "hunter2" not in shown


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("protocol=maxwell", "protocol='maxwell'"),
        ("protocol=canal-json&enable-tidb-extension=false", "TiDB extension"),
        ("partition-num=many", "partition-num='many'"),
        ("compression=rar", "compression='rar'"),
        ("architecture=third", "architecture='third'"),
        ("auto-create-topic=perhaps", "auto-create-topic='perhaps'"),
        ("transactions=perhaps", "transactions='perhaps'"),
    ],
)
def test_what_cannot_be_is_refused_by_name(query: str, message: str) -> None:
    with pytest.raises(SinkError, match=message):
        output(f"kafka://b:9092/orders?{query}")


def test_debezium_has_its_topics_by_key_tombstones_and_modes() -> None:
    result = output("kafka://b:9092/p?protocol=debezium&decimal-handling-mode=string&invalid-dates=null-or-epoch&time-zone=Asia/Tokyo")
    assert isinstance(result.router, DebeziumRouter)
    assert result.router.topic(TableName("shop", "orders")) == "p.shop.orders"
    assert (result.position_topic, result.tombstones) == ("_ticdc_dump_p", True)
    assert isinstance(result.encoder, DebeziumEncoder)
    assert result.encoder.options == DebeziumOptions("p", decimals="string", invalid_dates="null-or-epoch")
    assert DebeziumOptions.of(result.shape) == result.encoder.options, "what reads rows back has the same"
    assert pickle.loads(pickle.dumps(result)) == result
    assert not output("kafka://b:9092/p?protocol=debezium&tombstones-on-delete=false").tombstones
    assert not output("kafka://b:9092/p?protocol=canal-json&tombstones-on-delete=true").tombstones


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("decimal-handling-mode=double", "(?s)decimal-handling-mode='double' is none of precise, string.*double loses digits"),
        ("bigint-unsigned-handling-mode=double", "bigint-unsigned-handling-mode='double'"),
        ("invalid-dates=perhaps", "invalid-dates='perhaps'"),
        ("large-message-handle-option=claim-check&claim-check-storage-uri=/tmp/x", "readers of debezium know no rows in files"),
    ],
)
def test_what_debezium_cannot_be_is_refused_by_name(query: str, message: str) -> None:
    with pytest.raises((SinkError, ConfigError), match=message):
        output(f"kafka://b:9092/p?protocol=debezium&{query}")


def test_it_is_written_in_transactions_unless_the_uri_says_otherwise() -> None:
    assert isinstance(write_mode(output("kafka://b:9092/orders")), TransactionalMode)
    assert isinstance(write_mode(output("kafka://b:9092/orders?transactions=true")), TransactionalMode)
    assert isinstance(write_mode(output("kafka://b:9092/orders?transactions=false")), AcknowledgedMode)


def test_what_is_no_parameter_or_no_place_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SinkError, match="has no parameter large-message-handle"):
        open_sink("kafka://b:9092/orders?large-message-handle=claim-check", log_id="log-1")
    with pytest.raises(ConfigError, match="cannot be read"):
        output(f"kafka://b:9092/orders?config={tmp_path}/none.toml")


def test_the_changefeeds_own_file_routes_and_the_uri_wins_over_it(tmp_path: Path) -> None:
    file = tmp_path / "changefeed.toml"
    file.write_text(
        '[sink]\nprotocol = "canal-json"\ndispatchers = [{matcher = ["shop.*"], topic = "{schema}_{table}", partition = "ts"}]\n'
        '[sink.kafka-config]\npartition-num = 4\nsasl-mechanism = "PLAIN"\nsasl-user = "u"\nsasl-password = "hunter2"\n'
    )
    result = output(f"kafka://b:9092/orders?config={file}&partition-num=2")
    assert (result.protocol, result.partition_num) == ("canal-json", 2)
    assert result.router.topic(TableName("shop", "item")) == "shop_item"
    assert result.cluster.settings()["sasl.password"] == "hunter2"


CLAIM_CHECK = "kafka://b:9092/orders?large-message-handle-option=claim-check"
BUCKET = "s3%3A%2F%2Fbucket%2Frows%3Faccess-key%3Dkey%26secret-access-key%3Dhunter2"


def test_large_rows_go_into_a_folder_by_the_uri_or_the_file_and_its_secret_is_not_shown_and_does_not_travel(tmp_path: Path) -> None:
    assert output("kafka://b:9092/orders").claims is None
    assert output("kafka://b:9092/orders?large-message-handle-option=none&claim-check-storage-uri=nowhere").claims is None
    (tmp_path / "changefeed.toml").write_text(
        '[sink.kafka-config.large-message-handle]\nlarge-message-handle-option = "claim-check"\nclaim-check-raw-value = true\n'
        f'claim-check-storage-uri = "{unquote(BUCKET)}"\n[sink]\nprotocol = "canal-json"\n'
    )
    for uri, raw in (
        (f"{CLAIM_CHECK}&claim-check-storage-uri={BUCKET}", False),
        (f"kafka://b:9092/orders?config={tmp_path}/changefeed.toml", True),
    ):
        sink = open_sink(uri, log_id="log-1")
        assert isinstance(sink, KafkaSink)
        claims = sink.output.claims
        assert claims is not None
        assert (str(claims.folder), claims.raw, claims.log_id) == ("s3://bucket/rows", raw, "log-1")
        assert pickle.loads(pickle.dumps(sink.output)) == sink.output
        assert b"hunter2" not in pickle.dumps(sink.output)
        assert all("hunter2" not in shown for shown in (repr(sink.output), str(sink.output), name_of(uri), leaves(uri)))
        assert "s3://bucket/rows has rows that the topic's messages name" in leaves(uri)


def test_what_is_left_is_named_though_the_changefeeds_file_is_gone(tmp_path: Path) -> None:
    assert "_ticdc_dump_orders" in leaves(f"kafka://b:9092/orders?config={tmp_path}/none.toml")


@pytest.mark.parametrize(
    ("query", "says", "hint"),
    [
        (
            "large-message-handle-option=handle-key-only",
            "large-message-handle-option='handle-key-only'",
            "=claim-check: with handle-key-only",
        ),
        ("large-message-handle-option=claim-check", "has no claim-check-storage-uri", "set it to the folder"),
        (
            "claim-check-storage-uri=/c&claim-check-raw-value=true&large-message-handle-option=claim-check",
            "in the message's key",
            "leave it out",
        ),
        (f"{CLAIM_CHECK.partition('?')[2]}&claim-check-storage-uri=gs%3A%2F%2Fb%3Fkey%3Dhunter2", "of a scheme gs:", "name a folder"),
        (f"{CLAIM_CHECK.partition('?')[2]}&claim-check-storage-uri=s3%3A%2F%2Fb%3Ftoken%3Dhunter2", "has no parameter token", "known"),
        (f"{CLAIM_CHECK.partition('?')[2]}&claim-check-storage-uri=relative", "needs the whole path", "three slashes"),
    ],
)
def test_large_rows_that_cannot_be_written_so_are_refused_by_name(query: str, says: str, hint: str) -> None:
    with pytest.raises((SinkError, ConfigError), match=says) as raised:
        open_sink(f"kafka://b:9092/orders?{query}", log_id="log-1")
    assert hint in raised.value.hint
    assert "hunter2" not in f"{raised.value} {raised.value.hint}"


def test_a_position_topic_has_a_name_that_kafka_takes() -> None:
    long = "t" * 249
    assert len(position_topic_of(long)) == 249
    assert position_topic_of(long) != position_topic_of(long[:-1] + "u")


REGISTRY = "schema-registry=http://me:pw9x@r:8081"


def test_avro_has_its_options_and_a_registry() -> None:
    result = output(
        f"kafka://b:9092/shop?protocol=avro&{REGISTRY}&avro-decimal-handling-mode=string&avro-bigint-unsigned-handling-mode=string"
        "&avro-include-before-value=true&avro-namespace=ns&enable-tidb-extension=true&architecture=new&time-zone=Asia/Shanghai"
    )
    assert isinstance(result.encoder, AvroEncoder)
    assert result.encoder.shape == AvroShape(True, True, True, True, "ns", True)
    assert (result.registry, result.encoder.schema_ids) == (SchemaRegistry(("http://r:8081",), "me"), result.registry)
    assert "pw9x" not in repr(result)
    assert result.router.topic(TableName("s", "t")) == "shop.s.t"
    plain = output(f"kafka://b:9092/shop?protocol=avro&{REGISTRY}")
    assert isinstance(plain.encoder, AvroEncoder)
    assert plain.encoder.shape == AvroShape()
    assert not plain.tombstones


def test_the_registry_of_the_changefeeds_file_is_taken(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(
        '[sink]\nprotocol = "avro"\nschema-registry = "http://r:8081"\n'
        '[sink.kafka-config.codec-config]\navro-decimal-handling-mode = "string"\n'
    )
    result = output(f"kafka://b:9092/shop?config={tmp_path}/c.toml")
    assert result.registry == SchemaRegistry(("http://r:8081",))
    assert isinstance(result.encoder, AvroEncoder)
    assert result.encoder.shape.decimal_as_text


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("protocol=avro", "is no URL of a schema registry"),
        ("protocol=debezium-avro", "is no URL of a schema registry"),
        (f"protocol=avro&{REGISTRY}&large-message-handle-option=claim-check", "readers of avro know no rows in files"),
    ],
)
def test_what_avro_cannot_be_is_refused(query: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        output(f"kafka://b:9092/shop?{query}")
