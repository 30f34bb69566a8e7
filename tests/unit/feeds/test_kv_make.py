"""What the ways of raw key-values bring to a term, made from the settings: TiDB by SQL and status port are stood in for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest

from sidecar.adapters.memory.puller import MemoryPuller
from sidecar.adapters.tidb.schema import TidbSchemas
from sidecar.feeds.checks import CHANGEFEED, TIDB
from sidecar.feeds.contract import Brought
from sidecar.feeds.encoded.hidden import CodecWithCuts, WithHiddenDdls
from sidecar.feeds.kafka.feed import KafkaFeed
from sidecar.feeds.kv.make import of_key_values
from sidecar.feeds.push import checks as push
from sidecar.feeds.registry import MAKES
from sidecar.feeds.tikv import checks as tikv
from sidecar.feeds.tikv.puller import SlowestPart, TikvPuller, TikvView
from sidecar.replay.kv_rows import DDL_JOB_TABLE_INFO
from sidecar.shared.config import ChangefeedSection, Config, PushSection, TikvSection, Tls
from sidecar.shared.errors import ConfigError, FeedUnsuitable
from sidecar.shared.model.nouns import MARK_TABLE, Column, CommitTs, Ddl, Lane, Rank, TableName, TableSchema
from sidecar.shared.process.checks import Check, Checking, CheckOptions, CheckResult, CheckStatus, carried_out, ok
from sidecar.shared.rowcodec.key_values import DDL_JOB_TABLE_ID, KeyRange
from sidecar.shared.rowcodec.kv_layout import DDL_JOB_TABLE
from sidecar.shared.ticdc.changefeed import Changefeed, ChangefeedName, EventFilter, FeedFilter
from sidecar.shared.ticdc.scope import LiveScope
from tests.support.services.fake_tidb import FakeTidb
from tests.support.services.tls import Authority
from tests.unit.adapters.test_tidb_infos import StatusPort, schema_folder

pytestmark = pytest.mark.recordings

T = TypeVar("T")

MARKS = "changefeed_dump.*"
CUSTOMER, LEDGER = TableName("shop", "customer"), TableName("shop", "ledger")


def changefeed(*rules: str, filters: tuple[EventFilter, ...] = ()) -> Changefeed:
    """Of a custom sink, which no protocol judges."""
    feed_filter = FeedFilter(rules=rules or ("*.*",), event_filters=filters)
    return Changefeed(ChangefeedName("default", "default", "cf"), "1", "custom://sink", filter=feed_filter)


@pytest.fixture
def status() -> Iterator[StatusPort]:
    port = StatusPort(schema_folder())
    port.paths["/schema/mysql/tidb_ddl_job"] = (200, json.dumps(DDL_JOB_TABLE_INFO).encode())
    yield port
    port.close()


@pytest.fixture
def config(tmp_path: Path, status: StatusPort) -> Iterator[Config]:
    with FakeTidb(tmp_path) as tidb:
        tidb.history = {0: status.sql()}
        tidb.finished_job = 700
        result: dict[str, Any] = {"sinks": ["console:"], "changefeed": {"id": "cf"}, "etcd": {"endpoints": ["127.0.0.1:1"]}}
        result |= {"log": {"uri": f"file://{tmp_path}/log"}, "feed": "push", "push": {"listen": "127.0.0.1:0"}}
        source = msgspec.to_builtins(tidb.settings(status_port=status.port))
        yield msgspec.convert(result | {"source": source}, Config)


def made(config: Config, of: Changefeed) -> tuple[Brought, LiveScope]:
    scope = LiveScope(server_tz="UTC")
    return MAKES[config.feed](config, of, scope, pytest.fail), scope


def test_key_values_begin_with_the_status_ports_tables_and_the_scope_follows_them(config: Config) -> None:
    brought, scope = made(config, changefeed("shop.*", "!shop.ledger", MARKS))
    tables = brought.schemas.begin()
    assert brought.codec.name == "kv"
    assert [bool(tables[name].key) for name in (CUSTOMER, LEDGER, MARK_TABLE, DDL_JOB_TABLE)] == [True, False, True, False]
    assert scope.through(CUSTOMER) == (True, "")
    assert scope.through(LEDGER)[0] is False


def test_the_push_feed_wants_the_replicated_tables_and_the_ddl_jobs_and_ends_clean(config: Config) -> None:
    brought, _ = made(config, changefeed("shop.*", MARKS))
    tables = brought.schemas.begin()
    feed = brought.feed()
    try:
        feed.seek({})
        ids = {one for table in tables.values() if table.key for one in table.physical_ids}
        assert feed.lanes() == {Lane("kv/ddl"), *(Lane(f"kv/{one}") for one in ids)}
        assert DDL_JOB_TABLE_ID not in ids
    finally:
        feed.close()


def test_a_ddl_without_a_text_changes_no_table(config: Config) -> None:
    brought, _ = made(config, changefeed())
    tables = brought.schemas.begin()
    assert brought.schemas.after([Ddl(CommitTs(2000), Rank.DDL, "", "", "", Lane("kv/ddl"), 1999)]) == tables


def test_rows_that_a_filter_leaves_out_are_followed(config: Config) -> None:
    filters = (EventFilter(("shop.*",), ignore_event=("delete",), ignore_insert_value_expr="id > 1"),)
    brought, scope = made(config, changefeed("shop.customer", MARKS, filters=filters))
    brought.schemas.begin()
    assert scope.through(CUSTOMER) == (True, "NOT ((`t`.`id` > 1) <=> 1)")


@pytest.mark.parametrize(("text", "when"), [("abs(id) > 1", "made"), ("id > '1'", "begun"), ("nope = 1", "begun")])
def test_a_value_expression_that_key_values_cannot_do_as_ticdc_does_is_refused(config: Config, text: str, when: str) -> None:
    filters = (EventFilter(("shop.customer",), ignore_delete_value_expr=text),)
    if when == "begun":
        brought, _ = made(config, changefeed("shop.*", MARKS, filters=filters))
    with pytest.raises(FeedUnsuitable, match="cannot be evaluated here exactly"):
        brought.schemas.begin() if when == "begun" else made(config, changefeed(filters=filters))
    checked = filters_checked(config, changefeed("shop.*", MARKS, filters=filters))
    assert checked == ({"made": CheckStatus.FAILED, "begun": CheckStatus.OK}[when], CheckStatus.FAILED)


def filters_checked(config: Config, of: Changefeed) -> tuple[CheckStatus, CheckStatus]:
    """The preflight's verdicts on the settings alone, and on the tables."""
    common: list[Check[Any]] = [Check(CHANGEFEED, lambda _: known(of), "x"), Check(TIDB, lambda _: known(None), "x")]
    options = CheckOptions()
    results = carried_out([*common, *push.checks(options)], CheckResult(config, options))
    return results[2].status, results[3].status


