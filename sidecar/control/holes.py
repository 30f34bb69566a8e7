"""Dumps that fill holes (shared/model/hole.py): of the tables that have one, or those of them that the request's rules choose, and for the
sinks that have one.

- Several sinks with holes in different tables receive all of these tables: a row that a sink has already is dropped or repeated there (P2).
- A table that the changefeed does not carry any more is omitted: nobody can dump it.
- Where rows vanished in a sink that can be read back, the dump is exact. Of another sink nobody can remove them: its hole stays open until
  an operator's word.
"""

from __future__ import annotations

from collections.abc import Mapping

from sidecar.control.status import SidecarStatus
from sidecar.shared.errors import RefusedRequest
from sidecar.shared.ticdc.table_rules import RULES_MAX, TableRules, exact_rule
from ticdc_dump.v1 import control_pb2 as pb


def narrow_to_holes(request: pb.StartRequest, status: SidecarStatus, sinks: Mapping[str, str]) -> None:
    """Give a request for holes its tables, its sinks, and whether it is exact. `sinks`: of each that is configured, why its rows cannot be
    read back; empty where they can. Raises RefusedRequest where there is no hole, or where the request says more."""
    if request.keys or request.where or request.for_ddl:
        raise RefusedRequest("a dump of holes is of whole tables", hint="omit --keys, --where and --for-ddl, or --holes")
    rules = TableRules.of(request.table_rules) if request.table_rules else None
    wanted, carried = set(request.sinks) or set(sinks), {table for table in status.carried if rules is None or rules.matches(table)}
    holes = {
        name: there
        for name, tables in status.sink_tables.items()
        if name in wanted and (there := {table: hole for table, hole in tables.holes.items() if table in carried})
    }
    if not holes:
        among = "of these " if request.sinks or rules is not None else ""
        raise RefusedRequest(f"no table {among}has a hole that is known", hint="nothing: dumpverify compares the sinks with TiDB")
    chosen = sorted({table for each in holes.values() for table in each})
    if len(chosen) > RULES_MAX:
        raise RefusedRequest(f"{len(chosen):,} tables have a hole, more than {RULES_MAX:,}", hint="dump them in parts: give --tables, too")
    del request.table_rules[:], request.sinks[:]
    request.table_rules.extend(map(exact_rule, chosen))
    if holes.keys() != set(sinks):
        request.sinks.extend(sorted(holes))
    request.exact |= any(hole.vanished for name, each in holes.items() if not sinks.get(name) for hole in each.values())
