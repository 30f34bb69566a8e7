"""IMPORT INTO … FROM FILE, by its jobs in mysql.tidb_import_jobs.

- A job is a hole of its table when it has begun, and again when it has ended, however it ended: what a failed one wrote may stay. One that
  was over before anybody looked is one hole. One that never began wrote nothing. A table outside the changefeed has none.
- Numbers are no order (adapters/tidb/imports.py), and servers' clocks differ. So a look goes back LATE_S from the one before, and `seen`
  has the jobs of that time and what was said of each.
- IMPORT INTO … FROM SELECT has no job: nothing shows it (seen on 9.0.0-beta.2).
"""

from __future__ import annotations

from collections.abc import Callable

from sidecar.adapters.tidb.imports import IMPORT_JOBS, PITR_ID_MAP, RESTORE_REGISTRY, ImportJob, NotReadable
from sidecar.shared.model.hole import Hole, HoleCause, Sighting
from sidecar.shared.model.nouns import physical_ms, ts_at
from sidecar.shared.schema.job_holes import Inside
from sidecar.watch.contract import IMPORTS, Looked, seen_fields, seen_text

LATE_S = 600.0
"""By which a job's end may be written late, or its server's clock be behind."""

_BEGUN, _OVER = "begun", "over"


class ImportWatch:
    """`read`: jobs that have not ended, or since a moment in Unix seconds. `now_s`: Unix seconds."""

    name = IMPORTS

    def __init__(
        self, read: Callable[[float], list[ImportJob] | NotReadable], inside: Inside, now_s: Callable[[], float], looked: Looked
    ) -> None:
        fields = seen_fields(looked.seen, "from_s")
        self._begin_s = float(fields.get("begin_s", physical_ms(looked.begin_ts) / 1000))
        self._from_s = float(fields.get("from_s", self._begin_s))
        self._states: dict[str, str] = dict(fields.get("jobs", {}))
        self._read, self._inside, self._now_s = read, inside, now_s
        self.unwatched = ""

    def look(self) -> list[Sighting]:
        if self.unwatched:
            return []
        from_s = max(self._begin_s, self._now_s() - LATE_S)
        jobs = self._read(self._from_s)
        if isinstance(jobs, NotReadable):
            self.unwatched = unread_text(IMPORT_JOBS, jobs)
            return []
        sightings, states = [], dict(self._states)
        for job in sorted(jobs, key=lambda one: (one.ended_s or one.began_s or 0.0, one.number)):
            state = _OVER if job.ended_s is not None else _BEGUN
            before = states.get(str(job.number))
            if job.began_s is None or before == state:
                continue
            states[str(job.number)] = state
            if not self._inside(job.table):
                continue
            hole = _hole(job, job.began_s if before is None or job.ended_s is None else job.ended_s)
            sightings.append(Sighting(self.name, "", hole, frozenset({job.table_id})))
        self._from_s = from_s
        kept = {str(job.number) for job in jobs if job.ended_s is None or job.ended_s >= from_s}
        self._states = {number: state for number, state in states.items() if number in kept}
        return [*sightings, Sighting(self.name, seen_text(begin_s=self._begin_s, from_s=from_s, jobs=self._states))]


def _hole(job: ImportJob, since_s: float) -> Hole:
    text = f"IMPORT INTO {job.table} (job {job.number}, {job.status})"
    return Hole(HoleCause.IMPORT, ts_at(int(since_s * 1000)), (job.table,), vanished=False, text=text)


CAUSES = {IMPORT_JOBS: "IMPORT INTO", RESTORE_REGISTRY: "a restore (BR)", PITR_ID_MAP: "a restore to a point in time"}
"""By the table that shows them."""


def unread_text(table: str, why: NotReadable) -> str:
    """What is not watched, and the way out."""
    cause = CAUSES[table]
    match why:
        case NotReadable.NO_RIGHT:
            return f"holes by {cause} are not watched: GRANT SELECT ON {table}"
        case NotReadable.NO_TABLE:
            return f"holes by {cause} are not watched: this TiDB has no {table}"
        case NotReadable.NO_TIDB:
            return f"holes by {cause} are not watched: the source is no TiDB"
