"""IMPORT INTO by its jobs: begin and end, in any order of numbers, through crashes."""

from __future__ import annotations

import random

import pytest

from sidecar.adapters.tidb.imports import ImportJob, NotReadable
from sidecar.shared.model.hole import Sighting
from sidecar.shared.model.nouns import CommitTs, TableName, ts_at
from sidecar.watch.contract import Looked
from sidecar.watch.imports import LATE_S, ImportWatch
from tests.support.holes import inside, steps, tso

TABLE = TableName("shop", "t")
BEGIN_S = 10_000.0


class Jobs:
    """mysql.tidb_import_jobs at a moment."""

    def __init__(self) -> None:
        self.now_s = BEGIN_S
        self.table = TABLE
        self.every: list[tuple[int, float | None, float | None]] = []
        self.why: NotReadable | None = None

    def read(self, since_s: float) -> list[ImportJob] | NotReadable:
        if self.why is not None:
            return self.why
        now_s = self.now_s
        jobs = [
            ImportJob(
                number, self.table, number, "…", *(at_s if at_s is not None and at_s <= now_s else None for at_s in (began_s, ended_s))
            )
            for number, began_s, ended_s in self.every
        ]
        return [job for job in jobs if job.ended_s is None or job.ended_s >= since_s]

    def watch(self, seen: str | None = None) -> ImportWatch:
        return ImportWatch(self.read, lambda name: name.schema == "shop", lambda: self.now_s, Looked(seen, ts_at(int(BEGIN_S * 1000))))


def holes(sightings: list[Sighting]) -> list[tuple[int, CommitTs]]:
    return [(min(one.table_ids), one.hole.since_ts) for one in sightings if one.hole is not None]


def test_a_job_is_a_hole_when_it_has_begun_and_again_when_it_has_ended() -> None:
    jobs = Jobs()
    watching = jobs.watch()
    jobs.every = [(7, BEGIN_S + 10, BEGIN_S + 500)]
    assert holes(watching.look()) == []
    jobs.now_s += 20
    assert holes(watching.look()) == [(7, ts_at(int((BEGIN_S + 10) * 1000)))]
    assert holes(watching.look()) == []
    jobs.now_s += 490
    assert holes(watching.look()) == [(7, ts_at(int((BEGIN_S + 500) * 1000)))]
    for _ in range(3):
        jobs.now_s += LATE_S
        assert holes(watching.look()) == []


def test_one_that_was_over_at_the_first_look_is_one_hole_since_it_began() -> None:
    jobs = Jobs()
    jobs.every = [(7, BEGIN_S + 10, BEGIN_S + 12), (8, None, BEGIN_S + 12), (9, BEGIN_S - 50, BEGIN_S - 40)]
    jobs.now_s += 20
    assert holes(jobs.watch().look()) == [(7, ts_at(int((BEGIN_S + 10) * 1000)))], "one never began, one was over before the log's end"


def test_each_begin_and_each_end_is_seen_whatever_dies() -> None:
    """Generated: numbers in no order, jobs that last for seconds or hours, owners that die before what they saw is durable."""
    for seed in range(50):
        chance, jobs = random.Random(seed), Jobs()
        numbers = chance.sample(range(1, 60_000), 25)
        for number in numbers:
            began_s = BEGIN_S + chance.randrange(1, 9000)
            jobs.every.append((number, began_s, began_s + chance.choice([1, 60, 4000])))
        watching, seen = jobs.watch(), None
        durable: list[tuple[int, CommitTs]] = []
        while jobs.now_s < BEGIN_S + 16_000:
            jobs.now_s += chance.choice([10, 10, 10, 300, 2000])
            sightings = watching.look()
            assert [one.seen for one in sightings[:-1]] == [""] * (len(sightings) - 1)
            if chance.random() < 0.7:
                durable += holes(sightings)
                seen = sightings[-1].seen
            else:
                watching = jobs.watch(seen)
        assert len(durable) == len(set(durable)), "none twice"
        for number, *times in jobs.every:
            begins_s, ends_s = (at_s or 0.0 for at_s in times)
            ends = {since_ts for other, since_ts in durable if other == number}
            assert ts_at(int(begins_s * 1000)) in ends
            assert ends <= {ts_at(int(at_s * 1000)) for at_s in (begins_s, ends_s)}


def test_the_recordings_import_is_seen_and_earlier_ones_are_not() -> None:
    (step,) = (one for one in steps() if one["step"] == "import-into-file")
    began = {30001: 1795952313.707700, 1: 1795952013.0, 2: 1795952056.6}
    jobs = [ImportJob(row[0], TableName(row[5], row[6]), row[7], row[12], began[row[0]], began[row[0]] + 2) for row in step["import_jobs"]]
    watching = ImportWatch(
        lambda since_s: [one for one in jobs if (one.ended_s or 0) >= since_s], inside, lambda: 1795952400.0, Looked(None, tso("insert"))
    )
    (one, _) = watching.look()
    assert one.table_ids == {597}
    assert one.hole is not None
    assert "job 30001, finished" in one.hole.text


def test_a_table_outside_the_changefeed_has_no_hole() -> None:
    jobs = Jobs()
    jobs.table = TableName("outside", "t")
    jobs.every = [(7, BEGIN_S + 10, BEGIN_S + 20)]
    jobs.now_s += 30
    assert holes(jobs.watch().look()) == []


@pytest.mark.parametrize("why", NotReadable)
def test_a_table_that_cannot_be_read_is_looked_at_once(why: NotReadable) -> None:
    jobs = Jobs()
    jobs.why = why
    watching = jobs.watch()
    assert watching.look() == []
    assert "IMPORT INTO are not watched" in watching.unwatched
    jobs.why = None
    jobs.every = [(7, BEGIN_S, None)]
    assert watching.look() == []