def test_tikv_without_pd_is_refused_by_name(config: Config) -> None:
    brought, _ = made(msgspec.structs.replace(config, feed="tikv"), changefeed())
    with pytest.raises(ConfigError, match=r"tikv\.pd names no endpoint"):
        brought.feed()


def test_the_preflight_judges_a_key_value_feed_by_what_it_needs(config: Config) -> None:
    options, of = CheckOptions(), changefeed("shop.*", MARKS)
    common: list[Check[Any]] = [Check(CHANGEFEED, lambda _: known(of), "x"), Check(TIDB, lambda _: known(None), "x")]
    results = carried_out([*common, *push.checks(options)], CheckResult(config, options))
    assert [(result.name, result.status) for result in results[2:]] == [
        ("changefeed settings", CheckStatus.OK), ("table infos", CheckStatus.OK), ("key-values", CheckStatus.WARNING),
        ("dump reads", CheckStatus.OK),
    ]  # fmt: skip
    *_, finding, _ = carried_out([*common, *tikv.checks(options)], CheckResult(msgspec.structs.replace(config, feed="tikv"), options))
    assert finding.name == "key-values"
    assert "tikv.pd names no endpoint" in finding.findings[0].what


def test_a_push_port_without_a_token_is_reported(tmp_path: Path) -> None:
    """Whoever may send may write into the dump."""
    token, authority = tmp_path / "token", Authority(tmp_path)
    token.write_text("x" * 32)
    signed = authority.sign("sidecar")
    tls = Tls(ca_file=str(authority.ca_file), cert_file=str(signed.cert_file), key_file=str(signed.key_file))
    for section, status in (
        (PushSection(listen="127.0.0.1:0"), CheckStatus.WARNING),
        (PushSection(listen="127.0.0.1:0", tls=msgspec.structs.replace(tls, ca_file="")), CheckStatus.WARNING),
        (PushSection(listen="127.0.0.1:0", token_file=str(token)), CheckStatus.OK),
        (PushSection(listen="127.0.0.1:0", tls=tls), CheckStatus.OK),
    ):
        findings = [*push.listens(section, ChangefeedSection(id="cf"))]
        assert findings[0].status is status
        assert findings[-1].status is CheckStatus.OK
    assert findings[0].setting == ""


