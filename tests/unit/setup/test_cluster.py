"""What etcd says of changefeeds: which there are, what follows for the settings, and what is wrong with the one that is chosen."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from sidecar.adapters.etcd.client import EtcdClient
from sidecar.adapters.etcd.cluster import CLUSTER_ID_KEY
from sidecar.setup.cluster import ChosenChangefeed, WantedChangefeed, chosen_changefeed, described, matching
from sidecar.shared.errors import ConfigError, FeedUnsuitable
from sidecar.shared.ticdc.changefeed import ChangefeedName
from tests.tools.hostile.keys import Etcd
from tests.tools.rig.changefeed import UPSTREAM_ID, info, info_key

ORDERS = ChangefeedName("default", "default", "orders")
RULES = ("shop.*", "changefeed_dump.*")
PD = UPSTREAM_ID.to_bytes(8, "big")
KAFKA = "kafka://broker:9092/orders?protocol=open-protocol"


def definition(uri: str = KAFKA, *, rules: tuple[str, ...] = RULES, state: str = "normal", **changed: object) -> bytes:
    made = info(
        "orders",
        sink_uri=uri,
        start_ts=1,
        created=datetime(2026, 1, 1, tzinfo=UTC),
        filter_rules=rules,
        dispatchers=(),
        protocol="",
        state=state,
    )
    return json.dumps(json.loads(made) | changed).encode()


def etcd(values: Mapping[str, bytes]) -> EtcdClient:
    return cast("EtcdClient", Etcd(dict(values)))


def found(uri: str = KAFKA, *, key_values: bool = False, others: Mapping[str, bytes] | None = None, **changed: Any) -> ChosenChangefeed:
    values = {info_key("orders"): definition(uri, **changed), CLUSTER_ID_KEY: PD, **(others or {})}
    return chosen_changefeed(etcd(values), ORDERS, key_values=key_values)


def test_what_is_wanted_is_any_part_of_a_name() -> None:
    keys = [
        "/tidb/cdc/default/default/changefeed/info/a",
        "/tidb/cdc/default/app/changefeed/info/a",
        "/tidb/cdc/prod/app/changefeed/info/b",
    ]
    client = etcd(dict.fromkeys(keys, b"{}") | {"/tidb/cdc/prod/app/changefeed/status/c": b"{}"})
    everything = [ChangefeedName("default", "default", "a"), ChangefeedName("default", "app", "a"), ChangefeedName("prod", "app", "b")]
    assert matching(client, WantedChangefeed()) == everything
    assert matching(client, WantedChangefeed(id="a")) == everything[:2]
    assert matching(client, WantedChangefeed(namespace="app", id="a")) == everything[1:2]
    assert matching(client, WantedChangefeed(cluster="prod")) == everything[2:]
    with pytest.raises(ConfigError, match=r"no changefeed is prod/\*/a .* has: default/default/a; default/app/a; prod/app/b"):
        matching(client, WantedChangefeed(cluster="prod", id="a"))
    with pytest.raises(ConfigError, match=r"127\.0\.0\.1:1 has no changefeed of TiCDC"):
        matching(etcd({}), WantedChangefeed(id="a"))


def test_a_changefeed_is_described_in_one_line_without_account_and_parameters() -> None:
    evil = "kafka://me:hush@a:1,b:2/or\nders?protocol=canal-json&sasl-password=hush&sasl-user=me&x=\u001b[31m"
    client = etcd({info_key("orders"): definition(evil, state="stopped"), info_key("broken"): b'{"x": 1}'})
    assert described(client, ORDERS) == "stopped, canal-json to kafka://a:1,b:2/orders?protocol=canal-json"
    assert "is not a changefeed's definition" in described(client, ChangefeedName("default", "default", "broken"))


@pytest.mark.parametrize(
    ("uri", "feed"), [(KAFKA, "kafka"), ("ticdc-dump://h:8312/orders?protocol=canal-json&enable-tidb-extension=true", "push")]
)
def test_the_feed_follows_from_the_sink(uri: str, feed: str) -> None:
    assert (found(uri).feed, found(uri).problems) == (feed, ())
    assert found(uri, key_values=True).feed == "tikv"


@pytest.mark.parametrize(
    ("uri", "what"),
    [
        ("kafka://h:1/t?protocol=debezium", "protocol debezium cannot carry a dump"),
        ("kafka://h:1/t?protocol=avro", "protocol avro cannot carry a dump"),
        ("kafka://h:1/t?protocol=nonsense", "'nonsense' is none that TiCDC has"),
        ("mysql://me:hush@h:3306/", "a sink mysql://"),
        ("kafka:///t?protocol=open-protocol", "without Kafka's brokers"),
        ("kafka://me:hush@h:1/t?protocol=canal-json&enable-tidb-extension=maybe", "enable-tidb-extension=maybe"),
    ],
)
def test_a_sink_that_can_never_carry_a_dump_is_an_error_that_names_the_other_way(uri: str, what: str) -> None:
    with pytest.raises(FeedUnsuitable) as caught:
        found(uri)
    assert what in caught.value.message
    assert "--tikv" in caught.value.hint
    assert "hush" not in str(caught.value)


def test_a_definition_with_no_sink_uri_is_an_error_that_does_not_show_it() -> None:
    with pytest.raises(ConfigError, match="sink URI is not one") as caught:
        found("hush")
    assert "hush" not in str(caught.value)


def test_a_sink_does_not_matter_where_tikv_is_read() -> None:
    assert found("mysql://me:hush@h:3306/", key_values=True).problems == ()


def test_what_can_be_corrected_in_ticdc_is_reported_with_the_setting() -> None:
    problems = found("kafka://h:1/t?protocol=canal-json", rules=("shop.*",), state="stopped").problems
    assert [problem.setting for problem in problems] == ["state", "enable-tidb-extension"]
    assert all(problem.hint for problem in problems)


def test_the_databases_that_the_rules_name_are_known_and_rules_that_name_none_are_kept() -> None:
    made = found(rules=("Shop.a*", "shop.b", "`we.ird`.*", "!gone.*", "te?t.*", "changefeed_dump.*"))
    assert made.databases == ("Shop", "shop", "we.ird", "changefeed_dump")
    assert made.unnamed == ("te?t.*",)
    broken = found(rules=("shop",))
    assert (broken.databases, broken.unnamed) == ((), ("shop",))
    assert broken.problems


def test_ddls_that_the_filter_leaves_out_are_known() -> None:
    assert not found().ddls_hidden
    rules = {"rules": list(RULES), "event-filters": [{"matcher": ["shop.*"], "ignore-event": ["all ddl"]}]}
    filtered = {"config": json.loads(definition())["config"] | {"filter": rules}}
    assert found(**filtered).ddls_hidden


SERVERS = {
    "/tidb/server/info/1": b'{"ip": "10.0.0.1", "listening_port": 4000, "status_port": 10080}',
    "/tidb/server/info/2": b"nonsense",
    "/tidb/server/info/3": b'{"ip": "::1", "listening_port": 4001}',
    "/tidb/server/info/4": b'{"ip": "", "listening_port": 4000}',
}


def test_tidb_servers_that_pd_knows_are_offered_unless_they_are_of_another_cluster() -> None:
    here = found(others=SERVERS)
    assert (here.tidb, here.pd_cluster_id, here.problems) == (("10.0.0.1:4000", "[::1]:4001"), str(UPSTREAM_ID), ())
    elsewhere = found(others={**SERVERS, CLUSTER_ID_KEY: (7).to_bytes(8, "big")})
    assert elsewhere.tidb == ()
    (problem,) = elsewhere.problems
    assert problem.setting == "upstream-id"
    assert str(UPSTREAM_ID) in problem.what
    assert "--tidb" in problem.hint
    no_pd = found(others={**SERVERS, CLUSTER_ID_KEY: b""})
    assert (no_pd.tidb[:1], no_pd.pd_cluster_id, no_pd.problems) == (("10.0.0.1:4000",), "", ())
    unnamed: dict[str, Any] = {"upstream-id": None}
    assert found(others=SERVERS, **unnamed).problems == ()
