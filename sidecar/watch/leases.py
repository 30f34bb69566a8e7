"""Imports and restores under way, by the leases that BR, Lightning and IMPORT INTO hold in PD's etcd: they name no table.

    /tidb/brie/import/import-into/…   its jobs or the table's mode name the table: no hole by the lease, unless neither can be read
    /tidb/brie/import/restore/…       when it has gone, a hole of the tables that BR's own DDL jobs made since it came: the end of what
                                      those jobs are the begin of. Where there is none, or jobs cannot be read: of each table, as it
                                      wrote into tables that were there. This is the end of a restore to a point in time, too
    /tidb/brie/import/lightning/…     nothing names its tables: a hole of each, when it comes and when it has gone

- The rule weighs a false alarm against a silent loss. Physical import by Lightning is refused while there is a changefeed, unless somebody
  turned its checks off: it is rare, somebody decided it, and an operator's word closes the hole of a table that it left alone. IMPORT INTO
  is common where an account may not read its jobs, and still a hole of each table then: the note says which GRANT makes it one table.
- A key lives for as long as its task, which may be a second: a look each second, and a task between two looks is missed.
- What an owner saw is gone for the next one if it is over by then; `seen` has the keys with the moment of each. The first look counts
  from the log's end.
- The end of a restore waits, in `seen` too, while TiDB does not answer which tables it made: each look asks again.
- An outage of etcd is no error here: the service would pause for a minute, and a task of that time be missed. Its lease ends the term.

Source: pingcap/tidb br/pkg/utils/register.go. Keyspaces have their own keys, which are not read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from sidecar.adapters.etcd.keys import Keys
from sidecar.shared.errors import ConfigError, CoordinationLost, SourceError
from sidecar.shared.model.hole import Hole, HoleCause, Sighting
from sidecar.shared.model.nouns import CommitTs, physical_ms, ts_at
from sidecar.shared.schema.ddl import DdlJob
from sidecar.shared.schema.job_holes import BY_BR, Inside, ids_inside
from sidecar.watch.contract import LEASES, Looked, seen_fields, seen_text

PREFIX = "/tidb/brie/import/"
EVERY_S = 1.0
NO_LEASES = "holes by Lightning are not watched, nor the end of a restore"
_IMPORT_INTO, _RESTORE = "import-into", "restore"


class LeasePlaces(NamedTuple):
    """`made_since`: finished DDL jobs since a TSO, None where the account may not read what they did; raises SourceError. `names_imports`:
    whether import jobs or tables' modes are watched."""

    keys: Keys
    made_since: Callable[[CommitTs], tuple[DdlJob, ...] | None]
    inside: Inside
    names_imports: Callable[[], bool]


class LeaseWatch:
    """`now_ms`: Unix milliseconds."""

    name = LEASES

    def __init__(self, places: LeasePlaces, now_ms: Callable[[], int], looked: Looked) -> None:
        fields = seen_fields(looked.seen, "leases")
        self._leases: dict[str, int] = dict(fields.get("leases", {}))
        self._ended: list[tuple[str, int, int]] = [(task, since_ms, ended_ms) for task, since_ms, ended_ms in fields.get("ended", ())]
        self._places, self._now_ms = places, now_ms
        self._before_ms = physical_ms(looked.begin_ts)
        self.unwatched = ""

    def look(self) -> list[Sighting]:
        """A key that comes counts since the look before."""
        if self.unwatched:
            return []
        now_ms, before_ms = self._now_ms(), self._before_ms
        try:
            there = {entry.key.removeprefix(PREFIX) for entry in self._places.keys.get_prefix(PREFIX, keys_only=True)}
        except ConfigError as error:
            self.unwatched = f"{NO_LEASES}: {error.message}; let it read {PREFIX}"
            return []
        except CoordinationLost:
            return []
        leases, sightings = dict(self._leases), []
        for task in sorted(there - leases.keys()):
            leases[task] = before_ms
            if (hole := self._begun(task, ts_at(before_ms))) is not None:
                sightings.append(Sighting(self.name, "", hole))
        ended = [*self._ended, *((task, leases.pop(task), now_ms) for task in sorted(leases.keys() - there))]
        ends, ended = self._of_ended(ended)
        self._leases, self._ended, self._before_ms = leases, ended, now_ms
        return [*sightings, *ends, Sighting(self.name, seen_text(leases=leases, ended=ended))]

    def _of_ended(self, ended: list[tuple[str, int, int]]) -> tuple[list[Sighting], list[tuple[str, int, int]]]:
        """What is seen of them, and those that wait for TiDB. The first of these ends the look: the others would wait for it."""
        sightings: list[Sighting] = []
        for at, (task, since_ms, ended_ms) in enumerate(ended):
            try:
                end = self._end(task, ts_at(since_ms), ts_at(ended_ms))
            except SourceError:
                return sightings, ended[at:]
            if end is not None:
                sightings.append(Sighting(self.name, "", *end))
        return sightings, []

    def _begun(self, task: str, since_ts: CommitTs) -> Hole | None:
        return None if _kind(task) == _RESTORE or self._is_named(task) else _of_each(task, since_ts, "began")

    def _end(self, task: str, since_ts: CommitTs, now_ts: CommitTs) -> tuple[Hole, frozenset[int]] | None:
        """None: it is named elsewhere, or all that it made is outside the table rules. Raises SourceError."""
        if self._is_named(task):
            return None
        jobs = self._places.made_since(since_ts) if _kind(task) == _RESTORE else None
        made = [job for job in jobs or () if job.query.startswith(BY_BR) and job.tables]
        if not made:
            return _of_each(task, now_ts, "ended"), frozenset()
        ids = frozenset[int]().union(*(ids_inside(job, self._places.inside) for job in made))
        text = f"a restore ended ({task})"
        return (Hole(HoleCause.RESTORE, now_ts, (), vanished=False, text=text), ids) if ids else None

    def _is_named(self, task: str) -> bool:
        return _kind(task) == _IMPORT_INTO and self._places.names_imports()


def _kind(task: str) -> str:
    return task.partition("/")[0]


def _of_each(task: str, since_ts: CommitTs, what: str) -> Hole:
    cause = HoleCause.RESTORE if _kind(task) == _RESTORE else HoleCause.IMPORT
    return Hole(cause, since_ts, None, vanished=False, text=f"{task} {what} (a lease in PD's etcd); nothing says of which tables")
