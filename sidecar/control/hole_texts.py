"""What is said of holes that are open in sinks (sidecar/shared/model/hole.py), for people: the oldest first.

A line is of one cause, with all tables that it left a hole in, in the same sinks. Of many, the first are named, and the rest is counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sidecar.shared.model.nouns import CommitTs, Seq, TableName, utc
from sidecar.shared.model.sink_delivery import SinkTables
from ticdc_dump.v1 import control_pb2 as pb

TABLES_NAMED, LINES_SHOWN = 3, 5
FILLS = "dumpstart --holes fills it"
FILLS_VANISHED = "rows may be gone in TiDB: dumpstart --holes removes them too, where the sink can be read back"


class SinkHole(NamedTuple):
    """Of one table in the sink of this name, as of OpenHole. `seq` None: the service does not report it."""

    sink: str
    table: str
    since_ts: CommitTs
    cause: str
    text: str
    vanished: bool
    seq: Seq | None = None


def holes_reported(sinks: Iterable[pb.SinkStatus]) -> list[SinkHole]:
    """As the service reports them."""
    return [
        SinkHole(sink.sink, str(TableName(one.schema, one.table)), CommitTs(one.incomplete_since_tso), one.cause, one.text, one.vanished)
        for sink in sinks
        for one in sink.tables
        if one.incomplete_since_tso
    ]


def holes_of(sinks: Iterable[SinkTables]) -> list[SinkHole]:
    """As the log's files have them."""
    return [
        SinkHole(tables.sink, str(name), hole.since_ts, hole.cause.value, hole.text, hole.vanished, hole.seq)
        for tables in sinks
        for name, hole in sorted(tables.holes.items())
    ]


def hole_lines(holes: Sequence[SinkHole], *, shown: int | None = LINES_SHOWN) -> list[str]:
    """`shown`: of so many lines; None: of all."""
    sinks_of: dict[SinkHole, list[str]] = {}
    for one in holes:
        sinks_of.setdefault(one._replace(sink=""), []).append(one.sink)
    alike: dict[tuple[SinkHole, tuple[str, ...]], list[str]] = {}
    for one, sinks in sorted(sinks_of.items(), key=lambda item: (item[0].since_ts, item[0])):
        alike.setdefault((one._replace(table=""), tuple(sinks)), []).append(one.table)
    lines = [_line(hole, sinks, tables) for (hole, sinks), tables in alike.items()]
    rest = len(lines) - len(lines[:shown])
    return [*lines[:shown], *([f"… {rest:,} more; --json shows all"] if rest else [])]


def _line(hole: SinkHole, sinks: Sequence[str], tables: Sequence[str]) -> str:
    named = ", ".join(tables[:TABLES_NAMED])
    more = f" and {len(tables) - TABLES_NAMED:,} more tables" if len(tables) > TABLES_NAMED else ""
    where = f"in sink{'s' if len(sinks) > 1 else ''} {', '.join(sinks)}"
    since = f"since {utc(hole.since_ts)} (TSO {hole.since_ts})"
    seq = "" if hole.seq is None else f", noticed in segment {hole.seq}"
    return f"{named}{more} {where} {since}{seq}: {hole.cause}: {hole.text}; {FILLS_VANISHED if hole.vanished else FILLS}"
