"""Dumps that fill holes (shared/model/hole.py): of the tables that have one, for the sinks that have it, and of nothing else.

- Several sinks with holes in different tables receive all of these tables: a row that a sink has already is dropped or repeated there (P2).
- Where rows vanished in a sink that can be read back, the dump is exact. Of another sink nobody can remove them: its hole stays open until
  an operator's word.
"""

from __future__ import annotations

from collections.abc import Mapping

from sidecar.shared.errors import RefusedRequest
from sidecar.shared.model.sink_delivery import SinkTables
from sidecar.shared.ticdc.table_rules import exact_rule
from ticdc_dump.v1 import control_pb2 as pb


def narrow_to_holes(request: pb.StartRequest, tables: Mapping[str, SinkTables], sinks: Mapping[str, str]) -> None:
    """Give a request for holes its tables, its sinks, and whether it is exact. `tables`: of each sink, by name. `sinks`: of each, why its
    rows cannot be read back; empty where they can. Raises RefusedRequest where there is no hole, or where the request says more."""
    if request.table_rules or request.keys or request.where or request.for_ddl:
        raise RefusedRequest(
            "a dump of holes is of the tables that have one, whole", hint="omit --tables, --keys, --where and --for-ddl, or --holes"
        )
    wanted = set(request.sinks) or set(sinks)
    holes = {name: one.holes for name, one in tables.items() if name in wanted and one.holes}
    if not holes:
        among = f"of {', '.join(sorted(request.sinks))} " if request.sinks else ""
        raise RefusedRequest(f"no table {among}has a hole that is known", hint="nothing: dumpverify compares the sinks with TiDB")
    request.table_rules.extend(map(exact_rule, sorted({table for each in holes.values() for table in each})))
    del request.sinks[:]
    if holes.keys() != set(sinks):
        request.sinks.extend(sorted(holes))
    request.exact |= any(hole.vanished for name, each in holes.items() if not sinks.get(name) for hole in each.values())
