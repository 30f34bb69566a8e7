"""Delta tables that `ticdc-dump maintain` compacts and expires while the sink writes to them: whatever comes first, no row changes."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.table import TableOptimizer

from sidecar.shared.log import storage
from sidecar.shared.log.storage import open_folder
from sidecar.shared.model.nouns import TableName
from spark_merge.port.maintained import Upkeep
from spark_merge.port.readable import newest
from spark_merge.sinks.delta.columns import Mode
from spark_merge.sinks.delta.maintenance import MaintainedDelta
from spark_merge.sinks.delta.places import table_place
from spark_merge.sinks.delta.table import Table
from spark_merge.sinks.lake.maintenance import COMMITS_MAX, ORPHAN_HOURS, TRIES, UpkeepState, maintained
from spark_merge.sinks.lake.steps import STEPS_MAX
from spark_merge.sinks.registry import maintained_of, open_sink
from spark_merge.testing import histories
from spark_merge.testing.places import Here
from spark_merge.testing.story import Story
from spark_merge.testing.true_histories import true_history
from tests.lanes import LANE
from tests.support.deliveries import ORDERS, SCHEMA, Segments, change, deliver, opened
from tests.support.delta_place import delta_table, folder_of, history_place, rows_of
from tests.support.lake_read_back import reading_of

TABLES = 3
AT_ONCE = Upkeep(file_bytes=1 << 20, files_min=2, keep_hours=0)
BESIDE = Upkeep(file_bytes=1 << 20, files_min=2, keep_hours=24)
"""A MERGE that is under way reads files of the version that it has looked at."""
MODES = pytest.mark.parametrize("mode", ["append", "merge"])
SEEDS = range(100) if LANE.whole else range(6)
DEATHS = 20 if LANE.whole else 4


def story_of(folder: Path, mode: str, seed: int, patch: pytest.MonkeyPatch) -> Story:
    patch.setattr(histories, "TABLES", TABLES)
    patch.setattr(histories, "random_history", lambda rng: true_history(rng, passes=2))
    return Story(folder, history_place(f"delta://{folder}/out?mode={mode}", tables=TABLES), seed=seed)


def lake_of(story: Story) -> MaintainedDelta:
    lake = maintained_of(story.place.uri)
    assert isinstance(lake, MaintainedDelta)
    return lake


def run(story: Story, upkeep: Upkeep = BESIDE) -> list[UpkeepState]:
    results = list(maintained(lake_of(story), sorted(story.tables), upkeep, lambda _: [], complete=()))
    assert not [one.error for one in results if one.error]
    return [one.state for one in results]


@MODES
@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_comes_between_a_look_and_its_commit_no_row_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, seed: int
) -> None:
    """Runs between batches, amid the sink's commits, and batches amid compactions."""
    rng, story = Random(seed), story_of(tmp_path, mode, seed, monkeypatch)
    often, within, overtaken = rng.choice([0.2, 0.5]), [0], list[UpkeepState]()
    commit, compact = Table.commit, TableOptimizer.compact
    delivery = story.delivery(segments_max=rng.choice([1, 2]))

    def raced(act: Callable[..., Any], between: Callable[[], Any], chance: float) -> Callable[..., Any]:
        def acting(*args: Any, **named: Any) -> Any:
            if not within[0] and rng.random() < chance:
                within[0] += 1
                between()
                within[0] -= 1
            return act(*args, **named)

        return acting

    monkeypatch.setattr(Table, "commit", raced(commit, lambda: overtaken.extend(run(story)), often / 2))
    monkeypatch.setattr(TableOptimizer, "compact", raced(compact, delivery.deliver, often))
    while delivery.deliver():
        if rng.random() < often:
            overtaken += run(story)
        story.check_beginning()
    overtaken += run(story)
    story.check_end()
    story.check_read_back(end=True)


