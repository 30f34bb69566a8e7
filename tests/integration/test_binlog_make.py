"""`feed = "binlog"` from settings to a term: its definition without a changefeed, what it brings, what its checks say,
what removal leaves."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sidecar.adapters.etcd.binlog import TIDB_SERVERS, EtcdNodes
from sidecar.adapters.etcd.client import EtcdClient
from sidecar.binlog.nodes import DRAINERS, OFFLINE, ONLINE, PAUSED, PUMPS, Node
from sidecar.feeds.binlog import checks as binlog
from sidecar.feeds.binlog import make as binlog_make
from sidecar.feeds.binlog.feed import DDL_LANE
from sidecar.feeds.binlog.joining import PUMPS_LANE
from sidecar.feeds.checks import CHANGEFEED, LOG, TIDB, LogEnd
from sidecar.feeds.registry import MAKES
from sidecar.preflight import changefeed as preflight_changefeed
from sidecar.replay.kv_rows import DDL_JOB_TABLE_INFO
from sidecar.run import leaving
from sidecar.run.changefeed_watch import read_changefeed
from sidecar.shared.config import BinlogSection, Config, EtcdSection, read_config
from sidecar.shared.errors import ConfigError, FeedLost
from sidecar.shared.log.manifest import Manifest
from sidecar.shared.model.nouns import MARK_TABLE, CommitTs, Seq, TableName, physical_ms, ts_at, utc
from sidecar.shared.process.checks import Check, CheckFinding, Checking, CheckOptions, CheckResult, CheckStatus, Result, carried_out, ok
from sidecar.shared.ticdc.scope import LiveScope
from tests.support.made_pumps import CLUSTER_ID, MadePd, MadePump, MemoryNodes
from tests.support.services.etcd import Etcd
from tests.support.services.fake_tidb import FakeTidb
from tests.unit.adapters.test_tidb_infos import StatusPort, schema_folder

pytestmark = pytest.mark.recordings

SETTINGS = """
feed = "binlog"
sinks = ["file:///out"]
log = { uri = "file:///log" }
source = { host = "tidb", user = "dump" }
[binlog]
name = "orders"
pd = ["pd:2379"]
filter = { rules = ["shop.*", "!shop.ledger", "changefeed_dump.*"] }
"""


def read(tmp_path: Path, text: str) -> Config:
    (tmp_path / "settings.toml").write_text(text)
    return read_config(tmp_path / "settings.toml")


def test_the_name_serves_as_a_changefeed_and_pd_as_etcd(tmp_path: Path) -> None:
    config = read(tmp_path, SETTINGS)
    assert (config.changefeed.id, config.etcd.endpoints) == ("orders", ("pd:2379",))
    other = read(tmp_path, SETTINGS + "etcd = 5\n".replace("etcd = 5", "[etcd]\nendpoints = ['e:1']\nlease_s = 20"))
    assert (other.etcd.endpoints, other.etcd.lease_s) == (("e:1",), 20)


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ('name = "orders"\n', "", "changefeed"),
        ('pd = ["pd:2379"]\n', "", "etcd.endpoints"),
        ("[binlog]", '[changefeed]\nid = "other"\n[binlog]', r"\[changefeed\] is given"),
        ("[binlog]", '[binlog]\nlisten = "here"', "binlog.listen is 'here', expected host:port"),
    ],
)
def test_settings_that_make_no_sense_are_refused_by_name(tmp_path: Path, old: str, new: str, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        read(tmp_path, SETTINGS.replace(old, new))


def test_the_definition_is_what_the_settings_make(tmp_path: Path) -> None:
    config = read(tmp_path, SETTINGS)
    with closing(EtcdClient(EtcdSection(endpoints=("127.0.0.1:1",)))) as client:  # which is not asked
        changefeed = read_changefeed(client, config)
    assert (str(changefeed.name), changefeed.incarnation, changefeed.filter.rules) == (
        "default/default/orders", "binlog", ("shop.*", "!shop.ledger", "changefeed_dump.*"),
    )  # fmt: skip
    wrong = msgspec.structs.replace(config, binlog=msgspec.structs.replace(config.binlog, filter={"rules": 5}))
    with closing(EtcdClient(EtcdSection(endpoints=("127.0.0.1:1",)))) as client, pytest.raises(ConfigError, match=r"binlog\.filter"):
        read_changefeed(client, wrong)


@pytest.fixture
def status() -> Iterator[StatusPort]:
    made = StatusPort(schema_folder())
    made.paths["/schema/mysql/tidb_ddl_job"] = (200, json.dumps(DDL_JOB_TABLE_INFO).encode())
    yield made
    made.close()


@pytest.fixture
def tidb(tmp_path: Path, status: StatusPort) -> Iterator[FakeTidb]:
    with FakeTidb(tmp_path) as made:
        made.version = "8.0.11-TiDB-v7.5.1"
        made.history = {0: status.sql()}
        made.finished_job = 700
        yield made


@pytest.fixture
def config(tmp_path: Path, tidb: FakeTidb, status: StatusPort) -> Config:
    builtins = msgspec.to_builtins(read(tmp_path, SETTINGS))
    builtins["source"] = msgspec.to_builtins(tidb.settings(status_port=status.port))
    return msgspec.convert(builtins, Config)


def test_a_term_begins_with_the_status_ports_tables_and_the_pumps(config: Config) -> None:
    with closing(EtcdClient(EtcdSection(endpoints=("127.0.0.1:1",)))) as client:
        changefeed = read_changefeed(client, config)
    scope = LiveScope(server_tz="UTC")
    brought = MAKES["binlog"](config, changefeed, scope, pytest.fail)
    tables = brought.schemas.begin()
    assert brought.codec.name == "binlog"
    assert [bool(tables[TableName("shop", name)].key) for name in ("customer", "ledger")] == [True, False]
    assert tables[MARK_TABLE].key
    assert scope.through(TableName("shop", "customer")) == (True, "")
    assert (brought.place(), brought.still_because()) == ({"pd": "pd:2379"}, "")
    feed = brought.feed()
    assert feed.lanes() == {PUMPS_LANE, DDL_LANE}
    feed.close()


# ---- with a registry --------------------------------------------------------------------------------------------------

NOW = ts_at(1_795_000_000_000)
NODES = "/tidb-binlog/"


class Pd(MadePd):
    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    with Etcd(tmp_path_factory.mktemp("etcd")) as made:
        yield made


@pytest.fixture
def registered(config: Config, etcd: Etcd, monkeypatch: pytest.MonkeyPatch) -> Config:
    """The registry is empty."""
    for prefix in (NODES, TIDB_SERVERS):
        etcd.etcdctl("del", "--prefix", prefix)
    section = BinlogSection(name="orders", pd=etcd.endpoints, filter=config.binlog.filter)
    monkeypatch.setattr(binlog, "pd_of", lambda _: Pd(NOW))
    monkeypatch.setattr(leaving, "pd_of", lambda _: Pd(NOW))
    return msgspec.structs.replace(config, binlog=section, etcd=EtcdSection(endpoints=etcd.endpoints))


def put(config: Config, key: str, node: Node) -> None:
    with closing(EtcdNodes(EtcdSection(endpoints=config.binlog.pd), own=key)) as nodes:
        nodes.put(node)


def online(config: Config, name: str = "a", *, host: str = "127.0.0.1:1", state: str = ONLINE, received_ts: CommitTs = NOW) -> None:
    put(config, f"{PUMPS}{name}", Node(name, host, state, NOW, received_ts))


def checked(config: Config, log: LogEnd | None = None) -> dict[str, Result]:
    """`log`: how it ends; None: it is new."""
    with closing(EtcdClient(config.etcd)) as client:
        changefeed = read_changefeed(client, config)

    def known(value: Any) -> Checking[Any]:
        yield ok("known")
        return value

    common: list[Check[Any]] = [
        Check(CHANGEFEED, lambda _: known(changefeed), "x"),
        Check(TIDB, lambda _: known(None), "x"),
        Check(LOG, lambda _: known(log), "x"),
    ]
    check_result = CheckResult(config, CheckOptions())
    try:
        return {result.name: result for result in carried_out([*common, *binlog.checks(CheckOptions())], check_result)}
    finally:
        check_result.close()


def test_check_reports_the_pumps_the_servers_and_what_no_reader_can_know(registered: Config) -> None:
    online(registered)
    results = checked(registered)
    assert results["pumps"].status is CheckStatus.OK
    assert f"PD of cluster {CLUSTER_ID} answers" in results["pumps"].findings[0].what
    online(registered, "b", state=PAUSED)
    put(registered, f"{DRAINERS}theirs", Node("theirs", "127.0.0.1:1", ONLINE, CommitTs(NOW), CommitTs(NOW)))
    results = checked(registered)
    assert results["pumps"].status is CheckStatus.WARNING
    assert "beside drainer theirs (online)" in results["pumps"].findings[-1].what
    assert results["faults of tidb-binlog"].status is CheckStatus.WARNING
    assert "UPDATE IGNORE" in results["faults of tidb-binlog"].findings[0].what
    assert results["table infos"].status is CheckStatus.OK
    assert results["binlogs kept"].status is CheckStatus.OK


def test_check_fails_where_no_pump_is_left(registered: Config) -> None:
    assert checked(registered)["pumps"].status is CheckStatus.FAILED
    for name in "ab":
        online(registered, name, state=OFFLINE)
    results = checked(registered)
    assert [finding.what for finding in of(results, "pumps", CheckStatus.FAILED)] == ["PD's etcd names no pump that is not offline"]
    assert [results[name].status for name in ("binlogs of tidb", "binlogs kept")] == [CheckStatus.SKIPPED] * 2


def of(value: dict[str, Result], name: str, status: CheckStatus) -> list[CheckFinding]:
    """The findings of a check whose status is this; the worst one is the check's."""
    assert value[name].status is status, value[name]
    return [finding for finding in value[name].findings if finding.status is status]


