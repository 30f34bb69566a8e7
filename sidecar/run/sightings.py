"""What watchers of causes saw, until a manifest has it as a hole (shared/model/hole.py).

- What a watcher saw in one look is put at once, with how far it has looked. The next segment's manifest has it, as waiting or as a hole; a
  segment is written for that alone.
- A hole waits until the log has come to its `since_ts`: then the tables are those of its moment, by their ids. A hole whose ids no table
  of the log has waits for one: the DDL that brings it may be on its way, or come by no feed.
- Clocks differ: none begins after the moment at which it is put.
- Of more than WAITING_MAX, one is left, of each table: a manifest has all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from threading import Lock

from sidecar.adapters.clock import wall_ms
from sidecar.pipeline import Pipeline
from sidecar.ports import SeenUpTo
from sidecar.run.logs import note
from sidecar.shared.log.parked import Parked
from sidecar.shared.model.hole import TEXT_MAX, Hole, HoleCause, Sighting, TablesById, WaitingHole, in_short
from sidecar.shared.model.nouns import CommitTs, TableName, TableSchema, ts_at, utc
from sidecar.shared.process.checks import listed

PARKED = "parked"
WAITING_MAX = 1_000
LINES_MAX = 10
"""Of one look, in the log."""


class SeenHoles:
    """As Sightings, of one term. Watchers put in any thread, the pipeline does the rest in its own."""

    def __init__(self, now_ts: Callable[[], CommitTs] = lambda: ts_at(wall_ms()), log_line: Callable[[str], object] = note) -> None:
        self._now_ts, self._log_line = now_ts, log_line
        self._lock = Lock()
        self._waiting: list[WaitingHole] = []
        self._are_new = False
        """Whether one of them is in no manifest."""
        self._by_id: tuple[Mapping[TableName, TableSchema], TablesById] | None = None
        self._seen: dict[str, str] = {}

    def resume(self, seen: Mapping[str, str], waiting: Sequence[WaitingHole]) -> None:
        self._seen, self._waiting = dict(seen), list(waiting)

    @property
    def seen(self) -> Mapping[str, str]:
        """How far each watcher has looked, by its name."""
        return self._seen

    def put(self, *sightings: Sighting) -> None:
        """Of one look, in their order."""
        now_ts = self._now_ts()
        holes = [
            WaitingHole(replace(one.hole, since_ts=min(one.hole.since_ts, now_ts), text=in_short(one.hole.text)), one.table_ids)
            for one in sightings
            if one.hole is not None
        ]
        with self._lock:
            self._waiting += holes
            self._are_new |= bool(holes)
            self._seen = self._seen | {one.watcher: one.seen for one in sightings if one.seen}
            if len(self._waiting) > WAITING_MAX:
                self._waiting = [_of_each(self._waiting)]
        for one in holes[:LINES_MAX]:
            self._log_line(f"a hole was seen: {one.hole.text}, since {utc(one.hole.since_ts)}; tables have it once the log is there")

    def due(self, upto_ts: CommitTs) -> bool:
        with self._lock:
            return self._are_new or any(_is_there(one, upto_ts) and not one.table_ids for one in self._waiting)

    def take(self, upto_ts: CommitTs, tables: Mapping[TableName, TableSchema]) -> SeenUpTo:
        with self._lock:
            waiting, seen, self._are_new = self._waiting, self._seen, False
            if not any(_is_there(one, upto_ts) for one in waiting):
                return SeenUpTo((), tuple(waiting), seen)
            if self._by_id is None or self._by_id[0] is not tables:
                self._by_id = tables, TablesById(tables)
            by_id = self._by_id[1]
            resolved = [(one, by_id.hole(one) if _is_there(one, upto_ts) else None) for one in waiting]
            self._waiting = [one for one, hole in resolved if hole is None and (one.table_ids or not _is_there(one, upto_ts))]
            return SeenUpTo(tuple(hole for _, hole in resolved if hole is not None), tuple(self._waiting), seen)


def _is_there(one: WaitingHole, upto_ts: CommitTs) -> bool:
    return one.hole.since_ts <= upto_ts


def _of_each(waiting: Sequence[WaitingHole]) -> WaitingHole:
    holes = [one.hole for one in waiting]
    first = min(holes, key=lambda one: one.since_ts)
    text = f"{first.text[: TEXT_MAX // 2]}, and {len(holes) - 1:,} causes more: too many to follow each"
    return WaitingHole(Hole(first.cause, first.since_ts, None, any(one.vanished for one in holes), text))


def note_passed(pipeline: Pipeline, holes: SeenHoles, parked: Parked) -> None:
    """A parked message is passed: its rows are behind what is released. Nobody knows whether there were rows, nor which have gone."""
    since_ts, where = pipeline.sequence.after_ts, parked.stopped.message.at()
    known = [pipeline.tables.get(name) for name in parked.tables or ()]
    ids = frozenset(table.table_id for table in known if table is not None and table.table_id)
    hole = Hole(HoleCause.PARKED, since_ts, parked.tables, vanished=True, text=f"{where}, parked by {parked.by}")
    holes.put(Sighting(PARKED, "", hole, ids if len(ids) == len(known) else frozenset()))
    note(f"{where} is passed, as {parked.by} has decided: {listed(parked.tables) if parked.tables else 'every table'} may lack its rows")