class Orders:
    """One table: a batch a key, each a file, or a batch that changes the first key, whose file a MERGE rewrites."""

    def __init__(self, folder: Path, mode: Mode) -> None:
        self.uri, self.log, self.mode = f"delta://{folder}/out?mode={mode}", open_folder(str(folder / "log")), mode
        self.sink, self.seq, self.truth = opened(open_sink(self.uri, log_id="log-1")), 0, dict[str, str]()
        lake = maintained_of(self.uri)
        assert lake is not None
        self.lake = lake

    def deliver(self, key: str = "") -> None:
        self.seq += 1
        row = (key or f"{self.seq}", f"v{self.seq}")
        before = (row[0], self.truth[row[0]]) if row[0] in self.truth else None
        deliver(self.sink, Segments([self.seq], [change(self.seq, 100 * self.seq - 50, before=before, after=row)]), log=self.log)
        self.truth[row[0]] = row[1]

    def table(self) -> DeltaTable:
        result = delta_table(folder_of(self.uri), ORDERS)
        assert result is not None
        return result

    def rows(self, version: int | None = None) -> list[Any]:
        return sorted(rows_of(folder_of(self.uri), self.mode, SCHEMA, version))

    def maintain(self, upkeep: Upkeep = AT_ONCE) -> UpkeepState:
        (result,) = maintained(self.lake, [ORDERS], upkeep, lambda _: [], complete=())
        assert not result.error
        return result.state

    def check(self) -> None:
        assert self.rows() == sorted(self.truth.items())


@pytest.mark.parametrize(("mode", "state"), [("append", UpkeepState.DONE), ("merge", UpkeepState.OVERTAKEN)])
def test_a_compaction_gives_way_where_the_sink_has_rewritten_what_it_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: Mode, state: UpkeepState
) -> None:
    """A batch comes after each look. What only adds files is no conflict."""
    orders, compact = Orders(tmp_path, mode), TableOptimizer.compact
    for _ in range(4):
        orders.deliver()
    assert len(orders.table().file_uris()) == 4

    def raced(*args: Any, **named: Any) -> Any:
        orders.deliver("1")
        return compact(*args, **named)

    with monkeypatch.context() as patch:
        patch.setattr(TableOptimizer, "compact", raced)
        assert orders.maintain() is state
    assert orders.seq == 4 + (TRIES if state is UpkeepState.OVERTAKEN else 1)
    orders.check()
    orders.deliver("2")
    assert orders.maintain() is UpkeepState.DONE
    assert len(orders.table().file_uris()) == 1
    orders.check()


@MODES
def test_each_version_that_is_kept_has_its_rows_before_and_after_a_run(tmp_path: Path, mode: Mode) -> None:
    orders = Orders(tmp_path, mode)
    for key in ("", "", "", "2", "", "1"):
        orders.deliver(key)
    last = orders.table().version()
    before = [orders.rows(version) for version in range(last + 1)]
    assert orders.maintain(Upkeep(1 << 20, 2, ORPHAN_HOURS)) is UpkeepState.DONE
    assert [orders.rows(version) for version in range(last + 1)] == before
    assert orders.table().version() == last + 1
    assert len(orders.table().file_uris()) == 1
    orders.check()


@MODES
def test_a_run_makes_so_many_commits_of_a_table_that_the_sink_gives_way_to(tmp_path: Path, mode: Mode) -> None:
    """Both of its expiries find something: what versions had, and a dead worker's file."""
    orders = Orders(tmp_path, mode)
    for _ in range(5):
        orders.deliver()
    aged(Path(folder_of(orders.uri).path(table_place(ORDERS))) / ORPHAN)
    before = orders.table().version()
    orders.maintain()
    assert orders.table().version() - before == COMMITS_MAX < STEPS_MAX
    assert len(orders.table().file_uris()) == 1
    orders.deliver()
    orders.check()


@MODES
@pytest.mark.parametrize("keep_hours", [24, ORPHAN_HOURS])
def test_a_file_of_which_the_log_has_forgotten_that_it_was_removed_goes_when_it_is_old(tmp_path: Path, mode: Mode, keep_hours: int) -> None:
    """A checkpoint forgets it: here at once, in an operator's table after a week."""
    orders = Orders(tmp_path, mode)
    for _ in range(5):
        orders.deliver()
    root = folder_of(orders.uri).path(table_place(ORDERS))
    table = orders.table()
    table.alter.set_table_properties({"delta.deletedFileRetentionDuration": "interval 0 seconds"})
    orders.maintain(Upkeep(1 << 20, 2, keep_hours))
    orders.table().create_checkpoint()
    files = set(Path(root).rglob("*.parquet")) - set(Path(root).glob("_delta_log/*"))
    assert len(files) == 6
    for file in files:
        aged(file)
    orders.deliver()
    orders.maintain(Upkeep(1 << 20, 100, keep_hours))
    assert len([file for file in files if file.exists()]) == 1
    orders.check()


