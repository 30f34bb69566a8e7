"""TiCDC's definition of a changefeed as etcd holds it; the real ones are those of recording `cluster`, of both architectures."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from confluent_kafka import Consumer

from sidecar.shared.errors import ConfigError, FeedUnsuitable
from sidecar.shared.ticdc.changefeed import Changefeed, ChangefeedName, ChangefeedSinkUri, ColumnSelector, Dispatcher, EventFilter
from sidecar.shared.ticdc.changefeed_info import CodecSettings, changefeed, client_settings, codec_of, codec_settings, kafka_place, masked
from tests.support.recordings import recorded_cluster

OPEN = "kafka://h:9092/t?protocol=open-protocol"
NAME = ChangefeedName("default", "default", "demo")


def info(uri: str = OPEN, config: dict[str, Any] | None = None, /, **more: Any) -> str:
    """A definition as small as can be."""
    return json.dumps({"sink-uri": uri, "create-time": "2026-11-21T03:36:19.64Z", "start-ts": 7, "config": config or {}} | more)


def made(uri: str = OPEN, config: dict[str, Any] | None = None, /, **more: Any) -> Changefeed:
    return changefeed(NAME, info(uri, config, **more))


def kafka(**settings: Any) -> dict[str, Any]:
    return {"sink": {"kafka-config": {name.replace("_", "-"): value for name, value in settings.items()}}}


# ---- real definitions -------------------------------------------------------------------------------------------------


def recorded(architecture: str) -> dict[str, tuple[Changefeed, dict[str, Any]]]:
    """Every changefeed of a real cluster's etcd, and the JSON it was made of."""
    result = recorded_cluster(architecture)["etcd"]
    read = {}
    for key, value in result.items():
        if match := re.fullmatch("/tidb/cdc/([^/]+)/([^/]+)/changefeed/info/([^/]+)", key):
            read[match[3]] = (changefeed(ChangefeedName(*match.groups()), value), json.loads(value))
    return read


@pytest.mark.recordings
@pytest.mark.parametrize(("architecture", "count"), [("classic", 10), ("new", 3)])
def test_every_recorded_definition_is_read(architecture: str, count: int) -> None:
    result = recorded(architecture)
    assert len(result) == count
    for feed, raw in result.values():
        assert feed.new_architecture == (architecture == "new")
        assert (feed.sink_uri, feed.start_ts, feed.creator_version) == (raw["sink-uri"], raw["start-ts"], "v9.0.0-beta.2")
        assert feed.protocol == raw["config"]["sink"]["protocol"]
        assert list(feed.filter.rules) == raw["config"]["filter"]["rules"]
        assert feed.config == raw["config"]
        assert re.fullmatch(r"[0-9A-Za-z.-]+", feed.incarnation)
    assert len({feed.incarnation for feed, _ in result.values()}) == count
    assert {name for name, (feed, _) in result.items() if feed.state != "normal"} == {"cap-file"}


@pytest.mark.recordings
@pytest.mark.parametrize("architecture", ["classic", "new"])
def test_the_recorded_filter_and_dispatchers_are_read(architecture: str) -> None:
    feed = recorded(architecture)["cap-filter"][0]
    assert feed.filter.ignore_txn_start_ts == (1, 2)
    assert feed.filter.event_filters == (
        EventFilter(
            matcher=("shop.orders",),
            ignore_event=("delete", "drop column"),
            ignore_sql=("^drop", "add column"),
            ignore_insert_value_expr="amount < 0",
            ignore_update_old_value_expr="status = 'back'",
            ignore_update_new_value_expr="gift = 1",
        ),
    )
    assert feed.dispatchers == (Dispatcher(("shop.item",), "etcdcap_{schema}_{table}", "index-value"), Dispatcher(("*.*",), "", "table"))
    assert feed.column_selectors == (ColumnSelector(("shop.item",), ("*", "!picture")),)
    assert codec_settings(feed) == CodecSettings("canal-json", True, "")


@pytest.mark.recordings
@pytest.mark.parametrize("architecture", ["classic", "new"])
def test_the_recorded_password_is_in_no_text(architecture: str) -> None:
    feed = recorded(architecture)["cap-open"][0]
    assert "secret" in feed.sink_uri
    assert masked(feed.sink_uri) == f"kafka://user:xxxxx@127.0.0.1:9092/cap-open-{architecture}?protocol=open-protocol&partition-num=3"
    assert "secret" not in f"{feed}{feed!r}"
    assert kafka_place(feed) == ("127.0.0.1:9092", f"cap-open-{architecture}")
    assert client_settings(feed) == {}


