"""What a watcher of DDL jobs sees after each step of a real cluster, and that nothing is passed over or seen for ever."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sidecar.adapters.tidb.seen_jobs import JobReader
from sidecar.run.sightings import SeenHoles
from sidecar.shared.model.hole import HoleCause, Sighting
from sidecar.shared.model.nouns import Column, CommitTs, TableName, TableSchema
from sidecar.shared.schema.job_holes import Inside
from sidecar.watch.contract import JOBS, Looked
from sidecar.watch.jobs import NO_TIDB, SHOWN_ONLY, JobPlaces, JobWatch
from tests.support.holes import RecordedJob, every_job, inside, steps, tso
from tests.support.services.fake_tidb import FakeTidb, Refused

SEEN = {
    "import-into-file": [(HoleCause.IMPORT, {597}), (HoleCause.IMPORT, {597})],
    "exchange-with-outside": [(HoleCause.DDL, {603})],
    "rename-in": [(HoleCause.DDL, {613})],
    "flashback-cluster": [(HoleCause.FLASHBACK, set())],
}
"""FLASHBACK DATABASE was of a schema that the recording's filter does not have."""
BEGIN_TS = tso("insert")


@pytest.fixture
def tidb(tmp_path: Path) -> Iterator[FakeTidb]:
    with FakeTidb(tmp_path) as server:
        server.job_list = every_job()
        yield server


def watch(tidb: FakeTidb, seen: str | None = None, *, has: Inside = inside, notes: list[str] | None = None) -> JobWatch:
    def names(schema: str) -> tuple[TableName, ...]:
        return (TableName(schema, "t"),)

    noted = [] if notes is None else notes
    return JobWatch(JobPlaces(JobReader(tidb.settings(), noted.append).look, names, noted.append), has, Looked(seen, BEGIN_TS))


def causes(sightings: list[Sighting]) -> list[tuple[HoleCause, set[int]]]:
    return [(one.hole.cause, set(one.table_ids)) for one in sightings if one.hole is not None]


def test_each_step_has_its_sightings_in_the_same_term_and_after_takeovers(tidb: FakeTidb) -> None:
    """One watcher looks on; another begins at each step where the one before says that it had looked."""
    still, seen = watch(tidb), None
    for step in steps():
        tidb.now_ts = int(step["tso"])
        taken_over = watch(tidb, seen)
        sightings, others = still.look(), taken_over.look()
        assert causes(sightings) == SEEN.get(step["step"], []), step["step"]
        assert causes(others) == causes(sightings)
        seen = others[-1].seen


def test_a_flashback_of_a_database_names_its_tables(tidb: FakeTidb) -> None:
    tidb.now_ts = tso("drop-flashback-database")
    holes = [one.hole for one in watch(tidb, has=lambda name: name.schema == "holes2").look() if one.hole is not None]
    assert [(one.cause, one.tables) for one in holes if one.cause is HoleCause.FLASHBACK] == [
        (HoleCause.FLASHBACK, (TableName("holes2", "t"),))
    ]


def test_what_was_not_durable_is_seen_again_and_what_was_is_not(tidb: FakeTidb) -> None:
    """One look's sightings are durable together, with the last one's text."""
    tidb.now_ts = tso("write-after-rename-in")
    sightings = watch(tidb).look()
    assert [bool(one.seen) for one in sightings] == [False] * 4 + [True]
    assert causes(watch(tidb).look()) == causes(sightings)
    assert causes(watch(tidb, sightings[-1].seen).look()) == []


def test_jobs_that_end_in_any_order_are_each_seen_once(tidb: FakeTidb) -> None:
    """Generated: modes of tables change, jobs end late, owners die."""
    template = next(one for one in every_job() if one.number == 617)
    for seed in range(20):
        chance = random.Random(seed)
        ends = {number: BEGIN_TS + chance.randrange(1, 60) * 1000 for number in range(700, 730)}
        tidb.job_list = [
            RecordedJob({**template.job, "id": number, "start_ts": BEGIN_TS + 1, "table_id": number}, ends_ts)
            for number, ends_ts in ends.items()
        ]
        seen, results = None, list[int]()
        watching = watch(tidb)
        for now_ts in range(BEGIN_TS, BEGIN_TS + 160_000, 7_000):
            tidb.now_ts = now_ts
            if chance.random() < 0.3:
                watching = watch(tidb, seen)
            sightings = watching.look()
            if chance.random() < 0.3:
                watching = watch(tidb, seen)
                continue
            results += [int(one.hole.text.rpartition(" ")[2].rstrip(")")) for one in sightings if one.hole is not None]
            seen = sightings[-1].seen
        assert sorted(results) == sorted(ends), seed


def test_an_outage_passes_over_nothing(tidb: FakeTidb) -> None:
    watching = watch(tidb)
    tidb.now_ts = tso("import-into-file")

    def refuse(sql: str) -> None:
        if "tidb_ddl_history" in sql:
            raise Refused(9001, "PD server timeout")

    tidb.before = refuse
    with pytest.raises(Exception, match="PD server timeout"):
        watching.look()
    tidb.before = lambda _: None
    assert causes(watching.look()) == SEEN["import-into-file"]


def test_an_account_without_rights_sees_less_and_says_so(tidb: FakeTidb) -> None:
    def refuse(sql: str) -> None:
        if "FROM mysql.tidb_ddl" in sql:
            raise Refused(1142, "SELECT command denied to user")

    tidb.before = refuse
    late_s = (BEGIN_TS >> 18) / 1000 + 60
    tidb.ddl_kinds = [(700, "holes", "imported", "alter table mode", "skip", 597, late_s)]
    watching = watch(tidb)
    (one, last) = watching.look()
    assert causes([one]) == [(HoleCause.IMPORT, {597})]
    assert "GRANT SELECT" in watching.unwatched
    assert watching.unwatched == SHOWN_ONLY
    assert causes(watching.look()) == []
    assert causes(watch(tidb, last.seen).look()) == []


def test_a_kind_that_nobody_knows_is_noted_once(tidb: FakeTidb) -> None:
    template = every_job()[0]
    end_ts = BEGIN_TS + 5
    tidb.job_list = [RecordedJob({**template.job, "id": number, "type": 99, "start_ts": BEGIN_TS + 1}, end_ts) for number in (700, 701)]
    tidb.now_ts = BEGIN_TS + 1000
    notes: list[str] = []
    watching = watch(tidb, notes=notes)
    assert [causes(watching.look()) for _ in range(2)] == [[], []]
    assert len(notes) == 1
    assert "kind 99" in notes[0]


def test_a_source_that_is_no_tidb_is_looked_at_once(tidb: FakeTidb) -> None:
    tidb.version = "11.4.2-MariaDB"
    watching = watch(tidb)
    assert watching.look() == []
    assert watching.unwatched == NO_TIDB
    tidb.statements.clear()
    assert watching.look() == []
    assert tidb.statements == []


def test_the_log_gets_the_hole_of_the_table_that_the_job_names_by_its_id(tidb: FakeTidb) -> None:
    name = TableName("holes", "renamed_since")
    table = TableSchema(name, (Column("id", "int"),), ("id",), 603, (604, 607))
    tidb.now_ts = tso("exchange-with-outside")
    holes = SeenHoles()
    holes.put(*watch(tidb).look())
    (result,), _, seen = holes.take(CommitTs(tidb.now_ts), {name: table})
    assert (result.tables, result.vanished) == ((name,), True)
    assert causes(watch(tidb, seen[JOBS]).look()) == []
    assert holes.take(CommitTs(tidb.now_ts), {name: replace(table, table_id=1, physical_ids=(1,))})[0] == ()
