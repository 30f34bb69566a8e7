"""What any feed of raw key-values needs, in place of Kafka: a filter that can be followed on them, and the tables' infos.

That marks come back by the feed cannot be probed here: senders speak with the owner alone, and TiKV's feed begins where its log ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

from sidecar.adapters.tidb.infos import TidbInfos
from sidecar.feeds.checks import CHANGEFEED, TIDB, of_problem
from sidecar.feeds.kv.row_filter import RowFilter
from sidecar.feeds.kv.schemas import KvSchemas
from sidecar.feeds.kv.suitability import refuse_filter
from sidecar.shared.config import Config, SourceSection
from sidecar.shared.model.messages import ReadWith
from sidecar.shared.process.checks import Check, Checking, CheckResult, Key, ok
from sidecar.shared.rowcodec.key_values import DDL_JOB_TABLE_ID, rows_of
from sidecar.shared.rowcodec.kv_layout import KvSnapshot
from sidecar.shared.ticdc.changefeed import Changefeed
from sidecar.shared.ticdc.ddl_rules import DdlRules
from sidecar.shared.ticdc.event_filter import FilterRules
from sidecar.shared.ticdc.suitability import problems_of_key_values
from sidecar.shared.tikv.scan import SnapshotScan

INFOS_S = 60.0

SETTINGS: Key[None] = Key("changefeed settings")
INFOS: Key[None] = Key("table infos")
BROUGHT: Key[None] = Key("key-values")
READS: Key[None] = Key("dump reads")


def checks(brought: Callable[[CheckResult], Checking[None]]) -> Sequence[Check[Any]]:
    """`brought`: whether the source of the key-values can bring them."""
    return (
        Check(SETTINGS, lambda it: settings(it[CHANGEFEED]), "filter (changefeed)", (CHANGEFEED,)),
        Check(
            INFOS,
            lambda it: infos(it.config.source, it[CHANGEFEED]),
            "source.status_port, filter (changefeed)",
            (TIDB, CHANGEFEED),
            INFOS_S,
        ),
        Check(BROUGHT, brought, "tikv.pd, push.listen"),
        Check(READS, lambda it: reads(it.config, it[CHANGEFEED], it.opened), "tikv.pd, tikv.tls", (CHANGEFEED,), standby=True),
    )


def settings(changefeed: Changefeed) -> Checking[None]:
    refuse_filter(changefeed)
    against = [problem for problem in problems_of_key_values(changefeed) if problem.setting != "state"]
    yield from map(of_problem, against)
    if not against:
        yield ok("its filter can be followed on raw key-values")


def reads(config: Config, changefeed: Changefeed, opened: ExitStack) -> Checking[None]:
    """Whether TiKV serves what a dump would read there: tried with the table of the DDL jobs, which each cluster has."""
    if config.dump.read_with is not ReadWith.TIKV:
        yield ok('dumps are read by SELECTs: dump.read_with is "sql"')
        return
    scan = SnapshotScan(config.tikv, cluster_id=changefeed.upstream_id)
    opened.callback(scan.close)
    read_ts = scan.now_ts()
    scan.rows([rows_of(DDL_JOB_TABLE_ID)], read_ts, rows_max=1, bytes_max=1)
    yield ok(f"TiKV serves a dump's reads: tried at TSO {read_ts}")


def infos(source: SourceSection, changefeed: Changefeed) -> Checking[None]:
    """What a new log would begin with, and whether the filter can be followed on those tables."""
    snapshot = TidbInfos(source).snapshot()
    yield ok(f"TiDB's status port returns the tables' infos at {snapshot.ts}; {tables_of(changefeed, snapshot)} of them are replicated")


def tables_of(changefeed: Changefeed, snapshot: KvSnapshot) -> int:
    """How many are replicated. Raises FeedUnsuitable for a filter that cannot be followed on them."""
    rules = DdlRules.of(changefeed.filter, new_architecture=changefeed.new_architecture)
    tables = KvSchemas(lambda: snapshot, rules, RowFilter(FilterRules.of(changefeed))).begin()
    return sum(1 for table in tables.values() if table.key)
