from __future__ import annotations

import json

import pytest

from sidecar.shared.errors import ConfigError
from sidecar.shared.model.nouns import TableName
from sidecar.shared.ticdc.changefeed_file import rules_of
from sidecar.shared.ticdc.dispatch import Router, TopicPartitionRule
from tests.support.recordings import recorded_cluster

TOML = """
case-sensitive = true
[filter]
rules = ["shop.*"]
[sink]
protocol = "canal-json"
terminator = "\\r\\n"
dispatchers = [
  {matcher = ["shop.item"], partition = "columns", columns = ["a", "b"]},
  {matcher = ["*.*"], topic = "{schema}_{table}", dispatcher = "ts"},
]
[sink.csv]
delimiter = ","
[sink.kafka-config]
partition-num = 6
sasl-password = "hunter2"
enable-tls = true
[sink.kafka-config.codec-config]
enable-tidb-extension = true
[sink.kafka-config.large-message-handle]
large-message-handle-option = "claim-check"
large-message-handle-compression = "none"
claim-check-storage-uri = "s3://b/c?secret-access-key=hunter2"
claim-check-raw-value = true
"""


def test_the_file_of_cdc_cli() -> None:
    file = rules_of(TOML)
    assert (file.case_sensitive, file.protocol) == (True, "canal-json")
    assert file.parameters == {
        "partition-num": "6", "sasl-password": "hunter2", "enable-tls": "true", "enable-tidb-extension": "true",
        "large-message-handle-option": "claim-check", "claim-check-storage-uri": "s3://b/c?secret-access-key=hunter2",
        "claim-check-raw-value": "true",
    }  # fmt: skip
    assert "filter" in file.warnings[0]
    assert "hunter2" not in repr(file)
    router = Router.of(file.dispatchers, default_topic="main", protocol=file.protocol, case_sensitive=file.case_sensitive)
    assert router.partition_rule(TableName("shop", "item")) == TopicPartitionRule("columns", columns=("a", "b"))
    assert router.topic(TableName("shop", "orders")) == "shop_orders"


def test_an_empty_file_says_nothing() -> None:
    file = rules_of("")
    assert (file.dispatchers, file.case_sensitive, file.protocol, dict(file.parameters), file.warnings) == ((), False, "", {}, ())


@pytest.mark.parametrize("architecture", ["classic", "new"])
def test_the_definition_that_etcd_holds(architecture: str) -> None:
    """But its column selectors, which are refused."""
    entries = recorded_cluster(architecture)["etcd"]
    info = json.loads(next(text for key, text in entries.items() if key.endswith("/info/cap-filter")))
    with pytest.raises(ConfigError, match=r"sink.column-selectors cannot be followed: rows are written whole"):
        rules_of(json.dumps(info))
    info["config"]["sink"]["column-selectors"] = None
    file = rules_of(json.dumps(info))
    router = Router.of(file.dispatchers, default_topic="main", protocol=file.protocol)
    assert router.topic(TableName("shop", "item")) == "etcdcap_shop_item"
    assert router.partition_rule(TableName("shop", "item")).kind == "index-value"
    assert router.partition_rule(TableName("shop", "orders")).kind == "table"


@pytest.mark.parametrize("architecture", ["classic", "new"])
def test_what_a_real_cdc_cli_and_openapi_answer(architecture: str) -> None:
    answers = recorded_cluster(architecture)
    for text in (answers["cli"]["changefeed query -c cap-open"]["stdout"], answers["api"]["/api/v2/changefeeds/cap-open"]["body"]):
        file = rules_of(text if isinstance(text, str) else json.dumps(text))
        assert (file.protocol, file.dispatchers, dict(file.parameters)) == ("open-protocol", (), {})


def test_the_json_of_the_openapi_has_underlines() -> None:
    config = {
        "case_sensitive": True,
        "sink": {
            "dispatchers": [{"matcher": ["*.*"], "partition": "ts"}],
            "date_separator": "day",
            "delete_only_output_handle_key_columns": False,
            "kafka_config": {"partition_num": 4, "codec_config": {"enable_tidb_extension": True}},
        },
    }
    for text in (json.dumps(config), json.dumps({"id": "x", "config": config})):
        file = rules_of(text)
        assert (file.case_sensitive, file.parameters) == (True, {"partition-num": "4", "enable-tidb-extension": "true"})
        assert file.dispatchers == ({"matcher": ["*.*"], "partition": "ts"},)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[sink]\ncolumn-selectors = [{matcher = ["a.*"], columns = ["x"]}]', "sink.column-selectors cannot be followed"),
        ("[sink.open]\noutput-old-value = false", "sink.open.output-old-value"),
        ("[sink.kafka-config]\noutput-raw-change-event = true", "output-raw-change-event"),
        (
            '[sink.kafka-config.large-message-handle]\nlarge-message-handle-compression = "lz4"',
            "large-message-handle.large-message-handle-compression",
        ),
        ('[sink]\ndispatcher = "ts"', "sink.dispatcher is no setting"),
        ('[sink]\ndispatchers = "ts"', "sink.dispatchers is no list of rules"),
        ("sink = 3", "sink is no section"),
        ('[sink\npassword = "hunter2"', "is no changefeed's config: TOMLDecodeError"),
        ('{"sink": ', "is no changefeed's config: JSONDecodeError in line 1"),
    ],
)
def test_what_is_not_followed_is_refused_by_name(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as raised:
        rules_of(text)
    assert "hunter2" not in str(raised.value)


def test_what_shapes_a_message_is_handed_on() -> None:
    file = rules_of("[sink]\nonly-output-updated-columns = false\ndelete-only-output-handle-key-columns = true\ncontent-compatible = true")
    assert file.parameters == {"delete-only-output-handle-key-columns": "true", "content-compatible": "true"}


def test_what_says_nothing_of_a_topic_is_let_be() -> None:
    assert rules_of('[sink]\nterminator = "x"\nfile-index-digit = 6\n[sink.csv]\nquote = "q"\n[mounter]\nworker-num = 3').warnings == ()
