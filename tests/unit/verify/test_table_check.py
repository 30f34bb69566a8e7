"""A comparison of a sink that is written while its source changes: it names each fault, and nothing else."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from sidecar.log.verification import AskedTable, CheckState
from spark_merge.rule import Image
from spark_merge.sinks.registry import open_sink
from spark_merge.verify.table_check import TableCheck
from tests.support.table_shapes import TABLE
from tests.support.verified import World


def check_of(world: World, uri: str, *, where: str = "", sample: float = 1.0) -> TableCheck:
    sink = open_sink(uri, log_id="log-1")
    table = AskedTable(TABLE.schema, TABLE.table, where)
    return TableCheck(world.context(), "mine", sink, table, "one", sample)  # type: ignore[arg-type]  # it can be read


def world_of(tmp_path: Path, seed: int, uri: str, *, snapshots: bool) -> World:
    world = World(tmp_path, Random(seed), snapshots=snapshots)
    world.follow(open_sink(uri, log_id="log-1"))
    return world


class Sqlite:
    """What somebody does to the output behind the sink's back."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def spoil(self, world: World, rng: Random) -> dict[Image, str]:
        """What each spoilt key is then."""
        found: dict[Image, str] = {}
        with closing(sqlite3.connect(self.path)) as db, db:
            for number in rng.sample(range(world.keys), 8):
                key = world.key(number)
                there = key in world.rows
                if not there:
                    db.execute('INSERT INTO "s.t" (id, part, v) VALUES (?, ?, ?)', (*key, "extra"))
                    found[key] = "extra"
                elif rng.random() < 0.4:
                    db.execute('DELETE FROM "s.t" WHERE id = ? AND part = ?', key)
                    found[key] = "missing"
                else:
                    other = next(one for one in ("", None, "X") if one != world.rows[key][2])
                    db.execute('UPDATE "s.t" SET v = ? WHERE id = ? AND part = ?', (other, *key))
                    found[key] = "different"
            return found


OUTPUTS = ["sqlite:///{}/out.db", "file://{}/out?format=parquet", "file://{}/out?format=jsonl"]


@pytest.mark.parametrize("snapshots", [True, False])
@pytest.mark.parametrize("output", OUTPUTS)
def test_a_sink_that_follows_has_no_difference_whatever_happens_meanwhile(tmp_path: Path, output: str, snapshots: bool) -> None:
    for seed in range(5):
        uri = output.format(tmp_path / str(seed))
        world = world_of(tmp_path / str(seed), seed, uri, snapshots=snapshots)
        report = check_of(world, uri).run()
        assert (report.state, report.differences, report.examples) == (CheckState.EQUAL, 0, []), seed
        assert report.rows > 10


@pytest.mark.parametrize("snapshots", [True, False])
def test_each_fault_is_named_and_nothing_else(tmp_path: Path, snapshots: bool) -> None:
    named = 0
    for seed in range(8):
        uri = f"sqlite:///{tmp_path}/{seed}/out.db"
        world = world_of(tmp_path / str(seed), seed, uri, snapshots=snapshots)
        spoilt, since_ts = Sqlite(tmp_path / str(seed) / "out.db").spoil(world, Random(seed)), world.ts
        check = check_of(world, uri)
        report = check.run()
        healed = {key for ts, key in world.changed if ts > since_ts}
        found = {one.key: one.kind for one in check.differences}
        assert found.items() <= spoilt.items(), seed
        assert spoilt.keys() - healed <= found.keys(), seed
        assert (report.differences, report.moving) == (len(found), 0)
        assert {cell.column for one in check.differences for cell in one.cells} <= {"v"}
        named += len(found)
    assert named > 20


@pytest.mark.parametrize(("where", "sample"), [("part = '1'", 1.0), ("", 0.3)])
def test_of_a_part_of_the_rows_no_extra_ones_are_reported(tmp_path: Path, where: str, sample: float) -> None:
    named = 0
    for seed in range(6):
        uri = f"sqlite:///{tmp_path}/{seed}/out.db"
        world = world_of(tmp_path / str(seed), seed, uri, snapshots=bool(seed % 2))
        spoilt = Sqlite(tmp_path / str(seed) / "out.db").spoil(world, Random(seed))
        check = check_of(world, uri, where=where, sample=sample)
        report = check.run()
        assert report.partial
        assert 0 < report.rows < len(world.rows)
        found = {one.key: one.kind for one in check.differences}
        assert found.items() <= {key: kind for key, kind in spoilt.items() if kind != "extra"}.items(), seed
        assert all(key[1] == "1" for key in found if where)
        named += len(found)
    assert named > 2