def test_each_way_of_the_changes_reports_where_they_come_from(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    assert made(config, changefeed())[0].place() == {"listen": "127.0.0.1:0"}
    by_tikv = msgspec.structs.replace(config, feed="tikv", tikv=TikvSection(pd=("pd1:2379", "pd2:2379")))
    assert made(by_tikv, changefeed())[0].place() == {"pd": "pd1:2379, pd2:2379"}
    mark_table = TableSchema(MARK_TABLE, (Column("id", "int", nullable=False),), ("id",))
    monkeypatch.setattr(TidbSchemas, "tables", lambda *_, **__: {MARK_TABLE: mark_table})
    sink_uri = "kafka://me:hunter2@k1:9092,k2:9092/orders?protocol=open-protocol&sasl-password=hunter2"
    brought, _ = made(msgspec.structs.replace(config, feed="kafka"), replace(changefeed(), sink_uri=sink_uri, protocol="open-protocol"))
    where = {"brokers": "k1:9092,k2:9092", "topics": "orders"}
    assert brought.place() == where
    brought.schemas.begin()
    assert brought.place().keys() == {*where, "log_begins"}, "a log that is new says so"


def known(value: T) -> Checking[T]:
    """Of a check that the test has carried out itself."""
    yield ok("known")
    return value


def test_a_tikv_feed_that_does_not_move_says_what_it_waits_for(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    part = SlowestPart(KeyRange(b"a", b"b"), CommitTs(7), waits_for="waits for a lock of transaction 5")
    brought, _ = made(msgspec.structs.replace(config, feed="tikv", tikv=TikvSection(pd=("127.0.0.1:1",))), changefeed())
    assert brought.still_because() == ""
    brought.schemas.begin()
    with closing(brought.feed()):
        monkeypatch.setattr(TikvPuller, "view", lambda _: TikvView(1, 1, 0, (), 0, 0, None, 0, 2, "no store", (part,)))
        assert brought.still_because() == "waits for a lock of transaction 5"
        monkeypatch.setattr(TikvPuller, "view", lambda _: TikvView(1, 1, 0, (), 0, 0, None, 0, 2, "no store", ()))
        assert brought.still_because() == "looking for locks failed 2 times: no store"


def test_a_kafka_feed_that_does_not_move_says_what_it_waits_for(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    mark_table = TableSchema(MARK_TABLE, (Column("id", "int", nullable=False),), ("id",))
    monkeypatch.setattr(TidbSchemas, "tables", lambda *_, **__: {MARK_TABLE: mark_table})
    monkeypatch.setattr(KafkaFeed, "still_because", lambda _: "waits for the source")
    of = replace(changefeed(), sink_uri="kafka://127.0.0.1:1/orders?protocol=open-protocol", protocol="open-protocol")
    brought, _ = made(msgspec.structs.replace(config, feed="kafka"), of)
    assert brought.still_because() == ""
    brought.schemas.begin()
    with closing(brought.feed()):
        assert brought.still_because() == "waits for the source"


def test_key_values_need_nobody_who_delivers_them_before_the_feed_is_chosen(config: Config) -> None:
    puller = MemoryPuller()
    requests: list[MemoryPuller] = []

    def make() -> MemoryPuller:
        requests.append(puller)
        return puller

    brought = of_key_values(config, changefeed("shop.*", MARKS), LiveScope(server_tz="UTC"), make)
    brought.schemas.begin()
    assert not requests
    with closing(brought.feed()):
        assert requests == [puller]


@pytest.mark.parametrize(("event", "hidden"), [("modify column", True), ("insert", False)])
def test_where_a_filter_leaves_ddls_out_kafka_has_a_lane_for_them(config: Config, event: str, hidden: bool) -> None:
    by_kafka = msgspec.structs.replace(config, feed="kafka")
    of = changefeed("shop.*", MARKS, filters=(EventFilter(("shop.ledger",), ignore_event=(event,)),))
    of = replace(of, sink_uri="kafka://127.0.0.1:1/orders?protocol=open-protocol", protocol="open-protocol")
    brought, _ = made(by_kafka, of)
    assert isinstance(brought.codec, CodecWithCuts) is hidden
    assert brought.codec.name == "open-protocol"
    with closing(brought.feed()) as feed:
        assert isinstance(feed, WithHiddenDdls) is hidden
