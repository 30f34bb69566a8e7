"""The services that watch for holes: which watchers there are by the settings, and when they look.

    holes           TiDB's jobs and tables, the changefeed in etcd     every LOOK_EVERY_S
    import leases   keys that live for as long as their task           every leases.EVERY_S, and waits for no SQL

- Each watcher looks whatever the others raise. What one raises ends the service's life when all have looked: the rule of services
  (auxiliary.py) reports it and begins again, within a minute. A watcher keeps what it has seen from life to life.
- What a watcher cannot see is logged once.
- A cause is noticed within a minute of its end. It is durable with the next segment that comes to it (sightings.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from threading import Event
from time import time

import msgspec

from sidecar.adapters.clock import wall_ms
from sidecar.adapters.etcd.keys import Keys, changefeed_root
from sidecar.adapters.tidb.imports import import_jobs, pitr_maps, restore_tasks, table_names
from sidecar.adapters.tidb.seen_jobs import JobReader
from sidecar.pipeline import Pipeline
from sidecar.run.auxiliary import Life, Services
from sidecar.run.logs import note
from sidecar.run.sightings import SeenHoles
from sidecar.run.term import Term
from sidecar.shared.config import Config, SourceSection
from sidecar.shared.model.hole import Sighting
from sidecar.shared.model.nouns import CommitTs, ts_at
from sidecar.shared.schema.ddl import DdlJob
from sidecar.shared.schema.job_holes import Inside
from sidecar.shared.ticdc.changefeed import Changefeed
from sidecar.shared.ticdc.event_filter import FilterRules
from sidecar.watch.contract import DEFINITION, IMPORTS, JOBS, LEASES, RESTORES, RESUMES, VERSIONS, Looked, Watcher
from sidecar.watch.definition import DefinitionWatch, LogPlace
from sidecar.watch.gaps import ResumeWatch, VersionWatch
from sidecar.watch.imports import ImportWatch
from sidecar.watch.jobs import JobPlaces, JobWatch
from sidecar.watch.leases import EVERY_S, LeasePlaces, LeaseWatch
from sidecar.watch.restores import RestorePlaces, RestoreWatch
from sidecar.watch.unwatched import in_ticdcs_etcd

LOOK_EVERY_S = 10.0
RETRY_S = 2.0
"""Of a look: the next one is near, and others wait for this one."""


def serve_holes(term: Term, client: Keys, services: Services) -> None:
    """Until the term's end. `term` has begun, with SeenHoles among its parts; with another twin nobody looks."""
    seen = term.pipeline.outside.sightings
    if isinstance(seen, SeenHoles):
        for name, life in lives(watchers(term.config, term.changefeed, client, term.pipeline, seen.seen), seen.put).items():
            services.serve(name, life)


def watchers(config: Config, changefeed: Changefeed, client: Keys, pipeline: Pipeline, seen: Mapping[str, str]) -> list[Watcher]:
    """Those that the settings let see something. Raises FeedUnsuitable for a filter that is not understood."""
    source = msgspec.structs.replace(config.source, retry_s=RETRY_S)
    begin_ts = pipeline.sequence.after_ts or ts_at(wall_ms())
    looked = {name: Looked(seen.get(name), begin_ts) for name in (JOBS, IMPORTS, RESTORES, LEASES)}
    inside = inside_rules(changefeed)
    jobs = JobWatch(JobPlaces(JobReader(source, note).look, partial(table_names, source), note), inside, looked[JOBS])
    imports = ImportWatch(partial(import_jobs, source), inside, time, looked[IMPORTS])
    places = RestorePlaces(partial(restore_tasks, source), partial(pitr_maps, source), partial(table_names, source))
    every: list[Watcher] = [jobs, imports, RestoreWatch(places, inside, time, looked[RESTORES])]
    if not in_ticdcs_etcd(config):
        return every
    lease_places = LeasePlaces(client, partial(_made_since, source), inside, lambda: not (jobs.unwatched and imports.unwatched))
    log_place = LogPlace(lambda: pipeline.tables, lambda: pipeline.sequence.after_ts, note)
    every += [
        LeaseWatch(lease_places, wall_ms, looked[LEASES]),
        DefinitionWatch(client, changefeed.name, log_place, seen.get(DEFINITION)),
    ]
    if config.encoded:
        every.append(VersionWatch(client, changefeed.name, changefeed.upstream_id, seen.get(VERSIONS)))
    if config.encoded and changefeed.new_architecture:  # a resume leaves the incarnation as it is, and messages do not show it
        kept_at = f"{changefeed_root(changefeed.name, changefeed.incarnation)}/definition" if pipeline.next_seq else ""
        every.append(ResumeWatch(client, changefeed.name, note, seen=seen.get(RESUMES), kept_at=kept_at))
    return every


def lives(every: Sequence[Watcher], put: Callable[..., object], note: Callable[[str], object] = note) -> dict[str, Life]:
    """By the names of their services. `put`: as of SeenHoles."""
    still = [one for one in every if one.name != LEASES]
    leases = [one for one in every if one.name == LEASES]
    result: dict[str, Life] = {"holes": HoleWatch(still, put, note, every_s=LOOK_EVERY_S).serve}
    return result | ({LEASES: HoleWatch(leases, put, note, every_s=EVERY_S).serve} if leases else {})


class HoleWatch:
    """Watchers that look one after another, in one thread."""

    def __init__(
        self, every: Sequence[Watcher], put: Callable[..., object], note: Callable[[str], object], *, every_s: float = LOOK_EVERY_S
    ) -> None:
        self._watchers, self._put, self._note, self._every_s = every, put, note, every_s
        self._noted = set[str]()

    def serve(self, ending: Event) -> None:
        """Until `ending`. Raises the first error of a round, when all have looked."""
        while True:
            self.look()
            if ending.wait(self._every_s):
                return

    def look(self) -> None:
        errors: list[Exception] = []
        for watcher in self._watchers:
            try:
                sightings: list[Sighting] = watcher.look()
            except Exception as error:  # noqa: BLE001  # whatever it is: the others look all the same, and it is raised after them
                errors.append(error)
                continue
            self._put(*sightings)
            if (text := watcher.unwatched) and text not in self._noted:
                self._noted.add(text)
                self._note(text)
        if errors:
            raise errors[0]


def inside_rules(changefeed: Changefeed) -> Inside:
    """Whatever the case: what a job locked, and what its statement names, is in small letters in a job."""
    return FilterRules.of(replace(changefeed, filter=replace(changefeed.filter, case_sensitive=False))).has


def _made_since(source: SourceSection, since_ts: CommitTs) -> tuple[DdlJob, ...] | None:
    """None: what jobs did cannot be read."""
    seen = JobReader(source, lambda _: None).look(since_ts, None)  # what cannot be read is for the watcher of jobs to note
    return seen.jobs if seen is not None and seen.whole else None
