"""Real streams of a real cluster, any schedule, crashes and resends: the merged output equals the truth at every snapshot,
and no row goes back (P1, P2, P4, P5). Merged by the slow rule here; by Spark in tests/spark.

Five schedules of each recording and bracket are shared out among its feeds; `make matrix` plays twenty, all of them on each feed.
"""

from __future__ import annotations

import pytest

from tests.lanes import LANE
from tests.support.replaying import Run, play, stage

SEEDS = range(0, 20, 20 // LANE.schedules)
CHUNK_ROWS = (1000, 10, 100_000)

FEEDS = ("open-protocol", "open-protocol-index", "open-protocol-zip", "canal-json", "simple-json")
WITHOUT = {
    *(("demo", feed) for feed in ("open-protocol-index", "open-protocol-zip", "simple-json")),
    *(("restart", feed) for feed in ("open-protocol-zip", "simple-json")),
}
"""Feeds that these recordings do not have (recording.json)."""

NAMES = ("demo", "shop", "shop-new", "restart")
CASES = [(name, feed) for name in NAMES for feed in FEEDS if (name, feed) not in WITHOUT]


def schedule(brackets: str, seed: int) -> Run:
    """Every second, third and fourth one, too, has all numbers of crashes and resends and all sizes of chunks."""
    return Run(brackets, seed, chunk_rows=CHUNK_ROWS[(seed + seed // 3) % 3], crashes=seed // 5 % 4, resends=seed // 4 % 3)


def seeds_of(name: str, feed: str) -> range:
    """The schedules that are played on this feed."""
    feeds = [other for text, other in CASES if text == name]
    return SEEDS if LANE.whole else SEEDS[feeds.index(feed) :: len(feeds)]


@pytest.mark.recordings
@pytest.mark.turns(3)
@pytest.mark.parametrize("brackets", ["recorded", "watermark", "snapshot"])
@pytest.mark.parametrize(("name", "feed"), CASES)
def test_every_schedule_ends_equal_to_the_truth(name: str, feed: str, brackets: str) -> None:
    made, seeds, deaths, compared = stage(name, feed), seeds_of(name, feed), 0, 0
    for seed in seeds:
        run = schedule(brackets, seed)
        verdict, died = play(made, run)
        assert verdict.ok, f"{name} {feed} {run}: {[table for table in verdict.tables if not table.equal]} {verdict.unexpected_rows}"
        deaths += len(died)
        compared += sum(table.snapshots_compared for table in verdict.tables)
    assert deaths >= len(seeds) / 2, "too few crashes to prove anything"
    assert compared >= len(seeds) * len(made.tables), "too few snapshots were compared"


KV_SEEDS = SEEDS if LANE.whole else SEEDS[::4]
KV_NAMES = ("demo", "shop", "shop-new", "restart", "rowformats")


@pytest.mark.recordings
@pytest.mark.turns(3)
@pytest.mark.parametrize("brackets", ["watermark", "snapshot"])
@pytest.mark.parametrize("name", KV_NAMES)
def test_raw_key_values_end_equal_to_the_truth(name: str, brackets: str) -> None:
    made = stage(name, "kv")
    for seed in KV_SEEDS:
        run = schedule(brackets, seed)
        verdict, _ = play(made, run)
        assert verdict.ok, f"{name} {run}: {[table for table in verdict.tables if not table.equal]} {verdict.unexpected_rows}"
        assert sum(table.snapshots_compared for table in verdict.tables) >= len(made.tables)


@pytest.mark.parametrize("brackets", ["watermark", "snapshot"])
def test_chunks_of_one_row(brackets: str) -> None:
    verdict, _ = play(stage("demo", "open-protocol"), Run(brackets, seed=5, chunk_rows=1))
    assert verdict.ok, [table for table in verdict.tables if not table.equal]


def test_the_output_without_its_windows_does_not_equal_the_truth() -> None:
    """The judge is no friend: rows of chunks that are not held against the changes of their window are found out."""
    made = stage("demo", "open-protocol")
    verdict, _ = play(made, Run("recorded", seed=1, drop_nothing=True))
    assert not verdict.ok
    assert any(table.went_back.count or table.different.count or table.extra.count for table in verdict.tables)
