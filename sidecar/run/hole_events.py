"""What the log reports of holes in the sinks' tables (sidecar/shared/model/hole.py): that one was noticed, and what has filled it.

- A hole is noticed when the first sink has it: one line with all of its tables, and none of the other sinks. After a start each that is
  open is reported once.
- It is filled in each sink alone: by a dump, by somebody's word, or by a DDL after which the table has no rows.
- A table that a DDL has dropped or renamed has nothing filled: under its next name the hole is noticed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from sidecar.control.hole_texts import FILLS, FILLS_VANISHED
from sidecar.control.status import SidecarStatus
from sidecar.run.completing import named
from sidecar.run.log_event import LogEvent, given
from sidecar.shared.model.hole import OpenHole
from sidecar.shared.model.nouns import CommitTs, Seq, TableName, utc
from sidecar.shared.model.sink_delivery import SinkTables


class _Noticed(NamedTuple):
    """What the tables of one line have in common."""

    since_ts: CommitTs
    seq: Seq
    cause: str
    text: str
    vanished: bool


class HoleEvents:
    """Of one term."""

    def __init__(self) -> None:
        self._known: dict[str, SinkTables] = {}
        self._noticed: set[tuple[TableName, Seq]] = set()

    def lines(self, now: SidecarStatus) -> Iterator[LogEvent]:
        """What a status says of holes that the one before it did not."""
        changed = [tables for tables in now.sink_tables.values() if self._known.get(tables.sink) is not tables]
        yield from self._new(changed)
        for tables in changed:
            yield from _filled(self._known.get(tables.sink), tables, now)
        if changed:
            self._known = dict(now.sink_tables)
            self._noticed &= {(table, hole.seq) for tables in self._known.values() for table, hole in tables.holes.items()}

    def _new(self, changed: list[SinkTables]) -> Iterator[LogEvent]:
        alike: dict[_Noticed, list[TableName]] = {}
        for tables in changed:
            for table, hole in tables.holes.items():
                if (table, hole.seq) not in self._noticed:
                    self._noticed.add((table, hole.seq))
                    alike.setdefault(_Noticed(hole.since_ts, hole.seq, hole.cause, hole.text, hole.vanished), []).append(table)
        for one, names in sorted(alike.items()):
            values = {"tables": named(sorted(names)), "since": utc(one.since_ts), "cause": one.cause, "text": one.text, "segment": one.seq}
            yield LogEvent("hole noticed", values | {"hint": FILLS_VANISHED if one.vanished else FILLS}, "warning")


def _filled(before: SinkTables | None, now: SinkTables, status: SidecarStatus) -> Iterator[LogEvent]:
    for table, hole in before.holes.items() if before is not None else ():
        if table not in now.holes and (by := _by(table, hole, now, status)):
            yield LogEvent("hole filled", {"sink": now.sink, "table": str(table), "since": utc(hole.since_ts)} | by)


def _by(table: TableName, hole: OpenHole, now: SinkTables, status: SidecarStatus) -> dict[str, object]:
    """Empty: by nothing, for the table is not there any more."""
    said = [one for one in status.filled_words if one.is_of(now) and one.ends(table, hole)]
    at = now.complete.get(table)
    if said and at == hole.complete:
        return {"by": said[-1].by} | given(reason=said[-1].reason)
    if at is None:
        return {}
    dumps = [dump.dump_id for dump in status.dumps for one in dump.tables if (one.table, one.complete_at) == (table, at)]
    return {"by": f"dump {dumps[0]}" if dumps else "a dump, or a DDL that emptied the table"}