ORPHAN = f"{99:020d}-0.1-1-deadbeef.parquet"


def aged(file: Path, hours: int = ORPHAN_HOURS + 24) -> None:
    if not file.exists():
        file.write_bytes(b"of a worker that died")
    old_s = time.time() - hours * 3600
    os.utime(file, (old_s, old_s))


def _dies_after(uri: str, seconds: float, took: Path) -> None:
    """In a process of its own: SIGALRM ends it wherever it is, as SIGKILL would."""
    lake = maintained_of(uri)
    assert lake is not None
    list(
        maintained(lake, [ORDERS], replace(AT_ONCE, files_min=10_000), lambda _: [], complete=())
    )  # what is loaded at first is no part of it
    began_s = time.monotonic()
    signal.setitimer(signal.ITIMER_REAL, seconds)
    list(maintained(lake, [ORDERS], AT_ONCE, lambda _: [], complete=()))
    took.write_text(repr(time.monotonic() - began_s))


@MODES
def test_a_run_that_dies_anywhere_leaves_the_rows_and_the_next_one_ends_it(tmp_path: Path, mode: Mode) -> None:
    orders, context = Orders(tmp_path, mode), multiprocessing.get_context("spawn")
    took, seconds, codes = tmp_path / "took", 60.0, list[int | None]()
    for number in range(DEATHS + 1):
        for key in ("", "", "", "1"):
            orders.deliver(key)
        process = context.Process(target=_dies_after, args=(orders.uri, seconds, took))
        process.start()
        process.join()
        codes.append(process.exitcode)
        seconds = float(took.read_text()) * (number + 1) / (DEATHS + 1)
        orders.check()
        reading = newest(reading_of(orders.uri, SCHEMA, log_id="log-1"), SCHEMA)
        assert sorted(zip(*reading.to_pydict().values(), strict=True)) == sorted(orders.truth.items())
    assert codes[0] == 0
    assert -signal.SIGALRM in codes
    orders.maintain()
    assert len(orders.table().file_uris()) == 1
    orders.check()


@MODES
def test_files_of_a_batch_that_is_being_written_stay_and_a_dead_workers_go_when_they_are_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    story = story_of(tmp_path, mode, 5, monkeypatch)
    delivery = story.delivery(segments_max=1)
    for _ in range(3):
        delivery.deliver()
    sink = story.place.sink()
    batch, work = story.begin(sink)
    outcomes = Here().run(work)
    files = [file for outcome in outcomes for file in outcome.note if not getattr(file, "staged", False)]
    place = table_place(sorted(story.tables)[0])
    root = Path(folder_of(story.place.uri).path(place))
    orphan = root / ORPHAN
    old, young = ORPHAN_HOURS + 24, ORPHAN_HOURS - 24
    for hours, keep, stays in ((young, 24, True), (old, 24, False), (young, ORPHAN_HOURS, True), (old, ORPHAN_HOURS, False)):
        aged(orphan, hours)
        run(story, Upkeep(1 << 20, 2, keep))
        assert orphan.exists() is stays, (hours, keep)
    assert all(storage.exists(folder_of(story.place.uri), file.path) for file in files)
    sink.accept(batch, outcomes)
    sink.close()
    story.finish()
    story.check_end()


def test_a_table_of_somebody_else_is_an_error_and_stays_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    story = story_of(tmp_path, "append", 5, monkeypatch)
    story.finish(segments_max=1)
    other = TableName("s", "others")
    root = folder_of(story.place.uri).path(table_place(other))
    for number in range(3):
        write_deltalake(root, pa.table({"id": [number]}), mode="append")
    (result,) = maintained(lake_of(story), [other], AT_ONCE, lambda _: [], complete=())
    assert (result.state, "none that this sink made" in result.error) == (UpkeepState.FAILED, True)
    assert DeltaTable(root).version() == 2
