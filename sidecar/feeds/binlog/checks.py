"""What a feed of TiDB-Binlog needs: PD and its pumps, TiDB servers that write every transaction to them, a filter that can be followed, and
the tables where a new log would begin. And what TiDB-Binlog cannot show to any reader.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Any

from sidecar.adapters.tidb.infos import TidbInfos
from sidecar.adapters.tidb.job_metas import JobMetas
from sidecar.binlog.nodes import OFFLINE, ONLINE, Node
from sidecar.feeds.binlog.gaps import check_kept, metrics_of
from sidecar.feeds.binlog.make import node_id, nodes_of, pd_of
from sidecar.feeds.binlog.start import beginning
from sidecar.feeds.checks import CHANGEFEED, LOG, TIDB, LogEnd
from sidecar.feeds.kv.checks import INFOS, INFOS_S, SETTINGS, settings, tables_of
from sidecar.shared.config import Config, SourceSection
from sidecar.shared.errors import SourceError
from sidecar.shared.model.nouns import CommitTs, utc
from sidecar.shared.mysql.account import Account
from sidecar.shared.mysql.errors import NO_RIGHT, code_of
from sidecar.shared.mysql.flavour import Flavour
from sidecar.shared.mysql.retry import carried_out
from sidecar.shared.mysql.roles import Role
from sidecar.shared.mysql.session import MysqlSession
from sidecar.shared.process.checks import Check, Checking, CheckOptions, CheckResult, Key, failed, ok, warning
from sidecar.shared.ticdc.changefeed import Changefeed

PUMPS: Key[Sequence[Node]] = Key("pumps")
SERVERS: Key[None] = Key("binlogs of tidb")
KEPT: Key[None] = Key("binlogs kept")
FAULTS: Key[None] = Key("faults of tidb-binlog")


def checks(_: CheckOptions) -> Sequence[Check[Any]]:
    return (
        Check(SETTINGS, lambda it: settings(it[CHANGEFEED]), "binlog.filter", (CHANGEFEED,)),
        Check(PUMPS, pumps, "binlog.pd", standby=True),
        Check(SERVERS, lambda it: servers(it.config), "binlog.enable, binlog.ignore-error (TiDB)", (TIDB, PUMPS)),
        Check(KEPT, lambda it: kept(it.config, it[PUMPS], it[LOG]), "gc (pump)", (PUMPS, LOG)),
        Check(
            INFOS, lambda it: infos(it.config, it[CHANGEFEED]), "source.status_port, binlog.initial_commit_ts", (TIDB, CHANGEFEED), INFOS_S
        ),
        Check(FAULTS, lambda _: faults(), "UPDATE IGNORE"),
    )


def pumps(it: CheckResult) -> Checking[Sequence[Node]]:
    section = it.config.binlog
    pd, nodes = pd_of(section), nodes_of(it.config)
    it.opened.callback(pd.close)
    it.opened.callback(nodes.close)
    now_ts = pd.tso()
    yield ok(f"PD of cluster {pd.cluster_id()} answers: TSO {now_ts}")
    in_registry = nodes.pumps()
    if all(pump.state == OFFLINE for pump in in_registry):
        yield failed("PD's etcd names no pump that is not offline", setting="binlog.pd", hint="give the PD of the cluster; start its pumps")
    for pump in in_registry:
        if pump.state == OFFLINE:
            continue
        place = f"pump {pump.node_id} ({pump.host}) is {pump.state}, its binlogs go up to {utc(pump.max_commit_ts)}"
        if pump.state == ONLINE and not pump.silent_at(now_ts):
            yield ok(place)
        else:
            why = f"{place}; last updated at {utc(pump.update_ts)}: the stream is blocked until it continues"
            yield warning(why, setting=pump.node_id, hint="start it again, or let it go offline when all of it has been read")
    others = [drainer for drainer in nodes.drainers() if drainer.node_id != node_id(section.name) and drainer.state != OFFLINE]
    yield ok(f"beside {', '.join(f'drainer {one.node_id} ({one.state})' for one in others)}" if others else "no other drainer reads them")
    return in_registry


def servers(config: Config) -> Checking[None]:
    with closing(nodes_of(config)) as nodes:
        silent = nodes.without_binlogs()
    for server in silent:
        yield failed(
            f"{server} writes no binlogs", setting="binlog.enable (TiDB)", hint="let it write them; then begin a new log, and dump again"
        )
    settings = _settings(config.source)
    for instance, name, value in settings:
        if name == "binlog.ignore-error" and value.lower() == "true":
            what = f"TiDB {instance} continues without binlogs after one that no pump took, and those are in no pump"
            yield warning(
                what, setting="binlog.ignore-error (TiDB)", hint="set it to false, or watch binlog_status: what is skipped is lost"
            )
        if name == "binlog.enable" and value.lower() != "true":
            what = f"TiDB {instance} writes no binlogs"
            yield failed(what, setting="binlog.enable (TiDB)", hint="set it to true and restart that server")
    if not settings:
        what = "SHOW CONFIG returns nothing about binlogs to this account"
        yield warning(what, setting="GRANT CONFIG", hint="check that TiDB's binlog.ignore-error is false, or grant it")
    if not silent:
        yield ok("every TiDB server that is up writes binlogs")


def kept(config: Config, nodes: Sequence[Node], last: LogEnd | None) -> Checking[None]:
    """Whether the pumps still have what the log lacks."""
    from_ts = CommitTs(min(last.positions.values(), default=1) - 1 if last is not None else config.binlog.initial_commit_ts)
    if not from_ts:
        yield ok("the log is new, and begins now")
        return
    metrics = metrics_of(config.binlog.tls)
    for pump in nodes:
        if pump.state == ONLINE:
            check_kept(metrics, pump, from_ts)
    yield ok(f"pumps have what was committed since {utc(from_ts)}")


def infos(config: Config, changefeed: Changefeed) -> Checking[None]:
    """What a new log would begin with, and whether the filter can be followed on those tables."""
    snapshot = beginning(TidbInfos(config.source).snapshot(), JobMetas(config.source).history, config.binlog.initial_commit_ts)
    count = tables_of(changefeed, snapshot)
    yield ok(f"a new log begins at {snapshot.ts} ({utc(snapshot.ts)}) with {count} tables")


def faults() -> Checking[None]:
    """Nothing shows whether a program does it."""
    yield warning(
        "UPDATE IGNORE that moves a clustered key onto a taken one deletes the row in the binlog and not in TiDB: no reader can tell",
        setting="SQL of your programs",
        hint="leave IGNORE out of updates of clustered keys; a dump of the table brings such rows back",
    )


def _settings(section: SourceSection) -> list[tuple[str, str, str]]:
    """Of each TiDB server, what it was started with, as far as the account may see: without CONFIG, nothing. Raises SourceError."""
    with closing(MysqlSession(Account.of(section), Role.READ_SOURCE)) as session:
        if session.flavour is not Flavour.TIDB:
            return []
        statement = "SHOW CONFIG WHERE type = 'tidb' AND name IN ('binlog.enable', 'binlog.ignore-error')"
        try:
            rows = carried_out(session, lambda: session.rows(statement), doing="reading TiDB's settings")
        except SourceError as error:
            if isinstance(error.__cause__, Exception) and code_of(error.__cause__) in NO_RIGHT:
                return []
            raise
        return [(str(instance), str(name), str(value)) for _, instance, name, value in rows]
