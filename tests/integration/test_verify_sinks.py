"""A comparison of each sink that can be read back, while the source, the log and the sink live: it names every fault that is planted in the
output, as what it is, and nothing else."""

from __future__ import annotations

import itertools
from pathlib import Path
from random import Random

import pytest

from sidecar.shared.log.verification import CheckState, RequestedTable, RowDifference, Slice
from sidecar.shared.model.keyset import Key
from sidecar.shared.model.nouns import CommitTs
from spark_merge.sinks.registry import open_sink
from spark_merge.verify import chosen
from spark_merge.verify.table_check import TableCheck
from tests.lanes import LANE
from tests.support.planted_faults import Faults, Named
from tests.support.spoilt_outputs import OUTPUTS
from tests.support.table_shapes import TABLE, WIDE
from tests.support.verified import World

each_output = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.xdist_group(group)) for name, (group, _) in OUTPUTS.items()]
)

WORLDS, FAULTS = (5, 200) if LANE.whole else (2, 30)
"""Of each output, and in each world of it."""

BUSY = 40
"""Of so many keys about half a one is written at each step of a comparison."""

STRICT = ("mysql",)
"""Outputs whose JSON is JSON."""

FINDING_KEYS = ("sqlite", "mysql", "clickhouse", "opensearch")
"""Outputs of sinks that find keys."""

QUIET_WORLDS = 10 if LANE.whole else 2

numbers = itertools.count()
"""A comparison whose files are there is continued: each slice has files of its own."""


def world_of(folder: Path, seed: int, uri: str, *, keys: int) -> World:
    """Every row has been written about once more."""
    world = World(folder / "world", Random(seed), keys=keys, snapshots=seed % 2 == 0, shape=WIDE, busy=max(3, keys // BUSY))
    world.follow(open_sink(uri, log_id="log-1"))
    for number in range(keys):
        world.transact()
        if number % (keys // 3) == 0:
            world.append()
            world.deliver()
    world.append()
    world.deliver()
    return world


def compared(world: World, uri: str) -> TableCheck:
    """It has run."""
    sink = open_sink(uri, log_id="log-1")
    try:
        check = TableCheck(world.context(), "mine", sink, RequestedTable(*TABLE), "one")  # type: ignore[arg-type]  # it can be read
        check.run()
        return check
    finally:
        sink.close()


def in_parts(world: World, uri: str) -> list[TableCheck]:
    """The whole table in slices, if the sink finds keys, one after another."""
    checks, after = list[TableCheck](), Key()
    while not checks or after:
        sink = open_sink(uri, log_id="log-1")
        try:
            part = Slice(after, (), 30)
            check = TableCheck(world.context(), "mine", sink, RequestedTable(*TABLE), f"part-{next(numbers)}", slice=part)  # type: ignore[arg-type]  # as above
            check.run()
        finally:
            sink.close()
        checks.append(check)
        after = check.report.upper
    return checks


def named(difference: RowDifference) -> Named:
    return difference.kind, frozenset(cell.column for cell in difference.cells)


@each_output
def test_an_output_that_follows_has_no_difference(request: pytest.FixtureRequest, tmp_path: Path, name: str) -> None:
    for seed in range(QUIET_WORLDS):
        folder = tmp_path / str(seed)
        uri = OUTPUTS[name][1](request, folder).uri
        world = world_of(folder, seed, uri, keys=60)
        report = compared(world, uri).report
        assert (report.state, report.differences, report.examples, report.moving) == (CheckState.EQUAL, 0, [], 0), seed
        assert report.rows > 20


@each_output
def test_every_planted_fault_is_named_and_nothing_else(request: pytest.FixtureRequest, tmp_path: Path, name: str) -> None:
    planted, sought = dict[str, int](), 0
    for seed in range(WORLDS):
        folder = tmp_path / str(seed)
        output = OUTPUTS[name][1](request, folder)
        world = world_of(folder, seed, output.uri, keys=4 * FAULTS)
        faults = Faults(world, Random(seed), any_text=name not in STRICT)
        faults.plant(FAULTS)
        since_ts = CommitTs(world.ts)
        output.spoil(world, faults.rows)
        check = compared(world, output.uri)
        report = check.report
        healed = {key for ts, key in world.changed if ts > since_ts}
        result = {one.key: named(one) for one in check.tally.differences}
        assert result.items() <= faults.named.items(), (seed, result.items() - faults.named.items())
        assert faults.named.keys() - healed <= result.keys(), (seed, faults.named.keys() - healed - result.keys())
        assert (report.differences, report.moving) == (len(result), 0)
        sought += len(result)
        for kind, count in faults.kinds.items():
            planted[kind] = planted.get(kind, 0) + count
    assert sought > WORLDS * FAULTS / 2, (sought, planted)
    assert len(planted) == (7 if name in STRICT else 8), planted


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.xdist_group(OUTPUTS[name][0])) for name in FINDING_KEYS])
def test_slices_name_every_planted_fault_but_extra_rows_once(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(chosen, "PART_ROWS", 10)
    output = OUTPUTS[name][1](request, tmp_path)
    world = world_of(tmp_path, 1, output.uri, keys=4 * FAULTS)
    quiet = in_parts(world, output.uri)
    assert {(one.report.state, one.report.moving) for one in quiet} == {(CheckState.EQUAL, 0)}
    assert len(quiet) > 2
    world.append()
    world.deliver()
    faults = Faults(world, Random(1), any_text=name not in STRICT)
    faults.plant(FAULTS)
    since_ts = CommitTs(world.ts)
    output.spoil(world, faults.rows)
    differences = [one for check in in_parts(world, output.uri) for one in check.tally.differences]
    healed = {key for ts, key in world.changed if ts > since_ts}
    reported = {one.key: named(one) for one in differences}
    assert len(reported) == len(differences), "each by one slice"
    assert reported.items() <= faults.named.items()
    assert {key for key, (kind, _) in faults.named.items() if kind != "extra"} - healed <= reported.keys()
