"""The settings in effect, without secrets."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec import structs

from sidecar.console.settings import HIDDEN, grouped_settings, shown_settings
from sidecar.shared.config import Config, ConsoleSection, KafkaSection
from tests.support.console import CONFIG

SECRET = "Planted-5ecret"


def rows(config: Config) -> dict[str, str]:
    return {name: value for name, value, _ in shown_settings(config)}


def test_every_setting_is_there_once() -> None:
    def names(result: dict[str, Any], prefix: str = "") -> list[str]:
        return [
            name
            for key, value in result.items()
            for name in (names(value, f"{prefix}{key}.") if isinstance(value, dict) and value else [f"{prefix}{key}"])
        ]

    shown = [name for name, _, _ in shown_settings(CONFIG)]
    assert shown == names(msgspec.to_builtins(CONFIG))
    assert {"changefeed.id", "console.listen", "sinks", "kafka.client"} <= set(shown)


def test_defaults_are_marked_and_what_must_be_given_is_none() -> None:
    config = structs.replace(CONFIG, console=ConsoleSection(listen="127.0.0.1:9999"), kafka=KafkaSection(client={"a": "b"}))
    usual = {name: is_default for name, _, is_default in shown_settings(config)}
    assert not any(usual[name] for name in ("console.listen", "kafka.client.a", "changefeed.id", "sinks", "etcd.endpoints"))
    assert usual["console.advertise"]
    assert usual["metrics.listen"]
    for name in ("changefeed.namespace", "etcd.lease_s", "source.port", "log.retain", "etcd.tls.ca_file"):
        assert usual[name], "defaults of a section that must be given are defaults"
    changed = structs.replace(CONFIG, source=structs.replace(CONFIG.source, port=4001))
    assert not {name: is_default for name, _, is_default in shown_settings(changed)}["source.port"]


def test_what_is_given_comes_first_and_feeds_that_are_not_used_last() -> None:
    config = structs.replace(CONFIG, feed="tikv", kafka=KafkaSection(brokers="old:9092"))
    given, *usual, unused = grouped_settings(config)
    assert {"changefeed.id", "feed", "sinks", "kafka.brokers"} <= {name for name, _ in given.rows}
    assert {name.split(".")[0] for name, _ in unused.rows} == {"kafka", "push", "storage", "binlog"}
    assert [group.title for group in usual if any(name.startswith("tikv.") for name, _ in group.rows)] == ["tikv"]
    assert [group.is_used for group in (given, *usual, unused)] == [True] * (1 + len(usual)) + [False]
    shown = sorted(name for group in (given, *usual, unused) for name, _ in group.rows)
    assert shown == sorted(name for name, _, _ in shown_settings(config))


def test_values_are_those_of_a_settings_file() -> None:
    shown = rows(CONFIG)
    assert shown["log.retain"] == "true"
    assert shown["log.held_bytes_max"] == "268435456 (256.0 MiB)"
    assert shown["etcd.endpoints"] == "127.0.0.1:2379"
    assert shown["sinks"] == "mysql://db:3306/, file:///output?format=jsonl"
    assert shown["source.password_file"] == "/run/secrets/source"


CLIENT_SECRETS = [
    "sasl.password",
    "ssl.key.password",
    "ssl.key.pem",
    "ssl.keystore.password",
    "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.assertion.private.key.pem",
    "sasl.oauthbearer.assertion.private.key.passphrase",
    "sasl.oauthbearer.config",
    "sasl.jaas.config",
    "sasl.kerberos.kinit.cmd",
    "some.future.credentials",
    "api_key",
]


@pytest.mark.parametrize("name", CLIENT_SECRETS)
def test_a_secret_of_the_kafka_client_is_hidden(name: str) -> None:
    for secret in (SECRET, f"uri://{SECRET}"):
        assert rows(structs.replace(CONFIG, kafka=KafkaSection(client={name: secret})))[f"kafka.client.{name}"] == HIDDEN


def test_harmless_settings_of_the_kafka_client_are_shown() -> None:
    client = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "reader", "ssl.ca.location": "/ca.pem"}
    shown = rows(structs.replace(CONFIG, kafka=KafkaSection(client=client)))
    assert {name: shown[f"kafka.client.{name}"] for name in client} == client


SECRETS = st.text(st.characters(codec="utf-8", exclude_categories=["C"]), min_size=6, max_size=40).filter(
    lambda text: text.strip() == text and text not in "\n".join(rows(CONFIG).values())
)
PARAMETERS = ["key", "secret", "session-token", "access-key", "secret-access-key", "password", "sasl-password", "token", "anything"]
SCHEMES = ["mysql", "clickhouse", "https", "opensearch", "kafka", "s3", "iceberg", "redis+tls"]


@given(
    secret=SECRETS,
    scheme=st.sampled_from(SCHEMES),
    parameter=st.sampled_from(PARAMETERS),
    client=st.sampled_from(CLIENT_SECRETS),
    quoted=st.booleans(),
)
def test_no_secret_is_in_any_row(secret: str, scheme: str, parameter: str, client: str, quoted: bool) -> None:
    written = quote(secret, safe="") if quoted else secret
    assume(quoted or not set("[]") & set(secret))  # a settings file with such a URI is rejected
    account = f"{scheme}://{quote(secret, safe='')}@host/"
    uris = (f"{scheme}://user:{written}@host:1234/db", f"{scheme}://host/db?{parameter}={written}&x=y", account)
    config = structs.replace(
        CONFIG,
        sinks=uris,
        log=structs.replace(CONFIG.log, uri=f"s3://bucket/log?{parameter}={written}"),
        kafka=KafkaSection(client={client: secret}, brokers="broker:9092"),
    )
    shown = "\n".join(rows(config).values())
    assert secret not in shown
    assert written not in shown
