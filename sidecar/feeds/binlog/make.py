"""`feed = "binlog"`: what pumps stream, the tables by TiDB's DDL jobs, and which pump holds the stream."""

from __future__ import annotations

from msgspec.structs import replace

from sidecar.adapters.etcd.binlog import EtcdNodes
from sidecar.adapters.tidb.infos import TidbInfos
from sidecar.adapters.tidb.job_metas import JobMetas
from sidecar.binlog.nodes import DRAINERS
from sidecar.feeds.binlog.feed import BinlogFeed
from sidecar.feeds.binlog.jobs import BinlogJobs
from sidecar.feeds.binlog.rows import BinlogRows
from sidecar.feeds.binlog.start import beginning
from sidecar.feeds.binlog.streams import PullSettings, PumpStreams
from sidecar.feeds.contract import Brought, Note
from sidecar.feeds.kv.make import ScopedSchemas
from sidecar.feeds.kv.row_filter import RowFilter
from sidecar.feeds.kv.schemas import KvSchemas
from sidecar.feeds.kv.suitability import refuse_filter
from sidecar.shared.codecs.binlog import BinlogCodec
from sidecar.shared.config import BinlogSection, Config, EtcdSection, TikvSection
from sidecar.shared.model.nouns import CommitTs
from sidecar.shared.ticdc.changefeed import Changefeed
from sidecar.shared.ticdc.ddl_rules import DdlRules
from sidecar.shared.ticdc.event_filter import FilterRules
from sidecar.shared.ticdc.scope import LiveScope
from sidecar.shared.ticdc.suitability import check_suitable
from sidecar.shared.tikv.pd import PdClient


def make(config: Config, changefeed: Changefeed, scope: LiveScope, _: Note) -> Brought:
    check_suitable(changefeed, None)
    refuse_filter(changefeed)
    rules, rows, metas = DdlRules.of(changefeed.filter, new_architecture=False), BinlogRows(), JobMetas(config.source)
    infos = TidbInfos(config.source)
    schemas = KvSchemas(
        lambda: beginning(infos.snapshot(), metas.history, config.binlog.initial_commit_ts),
        rules,
        RowFilter(FilterRules.of(changefeed), rows),
        rows=rows,
    )
    made: list[PumpStreams] = []

    def feed() -> BinlogFeed:
        pd, nodes = pd_of(config.binlog), nodes_of(config)
        made.append(PumpStreams(_settings(config.binlog), nodes, pd))
        return BinlogFeed(made[-1], schemas, BinlogJobs(metas.of), closers=(nodes.close, pd.close))

    return Brought(
        codec=BinlogCodec(schemas.mark_table),
        schemas=ScopedSchemas(schemas, lambda value: scope.follow(changefeed, {name: table for name, table in value.items() if table.key})),
        feed=feed,
        still_because=lambda: made[-1].view().held_by() if made else "",
        place=lambda: {"pd": ", ".join(config.binlog.pd)},
    )


def node_id(name: str) -> str:
    """Our name among the drainers."""
    return f"ticdc-dump-{name}"


def pd_of(section: BinlogSection) -> PdClient:
    return PdClient(TikvSection(pd=section.pd, tls=section.tls), named="binlog")


def nodes_of(config: Config) -> EtcdNodes:
    """Pumps and drainers are in PD's etcd, whatever etcd our own keys are in; where it is one etcd, it knows one user of ours."""
    ours, binlog = config.etcd, config.binlog
    section = EtcdSection(endpoints=binlog.pd, tls=binlog.tls, timeout_s=ours.timeout_s)
    if set(ours.endpoints) == set(binlog.pd):
        section = replace(section, user=ours.user, password_file=ours.password_file)
    return EtcdNodes(section, own=DRAINERS + node_id(config.binlog.name))


def _settings(section: BinlogSection) -> PullSettings:
    return PullSettings(
        node_id=node_id(section.name),
        listen=section.listen,
        advertise=section.advertise,
        from_ts=CommitTs(0),  # `seek` says it
        tls=section.tls,
        gzip=section.gzip,
        queue_bytes_max=section.queue_bytes_max,
        ahead_bytes_max=section.ahead_bytes_max,
        outage_max_s=section.outage_max_s,
    )
