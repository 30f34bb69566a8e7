"""Holes: rows that came, changed or vanished in TiDB without a change in the feed.

    a watcher sees a cause ─► Sighting ─► WaitingHole in a manifest, until the log is there ─► Hole in a manifest ─► OpenHole of each sink
      ─► filled

- A hole is of whole tables, from `since_ts` on. It is durable with the manifest of the segment in which it was noticed, so it was caused
  before the next segment begins. What a dump reads whose pass begins in a later segment has its rows.
- A sink that receives that segment has the table incomplete until the hole is filled there: by a whole dump whose pass began in a later
  segment, or by somebody's word (log/filled.py), an operator's or that of a verification that ended without a difference.
- Where rows vanished, no dump fills it: it brings rows and removes none. The verification with repair that follows an exact dump does.
- Tables go by their ids where the source has some: a name can be another table's by the time that somebody looks.
- A watcher says how far it has looked. The manifest keeps that with what it saw, so after a crash it is there or is seen again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from sidecar.shared.model.nouns import CommitTs, Seq, TableName, TableSchema

TEXT_MAX = 300
"""Characters of a hole's text: it is in a manifest, and in each sink's file for each table."""


def in_short(text: str) -> str:
    """As a hole's text: one line, bounded, and nothing in it that a terminal carries out, for who may run a DDL writes it. It never has
    values of rows: it is in certificates, which are for others."""
    return "".join(char if char.isprintable() else "?" for char in " ".join(text.split()))[:TEXT_MAX]


class HoleCause(StrEnum):
    """DDL: one that brings or takes rows (EXCHANGE PARTITION, RECOVER, a rename from outside). IMPORT: IMPORT INTO, Lightning. RESTORE: BR,
    PITR. FLASHBACK: of a cluster or a database. GAP: the changefeed left changes out. PARKED: a message that an operator parked. SKIPPED: a
    row of the log that an operator skipped."""

    DDL = "ddl"
    IMPORT = "import"
    RESTORE = "restore"
    FLASHBACK = "flashback"
    GAP = "gap"
    PARKED = "parked"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Hole:
    """`tables`: by their names after the segment that has it; None: each that is there. `vanished`: rows that a sink has may be gone in
    TiDB. `text`: for people."""

    cause: HoleCause
    since_ts: CommitTs
    tables: tuple[TableName, ...] | None
    vanished: bool
    text: str


@dataclass(frozen=True, slots=True)
class Sighting:
    """What `watcher` saw, or only how far it has looked: `seen`, of its own form; empty: what comes with it says that. `table_ids`: ids of
    tables or partitions, whatever their names are by then; where there are none, `hole.tables` says it."""

    watcher: str
    seen: str
    hole: Hole | None = None
    table_ids: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class WaitingHole:
    """A hole that the log has not come to, or whose `table_ids` no table of it has yet."""

    hole: Hole
    table_ids: frozenset[int] = frozenset()


class TablesById:
    """Of a log's tables."""

    def __init__(self, tables: Mapping[TableName, TableSchema]) -> None:
        self._names = {name.folded(): name for name in tables}
        self._of_id = {id_: name for name, table in tables.items() for id_ in (table.table_id, *table.physical_ids) if id_}

    def hole(self, waiting: WaitingHole) -> Hole | None:
        """Of those of its tables that are there; None where none is."""
        hole = waiting.hole
        if waiting.table_ids:
            names = {name for id_ in waiting.table_ids if (name := self._of_id.get(id_)) is not None}
        elif hole.tables is None:
            return hole
        else:
            names = {name for table in hole.tables if (name := self._names.get(table.folded())) is not None}
        return replace(hole, tables=tuple(sorted(names))) if names else None


@dataclass(frozen=True, slots=True)
class OpenHole:
    """Of one table in one sink. Of several: `since_ts` is the least one; `cause` and `text` are those of the one that was noticed first;
    `seq` is the last segment in which one was noticed. `complete`: from where on the sink had all rows before it; None: it had not.
    `table_id`: of the table; 0: the source has none."""

    cause: HoleCause
    since_ts: CommitTs
    seq: Seq
    vanished: bool
    text: str
    complete: CommitTs | None = None
    table_id: int = 0


def opened(
    holes: Iterable[Hole], there: Mapping[TableName, OpenHole], tables: Mapping[TableName, int], seq: Seq
) -> dict[TableName, OpenHole]:
    """`there` with the holes of segment `seq`. `tables`: the log's, with their ids."""
    then = dict(there)
    for hole in holes:
        for table in tables if hole.tables is None else hole.tables:
            first = then.get(table)
            new = OpenHole(hole.cause, hole.since_ts, seq, hole.vanished, in_short(hole.text), table_id=tables.get(table, 0))
            since_ts = hole.since_ts if first is None else min(first.since_ts, hole.since_ts)
            then[table] = new if first is None else replace(first, since_ts=since_ts, seq=seq, vanished=first.vanished or hole.vanished)
    return then
