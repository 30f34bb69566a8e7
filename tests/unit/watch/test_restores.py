"""Restores: by the registry, which names tables by filters, and by maps of ids, which name none."""

from __future__ import annotations

import pytest

from sidecar.adapters.tidb.imports import NotReadable, PitrMap, RestoreTask
from sidecar.shared.errors import SourceLost
from sidecar.shared.model.hole import Sighting
from sidecar.shared.model.nouns import TableName, ts_at
from sidecar.watch.contract import Looked
from sidecar.watch.imports import LATE_S
from sidecar.watch.restores import FILTERS_MAX, RestorePlaces, RestoreWatch

BEGIN_S = 10_000.0
A, B, C = TableName("shop", "a"), TableName("shop", "b"), TableName("outside", "c")


class Restoring:
    """TiDB's tables at a moment."""

    def __init__(self) -> None:
        self.now_s = BEGIN_S
        self.tasks: list[RestoreTask] | NotReadable = []
        self.maps: list[PitrMap] | NotReadable = []
        self.names: tuple[TableName, ...] = (A, C)
        self.away = False

    def restore(self, number: int, *filters: str, restored_ts: int = 0) -> None:
        self.tasks = [RestoreTask(number, filters, "Table Restore", restored_ts, 12, self.now_s)]

    def read_names(self) -> tuple[TableName, ...]:
        if self.away:
            raise SourceLost("gone", hint="wait")
        return self.names

    def read_maps(self, since_s: float) -> list[PitrMap] | NotReadable:
        return self.maps if isinstance(self.maps, NotReadable) else [one for one in self.maps if one.written_s >= since_s]

    def watch(self, seen: str | None = None) -> RestoreWatch:
        places = RestorePlaces(lambda: self.tasks, self.read_maps, self.read_names)
        looked = Looked(seen, ts_at(int(BEGIN_S * 1000)))
        return RestoreWatch(places, lambda name: name.schema == "shop", lambda: self.now_s, looked)


def holes(sightings: list[Sighting]) -> list[tuple[TableName, ...] | None]:
    return [one.hole.tables for one in sightings if one.hole is not None]


@pytest.mark.parametrize("takeover", [False, True])
def test_a_task_is_a_hole_of_what_its_filters_have_when_it_comes_and_when_it_has_gone(*, takeover: bool) -> None:
    cluster = Restoring()
    watching = cluster.watch()
    cluster.restore(4, "*.*", "!shop.x")
    sightings = watching.look()
    assert holes(sightings) == [(A,)]
    assert holes(watching.look()) == []
    if takeover:
        watching = cluster.watch(sightings[-1].seen)
    cluster.names, cluster.tasks = (A, B, C), []
    cluster.now_s += 5000
    sightings = watching.look()
    assert holes(sightings) == [(A, B)], "what it made meanwhile too"
    assert sightings[0].hole is not None
    assert sightings[0].hole.since_ts == ts_at(int(cluster.now_s * 1000))
    assert holes(watching.look()) == []


def test_what_was_not_durable_is_seen_again() -> None:
    cluster = Restoring()
    before = cluster.watch().look()[-1].seen
    cluster.restore(4, "shop.*")
    assert holes(cluster.watch(before).look()) == [(A,)]
    assert holes(cluster.watch(before).look()) == [(A,)]


def test_names_that_cannot_be_read_now_are_read_by_the_next_look() -> None:
    cluster = Restoring()
    watching = cluster.watch()
    cluster.restore(4, "shop.*")
    cluster.away = True
    with pytest.raises(SourceLost):
        watching.look()
    cluster.away = False
    assert holes(watching.look()) == [(A,)]


def test_filters_that_are_not_understood_are_of_each_table() -> None:
    cluster = Restoring()
    watching = cluster.watch()
    cluster.restore(4, "no rule")
    assert holes(watching.look()) == [None]
    cluster.restore(5)
    assert holes(watching.look()) == [None, None], "the one that has gone, and one without filters"


def test_filters_that_are_too_long_to_keep_are_of_each_table_at_the_end() -> None:
    cluster = Restoring()
    watching = cluster.watch()
    cluster.restore(4, *(f"shop.t{number}" for number in range(FILTERS_MAX)), "shop.a")
    sightings = watching.look()
    assert holes(sightings) == [(A,)]
    assert len(sightings[-1].seen) < FILTERS_MAX
    cluster.tasks = []
    assert holes(watching.look()) == [None]


def test_a_restore_to_a_point_in_time_that_no_task_explains_is_of_each_table() -> None:
    cluster = Restoring()
    cluster.tasks = NotReadable.NO_TABLE
    watching = cluster.watch()
    cluster.maps = [PitrMap(500, 12, BEGIN_S - 5), PitrMap(600, 12, BEGIN_S + 5)]
    sightings = watching.look()
    assert holes(sightings) == [None], "the other one was before the log's end"
    assert "this TiDB has no mysql.tidb_restore_registry" in watching.unwatched
    assert holes(cluster.watch(sightings[-1].seen).look()) == []
    cluster.now_s += 3 * LATE_S
    assert holes(watching.look()) == []


def test_a_task_explains_its_map_while_it_runs_and_when_it_has_gone() -> None:
    cluster = Restoring()
    watching = cluster.watch()
    cluster.restore(4, "shop.*", restored_ts=600)
    cluster.maps = [PitrMap(600, 12, BEGIN_S + 5)]
    assert holes(watching.look()) == [(A,)]
    cluster.now_s += 2 * LATE_S
    assert holes(watching.look()) == []
    cluster.tasks = []
    assert holes(watching.look()) == [(A,)]
    assert holes(watching.look()) == []


def test_a_second_restore_to_the_same_target_is_seen_at_once() -> None:
    cluster = Restoring()
    cluster.tasks = NotReadable.NO_TABLE
    watching = cluster.watch()
    for written_s in (BEGIN_S + 5, BEGIN_S + 9):
        cluster.maps = [PitrMap(600, 12, written_s)]
        sightings = watching.look()
        assert holes(sightings) == [None]
        assert holes(cluster.watch(sightings[-1].seen).look()) == []
    assert holes(watching.look()) == []


def test_a_map_that_is_written_as_its_task_ends_is_that_tasks() -> None:
    cluster = Restoring()
    watching = cluster.watch()
    cluster.restore(4, "shop.*", restored_ts=600)
    watching.look()
    cluster.tasks, cluster.maps = [], [PitrMap(600, 12, BEGIN_S + 5)]
    assert holes(watching.look()) == [(A,)], "a server's clock may be ahead"
    assert holes(watching.look()) == []
    cluster.maps = [PitrMap(600, 12, BEGIN_S + 8)]
    assert holes(watching.look()) == [None]


def test_a_restore_of_tables_outside_the_changefeed_is_no_hole() -> None:
    cluster = Restoring()
    watching = cluster.watch()
    cluster.restore(4, "outside.*")
    assert holes(watching.look()) == []
    cluster.tasks = []
    assert holes(watching.look()) == []


def test_where_neither_can_be_read_nothing_is_looked_at_any_more() -> None:
    cluster = Restoring()
    cluster.tasks = cluster.maps = NotReadable.NO_RIGHT
    watching = cluster.watch()
    assert watching.look() == []
    assert watching.unwatched.count("GRANT SELECT ON mysql.") == 2
    cluster.tasks = []
    cluster.restore(4, "*.*")
    assert watching.look() == []