# ---- older releases and what is missing -------------------------------------------------------------------------------


def test_what_is_missing_is_as_ticdc_reads_it() -> None:
    feed = made("kafka://h:9092/t")
    assert (feed.protocol, feed.state, feed.error, feed.target_ts) == ("open-protocol", "normal", None, 0)
    assert (feed.filter.rules, feed.filter.case_sensitive, feed.force_replicate) == (("*.*",), False, False)
    assert (feed.dispatchers, feed.column_selectors, feed.filter.event_filters) == ((), (), ())
    assert made(OPEN, {"filter": None, "sink": None}).filter.rules == ("*.*",)
    assert made(OPEN, {"filter": {"rules": [], "event-filters": None}}).filter.rules == ("*.*",)


def test_an_old_release_is_read() -> None:
    """As 6.5 writes it: old values as a switch of the whole, `dispatcher` for `partition`, case counts."""
    config = {
        "case-sensitive": True,
        "enable-old-value": False,
        "force-replicate": True,
        "filter": {"rules": ["a.*"], "ignore-txn-start-ts": None, "event-filters": [{"matcher": ["a.b"], "ignore-event": None}]},
        "sink": {"dispatchers": [{"matcher": ["a.*"], "dispatcher": "ts", "partition": "", "topic": ""}], "protocol": "canal-json"},
    }
    feed = made("kafka://h:9092/t", config, **{"changefeed-id": "demo", "state": "error", "creator-version": "v6.5.3"})
    assert feed.filter.case_sensitive
    assert feed.force_replicate
    assert feed.dispatchers == (Dispatcher(("a.*",), "", "ts"),)
    assert feed.filter.event_filters == (EventFilter(("a.b",)),)
    assert (feed.protocol, feed.state, feed.new_architecture) == ("canal-json", "error", False)
    assert feed.setting("enable-old-value") is False


@pytest.mark.parametrize(("job", "state"), [(0, "normal"), (1, "stopped"), (2, "normal"), (3, "removed"), (4, "finished")])
def test_the_oldest_releases_report_the_state_by_the_admin_job(job: int, state: str) -> None:
    assert made(**{"admin-job-type": job}).state == state
    assert made(**{"admin-job-type": job, "state": "failed"}).state == "failed"


def test_the_error_is_reported_or_the_warning() -> None:
    failure = {"time": "2026", "addr": "a:1", "code": "CDC:ErrGCTTLExceeded", "message": "too late"}
    assert made(state="failed", error=failure).error == "CDC:ErrGCTTLExceeded: too late"
    assert made(state="warning", warning=failure).error == "CDC:ErrGCTTLExceeded: too late"


def test_the_sink_uri_wins_over_the_config() -> None:
    config = {"sink": {"protocol": "canal-json", "kafka-config": {"codec-config": {"enable-tidb-extension": True}}}}
    assert made("kafka://h:9092/t?protocol=open-protocol", config).protocol == "open-protocol"
    assert made("kafka://h:9092/t?protocol=", config).protocol == "canal-json"
    assert codec_settings(made("kafka://h:9092/t", config)) == CodecSettings("canal-json", True, "")
    assert codec_settings(made("kafka://h:9092/t?enable-tidb-extension=false", config)).tidb_extension, "as mergo merges"


@pytest.mark.parametrize(("text", "on"), [("true", True), ("1", True), ("T", True), ("false", False), ("0", False), ("", False)])
def test_switches_are_read_as_go_reads_them(text: str, on: bool) -> None:
    assert codec_settings(made(f"kafka://h:9092/t?protocol=canal-json&enable-tidb-extension={text}")).tidb_extension is on


def test_a_switch_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match="enable-tidb-extension=yes"):
        codec_settings(made("kafka://h:9092/t?protocol=canal-json&enable-tidb-extension=yes"))


def test_the_codec_is_that_of_the_definition() -> None:
    config = kafka(large_message_handle={"large-message-handle-compression": "lz4"})
    assert codec_of(made(OPEN, config)).name == "open-protocol"
    assert codec_settings(made(OPEN, config)).compression == "lz4"
    with pytest.raises(FeedUnsuitable, match="extension"):
        codec_of(made("kafka://h:9092/t?protocol=canal-json"))


# ---- which changefeed it is -------------------------------------------------------------------------------------------