def test_check_names_a_pump_that_is_silent(registered: Config) -> None:
    online(registered, received_ts=(long_ago := ts_at(1_794_999_000_000)))
    (finding,) = of(checked(registered), "pumps", CheckStatus.WARNING)
    assert "pump a (127.0.0.1:1) is online" in finding.what
    assert f"last updated at {utc(long_ago)}: the stream is blocked" in finding.what
    assert (finding.setting, finding.hint[:14]) == ("a", "start it again")


def test_check_fails_without_pd_and_over_an_entry_that_is_none(registered: Config, etcd: Etcd, monkeypatch: pytest.MonkeyPatch) -> None:
    etcd.put(f"{PUMPS}x", "nonsense")
    (finding,) = of(checked(registered), "pumps", CheckStatus.FAILED)
    assert f"etcd key {PUMPS}x" in finding.what
    silent = Pd(NOW)
    silent.error = FeedLost("PD says nothing", hint="see PD")
    monkeypatch.setattr(binlog, "pd_of", lambda _: silent)
    (finding,) = of(checked(registered), "pumps", CheckStatus.FAILED)
    assert (finding.what, finding.setting, finding.hint) == ("PD says nothing", "binlog.pd", "see PD")


def shown(enable: str, ignore_error: str) -> list[tuple[str, str, str, str]]:
    """As SHOW CONFIG tells one server."""
    return [("tidb", "10.0.0.1:4000", "binlog.enable", enable), ("tidb", "10.0.0.1:4000", "binlog.ignore-error", ignore_error)]


