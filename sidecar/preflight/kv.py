"""What a feed of raw key-values needs, in place of Kafka: the tables' infos, and whoever brings the key-values.

That marks come back by the feed cannot be probed here: senders speak with the owner alone, and TiKV's feed begins where its log ends.
"""

from __future__ import annotations

from collections.abc import Iterator

from sidecar.adapters.tidb_infos import TidbInfos
from sidecar.core.suitability import problems_of_key_values
from sidecar.feeds.kv_suitability import refuse_filter, refuse_old_tidb
from sidecar.feeds.tikv_pd import PdClient
from sidecar.listening import check_listening, read_token
from sidecar.preflight.check import Finding, Known, failed, ok, warning
from sidecar.preflight.feed import of_problem
from sidecar.preflight.here import port_problem


def settings(known: Known) -> Iterator[Finding]:
    changefeed = known.definition.changefeed
    refuse_filter(changefeed.filter)
    against = [problem for problem in problems_of_key_values(changefeed) if problem.setting != "state"]
    yield from map(of_problem, against)
    if not against:
        yield ok("its filter can be followed on raw key-values")


def infos(known: Known) -> Iterator[Finding]:
    """What a new log would begin with."""
    found = TidbInfos(known.config.source).snapshot()
    refuse_old_tidb(found.version, fast_create_table=found.fast_create_table)
    tables = sum(len(list(schema.tables)) for schema in found.schemas)
    yield ok(f"TiDB's status port tells {tables} tables' infos at {found.ts}")


def who_brings_them(known: Known) -> Iterator[Finding]:
    if known.config.feed == "tikv":
        client = PdClient(known.config.tikv)
        known.closers.append(client.close)
        yield ok(f"PD of cluster {client.cluster_id()} answers: TSO {client.tso()}")
        return
    section = known.config.push
    check_listening("push", section.listen, section.tls, has_token=bool(read_token("push", section)))
    problem = port_problem(section.listen)
    if problem is None:
        yield ok(f"{section.listen} can be listened on")
    elif section.tls.cert_file or section.token_file:
        hint = "if no sidecar of this changefeed owns it here now, give another port"
        yield warning(f"{section.listen}: {problem}", setting="push.listen", hint=hint)
    else:
        yield failed(
            f"{section.listen}: {problem}", setting="push.listen", hint="give a port that is free, and one of this machine's addresses"
        )