def test_a_changefeed_that_is_made_again_is_another_incarnation() -> None:
    first = made().incarnation
    assert first == "2026-11-21T033619.64Z-7"
    assert made(state="stopped", epoch=9).incarnation == first, "pausing changes nothing"
    assert made(**{"create-time": "2026-11-22T03:36:19.64Z"}).incarnation != first
    assert made(**{"start-ts": 8}).incarnation != first
    zones = {made(**{"create-time": f"2026-11-21T03:36:19.64{zone}08:00"}).incarnation for zone in "+-"}
    assert zones == {"2026-11-21T033619.64p0800-7", "2026-11-21T033619.64-0800-7"}


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b'"kafka://u:hunter2@h/t"',
        b'{"checkpoint-ts":1,"min-table-barrier-ts":2,"admin-job-type":0}',
        info(OPEN, {}).replace('"config": {}', '"config": null'),
        info(**{"start-ts": "7"}),
        info("not a uri: hunter2"),
        info("kafka://u:hunter2@h/t", {"case-sensitive": "no"}),
        info("kafka://u:hunter2@h/t", {"filter": {"rules": "*.*"}}),
        info("kafka://u:hunter2@h/t", {"sink": {"dispatchers": [7]}}),
        info("kafka://u:hunter2@h/t", **{"changefeed-id": "another"}),
        info("kafka://u:hunter2@h/t", id={"display": {"name": "another"}}),
    ],
)
def test_what_is_no_definition_is_refused_without_revealing_secrets(text: bytes | str) -> None:
    with pytest.raises(ConfigError) as refused:
        changefeed(NAME, text)
    assert "hunter2" not in str(refused.value)


# ---- secrets ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("kafka://h:9092/t?protocol=simple", "kafka://h:9092/t?protocol=simple"),
        ("kafka://u:p@h1:9092,h2:9092/t", "kafka://u:xxxxx@h1:9092,h2:9092/t"),
        ("kafka://u:p@ss:w@[::1]:9092/t", "kafka://u:xxxxx@[::1]:9092/t"),
        ("kafka://u@h/t", "kafka://u@h/t"),
        ("kafka://h/t?sasl-user=u&sasl-password=p%26q&ca=/a", "kafka://h/t?sasl-user=u&sasl-password=xxxxx&ca=/a"),
        ("kafka://h/t?SASL-Pass%77ord=p", "kafka://h/t?SASL-Pass%77ord=xxxxx"),
        (
            "s3://b/p?access-key=A&secret-access-key=S&session-token=T",
            "s3://b/p?access-key=xxxxx&secret-access-key=xxxxx&session-token=xxxxx",
        ),
        ("kafka://h/t?schema-registry=http%3A%2F%2Fu%3Ap%40r", "kafka://h/t?schema-registry=http://u:xxxxx@r"),
        ("kafka://h/t?basic-auth-user-info=u%3Ap&x=1", "kafka://h/t?basic-auth-user-info=xxxxx&x=1"),
        ("kafka://h/t?basic%2Dauth-user%2Dinfo=u:p", "kafka://h/t?basic%2Dauth-user%2Dinfo=xxxxx"),
        ("kafka://h/t?a=http%3A%2F%2Fr", "kafka://h/t?a=http%3A%2F%2Fr"),
        ("u:p@h", "<invalid uri>"),
    ],
)
def test_secrets_in_uris_are_hidden(uri: str, shown: str) -> None:
    assert masked(uri) == shown


# ---- the place and the client -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("uri", "brokers", "topic"),
    [
        ("kafka://h:9092/t", "h:9092", "t"),
        ("kafka+ssl://u:p%40@h1:9092,h2:9093/t.1?protocol=x", "h1:9092,h2:9093", "t.1"),
        ("KAFKA://[::1]:9092,[fe80::2]:9093/t/", "[::1]:9092,[fe80::2]:9093", "t"),
        ("kafka://h1:9092,[::1]:9092/%74#x", "h1:9092,[::1]:9092", "t"),
    ],
)
def test_brokers_and_topic_are_those_of_the_uri(uri: str, brokers: str, topic: str) -> None:
    assert kafka_place(made(uri)) == (brokers, topic)


@pytest.mark.parametrize("uri", ["kafka:///t", "kafka://h:9092", "kafka://h:9092/", "mysql://u:hunter2@h/", "file:///t"])
def test_a_sink_without_brokers_or_topic_is_refused(uri: str) -> None:
    with pytest.raises(ConfigError) as refused:
        kafka_place(made(uri))
    assert "hunter2" not in str(refused.value)