@pytest.mark.parametrize(
    ("enable", "ignore_error", "worst", "setting", "text"),
    [
        ("true", "false", CheckStatus.OK, "", "every TiDB server that is up writes binlogs"),
        ("true", "true", CheckStatus.WARNING, "binlog.ignore-error (TiDB)", "TiDB 10.0.0.1:4000 continues without binlogs after one that"),
        ("false", "false", CheckStatus.FAILED, "binlog.enable (TiDB)", "TiDB 10.0.0.1:4000 writes no binlogs"),
    ],
)
def test_check_reads_each_servers_settings(
    registered: Config, tidb: FakeTidb, enable: str, ignore_error: str, worst: CheckStatus, setting: str, text: str
) -> None:
    online(registered)
    tidb.settings_shown = shown(enable, ignore_error)
    (finding,) = of(checked(registered), "binlogs of tidb", worst)
    assert finding.what.startswith(text)
    assert finding.setting == setting


@pytest.mark.parametrize("reported_by_tidb", [None, []])
def test_an_account_that_may_not_see_them_gets_a_warning_and_no_more(
    registered: Config, tidb: FakeTidb, reported_by_tidb: list[Any] | None
) -> None:
    """The account of deploy/sql/account.sql has no such right, and reads binlogs."""
    online(registered)
    tidb.settings_shown = reported_by_tidb
    (finding,) = of(checked(registered), "binlogs of tidb", CheckStatus.WARNING)
    assert finding.setting == "GRANT CONFIG"
    assert "binlog.ignore-error is false" in finding.hint


