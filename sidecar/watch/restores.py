"""Restores by BR, by TiDB's registry of them; and to a point in time, by the map of ids that these leave.

- A task in the registry is a hole of the tables that its filters have when it comes, and again when it has gone: BR removes it at its end,
  and only pauses one that fails. The names are those that there are at each look, so what the restore makes meanwhile has the second hole.
- A restore to a point in time leaves a map of ids for good. Where no task that was seen has the same target, the map alone shows it, and
  not which tables: a hole of each. So it is while TiDB has no registry, when such a restore is of a whole cluster, or when a restore began
  and ended while nobody looked. A map that is written again is another restore. The end of one that no task shows is its lease's
  (leases.py).
- Clocks are the servers': a look goes back LATE_S from the one before.
- What is read can fail, so all of it is read before anything counts as seen.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, NamedTuple

from sidecar.adapters.tidb.imports import PITR_ID_MAP, RESTORE_REGISTRY, NotReadable, PitrMap, RestoreTask
from sidecar.shared.errors import RefusedRequest
from sidecar.shared.model.hole import Hole, HoleCause, Sighting
from sidecar.shared.model.nouns import TableName, physical_ms, ts_at
from sidecar.shared.schema.job_holes import Inside
from sidecar.shared.ticdc.table_rules import matching
from sidecar.watch.contract import RESTORES, Looked, seen_fields, seen_text
from sidecar.watch.imports import LATE_S, unread_text

FILTERS_MAX = 2_000
"""Characters of a task's filters that `seen` keeps for its end; of longer ones the end is a hole of each table."""
COMMAND_MAX = 40


class RestorePlaces(NamedTuple):
    """As of adapters/tidb/imports.py. `names`: the tables that there are."""

    tasks: Callable[[], list[RestoreTask] | NotReadable]
    maps: Callable[[float], list[PitrMap] | NotReadable]
    names: Callable[[], tuple[TableName, ...]]


class RestoreWatch:
    """`now_s`: Unix seconds."""

    name = RESTORES

    def __init__(self, places: RestorePlaces, inside: Inside, now_s: Callable[[], float], looked: Looked) -> None:
        fields = seen_fields(looked.seen, "from_s")
        self._begin_s = float(fields.get("begin_s", physical_ms(looked.begin_ts) / 1000))
        self._from_s = float(fields.get("from_s", self._begin_s))
        self._tasks: dict[str, dict[str, Any]] = dict(fields.get("tasks", {}))
        self._maps: dict[str, float] = dict(fields.get("maps", {}))
        self._places, self._inside, self._now_s = places, inside, now_s
        self._unread: dict[str, str] = {}

    @property
    def unwatched(self) -> str:
        return "; ".join(self._unread.values())

    def look(self) -> list[Sighting]:
        now_s = self._now_s()
        tasks = self._readable(RESTORE_REGISTRY, self._places.tasks)
        maps = self._readable(PITR_ID_MAP, lambda: self._places.maps(self._from_s))
        if tasks is None and maps is None:
            return []
        there = {str(task.number): task for task in tasks or ()}
        come = [task for number, task in there.items() if number not in self._tasks]
        gone = self._tasks.keys() - there.keys() if tasks is not None else set[str]()
        names = self._places.names() if come or gone else ()
        explained = {task["target"] for task in self._tasks.values()}
        return [*self._of_tasks(come, gone, names, now_s), *self._of_maps(maps or (), explained), self._ended(now_s)]

    def _of_tasks(self, come: Collection[RestoreTask], gone: Collection[str], names: Collection[TableName], now_s: float) -> list[Sighting]:
        sightings: list[Sighting] = []
        for task in come:
            filters, command, target = "\n".join(task.filters), task.command[:COMMAND_MAX], _target(task.restored_ts, task.cluster_id)
            self._tasks[str(task.number)] = {"filters": filters[:FILTERS_MAX], "command": command, "target": target}
            self._tasks[str(task.number)] |= {"filters": ""} if len(filters) > FILTERS_MAX else {}
            self._maps[target] = max(task.began_s, self._maps.get(target, 0.0))
            sightings += self._of_hole(self._hole(f"{command} began (restore {task.number})", task.began_s, filters, names))
        for number in sorted(gone):
            ended = self._tasks.pop(number)
            self._maps[ended["target"]] = now_s
            text = f"{ended['command']} ended (restore {number})"
            sightings += self._of_hole(self._hole(text, now_s, ended["filters"], names))
        return sightings

    def _of_maps(self, maps: Collection[PitrMap], explained: Collection[str]) -> list[Sighting]:
        """`explained`: targets of tasks that were there until now. What is written later than is known is another restore's."""
        sightings: list[Sighting] = []
        running = {task["target"] for task in self._tasks.values()}.union(explained)
        for one in sorted(maps, key=lambda one: one.written_s):
            target = _target(one.restored_ts, one.cluster_id)
            is_seen = target in running or one.written_s <= self._maps.get(target, 0.0)
            self._maps[target] = max(one.written_s, self._maps.get(target, 0.0))
            if not is_seen:
                text = f"a restore of cluster {one.cluster_id} to TSO {one.restored_ts}; nothing says of which tables"
                hole = Hole(HoleCause.RESTORE, ts_at(int(one.written_s * 1000)), None, vanished=False, text=text)
                sightings += self._of_hole(hole)
        return sightings

    def _ended(self, now_s: float) -> Sighting:
        """The look's: from then on a map of before LATE_S is not read again."""
        self._from_s = max(self._begin_s, now_s - LATE_S)
        self._maps = {target: written_s for target, written_s in self._maps.items() if written_s >= self._from_s}
        return Sighting(self.name, seen_text(begin_s=self._begin_s, from_s=self._from_s, tasks=self._tasks, maps=self._maps))

    def _hole(self, text: str, since_s: float, filters: str, names: Collection[TableName]) -> Hole:
        """Of each table where the filters cannot be read: rather too many than one that nobody names."""
        tables: tuple[TableName, ...] | None = None
        try:
            if filters:
                tables = tuple(name for name in matching(filters.split("\n"), names) if self._inside(name))
        except RefusedRequest as error:
            text = f"{text}; its filters cannot be read: {error.message}"
        return Hole(HoleCause.RESTORE, ts_at(int(since_s * 1000)), tables, vanished=False, text=text)

    def _readable(self, table: str, read: Callable[[], list[Any] | NotReadable]) -> list[Any] | None:
        if table in self._unread:
            return None
        rows = read()
        if isinstance(rows, NotReadable):
            self._unread[table] = unread_text(table, rows)
            return None
        return rows

    def _of_hole(self, hole: Hole) -> list[Sighting]:
        """None where no table is inside."""
        return [] if hole.tables == () else [Sighting(self.name, "", hole)]


def _target(restored_ts: int, cluster_id: int) -> str:
    return f"{cluster_id}/{restored_ts}"
