"""A term's stream by the way in which the changes come, made from the settings: TiDB by SQL and status port are stood in for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sidecar.adapters.tidb_schema import TidbSchemas
from sidecar.codecs.kv_layout import DDL_JOB_TABLE
from sidecar.config import Config, TikvSection
from sidecar.core.changefeed import Changefeed, ChangefeedName, EventFilter, FeedFilter
from sidecar.core.key_values import DDL_JOB_TABLE_ID, KeyRange
from sidecar.core.model import MARK_TABLE, CommitTs, Ddl, Lane, Rank, TableName
from sidecar.definition import Definition
from sidecar.errors import ConfigError, FeedUnsuitable
from sidecar.feeds.tikv import SlowestPart, TikvPuller, TikvView
from sidecar.preflight import kv as kv_checks
from sidecar.preflight.check import Known, Options, Status
from sidecar.replay.kv_rows import DDL_JOB_TABLE_INFO
from sidecar.stream import Stream, stream_of
from sidecar.upstream import LiveScope
from tests.support.services.fake_tidb import FakeTidb
from tests.unit.test_tidb_infos import StatusPort, schema_folder

pytestmark = pytest.mark.recordings

MARKS = "changefeed_dump.*"
CUSTOMER, LEDGER = TableName("shop", "customer"), TableName("shop", "ledger")


def changefeed(*rules: str, filters: tuple[EventFilter, ...] = ()) -> Changefeed:
    """Of a custom sink, which no protocol judges."""
    found = FeedFilter(rules=rules or ("*.*",), event_filters=filters)
    return Changefeed(ChangefeedName("default", "default", "cf"), "1", "custom://sink", filter=found)


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
        found: dict[str, Any] = {"sinks": ["console:"], "changefeed": {"id": "cf"}, "etcd": {"endpoints": ["127.0.0.1:1"]}}
        found |= {"log": {"uri": f"file://{tmp_path}/log"}, "feed": "push", "push": {"listen": "127.0.0.1:0"}}
        source = msgspec.to_builtins(tidb.settings(status_port=status.port))
        yield msgspec.convert(found | {"source": source}, Config)


def made(config: Config, of: Changefeed) -> tuple[Stream, LiveScope]:
    scope = LiveScope(of, server_tz="UTC")
    return stream_of(config, of, TidbSchemas(config.source), scope, pytest.fail), scope


def test_key_values_begin_with_the_status_ports_tables_and_the_scope_follows_them(config: Config) -> None:
    stream, scope = made(config, changefeed("shop.*", "!shop.ledger", MARKS))
    tables = stream.schemas.begin()
    assert stream.codec.name == "kv"
    assert [bool(tables[name].key) for name in (CUSTOMER, LEDGER, MARK_TABLE, DDL_JOB_TABLE)] == [True, False, True, False]
    assert scope.through(CUSTOMER) == (True, "")
    assert scope.through(LEDGER)[0] is False
    assert stream.schemas.last_ddl is None


def test_the_push_feed_wants_the_replicated_tables_and_the_ddl_jobs_and_ends_clean(config: Config) -> None:
    stream, _ = made(config, changefeed("shop.*", MARKS))
    tables = stream.schemas.begin()
    feed = stream.feed()
    try:
        feed.seek({})
        ids = {one for table in tables.values() if table.key for one in table.physical_ids}
        assert feed.lanes() == {Lane("kv/ddl"), *(Lane(f"kv/{one}") for one in ids)}
        assert DDL_JOB_TABLE_ID not in ids
    finally:
        feed.close()


def test_a_ddl_without_a_text_is_not_the_last_one_that_operators_see(config: Config) -> None:
    stream, _ = made(config, changefeed())
    tables = stream.schemas.begin()
    cut = Ddl(CommitTs(2000), Rank.DDL, "", "", "", Lane("kv/ddl"), 1999)
    assert stream.schemas.after([cut]) == tables
    assert stream.schemas.last_ddl is None
    told = cut._replace(schema="shop", table="customer", query="alter table customer comment 'x'")
    stream.schemas.after([told])
    assert stream.schemas.last_ddl == told


@pytest.mark.parametrize(
    "filters", [EventFilter(("shop.*",), ignore_event=("insert",)), EventFilter(("*.*",), ignore_delete_value_expr="id > 1")]
)
def test_what_key_values_cannot_do_as_ticdc_does_is_refused(config: Config, filters: EventFilter) -> None:
    with pytest.raises(FeedUnsuitable, match="drops rows"):
        made(config, changefeed(filters=(filters,)))


def test_marks_that_do_not_get_through_are_refused_whatever_the_sink(config: Config) -> None:
    with pytest.raises(FeedUnsuitable, match="marks do not get through"):
        made(config, changefeed("shop.*", "!changefeed_dump.*"))


def test_tikv_without_pd_is_refused_by_name(config: Config) -> None:
    stream, _ = made(msgspec.structs.replace(config, feed="tikv"), changefeed())
    with pytest.raises(ConfigError, match=r"tikv\.pd names no endpoint"):
        stream.feed()


def test_the_preflight_judges_a_key_value_feed_by_what_it_needs(config: Config) -> None:
    known = Known(config=config, options=Options())
    known.definition = Definition(changefeed("shop.*", MARKS), "/tidb/cdc/x")
    found = [*kv_checks.settings(known), *kv_checks.infos(known), *kv_checks.who_brings_them(known)]
    assert {finding.status for finding in found} == {Status.OK}, found
    known.config = msgspec.structs.replace(config, feed="tikv")
    with pytest.raises(ConfigError, match=r"tikv\.pd"):
        list(kv_checks.who_brings_them(known))


def test_a_tikv_feed_that_does_not_move_says_what_it_waits_for(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    part = SlowestPart(KeyRange(b"a", b"b"), CommitTs(7), waits_for="waits for a lock of transaction 5")
    stream, _ = made(msgspec.structs.replace(config, feed="tikv", tikv=TikvSection(pd=("127.0.0.1:1",))), changefeed())
    assert stream.still_because() == ""
    stream.schemas.begin()
    with closing(stream.feed()):
        monkeypatch.setattr(TikvPuller, "view", lambda _: TikvView(1, 1, 0, (), 0, 0, None, 0, 2, "no store", (part,)))
        assert stream.still_because() == "waits for a lock of transaction 5"
        monkeypatch.setattr(TikvPuller, "view", lambda _: TikvView(1, 1, 0, (), 0, 0, None, 0, 2, "no store", ()))
        assert stream.still_because() == "looking for locks failed 2 times: no store"
