"""DDL jobs that change rows without a change in the feed (sidecar/shared/schema/job_holes.py).

`seen`: since which TSO jobs count, the number from which on the next look reads, and those above it whose holes were seen: a job that ends
late is not passed over, and none is seen twice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from sidecar.adapters.tidb.ddl_history import DDL_TABLES
from sidecar.adapters.tidb.seen_jobs import ReadJobs
from sidecar.shared.model.hole import Hole, Sighting
from sidecar.shared.model.nouns import CommitTs, TableName
from sidecar.shared.schema.job_holes import Inside, JobHole, hole_of, unknown
from sidecar.watch.contract import JOBS, Looked, seen_fields, seen_text

NO_TIDB = "holes by DDL, import and restore are not watched: the source is no TiDB"
SHOWN_ONLY = (
    "holes by DDL jobs are watched as far as information_schema shows them: "
    f"{'; '.join(f'GRANT SELECT ON {table}' for table in DDL_TABLES)}"
)


class JobPlaces(NamedTuple):
    """`names`: the tables that a schema has at present. `note`: for kinds of jobs that nobody knows."""

    read: ReadJobs
    names: Callable[[str], tuple[TableName, ...]]
    note: Callable[[str], object]


class JobWatch:
    name = JOBS

    def __init__(self, places: JobPlaces, inside: Inside, looked: Looked) -> None:
        fields = seen_fields(looked.seen, "since")
        self._since_ts = CommitTs(fields.get("since", looked.begin_ts))
        self._low: int | None = fields.get("low")
        self._over = set[int](fields.get("over", ()))
        self._places, self._inside = places, inside
        self._noted = set[int]()
        self.unwatched = ""

    def look(self) -> list[Sighting]:
        if self.unwatched == NO_TIDB:
            return []
        seen = self._places.read(self._since_ts, self._low)
        if seen is None:
            self.unwatched = NO_TIDB
            return []
        self.unwatched = "" if seen.whole else SHOWN_ONLY
        sightings, over = [], set(self._over)
        for job in seen.jobs:
            if job.job_id in over:
                continue
            if (text := unknown(job)) and job.action not in self._noted:
                self._noted.add(job.action)
                self._places.note(text)
            if (result := hole_of(job, self._inside)) is not None and (hole := self._named(result)) is not None:
                over.add(job.job_id)
                sightings.append(Sighting(self.name, "", hole, result.table_ids))
        self._low, self._over = seen.low, {number for number in over if number >= seen.low}
        return [*sightings, Sighting(self.name, seen_text(since=self._since_ts, low=self._low, over=sorted(self._over)))]

    def _named(self, result: JobHole) -> Hole | None:
        """None: of a schema of which the changefeed has no table."""
        if not result.schema:
            return result.hole
        names = tuple(filter(self._inside, self._places.names(result.schema)))
        return replace(result.hole, tables=names) if names else None