def test_the_first_of_a_repeated_parameter_counts() -> None:
    assert ChangefeedSinkUri.parsed("kafka://h/t?a=1&a=2&b=%20+x").parameters == {"a": "1", "b": "  x"}


TLS = "&ca=/c/ca.pem&cert=/c/cert.pem&key=/c/key.pem"
FILES = {"ssl.ca.location": "/c/ca.pem", "ssl.certificate.location": "/c/cert.pem", "ssl.key.location": "/c/key.pem"}
SCRAM = {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "u", "sasl.password": "p&q"}


@pytest.mark.parametrize(
    ("parameters", "config", "settings"),
    [
        ("", {}, {}),
        ("&sasl-user=u&sasl-password=p", {}, {}),
        ("&enable-tls=true", {}, {"security.protocol": "SSL"}),
        (TLS, {}, {"security.protocol": "SSL"} | FILES),
        ("&enable-tls=true&ca=/c/ca.pem", {}, {"security.protocol": "SSL", "ssl.ca.location": "/c/ca.pem"}),
        ("&ca=/c/ca.pem&insecure-skip-verify=true", {}, {}),
        (
            "&enable-tls=true&insecure-skip-verify=true",
            {},
            {
                "security.protocol": "SSL",
                "enable.ssl.certificate.verification": "false",
                "ssl.endpoint.identification.algorithm": "none",
            },
        ),
        ("&sasl-mechanism=scram-sha-512&sasl-user=u&sasl-password=p%26q", {}, {"security.protocol": "SASL_PLAINTEXT"} | SCRAM),
        (TLS, kafka(sasl_mechanism="SCRAM-SHA-512", sasl_user="u", sasl_password="p&q"), {"security.protocol": "SASL_SSL"} | SCRAM | FILES),
        (
            "&sasl-user=other",
            kafka(sasl_mechanism="plain", sasl_user="u", sasl_password="p", enable_tls=True),
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "other", "sasl.password": "p"},
        ),
        (
            "&sasl-mechanism=gssapi&sasl-gssapi-auth-type=keytab&sasl-gssapi-user=u&sasl-gssapi-realm=R&sasl-gssapi-service-name=kafka"
            "&sasl-gssapi-keytab-path=/k",
            {},
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "GSSAPI",
                "sasl.kerberos.service.name": "kafka",
                "sasl.kerberos.principal": "u@R",
                "sasl.kerberos.keytab": "/k",
            },
        ),
        (
            "&sasl-mechanism=OAUTHBEARER",
            kafka(
                sasl_oauth_client_id="id",
                sasl_oauth_client_secret="c2VjcmV0",
                sasl_oauth_token_url="http://t",
                sasl_oauth_scopes=["a", "b"],
            ),
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.method": "oidc",
                "sasl.oauthbearer.client.id": "id",
                "sasl.oauthbearer.client.secret": "secret",
                "sasl.oauthbearer.token.endpoint.url": "http://t",
                "sasl.oauthbearer.scope": "a b",
            },
        ),
    ],
)
def test_the_client_reaches_kafka_as_ticdc_does(parameters: str, config: dict[str, Any], settings: dict[str, str]) -> None:
    assert client_settings(made(f"kafka://h:9092/t?protocol=open-protocol{parameters}", config)) == settings


@pytest.mark.parametrize("mechanism", ["plain", "scram-sha-256", "scram-sha-512"])
def test_librdkafka_takes_the_settings(mechanism: str) -> None:
    feed = made(f"kafka://127.0.0.1:1/t?sasl-mechanism={mechanism}&sasl-user=u&sasl-password=p&enable-tls=true&insecure-skip-verify=1")
    quiet = {"bootstrap.servers": kafka_place(feed).brokers, "group.id": "g", "log_level": "0"}
    Consumer(quiet | client_settings(feed)).close()


@pytest.mark.parametrize(
    ("parameters", "config", "word"),
    [
        ("&sasl-mechanism=digest", {}, "DIGEST"),
        ("&sasl-mechanism=gssapi&sasl-gssapi-auth-type=user&sasl-gssapi-password=hunter2", {}, "Kerberos"),
        ("&sasl-mechanism=oauthbearer", kafka(sasl_oauth_client_secret="hunter2!"), "base64"),
    ],
)
def test_what_librdkafka_cannot_do_is_refused(parameters: str, config: dict[str, Any], word: str) -> None:
    with pytest.raises(ConfigError, match=word) as refused:
        client_settings(made(f"kafka://h:9092/t?protocol=open-protocol{parameters}", config))
    assert "hunter2" not in str(refused.value)