def test_a_tidb_that_says_it_skips_fails_the_check_whatever_its_settings_are(registered: Config, tidb: FakeTidb, etcd: Etcd) -> None:
    online(registered)
    tidb.settings_shown = shown("true", "true")
    etcd.put(f"{TIDB_SERVERS}1", json.dumps({"ip": "10.0.0.1", "listening_port": 4000, "binlog_status": "Skipping"}))
    (finding,) = of(checked(registered), "binlogs of tidb", CheckStatus.FAILED)
    assert finding.what == "TiDB 10.0.0.1:4000 (binlog_status Skipping) writes no binlogs"
    assert "begin a new log" in finding.hint


def ended(at: CommitTs) -> LogEnd:
    """A log that has a lane up to there."""
    return Manifest(Seq(4), 1, CommitTs(at - 5), at, None, 0, 0, positions={PUMPS_LANE: at}, schemas="schemas", codec="binlog")


def test_check_asks_the_pumps_for_what_the_log_lacks(registered: Config) -> None:
    pump = MadePump("a", MemoryNodes())
    try:
        online(registered, host=(host := pump.host))
        assert "have what was committed since" in of(checked(registered, ended(NOW)), "binlogs kept", CheckStatus.OK)[0].what
        pump.gc_ms = physical_ms(NOW) + 1
        assert "the log is new" in of(checked(registered), "binlogs kept", CheckStatus.OK)[0].what
        section = msgspec.structs.replace(registered.binlog, initial_commit_ts=NOW)
        for config, log in ((registered, ended(NOW)), (msgspec.structs.replace(registered, binlog=section), None)):
            (finding,) = of(checked(config, log), "binlogs kept", CheckStatus.FAILED)
            assert f"pump a ({host}) has removed its binlogs up to" in finding.what
    finally:
        pump.kill()
    (finding,) = of(checked(registered, ended(NOW)), "binlogs kept", CheckStatus.FAILED)
    assert "/metrics does not answer" in finding.what
    online(registered, host=host, state=PAUSED)
    assert checked(registered, ended(NOW))["binlogs kept"].status is CheckStatus.OK, "one that is not up cannot be asked"


@pytest.mark.parametrize(
    ("version", "text"),
    [("8.0.11-TiDB-v6.1.0", "does not tell its DDL jobs by SQL"), ("8.0.11-TiDB-v8.5.0", "has no TiDB-Binlog")],
)
def test_check_refuses_a_tidb_that_cannot_be_followed(registered: Config, tidb: FakeTidb, version: str, text: str) -> None:
    tidb.version = version
    assert text in of(checked(registered), "table infos", CheckStatus.FAILED)[0].what


