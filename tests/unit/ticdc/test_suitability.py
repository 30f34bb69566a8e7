"""Every refusal of the preflight that the definition alone shows, with the exact setting broken."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from sidecar.shared.errors import ConfigError, FeedUnsuitable, parted
from sidecar.shared.model.nouns import MARK_TABLE, Column, TableName, TableSchema
from sidecar.shared.model.soft_delete import ORIGIN_TS, SOFT_DELETE_TIME
from sidecar.shared.ticdc.changefeed import Changefeed, ChangefeedName
from sidecar.shared.ticdc.changefeed_info import changefeed, codec_of
from sidecar.shared.ticdc.selected_columns import SelectedColumns
from sidecar.shared.ticdc.suitability import no_marks, problems

ORDERS = TableName("shop", "orders")
GOOD = "kafka://h:9092/t?protocol=open-protocol"
FILES = "s3://bucket/prefix?protocol=canal-json&enable-tidb-extension=true"
CSV = "file:///data?protocol=csv"
CANAL = "kafka://h:9092/t?protocol=canal-json&enable-tidb-extension=true"


def made(uri: str = GOOD, *, config: dict[str, Any] | None = None, **info: Any) -> Changefeed:
    value = {"sink-uri": uri, "create-time": "2026-11-21T03:36:19Z", "start-ts": 7, "config": config or {}} | info
    return changefeed(ChangefeedName("default", "default", "demo"), json.dumps(value))


def sink(**settings: Any) -> dict[str, Any]:
    return {"sink": {name.replace("_", "-"): value for name, value in settings.items()}}


def large(name: str, value: str) -> dict[str, Any]:
    return sink(kafka_config={"large-message-handle": {f"large-message-handle-{name}": value}})


def settings_of(feed: Changefeed, schemas: dict[TableName, TableSchema] | None = None) -> list[str]:
    return [problem.setting for problem in problems(feed, schemas)]


def schema(table: TableName, *columns: str, key: tuple[str, ...] = ("id",)) -> dict[TableName, TableSchema]:
    return {table: TableSchema(table, tuple(Column(name, "int") for name in columns), key)}


@pytest.mark.parametrize(
    ("uri", "config", "info"),
    [
        (GOOD, {}, {}),
        (CANAL, {}, {}),
        ("kafka+ssl://h:9092/t?protocol=default", {}, {}),
        ("kafka://h:9092/t", {}, {"state": "warning"}),
        (GOOD, {}, {"state": "pending"}),
        (GOOD, large("compression", "lz4"), {}),
        (GOOD, large("compression", "snappy"), {}),
        (GOOD, large("option", "none"), {}),
        (GOOD, large("option", "claim-check"), {}),
        (GOOD, sink(open={"output-old-value": True}, kafka_config={"output-raw-change-event": True}), {}),
        (GOOD, sink(dispatchers=[{"matcher": ["*.*"], "partition": "ts", "topic": "{schema}"}]), {}),
        (CANAL, sink(open={"output-old-value": False}), {}),
        (GOOD, sink(column_selectors=[{"matcher": ["*.*"], "columns": ["*"]}]), {}),
        (GOOD, sink(column_selectors=[{"matcher": ["shop.*"], "columns": ["*", "!note"]}]), {}),
        (GOOD, sink(dispatchers=[{"matcher": ["shop.*"], "target-schema": "other"}, {"matcher": ["*.*"]}]), {}),
        (CSV, sink(csv={"include-commit-ts": True}, column_selectors=[{"matcher": ["shop.*"], "columns": ["id"]}]), {}),
        (FILES, {}, {}),
        (CSV, sink(csv={"include-commit-ts": True}), {}),
        (CSV, sink(csv={"include-commit-ts": True, "output-old-value": True}, cloud_storage_config={"output-raw-change-event": True}), {}),
        (CSV, sink(csv={"include-commit-ts": True}, date_separator="none", file_index_digit=6), {}),
        (GOOD, {"integrity": {"integrity-check-level": "correctness"}, "scheduler": {"enable-table-across-nodes": True}}, {}),
    ],
)
def test_what_can_be_dumped_has_no_problem(uri: str, config: dict[str, Any], info: dict[str, Any]) -> None:
    assert problems(made(uri, config=config, **info)) == []


ROUTED = [{"matcher": ["shop.*"], "target-schema": "other"}, {"matcher": ["*.*"]}]
KEYS_ALONE = large("option", "handle-key-only")["sink"]


@pytest.mark.parametrize(
    ("setting", "uri", "config", "info"),
    [
        ("state", GOOD, {}, {"state": "stopped"}),
        ("state", GOOD, {}, {"state": "failed", "error": {"code": "CDC:ErrX", "message": "m"}}),
        ("state", GOOD, {}, {"state": "finished"}),
        ("state", GOOD, {}, {"state": "removed"}),
        ("state", GOOD, {}, {"state": "dreaming"}),
        ("target-ts", GOOD, {}, {"target-ts": 9}),
        ("bdr-mode", GOOD, {"bdr-mode": True}, {}),
        ("enable-active-active", GOOD, {"enable-active-active": True}, {}),
        ("sink-uri", "mysql://u:p@h:3306/?protocol=open-protocol", {}, {}),
        ("sink-uri", "pulsar://h:6650/t?protocol=canal-json&enable-tidb-extension=true", {}, {}),
        ("sink-uri", "kafka://h:9092?protocol=open-protocol", {}, {}),
        ("enable-tidb-extension", "kafka://h:9092/t?protocol=canal-json", {}, {}),
        ("enable-tidb-extension", "kafka://h:9092/t?protocol=canal-json&enable-tidb-extension=false", {}, {}),
        ("large-message-handle-option", GOOD, large("option", "all-keys"), {}),
        ("large-message-handle-compression", GOOD, large("compression", "zstd"), {}),
        ("sink.open.output-old-value", GOOD, sink(open={"output-old-value": False}), {}),
        ("sink.open.output-old-value", GOOD, sink(open={}), {}),
        ("enable-old-value", GOOD, {"enable-old-value": False}, {}),
        ("sink.content-compatible", f"{CANAL}&content-compatible=true", {}, {}),
        ("sink.content-compatible", CANAL, sink(content_compatible=True), {}),
        ("sink.only-output-updated-columns", f"{GOOD}&only-output-updated-columns=true", {}, {}),
        ("sink.only-output-updated-columns", GOOD, sink(only_output_updated_columns=True), {}),
        ("sink.delete-only-output-handle-key-columns", GOOD, sink(delete_only_output_handle_key_columns=True), {}),
        ("filter, sink.dispatchers", GOOD, {"filter": {"event-filters": [{"matcher": ["*.*"], "ignore-event": ["x"]}]}}, {}),
        ("filter, sink.dispatchers", GOOD, sink(dispatchers=[{"matcher": ["*.*"], "topic": "a b"}]), {}),
        ("filter.ignore-txn-start-ts", GOOD, {"filter": {"ignore-txn-start-ts": [1]}}, {}),
        ("force-replicate", GOOD, {"force-replicate": True}, {}),
        ("large-message-handle-option", GOOD, sink(dispatchers=ROUTED, **KEYS_ALONE), {}),
        ("filter, sink.dispatchers, sink.column-selectors", GOOD, sink(column_selectors=[{"matcher": ["shop"], "columns": ["id"]}]), {}),
    ],
)
def test_each_broken_setting_is_named_alone_with_the_way_out(setting: str, uri: str, config: dict[str, Any], info: dict[str, Any]) -> None:
    against = problems(made(uri, config=config, **info))
    assert [problem.setting for problem in against] == [setting]
    assert against[0].what
    assert against[0].hint


PROTOCOLS = (
    "open-protocol", "default", "canal-json", "canal", "avro", "flat-avro", "maxwell", "craft", "csv", "debezium", "debezium-avro",
    "simple", "nonsense", "Open-Protocol",
)  # fmt: skip


@pytest.mark.parametrize("extension", ["true", "false"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_protocols_are_judged_as_the_codecs_judge_them(protocol: str, extension: str) -> None:
    feed = made(f"kafka://h:9092/t?protocol={protocol}&enable-tidb-extension={extension}")
    try:
        codec_of(feed)
    except FeedUnsuitable:
        assert settings_of(feed) in (["protocol"], ["enable-tidb-extension"])
    else:
        assert settings_of(feed) == []


def test_everything_is_found_at_once() -> None:
    config = {"bdr-mode": True, "force-replicate": True, "filter": {"rules": ["shop.*"]}} | large("option", "all-keys")
    against = settings_of(made("kafka://h:9092/t?protocol=avro", config=config, state="stopped"))
    assert against == ["state", "bdr-mode", "protocol", "large-message-handle-option", "force-replicate"]


def test_the_error_of_a_stopped_changefeed_is_reported_and_no_password() -> None:
    against = problems(made("mysql://u:hunter2@h/", state="failed", error={"code": "CDC:ErrX", "message": "too late"}))
    assert "CDC:ErrX: too late" in against[0].what
    assert "hunter2" not in str(against)


def test_a_switch_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match="enable-tidb-extension"):
        problems(made("kafka://h:9092/t?protocol=canal-json&enable-tidb-extension=maybe"))


# ---- by the tables ----------------------------------------------------------------------------------------------------


def selected(*columns: str, matcher: str = "shop.*") -> Changefeed:
    return made(config=sink(column_selectors=[{"matcher": [matcher], "columns": list(columns)}]))


def test_a_selector_counts_only_if_it_takes_the_handle_key_of_a_replicated_table() -> None:
    tables = schema(ORDERS, "id", "note")
    assert settings_of(selected("*", "!ID"), tables) == ["sink.column-selectors number 1"]
    assert settings_of(selected("note"), tables) == ["sink.column-selectors number 1"]
    assert settings_of(selected("*", "!note"), tables) == []
    assert settings_of(selected("ID", "n*"), tables) == []
    assert settings_of(selected("note", matcher="hr.*"), tables) == []
    assert settings_of(selected("# all", " ", "*"), tables) == []
    assert settings_of(selected("note"), schema(ORDERS, "id", "note", key=())) == [], "TiCDC sends none of its rows"


def test_a_lost_key_column_is_named_also_of_a_table_that_is_narrowed_already() -> None:
    tables, feed = schema(ORDERS, "id", "other", "note", key=("id", "other")), selected("id", "note")
    for known in (tables, {name: SelectedColumns.of(feed).narrowed(one) for name, one in tables.items()}):
        (problem,) = problems(feed, known)
        assert "shop.orders come without other, of its handle key" in problem.what


def test_the_first_selector_that_has_the_table_decides() -> None:
    selectors = [{"matcher": ["shop.orders"], "columns": ["*"]}, {"matcher": ["*.*", "!changefeed_dump.*"], "columns": ["note"]}]
    feed = made(config=sink(column_selectors=selectors))
    assert settings_of(feed, schema(ORDERS, "id", "note")) == []
    assert settings_of(feed, schema(TableName("shop", "item"), "id", "note")) == ["sink.column-selectors number 2"]


def routed(*rules: str) -> Changefeed:
    return made(config=sink(dispatchers=[{"matcher": list(rules), "target-table": "x"}]))


@pytest.mark.parametrize(
    ("feed", "why"),
    [
        (made(), ""),
        (made(config={"filter": {"rules": ["shop.*"]}}), "filter.rules omit changefeed_dump.changefeed_dump_event"),
        (made(config={"filter": {"event-filters": [{"matcher": ["*.*"], "ignore-event": ["update"]}]}}), "omits every update"),
        (made(config={"filter": {"event-filters": [{"matcher": ["shop.*"], "ignore-event": ["update"]}]}}), ""),
        (selected("id", matcher="changefeed_dump.*"), "comes without changefeed_id, unique_identifier, event_type"),
        (selected("*", "!create_time", "!id", matcher="changefeed_dump.*"), ""),
        (selected("id", matcher="shop.*"), ""),
        (routed("*.*"), ""),
        (made(config={"filter": {"event-filters": [{"matcher": ["*.*"], "ignore-event": ["x"]}]}}), "x"),
    ],
)
def test_marks_come_where_the_watermark_tables_rows_come_whole_and_under_their_name(feed: Changefeed, why: str) -> None:
    reason = no_marks(feed, encoded=True)
    assert (why in reason) if why else not reason
    assert not why or parted(reason)[1]
    assert not no_marks(feed, encoded=False), "raw key-values have every mark"


def test_no_table_of_marks_keeps_a_changefeed_from_being_dumped() -> None:
    assert settings_of(made(config={"filter": {"rules": ["shop.*"]}}), schema(ORDERS, "id")) == []
    assert settings_of(selected("id", matcher="changefeed_dump.*"), schema(MARK_TABLE, "id", "create_time")) == []


def test_two_tables_with_one_name_in_the_feed_are_refused_by_name() -> None:
    both = schema(ORDERS, "id") | schema(TableName("shop", "item"), "id")
    (problem,) = problems(routed("shop.*"), both)
    assert problem.setting == "sink.dispatchers, target-schema and target-table"
    assert "shop.item and shop.orders are both sent as shop.x" in problem.what
    assert settings_of(routed("shop.*"), schema(ORDERS, "id")) == []
    assert settings_of(routed("shop.*"), schema(ORDERS, "id") | schema(TableName("shop", "item"), "id", key=())) == [], "no row of it comes"
    own = schema(ORDERS, "id") | schema(TableName("shop", "x"), "id")
    assert "shop.orders and shop.x are both" in problems(routed("shop.orders"), own)[0].what, "one has the name of its own"
    marks = made(config=sink(dispatchers=[{"matcher": ["shop.*"], "target-schema": MARK_TABLE.schema, "target-table": MARK_TABLE.table}]))
    assert f"{MARK_TABLE} and shop.orders are both" in problems(marks, schema(ORDERS, "id"))[0].what


def test_forced_replication_is_fine_where_every_table_has_a_key() -> None:
    feed = made(config={"force-replicate": True, "filter": {"rules": ["shop.*", "changefeed_dump.*"]}})
    assert settings_of(feed, schema(ORDERS, "id")) == []
    assert settings_of(feed, schema(TableName("hr", "heap"), "id", key=())) == [], "left out by the rules"
    assert "shop.orders" in problems(feed, schema(ORDERS, "id", key=()))[0].what


def test_a_value_expression_that_cannot_be_pushed_down_is_found_by_the_tables() -> None:
    events = [{"matcher": ["shop.*"], "ignore-insert-value-expr": "id = 1) or (1"}]
    feed = made(config={"filter": {"event-filters": events}})
    assert settings_of(feed, schema(ORDERS, "id")) == ["filter, sink.dispatchers, sink.column-selectors"]
    assert "ignore-insert-value-expr, of shop.orders" in problems(feed, schema(ORDERS, "id"))[0].what
    assert settings_of(feed, schema(TableName("hr", "staff"), "id")) == []


@pytest.mark.parametrize(
    ("uri", "config", "settings"),
    [
        (CSV, {}, ["sink.csv"]),
        (
            CSV,
            sink(csv={"include-commit-ts": True}, cloud_storage_config={"output-raw-change-event": True}),
            ["sink.csv"],
        ),
        (CSV, sink(csv={"include-commit-ts": True, "null": "1"}), ["sink.csv"]),
        ("s3://bucket/prefix?protocol=canal-json", {}, ["enable-tidb-extension"]),
        ("s3://bucket/prefix?protocol=open-protocol", {}, ["protocol"]),
        ("gs://bucket/prefix", {}, ["protocol"]),
        (FILES, sink(content_compatible=True), ["sink.content-compatible"]),
        (FILES, sink(enable_partition_separator=False), ["sink.enable-partition-separator"]),
    ],
)
def test_what_files_cannot_be_read_of_is_named(uri: str, config: dict[str, Any], settings: list[str]) -> None:
    assert settings_of(made(uri, config=config)) == settings


def test_partitions_in_one_folder_matter_where_there_are_any() -> None:
    feed = made(FILES, config=sink(enable_partition_separator=False))
    whole = schema(ORDERS, "id")
    assert settings_of(feed, whole) == []
    assert settings_of(feed, {ORDERS: replace(whole[ORDERS], physical_ids=(7, 8))}) == ["sink.enable-partition-separator"]


@pytest.mark.parametrize(("version", "settings"), [("v8.5.4", ["scheduler.enable-table-across-nodes"]), ("v8.5.7", [])])
def test_several_writers_of_a_table_without_names_of_their_own_are_refused(version: str, settings: list[str]) -> None:
    assert settings_of(made(FILES, config={"scheduler": {"enable-table-across-nodes": True}}, **{"creator-version": version})) == settings


SOFT = Column(SOFT_DELETE_TIME, "timestamp", scale=6)
ORIGIN = Column(ORIGIN_TS, "uint")


@pytest.mark.parametrize(
    ("new", "columns", "named"),
    [
        (True, (), []),
        (True, (SOFT,), []),
        (False, (SOFT,), ["shop.soft: SOFTDELETE"]),
        (True, (ORIGIN, SOFT), ["shop.soft: active-active"]),
        (False, (ORIGIN, SOFT), ["shop.soft: active-active"]),
        (True, (ORIGIN,), []),
    ],
)
def test_tables_that_the_feed_shows_otherwise_than_tidb_are_named(new: bool, columns: tuple[Column, ...], named: list[str]) -> None:
    """Of two such tables the changefeed has one."""
    key = Column("id", "int", nullable=False)
    soft, other = (TableSchema(TableName(schema, "soft"), (key, *columns), ("id",)) for schema in ("shop", "other"))
    feed = replace(made(config={"filter": {"rules": ["shop.*"]}}), new_architecture=new)
    assert [one.what[: len(text)] for one, text in zip(problems(feed, {soft.name: soft, other.name: other}), named, strict=True)] == named
