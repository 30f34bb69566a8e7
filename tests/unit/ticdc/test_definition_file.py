"""A definition from a file is the one that etcd has, in each of the forms that an operator can come by."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.feeds.kafka.make import client_of
from sidecar.shared.config import KafkaSection
from sidecar.shared.config_files import DEFINITION_BYTES_MAX, read_definition
from sidecar.shared.errors import ConfigError
from sidecar.shared.ticdc.changefeed import UNKNOWN, Changefeed, ChangefeedName, ColumnSelector, Dispatcher, EventFilter
from sidecar.shared.ticdc.changefeed_info import changefeed, client_settings, kafka_place
from sidecar.shared.ticdc.definition_file import definition_in, name_in
from sidecar.shared.ticdc.suitability import problems

NAME = ChangefeedName("default", "default", "orders")
URI = (
    "kafka://kafka-1:9092,kafka-2:9092/orders?protocol=canal-json&enable-tidb-extension=true"
    "&sasl-user=u&sasl-password=xxxxx&sasl-mechanism=PLAIN"
)
CONFIG: dict[str, Any] = {
    "case-sensitive": True,
    "force-replicate": False,
    "filter": {
        "rules": ["shop.*", "!shop.x"],
        "event-filters": [{"matcher": ["shop.a"], "ignore-event": ["delete"], "ignore-update-old-value-expr": "id > 1"}],
    },
    "sink": {
        "protocol": "canal-json",
        "dispatchers": [{"matcher": ["shop.*"], "topic": "{schema}_{table}", "partition": "index-value", "target-schema": "s"}],
        "column-selectors": [{"matcher": ["shop.b"], "columns": ["id"]}],
        "kafka-config": {"sasl-password": "xxxxx", "codec-config": {"enable-tidb-extension": True}},
    },
}


def snake(content: Any) -> Any:
    """As the OpenAPI has it: its table routes alone are in kebab-case."""
    if isinstance(content, dict):
        return {name if name.startswith("target-") else name.replace("-", "_"): snake(value) for name, value in content.items()}
    return [snake(one) for one in content] if isinstance(content, list) else content


def queried(**other: Any) -> dict[str, Any]:
    """What `cdc cli changefeed query` prints."""
    return {
        "upstream_id": 7,
        "namespace": "default",
        "id": "orders",
        "sink_uri": URI,
        "config": snake(CONFIG),
        "create_time": "2026-11-28 22:04:08.103",
        "start_ts": 415241823337054209,
        "resolved_ts": 5,
        "target_ts": 0,
        "checkpoint_tso": 4,
        "checkpoint_time": "2026-11-28 22:05:08.103",
        "state": "stopped",
        "creator_version": "v8.5.6",
        "task_status": [],
    } | other


def in_etcd(**other: Any) -> dict[str, Any]:
    return {
        "upstream-id": 7,
        "changefeed-id": "orders",
        "sink-uri": URI,
        "config": CONFIG,
        "create-time": "2026-11-28 22:04:08.103",
        "start-ts": 415241823337054209,
        "creator-version": "v8.5.6",
    } | other


def as_text(content: object) -> str:
    return content if isinstance(content, str) else json.dumps(content)


def read(content: object, *, brokers: str = "", name: ChangefeedName = NAME) -> Changefeed:
    return changefeed(name, definition_in(as_text(content), name, place="FILE", brokers=brokers))


TOML = f"""
sink-uri = "{URI}"
start-ts = 415241823337054209
upstream-id = 7
create-time = "2026-11-28 22:04:08.103"
creator-version = "v8.5.6"
case-sensitive = true
force-replicate = false
[filter]
rules = ["shop.*", "!shop.x"]
[[filter.event-filters]]
matcher = ["shop.a"]
ignore-event = ["delete"]
ignore-update-old-value-expr = "id > 1"
[sink]
protocol = "canal-json"
dispatchers = [{{matcher = ["shop.*"], topic = "{{schema}}_{{table}}", partition = "index-value", target-schema = "s"}}]
column-selectors = [{{matcher = ["shop.b"], columns = ["id"]}}]
[sink.kafka-config]
sasl-password = "xxxxx"
codec-config = {{enable-tidb-extension = true}}
"""


REQUESTED = {name: value for name, value in queried(replica_config=snake(CONFIG)).items() if name != "config"}
FORMS = {
    "query": queried(),
    "body of a request": REQUESTED,
    "with a mark": "\ufeff" + json.dumps(queried()),
    "openapi of the new architecture": queried(keyspace="default"),
    "etcd": in_etcd(state="failed"),
    "toml": TOML,
}


@pytest.mark.parametrize("form", FORMS)
def test_each_form_is_what_etcd_has_but_for_what_is_hidden_and_its_state(form: str) -> None:
    etcd, made = changefeed(NAME, json.dumps(in_etcd())), read(FORMS[form])
    assert (made.filter, made.dispatchers, made.column_selectors) == (etcd.filter, etcd.dispatchers, etcd.column_selectors)
    assert (made.start_ts, made.upstream_id, made.creator_version) == (etcd.start_ts, etcd.upstream_id, etcd.creator_version)
    assert (made.protocol, kafka_place(made), made.force_replicate) == (etcd.protocol, kafka_place(etcd), False)
    assert made.flag("sink", "kafka-config", "codec-config", "enable-tidb-extension")
    assert made.state == UNKNOWN
    assert made.new_architecture is ("keyspace" in str(FORMS[form]))
    assert made.log_id == f"{NAME}/2026-11-28-220408.103-415241823337054209"
    assert "xxxxx" not in repr(made.config) + made.sink_uri
    assert client_settings(made) == {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "u"}


def test_a_password_that_is_hidden_must_be_in_the_settings(tmp_path: Path) -> None:
    made = read(queried())
    with pytest.raises(ConfigError, match="no password") as refused:
        client_of(made, KafkaSection())
    assert "kafka.sasl_password_file" in refused.value.hint
    (tmp_path / "password").write_text("p")
    assert client_of(made, KafkaSection(sasl_password_file=str(tmp_path / "password")))["sasl.password"] == "p"
    assert client_of(made, KafkaSection(client={"sasl.password": "q"}))["sasl.password"] == "q"


def test_what_the_file_says_of_the_state_does_not_matter() -> None:
    """It was so when the file was written."""
    whole = {"sink": {"protocol": "open-protocol"}, "filter": {"rules": ["*.*"]}}
    uri = "kafka://k:9092/t?protocol=open-protocol"
    for state in ("stopped", "failed", "finished", "normal"):
        assert problems(read(queried(state=state, config=whole, sink_uri=uri, error={"code": "e"}))) == []


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{", "neither JSON nor TOML: JSONDecodeError in line 1"),
        ("sink-uri = ", "neither JSON nor TOML: TOMLDecodeError"),
        ("", "has no sink-uri"),
        (queried(sink_uri=None), "has no sink-uri"),
        (queried(sink_uri=["kafka://"]), "has no sink-uri"),
        (queried(config=None), "has no config"),
        (queried(id="other"), "is of changefeed id 'other'"),
        (queried(namespace="other"), "is of changefeed namespace 'other'"),
        (queried(keyspace="other"), "is of changefeed namespace 'other'"),
        (queried(start_ts="x"), "start-ts of the definition is no number"),
        (queried(start_ts=1.5), "start-ts of the definition is no number"),
        (queried(start_ts=True), "start-ts of the definition is no number"),
        (queried(config={"filter": {"rules": "all"}}), "is not a changefeed's definition"),
    ],
)
def test_what_is_no_definition_is_refused_without_its_values(content: object, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as refused:
        read(content)
    assert "sasl-user" not in refused.value.message


def of_cloud(**other: Any) -> dict[str, Any]:
    """What `ticloud serverless changefeed get` prints."""
    kafka = {
        "network": {"networkType": "PUBLIC", "publicEndpoints": "broker1:9092, broker2:9092"},
        "broker": {"kafkaVersion": "VERSION_3XX", "compression": "LZ4"},
        "authentication": {"authType": "SASL_SCRAM_SHA_512", "userName": "u", "password": "", "enableTls": True},
        "dataFormat": {"protocol": "CANAL_JSON", "enableTidbExtension": True},
        "topicPartitionConfig": {
            "dispatchType": "BY_TABLE",
            "defaultTopic": "rest",
            "topicPrefix": "cloud_",
            "separator": ".",
            "topicSuffix": "_v1",
            "partitionNum": 3,
            "partitionDispatchers": [{"partitionType": "INDEX_VALUE", "matcher": ["shop.a"], "indexName": "i"}],
        },
        "columnSelectors": [{"matcher": ["shop.b"], "columns": ["id"]}],
    } | other
    return {
        "clusterId": "10",
        "changefeedId": "orders",
        "state": "RUNNING",
        "displayName": "my feed",
        "sink": {"type": "KAFKA", "kafka": kafka},
        "filter": {
            "filterRule": ["shop.*"],
            "mode": "FORCE_SYNC",
            "eventFilterRule": [{"matcher": ["shop.c"], "ignoreEvent": ["all ddl"]}],
        },
        "startPosition": {"mode": "FROM_TSO", "tso": "415241823337054209"},
        "createTime": "2026-11-28T22:04:08Z",
    }


def test_tidb_clouds_form_is_a_changefeed_of_ticdc() -> None:
    made = read(of_cloud())
    assert kafka_place(made) == ("broker1:9092,broker2:9092", "rest")
    assert (made.protocol, made.start_ts, made.force_replicate, made.state) == ("canal-json", 415241823337054209, True, UNKNOWN)
    assert made.flag("sink", "kafka-config", "codec-config", "enable-tidb-extension")
    assert made.filter.rules == ("shop.*",)
    assert made.filter.event_filters == (EventFilter(("shop.c",), ("all ddl",)),)
    topic = "cloud_{schema}.{table}_v1"
    assert made.dispatchers == (Dispatcher(("shop.a",), topic, "index-value"), Dispatcher(("*.*",), topic, ""))
    assert made.column_selectors == (ColumnSelector(("shop.b",), ("id",)),)
    secure = {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "u"}
    assert client_settings(made) == secure


@pytest.mark.parametrize(
    ("dispatch", "topic"), [("ONE_TOPIC", ""), ("BY_DATABASE", "cloud_{schema}_v1"), ("BY_TABLE", "cloud_{schema}.{table}_v1")]
)
def test_the_topics_of_tidb_cloud(dispatch: str, topic: str) -> None:
    of_topics = of_cloud()["sink"]["kafka"]["topicPartitionConfig"] | {"dispatchType": dispatch}
    assert {one.topic for one in read(of_cloud(topicPartitionConfig=of_topics)).dispatchers} == {topic}


@pytest.mark.parametrize(("part", "name"), [("authentication", "authType"), ("topicPartitionConfig", "dispatchType")])
def test_a_value_of_tidb_cloud_that_is_not_known_is_refused(part: str, name: str) -> None:
    """A guess would leave topics unread, or reach Kafka without a login."""
    with pytest.raises(ConfigError, match=f"{name} of the definition is 'NEWER'"):
        read(of_cloud(**{part: of_cloud()["sink"]["kafka"][part] | {name: "NEWER"}}))


def test_brokers_behind_a_private_link_are_named_by_the_settings() -> None:
    private = of_cloud(network={"networkType": "PRIVATE_LINK"})
    with pytest.raises(ConfigError, match="reaches Kafka by PRIVATE_LINK") as refused:
        read(private)
    assert "kafka.brokers" in refused.value.hint
    assert kafka_place(read(private, brokers="b:9092")).brokers == "b:9092"


def test_a_sink_of_tidb_cloud_that_is_no_kafka_is_named() -> None:
    with pytest.raises(ConfigError, match="is MYSQL, and no Kafka"):
        read(of_cloud() | {"sink": {"type": "MYSQL"}})


def places(content: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    for name, inner in content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ():
        yield (*path, name)
        yield from places(inner, (*path, name))


ODD = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5), st.just([7]), st.just({"x": [None]}), st.just("["))


@given(st.sampled_from([queried(), of_cloud(), in_etcd(), in_etcd(id={"display": {"name": "orders"}})]), st.data())
def test_whatever_one_value_of_a_file_is_it_is_a_definition_or_an_error_of_ours(content: Any, data: st.DataObject) -> None:
    odd = json.loads(json.dumps(content))
    *path, last = data.draw(st.sampled_from(list(places(odd))))
    inner = odd
    for name in path:
        inner = inner[name]
    inner[last] = data.draw(ODD)
    with suppress(ConfigError):
        made = read(odd)
        assert made.name == NAME


def test_a_file_names_its_changefeed() -> None:
    def named(content: object, **given: str) -> ChangefeedName:
        return name_in(as_text(content), **given)

    assert named(queried()) == named(of_cloud()) == named(in_etcd()) == named(TOML, id="orders") == NAME
    assert named(queried(keyspace="app")).namespace == "app"
    assert named(in_etcd(id={"display": {"name": "new"}})).id == "new"
    assert named(queried(), cluster="prod", id="mine") == ChangefeedName("prod", "default", "mine")
    with pytest.raises(ConfigError, match="does not say the changefeed's id"):
        named(TOML)
    with pytest.raises(ConfigError, match=r"FILE: the definition is of"):
        read(queried(id="other"))


def test_what_is_no_file_of_a_definitions_size_is_refused(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"#" * (DEFINITION_BYTES_MAX + 1))
    for place in (tmp_path, tmp_path / "large", Path("/dev/zero")):
        with pytest.raises(ConfigError, match="no file of at most"):
            read_definition(str(place))


def test_the_files_text_is_read_or_the_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("ä", encoding="utf-8")
    assert read_definition(str(tmp_path / "a")) == "ä"
    (tmp_path / "b").write_bytes(b"\xff")
    for name in ("b", "none"):
        with pytest.raises(ConfigError, match=f"{tmp_path}/{name}.* cannot be read"):
            read_definition(f"{tmp_path}/{name}")
