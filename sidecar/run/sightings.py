"""What watchers of causes saw, until a manifest has it (shared/model/hole.py).

- A hole is written once the log has reached its `since_ts`: then the tables are those of its moment, by their ids.
- A watcher's sightings are written in their order, and how far it has looked with the last of them. So what waits when a process dies is
  looked at again by the next one.
- It grows while the feed is behind a hole: by one small sighting for each cause in that time.
"""

from __future__ import annotations

from collections.abc import Mapping
from threading import Lock

from sidecar.pipeline import Pipeline
from sidecar.run.logs import note
from sidecar.shared.log.parked import Parked
from sidecar.shared.model.hole import Hole, HoleCause, Sighting
from sidecar.shared.model.nouns import CommitTs, TableName, TableSchema
from sidecar.shared.process.checks import listed

PARKED = "parked"


class SeenHoles:
    """As Sightings, of one term. Watchers put in any thread, the pipeline does the rest in its own."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._waiting: list[Sighting] = []
        self._seen: dict[str, str] = {}

    def resume(self, seen: Mapping[str, str]) -> None:
        self._seen = dict(seen)

    @property
    def seen(self) -> Mapping[str, str]:
        """How far each watcher had looked, by its name, as far as a manifest has it."""
        return self._seen

    def put(self, *sightings: Sighting) -> None:
        """In the order in which its watcher saw them."""
        with self._lock:
            for one in sightings:
                if (last := self._last(one.watcher)) is not None and last.hole is None:
                    self._waiting.remove(last)
                self._waiting.append(one)

    def due(self, upto_ts: CommitTs) -> bool:
        with self._lock:
            return any(one.hole is not None for one in self._reached(upto_ts))

    def take(self, upto_ts: CommitTs, tables: Mapping[TableName, TableSchema]) -> tuple[tuple[Hole, ...], dict[str, str]]:
        with self._lock:
            reached = self._reached(upto_ts)
            gone = {id(one) for one in reached}
            self._waiting = [one for one in self._waiting if id(one) not in gone]
            self._seen = self._seen | {one.watcher: one.seen for one in reached if one.seen}
        return tuple(hole for one in reached if (hole := one.among(tables)) is not None), self._seen

    def _reached(self, upto_ts: CommitTs) -> list[Sighting]:
        later = set[str]()
        reached = []
        for one in self._waiting:
            if one.watcher not in later and (one.hole is None or one.hole.since_ts <= upto_ts):
                reached.append(one)
            else:
                later.add(one.watcher)
        return reached

    def _last(self, watcher: str) -> Sighting | None:
        return next(filter(lambda one: one.watcher == watcher, reversed(self._waiting)), None)


def note_passed(pipeline: Pipeline, holes: SeenHoles, parked: Parked) -> None:
    """A parked message is passed: its rows are behind what is released. Nobody knows whether there were rows, nor which have gone."""
    since_ts, where = pipeline.sequence.after_ts, parked.stopped.message.at()
    text = f"{where}, parked by {parked.by}: {parked.stopped.error}"
    holes.put(Sighting(PARKED, "", Hole(HoleCause.PARKED, since_ts, parked.tables, vanished=True, text=text)))
    note(f"{where} is passed, as {parked.by} has decided: {listed(parked.tables) if parked.tables else 'every table'} may lack its rows")
