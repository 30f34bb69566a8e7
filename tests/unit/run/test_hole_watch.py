"""Who watches for holes by which settings, and that one watcher's error keeps no other from looking."""

from __future__ import annotations

from contextlib import closing
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from sidecar.ports import NoSightings
from sidecar.run.auxiliary import Services
from sidecar.run.hole_watch import HoleWatch, inside_rules, lives, serve_holes, watchers
from sidecar.run.sightings import SeenHoles
from sidecar.shared.errors import SourceLost
from sidecar.shared.model.hole import Hole, HoleCause, Sighting
from sidecar.shared.model.nouns import CommitTs, TableName
from sidecar.shared.ticdc.changefeed import Changefeed, ChangefeedName, FeedFilter
from sidecar.watch.contract import DEFINITION, IMPORTS, JOBS, LEASES, RESTORES, RESUMES, VERSIONS
from tests.support.eventually import eventually
from tests.unit.run.test_app import settings

OF_TIDB = [JOBS, IMPORTS, RESTORES]


class Watching:
    """A watcher that says what it is given."""

    def __init__(self, name: str, *looks: list[Sighting] | Exception, unwatched: str = "") -> None:
        self.name, self.unwatched = name, unwatched
        self.looks = list(looks)
        self.looked = 0

    def look(self) -> list[Sighting]:
        self.looked += 1
        result = self.looks.pop(0) if self.looks else []
        if isinstance(result, Exception):
            raise result
        return result


def sighting(watcher: str, seen: str) -> Sighting:
    return Sighting(watcher, seen, Hole(HoleCause.IMPORT, CommitTs(5), None, vanished=False, text="…"))


def pipeline(next_seq: int = 3) -> Any:
    return SimpleNamespace(sequence=SimpleNamespace(after_ts=CommitTs(900)), tables={}, next_seq=next_seq, outside=None)


def names(*, new_architecture: bool = False, **sections: Any) -> list[str]:
    feed = Changefeed(ChangefeedName("c", "n", "orders"), "1-2", "kafka://h/t", "canal-json", new_architecture=new_architecture)
    client: Any = None
    return [one.name for one in watchers(settings(**sections), feed, client, pipeline(), {})]


def test_the_settings_say_who_watches() -> None:
    assert names() == [*OF_TIDB, LEASES, DEFINITION, VERSIONS]
    assert names(new_architecture=True) == [*OF_TIDB, LEASES, DEFINITION, VERSIONS, RESUMES]
    assert names(feed="tikv", tikv={"pd": ["h:2379"]}) == [*OF_TIDB, LEASES, DEFINITION], "it has a gap of its own, and stops there"
    assert names(etcd={"folder": "/keys"}, changefeed={"id": "orders", "file": "/cf.json"}) == OF_TIDB


@pytest.mark.parametrize("case_sensitive", [False, True])
def test_names_of_jobs_are_inside_whatever_their_case(*, case_sensitive: bool) -> None:
    """TiDB keeps the names that a job locked in small letters."""
    rules = FeedFilter(rules=("Shop.*",), case_sensitive=case_sensitive)
    feed = Changefeed(ChangefeedName("c", "n", "orders"), "1-2", "kafka://h/t", "canal-json", filter=rules)
    inside = inside_rules(feed)
    assert [inside(TableName(schema, "T")) for schema in ("shop", "Shop", "outside")] == [True, True, False]


def test_each_name_is_one_watchers() -> None:
    every = names(new_architecture=True)
    assert len(set(every)) == len(every)


def test_an_error_of_one_is_raised_when_all_have_looked() -> None:
    first, second = Watching("a", SourceLost("gone", hint="wait")), Watching("b", [sighting("b", "1")])
    put: list[Sighting] = []
    watch = HoleWatch([first, second], lambda *some: put.extend(some), lambda _: None)
    with pytest.raises(SourceLost):
        watch.look()
    assert [one.seen for one in put] == ["1"]
    watch.look()
    assert (first.looked, second.looked) == (2, 2)


def test_what_is_not_watched_is_noted_once() -> None:
    notes: list[str] = []
    watch = HoleWatch([Watching("a", unwatched="x: GRANT …"), Watching("b")], lambda *_: None, notes.append)
    watch.look()
    watch.look()
    assert notes == ["x: GRANT …"]


def test_a_life_looks_until_it_is_ended() -> None:
    ending, watching = Event(), Watching("a")
    watch = HoleWatch([watching], lambda *_: ending.set() if watching.looked == 3 else None, lambda _: None, every_s=0.0)
    watch.serve(ending)
    assert watching.looked == 3


def test_leases_are_looked_at_by_a_service_of_their_own() -> None:
    """They are there for a second, and a look at TiDB may take as long as an outage."""
    assert set(lives([Watching(JOBS), Watching(LEASES)], print)) == {"holes", LEASES}
    assert set(lives([Watching(JOBS)], print)) == {"holes"}


def test_a_defect_of_a_watcher_is_the_services_and_what_others_saw_is_put() -> None:
    holes = SeenHoles()
    every = [Watching(JOBS, ZeroDivisionError("defect")), Watching(IMPORTS, [sighting(IMPORTS, "7")])]
    with closing(Services(log_line=lambda _: None)) as services:
        for name, life in lives(every, holes.put, lambda _: None).items():
            services.serve(name, life)
        eventually(lambda: bool(services.states()[0].error))
        assert "a defect" in services.states()[0].error
    assert holes.take(CommitTs(9), {}).seen == {IMPORTS: "7"}


def test_nobody_looks_where_nobody_writes_what_is_seen() -> None:
    term: Any = SimpleNamespace(pipeline=SimpleNamespace(outside=SimpleNamespace(sightings=NoSightings())))
    client: Any = None
    with closing(Services()) as services:
        serve_holes(term, client, services)
        assert services.states() == ()


def test_a_term_has_its_services() -> None:
    feed = Changefeed(ChangefeedName("c", "n", "orders"), "1-2", "kafka://h/t", "canal-json")
    made = pipeline()
    made.outside = SimpleNamespace(sightings=SeenHoles())
    config = settings(source={"host": "127.0.0.1", "port": 1, "user": "u"})
    term: Any = SimpleNamespace(pipeline=made, config=config, changefeed=feed)
    client: Any = SimpleNamespace(get_prefix=lambda *_, **__: [], get=lambda *_, **__: None)
    with closing(Services(log_line=lambda _: None)) as services:
        serve_holes(term, client, services)
        assert [state.name for state in services.states()] == ["holes", LEASES]
