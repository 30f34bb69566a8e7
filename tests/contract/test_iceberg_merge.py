"""`mode=merge` of the Iceberg sink: the port's suite over tables that are really there, frozen owners, and compaction by somebody else at
any moment. What a reader finds is what Iceberg's specification says (tests/support/merged_lake.py).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from sidecar.shared.errors import OwnershipLost, SinkError
from sidecar.shared.log import rows_file, storage
from spark_merge.sinks.iceberg import lake, merge, writer
from spark_merge.sinks.iceberg import sink as iceberg
from spark_merge.sinks.iceberg.lake import Lake
from spark_merge.sinks.iceberg.tables import IcebergTables
from spark_merge.sinks.kit import held
from spark_merge.sinks.kit.position import PositionKeeper
from spark_merge.testing import histories
from spark_merge.testing.dumps_port import DumpsPort
from spark_merge.testing.places import Here, Place
from spark_merge.testing.sink_port import SinkPort
from spark_merge.testing.story import Died, Story, die_after_each, mortal, of
from spark_merge.testing.true_histories import true_history
from tests.lanes import LANE
from tests.support.lake import catalog_of, on_s3, tables_of, uri_of
from tests.support.merged_lake import compact, merged_place
from tests.support.services.s3 import S3

pytestmark = pytest.mark.xdist_group("iceberg")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setattr(iceberg, "LIVE_PART_ROWS", 4)
    return merged_place(uri_of(tmp_path / "lake", mode="merge"))


def story_of(folder: Path, place: Place, patch: pytest.MonkeyPatch, *, seed: int = 7, passes: int = 2) -> Story:
    patch.setattr(histories, "TABLES", 3)
    patch.setattr(histories, "random_history", lambda rng: true_history(rng, passes=passes))
    patch.setattr(rows_file, "ROW_GROUP_ROWS_MAX", 3)
    return Story(folder, place, seed=seed)


class TestDumps(DumpsPort):
    @pytest.fixture
    def place(self, place: Place) -> Place:
        return place


def test_a_reader_at_a_position_amid_a_tables_commit_lacks_nothing(tmp_path: Path, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    story_of(tmp_path, place, monkeypatch).check_readers_amid_a_commit(monkeypatch)


if LANE.whole:  # the tests after it have a share of it

    class TestMergedIceberg(SinkPort):
        @pytest.fixture
        def place(self, place: Place) -> Place:
            return place

        @pytest.fixture
        def story(self, tmp_path: Path, place: Place, monkeypatch: pytest.MonkeyPatch) -> Story:
            return story_of(tmp_path, place, monkeypatch)


@pytest.fixture
def story(tmp_path: Path, place: Place, monkeypatch: pytest.MonkeyPatch) -> Story:
    return story_of(tmp_path, place, monkeypatch)


@pytest.mark.parametrize("segments_max", [1, 100] if LANE.whole else [2])
def test_whatever_the_cut_each_table_is_as_it_is(story: Story, segments_max: int) -> None:
    story.finish(segments_max=segments_max)
    story.check_end()


def test_a_death_between_any_two_durable_steps_changes_nothing(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    life = mortal(monkeypatch, Lake, "commit", "make")
    for name in ("make_durable", "remove"):
        monkeypatch.setattr(storage, name, _after(life.step, getattr(storage, name)))
    die_after_each(story, of(life), range(1, 400, 1 if LANE.whole else 20))


@pytest.mark.parametrize("where", ["within a table's commit", *(["before its tables", "before the position"] if LANE.whole else [])])
@pytest.mark.parametrize("ahead", [0, 1, 100] if LANE.whole else [1])
def test_a_previous_worker_that_is_frozen_while_it_accepts_takes_nothing_back(
    story: Story, monkeypatch: pytest.MonkeyPatch, where: str, ahead: int
) -> None:
    """Its successor has opened meanwhile, and delivered so many batches of another cut: what it deletes stays away, what it wrote stays."""
    previous = story.place.sink()
    batch, work = story.begin(previous)
    outcomes = Here().run(work)
    kind, name = {
        "before its tables": (IcebergTables, "bring"),
        "within a table's commit": (Lake, "commit"),
        "before the position": (PositionKeeper, "accept"),
    }[where]
    call, thawed = getattr(kind, name), list[bool]()

    def frozen(*args: Any, **named: Any) -> object:
        if not thawed:
            thawed.append(True)
            successor = story.delivery(segments_max=1)
            for _ in range(ahead):
                successor.deliver()
        return call(*args, **named)

    with monkeypatch.context() as patch:
        patch.setattr(kind, name, frozen)
        with pytest.raises(OwnershipLost):
            previous.accept(batch, outcomes)
    story.check_beginning()
    story.finish(segments_max=1)
    story.check_end()


SEEDS = range(200) if LANE.whole else [0, 5, 8]
"""5 notices a table that takes two passes below its live rows, 8 one that takes a pass below live rows of before it."""


@pytest.mark.parametrize("seed", SEEDS)
def test_tables_stay_what_they_are_whoever_compacts_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """The proof of merge.py tried: any cut, deaths, few rows a file, and somebody who compacts tables between and amid commits."""
    rng = Random(seed)
    monkeypatch.setattr(iceberg, "LIVE_PART_ROWS", rng.choice([2, 100]))
    monkeypatch.setattr(held, "HELD_BYTES_MAX", rng.choice([300, 1 << 20]))
    story = story_of(tmp_path, merged_place(uri_of(tmp_path / "lake", mode="merge")), monkeypatch, seed=seed, passes=rng.choice([1, 2, 3]))
    often = rng.choice([0.0, 0.0, 0.1, 0.4])
    commit = Lake.commit

    def raced(self: Lake, *args: Any) -> None:
        if rng.random() < often / 2:
            compact_one(story, rng)
        if rng.random() < 0.1:
            raise Died
        commit(self, *args)

    monkeypatch.setattr(Lake, "commit", raced)
    for _ in range(200):
        try:
            delivery = story.delivery(segments_max=rng.choice([1, 2, 6]))
            while delivery.deliver():
                if rng.random() < often:
                    compact_one(story, rng)
                story.check_beginning()
            break
        except Died:
            story.check_beginning()
    else:
        pytest.fail("it never came to its end")
    story.check_end()


PARTS = [
    "deletes of what was touched",
    "the fold of a batch",
    "the rule of other passes",
    "the rule of live rows of before",
    "the rule of compactions",
]


def compact_one(story: Story, rng: Random) -> None:
    catalog = catalog_of(story.place.uri)
    results = [table for _, table in tables_of(catalog) if table.current_snapshot() is not None]
    if results:
        compact(rng.choice(results))
    catalog.close()


@pytest.mark.parametrize("without", PARTS if LANE.whole else PARTS[:1])
def test_the_tries_would_notice_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, without: str) -> None:
    """Each part of the rule left out, some seed finds it."""
    if without == "the rule of compactions":
        of_table = merge.Below.of
        monkeypatch.setattr(merge.Below, "of", classmethod(lambda cls, table: _trusting(of_table(table), table)))
    elif without == "the rule of other passes":
        takes = merge.Below.takes
        monkeypatch.setattr(merge.Below, "takes", lambda self, passes: takes(replace(self, dump=""), passes))
    elif without == "the rule of live rows of before":
        takes = merge.Below.takes
        monkeypatch.setattr(merge.Below, "takes", lambda self, passes: takes(replace(self, live=None), passes))
    elif without == "the fold of a batch":
        monkeypatch.setattr(merge, "without_repeats", lambda *_: None)
    else:
        monkeypatch.setattr(writer.Files, "put", _of_data_alone(writer.Files.put))
    for seed in range(40):
        with monkeypatch.context() as patch:
            try:
                test_tables_stay_what_they_are_whoever_compacts_them(tmp_path / str(seed), patch, seed)
            except AssertionError:
                return
    pytest.fail("no seed has noticed it")


def _trusting(below: merge.Below, table: Any) -> merge.Below:
    base = table.properties.get("ticdc-dump.base", "")
    return replace(below, base=int(base) if base else None)


def _of_data_alone(put: Callable[..., None]) -> Callable[..., None]:
    def put_data(*args: Any, **reported: Any) -> None:
        if "content" not in reported:
            put(*args, **reported)

    return put_data


def test_an_answer_that_is_lost_after_a_commit_brings_nothing_twice(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    commit, made = Lake.commit, itertools.count(1)

    def lossy(*args: Any) -> None:
        commit(*args)
        if next(made) % 2:
            raise OSError("connection reset by peer")

    monkeypatch.setattr(Lake, "commit", lossy)
    monkeypatch.setattr(lake, "RETRY_FIRST_S", 0.01)
    story.finish(segments_max=2)
    story.check_end()
    assert next(made) > 10


def test_a_warehouse_on_s3_has_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with S3() as s3:
        story = story_of(tmp_path, merged_place(on_s3(s3, tmp_path / "lake", mode="merge")), monkeypatch)
        story.begin_and_die()
        story.finish(segments_max=3)
        story.check_end()


def test_a_namespace_has_one_mode(story: Story) -> None:
    story.delivery(segments_max=1).deliver()
    other = merged_place(story.place.uri.replace("mode=merge", "mode=append"))
    with pytest.raises(SinkError, match="mode=merge, and this is mode=append"):
        other.sink().look()


def _after(step: Callable[[], object], call: Callable[..., object]) -> Callable[..., object]:
    def then(*args: Any, **named: Any) -> object:
        result = call(*args, **named)
        step()
        return result

    return then
