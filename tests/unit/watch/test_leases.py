"""Leases of imports and restores in etcd: which of them are a hole, and of what."""

from __future__ import annotations

import json

import pytest

from sidecar.adapters.etcd.keys import KeyEntry
from sidecar.shared.errors import ConfigError, CoordinationLost
from sidecar.shared.model.hole import HoleCause, Sighting
from sidecar.shared.model.nouns import CommitTs, ts_at
from sidecar.shared.schema.ddl import Action, DdlJob, JobTable
from sidecar.shared.schema.job_holes import BY_BR
from sidecar.watch.contract import Looked
from sidecar.watch.leases import PREFIX, LeasePlaces, LeaseWatch
from tests.support.holes import steps


def made(number: int, query: str) -> DdlJob:
    return DdlJob(5, Action.CREATE_TABLES, CommitTs(9), 8, query, 1, "shop", number, (JobTable({"id": number}, 1),))


class Etcd:
    """Its keys below the prefix, and what else a watcher of leases asks for."""

    def __init__(self) -> None:
        self.tasks: set[str] = set()
        self.error: Exception | None = None
        self.jobs: tuple[DdlJob, ...] | None = (made(7, f"{BY_BR}CREATE TABLE a"), made(8, "CREATE TABLE b"))
        self.named = True
        self.now_ms = 5_000_000
        self.made_since: list[CommitTs] = []

    def get_prefix(self, prefix: str, *, keys_only: bool = False) -> list[KeyEntry]:
        assert (prefix, keys_only) == (PREFIX, True)
        if self.error is not None:
            raise self.error
        return [KeyEntry(PREFIX + task, b"", 1, 1, 9) for task in sorted(self.tasks)]

    def read_jobs(self, since_ts: CommitTs) -> tuple[DdlJob, ...] | None:
        self.made_since.append(since_ts)
        return self.jobs

    def watch(self, seen: str | None = None) -> LeaseWatch:
        places = LeasePlaces(self, self.read_jobs, lambda: self.named)  # type: ignore[arg-type]  # a twin of the one call
        return LeaseWatch(places, lambda: self.now_ms, Looked(seen, CommitTs(1)))

    def look(self, watching: LeaseWatch, *tasks: str) -> list[Sighting]:
        self.now_ms += 1000
        self.tasks = set(tasks)
        return watching.look()


def holes(sightings: list[Sighting]) -> list[tuple[HoleCause, object, set[int]]]:
    return [(one.hole.cause, one.hole.tables, set(one.table_ids)) for one in sightings if one.hole is not None]


EACH = (HoleCause.IMPORT, None, set[int]())


def test_lightning_is_a_hole_of_each_table_when_it_comes_and_when_it_has_gone() -> None:
    etcd = Etcd()
    watching = etcd.watch()
    sightings = etcd.look(watching, "lightning/x")
    assert holes(sightings) == [EACH]
    assert sightings[0].hole is not None
    assert sightings[0].hole.since_ts == ts_at(5_000_000), "since the look before"
    assert holes(etcd.look(watching, "lightning/x")) == []
    sightings = etcd.look(watching)
    assert holes(sightings) == [EACH]
    assert json.loads(sightings[-1].seen) == {"leases": {}}


def test_the_next_owner_sees_that_a_task_is_over() -> None:
    etcd = Etcd()
    seen = etcd.look(etcd.watch(), "lightning/x")[-1].seen
    assert holes(etcd.look(etcd.watch(seen))) == [EACH]
    assert holes(etcd.look(etcd.watch(None))) == []


def test_import_into_is_left_to_what_names_its_table() -> None:
    """The recording's: a lease that was there for 1.2 s."""
    (task,) = (key.removeprefix(PREFIX) for step in steps() for key in step["leases"])
    etcd = Etcd()
    watching = etcd.watch()
    assert holes(etcd.look(watching, task)) == holes(etcd.look(watching)) == []
    etcd.named = False
    assert holes(etcd.look(watching, task)) == [EACH]
    assert holes(etcd.look(watching)) == [EACH]


def test_the_end_of_a_restore_is_of_the_tables_that_br_made_meanwhile() -> None:
    etcd = Etcd()
    watching = etcd.watch()
    assert holes(etcd.look(watching, "restore/y")) == []
    assert holes(etcd.look(watching)) == [(HoleCause.RESTORE, (), {7})]
    assert etcd.made_since == [ts_at(5_000_000)]
    etcd.jobs = ()
    etcd.look(watching, "restore/z")
    assert holes(etcd.look(watching)) == [], "it made none"
    etcd.jobs = None
    etcd.look(watching, "restore/z")
    assert holes(etcd.look(watching)) == [(HoleCause.RESTORE, None, set())], "what it made cannot be read"


def test_an_outage_is_an_error_and_passes_over_nothing() -> None:
    etcd = Etcd()
    watching = etcd.watch()
    etcd.error = CoordinationLost("gone", hint="wait")
    with pytest.raises(CoordinationLost):
        etcd.look(watching, "lightning/x")
    etcd.error = None
    assert holes(etcd.look(watching, "lightning/x")) == [EACH]


def test_without_the_right_it_says_so_and_looks_no_more() -> None:
    etcd = Etcd()
    watching = etcd.watch()
    etcd.error = ConfigError("etcd: permission denied", hint="grant")
    assert etcd.look(watching, "lightning/x") == []
    assert "Lightning are not watched" in watching.unwatched
    etcd.error = None
    assert etcd.look(watching, "lightning/x") == []