def test_check_refuses_a_filter_and_a_start_that_cannot_be_followed(registered: Config) -> None:
    def checked_with(**changed: Any) -> dict[str, Result]:
        return checked(msgspec.structs.replace(registered, binlog=msgspec.structs.replace(registered.binlog, **changed)))

    def rules(**more: Any) -> dict[str, Any]:
        return {"rules": ["shop.*", "changefeed_dump.*"], "event-filters": [{"matcher": ["shop.*"], **more}]}

    only_columns = checked_with(filter=rules(**{"ignore-update-only-columns": ["note"]}))
    assert "cannot tell such updates" in of(only_columns, "changefeed settings", CheckStatus.FAILED)[0].what
    no_column = checked_with(filter=rules(**{"ignore-insert-value-expr": "nope = 1"}))
    assert "nope" in of(no_column, "table infos", CheckStatus.FAILED)[0].what
    no_marks = checked_with(filter={"rules": ["shop.*", "!changefeed_dump.*"]})
    assert no_marks["changefeed settings"].status is CheckStatus.OK, "raw events have the marks whatever the filter says"
    to_come = checked_with(initial_commit_ts=ts_at(4_000_000_000_000))
    assert "still to come" in of(to_come, "table infos", CheckStatus.FAILED)[0].what


def test_the_registry_is_read_as_the_user_of_etcd_where_both_are_pds(config: Config, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("root-secret")
    with Etcd(tmp_path / "etcd") as etcd:
        etcd.enable_auth("root-secret")
        section = EtcdSection(endpoints=etcd.endpoints, user="root", password_file=str(secret))
        mine = msgspec.structs.replace(config, etcd=section, binlog=msgspec.structs.replace(config.binlog, pd=etcd.endpoints))
        with closing(binlog_make.nodes_of(mine)) as nodes:
            assert list(nodes.pumps()) == []
        elsewhere = msgspec.structs.replace(mine, etcd=EtcdSection(endpoints=("127.0.0.1:1",), user="root", password_file=str(secret)))
        with closing(binlog_make.nodes_of(elsewhere)) as nodes, pytest.raises(ConfigError, match="no user"):
            nodes.pumps()


def test_check_refuses_the_name_of_a_changefeed_that_ticdc_has(registered: Config, etcd: Etcd) -> None:
    with closing(EtcdClient(registered.etcd)) as client:
        (reported,) = preflight_changefeed.changefeed(client, registered)
        assert reported.what == f"default/default/orders is TiDB-Binlog's of PD {', '.join(etcd.endpoints)}"
        etcd.put("/tidb/cdc/default/default/changefeed/info/orders", "{}")
        refused, _ = preflight_changefeed.changefeed(client, registered)
    etcd.etcdctl("del", "/tidb/cdc/default/default/changefeed/info/orders")
    assert (refused.status, refused.setting) == (CheckStatus.FAILED, "binlog.name")
    assert "TiCDC has a changefeed default/default/orders too" in refused.what


def test_who_removes_the_sidecar_lets_the_pumps_go(registered: Config) -> None:
    key = DRAINERS + binlog_make.node_id("orders")
    put(registered, key, Node("ticdc-dump-orders", "127.0.0.1:1", PAUSED, CommitTs(5), CommitTs(NOW)))
    reach = leaving.reach_of(registered)
    with closing(EtcdClient(registered.etcd)) as client:
        kept = leaving.look(client, reach)
        assert kept.drainer == key
        leaving.remove(client, reach, kept)
        assert leaving.look(client, reach).drainer == ""
    with closing(EtcdNodes(EtcdSection(endpoints=registered.binlog.pd), own=key)) as nodes:
        mine = nodes.mine()
    assert mine is not None
    assert (mine.state, mine.max_commit_ts) == (OFFLINE, 5)
