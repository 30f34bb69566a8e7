"""Leases of imports and restores in etcd: which of them are a hole, and of what."""

from __future__ import annotations

import json

import pytest

from sidecar.adapters.etcd.keys import KeyEntry
from sidecar.shared.errors import ConfigError, CoordinationLost, SourceLost
from sidecar.shared.model.hole import HoleCause, Sighting
from sidecar.shared.model.nouns import CommitTs, ts_at
from sidecar.shared.schema.ddl import Action, DdlJob, JobTable
from sidecar.shared.schema.job_holes import BY_BR
from sidecar.watch.contract import Looked
from sidecar.watch.leases import PREFIX, LeasePlaces, LeaseWatch
from tests.support.holes import steps


def made(number: int, query: str, schema: str = "shop") -> DdlJob:
    return DdlJob(5, Action.CREATE_TABLES, CommitTs(9), 8, query, 1, schema, number, (JobTable({"id": number, "name": {"O": "a"}}, 1),))


LOG_END = ts_at(4_000_000)


class Etcd:
    """Its keys below the prefix, and what else a watcher of leases asks for."""

    def __init__(self) -> None:
        self.tasks: set[str] = set()
        self.error: Exception | None = None
        self.jobs: tuple[DdlJob, ...] | None = (made(7, f"{BY_BR}CREATE TABLE a"), made(8, "CREATE TABLE b"))
        self.away: Exception | None = None
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
        if self.away is not None:
            raise self.away
        return self.jobs

    def watch(self, seen: str | None = None) -> LeaseWatch:
        places = LeasePlaces(self, self.read_jobs, lambda name: name.schema == "shop", lambda: self.named)  # type: ignore[arg-type]  # a twin of the one call
        return LeaseWatch(places, lambda: self.now_ms, Looked(seen, LOG_END))

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
    assert sightings[0].hole.since_ts == LOG_END, "what was there at the first look may have begun there"
    assert [one.seen for one in sightings[:-1]] == [""]
    assert holes(etcd.look(watching, "lightning/x")) == []
    sightings = etcd.look(watching, "lightning/y")
    assert holes(sightings) == [EACH, EACH]
    assert sightings[0].hole is not None
    assert sightings[0].hole.since_ts == ts_at(5_002_000), "since the look before"
    sightings = etcd.look(watching)
    assert holes(sightings) == [EACH]
    assert json.loads(sightings[-1].seen) == {"ended": [], "leases": {}}


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
    assert etcd.made_since == [LOG_END]
    etcd.jobs = (made(7, f"{BY_BR}CREATE TABLE a", "outside"),)
    etcd.look(watching, "restore/z")
    assert holes(etcd.look(watching)) == [], "outside the changefeed"
    etcd.jobs = (made(8, "CREATE TABLE b"),)
    etcd.look(watching, "restore/z")
    assert holes(etcd.look(watching)) == [(HoleCause.RESTORE, None, set())], "it made none, so it wrote into tables that were there"
    etcd.jobs = None
    etcd.look(watching, "restore/z")
    assert holes(etcd.look(watching)) == [(HoleCause.RESTORE, None, set())], "what it made cannot be read"


@pytest.mark.parametrize("takeover", [False, True])
def test_the_end_of_a_restore_waits_for_tidb_and_hides_nothing(*, takeover: bool) -> None:
    etcd = Etcd()
    watching = etcd.watch()
    etcd.look(watching, "restore/y")
    etcd.away = SourceLost("gone", hint="wait")
    sightings = etcd.look(watching, "lightning/x")
    assert holes(sightings) == [EACH], "another task of that look"
    if takeover:
        watching = etcd.watch(sightings[-1].seen)
    assert holes(etcd.look(watching, "lightning/x")) == []
    etcd.away = None
    sightings = etcd.look(watching, "lightning/x")
    assert holes(sightings) == [(HoleCause.RESTORE, (), {7})]
    assert sightings[0].hole is not None
    assert sightings[0].hole.since_ts == ts_at(5_002_000), "when it was seen to be over"
    assert set(etcd.made_since) == {LOG_END}
    assert holes(etcd.look(watching, "lightning/x")) == []


def test_an_outage_of_etcd_is_no_error_and_passes_over_nothing() -> None:
    etcd = Etcd()
    watching = etcd.watch()
    etcd.look(watching)
    etcd.error = CoordinationLost("gone", hint="wait")
    assert etcd.look(watching, "lightning/x") == []
    etcd.error = None
    (one, _) = etcd.look(watching, "lightning/x")
    assert holes([one]) == [EACH]
    assert one.hole is not None
    assert one.hole.since_ts == ts_at(5_001_000), "since the look that had an answer"


def test_without_the_right_it_says_so_and_looks_no_more() -> None:
    etcd = Etcd()
    watching = etcd.watch()
    etcd.error = ConfigError("etcd: permission denied", hint="grant")
    assert etcd.look(watching, "lightning/x") == []
    assert "Lightning are not watched" in watching.unwatched
    etcd.error = None
    assert etcd.look(watching, "lightning/x") == []
