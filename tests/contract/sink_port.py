"""What every sink keeps, of whatever kind (spark_merge/contract.py): a suite to be run on each, by a class that gives it `place`.

A random log with windows is delivered by sinks that die, freeze, wake up and are redone in other cuts; in the end a consumer has what the
slow rule says: exactly once and in order where the output is a stream, in its end state where the greatest version wins.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from threading import Barrier, Thread
from typing import Any

import pytest

from sidecar.core.model import Seq, TableName
from sidecar.errors import OwnershipLost, SinkError
from sidecar.log import segment_log
from sidecar.log.manifest import Manifest
from sidecar.log.storage import open_folder
from spark_merge.contract import Batch, Outcome, Sink, Standing
from spark_merge.cut import BatchLimits
from spark_merge.delivery import Delivery, JobSettings, Work
from spark_merge.sinks.files import sink as files
from spark_merge.sinks.memory import hidden, versioned
from tests.support import histories
from tests.support.sinks import Here, Place, Shown

TABLES = 3
"""Of each random history: enough for several units a segment."""


class Died(Exception):
    """The worker's process is gone; its sink and its tasks with it."""


@dataclass
class Life:
    """Steps until the worker dies; a negative number: it does not."""

    left: int

    def step(self) -> None:
        if self.left == 0:
            raise Died
        self.left -= 1


class Mortal:
    """A sink whose worker may die before and after each call of it."""

    def __init__(self, sink: Sink, life: Life) -> None:
        self._sink, self._life = sink, life

    def _between(self, call: Any) -> Any:
        self._life.step()
        found = call()
        self._life.step()
        return found

    def look(self) -> Seq | None:
        return self._sink.look()

    def open(self, *, epoch: int | None) -> Standing:
        found: Standing = self._between(lambda: self._sink.open(epoch=epoch))
        return found

    def plan(self, heads: Any, *, cores: int) -> Batch | None:
        found: Batch | None = self._between(lambda: self._sink.plan(heads, cores=cores))
        return found

    def accept(self, batch: Batch, outcomes: Sequence[Outcome]) -> None:
        self._between(lambda: self._sink.accept(batch, outcomes))

    def close(self) -> None:
        self._sink.close()


class Story:
    """A log, what the slow rule makes of it, and one output."""

    def __init__(self, folder: Path, place: Place, *, seed: int) -> None:
        self.place, self.random = place, Random(seed)
        self.history = histories.random_history(self.random)
        self.log = open_folder(str(folder / "log"))
        self.manifests: list[Manifest] = histories.write_log(self.log, self.history)
        self.tables = {row.table for row in self.history.rows}

    def settings(self, *, epoch: int | None = None, segments_max: int = 2) -> JobSettings:
        return JobSettings(self.log, limits=BatchLimits(segments_max=segments_max), epoch_max=epoch)

    def delivery(self, sink: Sink | None = None, *, epoch: int | None = None, segments_max: int = 2, tasks: Here | None = None) -> Delivery:
        return Delivery(sink or self.place.sink(), self.settings(epoch=epoch, segments_max=segments_max), tasks or Here())

    def finish(self, *, segments_max: int = 2) -> None:
        delivery = self.delivery(segments_max=segments_max)
        while delivery.deliver():
            pass
        delivery.sink.close()

    def expected(self, table: TableName) -> list[Shown]:
        rows = histories.expected(self.history, self.manifests, table)
        return [(seq, ts, op, key, after) for seq, ts, op, key, _, after, _ in rows]  # type: ignore[misc]  # the columns of a Shown

    def check_end(self) -> None:
        found = self.place.rows()
        assert found.keys() <= self.tables
        for table in self.tables:
            rows, expected = found.get(table, []), self.expected(table)
            if self.place.versioned:
                assert {row[3]: row[4] for row in rows} == {row[3]: row[4] for row in expected}, table
            elif self.place.in_order:
                assert rows == expected, table
            else:
                assert sorted(map(repr, rows)) == sorted(map(repr, expected)), table

    def check_beginning(self) -> None:
        """What a reader has by now is a beginning of what it will have: nothing twice, nothing out of place."""
        if self.place.versioned:
            return
        for table, rows in self.place.rows().items():
            expected = self.expected(table)
            if self.place.in_order:
                assert rows == expected[: len(rows)], table
            else:
                last = max((row[0] for row in rows), default=-1)
                assert sorted(map(repr, rows)) == sorted(repr(row) for row in expected if row[0] <= last), table

    def begin(self, sink: Sink, *, epoch: int | None = None) -> tuple[Batch, list[Work]]:
        """The first batch of a sink and its tasks, stage after stage, none of them run."""
        caught: list[Work] = []
        planned: list[Batch] = []

        class Catch(Here):
            def run(self, work: Sequence[Work]) -> list[Outcome]:
                caught.extend(pickle.loads(pickle.dumps(list(work))))
                return [Outcome(one.task.id, {}) for one in work]

        class Dying(Mortal):
            def accept(self, batch: Batch, outcomes: Sequence[Outcome]) -> None:
                planned.append(batch)
                raise Died

        with pytest.raises(Died):
            self.delivery(Dying(sink, Life(-1)), epoch=epoch, tasks=Catch()).deliver()
        return planned[0], caught

    def begin_and_die(self) -> None:
        """A worker whose tasks wrote, and that accepted nothing."""
        if (self.place.sink().look() or 0) < histories.SEGMENTS - 1:
            Here().run(self.begin(self.place.sink())[1])


class SinkPort:
    """Subclasses give a fixture `place` for each output to try, new for each test."""

    @pytest.fixture
    def story(self, tmp_path: Path, place: Place, monkeypatch: pytest.MonkeyPatch) -> Story:
        """Where a sink may have a segment's live rows in several units, most of its segments are large enough for it."""
        monkeypatch.setattr(histories, "TABLES", TABLES)
        monkeypatch.setattr(segment_log, "ROW_GROUP_ROWS_MAX", 3)
        monkeypatch.setitem(files.LIVE_PARTS, "parquet", 2)
        for twin in (hidden, versioned):
            monkeypatch.setattr(twin, "LIVE_PART_ROWS", 2)
        return Story(tmp_path, place, seed=7)

    @pytest.mark.parametrize("segments_max", [1, 3, 100])
    def test_whatever_the_cut_the_end_is_the_rules(self, story: Story, segments_max: int) -> None:
        assert story.place.sink().look() is None
        story.finish(segments_max=segments_max)
        story.check_end()
        assert story.place.sink().look() == histories.SEGMENTS - 1

    def test_a_death_between_any_two_steps_changes_nothing_in_the_end(self, story: Story) -> None:
        """One worker after another dies, each a step later than the one before it got to; a reader looks after each death."""
        for lived in range(1, 200):
            life = Life(lived)
            try:
                sizes = story.random.choice([1, 2, 4])
                delivery = story.delivery(Mortal(story.place.sink(), life), segments_max=sizes, tasks=Here(before=life.step))
                while delivery.deliver():
                    pass
                break
            except Died:
                story.check_beginning()
        else:
            pytest.fail("it never came to its end")
        story.check_end()

    def test_a_batch_whose_tasks_are_done_and_that_was_not_accepted_is_done_again(self, story: Story) -> None:
        sink = story.place.sink()
        _, work = story.begin(sink)
        Here().run(work)
        story.check_beginning()
        story.finish(segments_max=1)
        story.check_end()

    def test_a_former_worker_that_wakes_up_can_not_accept(self, story: Story) -> None:
        """Frozen after its tasks wrote: before the next owner accepts anything, and after it has accepted all."""
        former = story.place.sink()
        batch, work = story.begin(former)
        outcomes = Here().run(work)
        successor = story.delivery()
        before = story.place.rows()
        for _ in range(2):
            with pytest.raises(OwnershipLost):
                former.accept(batch, outcomes)
            assert story.place.rows() == before or story.place.versioned
            while successor.deliver():
                pass
            before = story.place.rows()
        story.check_end()

    def test_a_task_that_outlives_its_driver_changes_nothing(self, story: Story) -> None:
        _, work = story.begin(story.place.sink())
        successor = story.delivery()
        successor.deliver()
        for late in work:
            self.run_late(late)
        while successor.deliver():
            pass
        for late in work:
            self.run_late(late)
        story.check_end()

    def test_a_task_may_run_twice_at_once_and_again_when_all_is_over(self, story: Story) -> None:
        sink = story.place.sink()
        batch, work = story.begin(sink)
        outcomes: list[Outcome] = []
        for one in work:
            together, found = Barrier(2), list[Outcome]()

            def twin(one: Work = one, together: Barrier = together, found: list[Outcome] = found) -> None:
                together.wait(timeout=30)
                found.append(pickle.loads(pickle.dumps(one)).carry_out())

            twins = [Thread(target=twin) for _ in range(2)]
            for thread in twins:
                thread.start()
            for thread in twins:
                thread.join(timeout=60)
            assert len(found) == 2
            outcomes.append(story.random.choice(found))
        sink.accept(batch, outcomes)
        for one in work:
            one.carry_out()
        story.finish()
        story.check_end()

    def test_a_later_epoch_shuts_out_all_before_it(self, story: Story) -> None:
        story.place.sink().open(epoch=5)
        with pytest.raises(OwnershipLost):
            story.place.sink().open(epoch=4)
        again, unknown = story.place.sink().open(epoch=5), story.place.sink().open(epoch=None)
        assert again.owner < unknown.owner
        assert (again.owner.epoch, unknown.owner.epoch) == (5, 5)
        assert story.place.sink().open(epoch=6).owner == (6, 1)

    def test_looking_takes_nothing_over(self, story: Story) -> None:
        delivery = story.delivery(segments_max=1)
        delivery.deliver()
        assert story.place.sink().look() == 0
        while delivery.deliver():
            pass
        story.check_end()

    def test_a_batch_that_was_accepted_is_refused(self, story: Story) -> None:
        sink = story.place.sink()
        batch, work = story.begin(sink)
        sink.accept(batch, Here().run(work))
        with pytest.raises((SinkError, OwnershipLost)):
            sink.accept(batch, Here().run(work))
        assert story.place.sink().look() == batch.heads[-1].seq
        story.finish()
        story.check_end()

    def test_another_log_is_refused(self, story: Story) -> None:
        story.finish()
        other = story.place.sink("log-2")
        for act in (other.look, lambda: other.open(epoch=None)):
            with pytest.raises(SinkError, match="log-1"):
                act()
        story.check_end()

    def run_late(self, work: Work) -> None:
        """It may be refused, and then for this reason only."""
        try:
            work.carry_out()
        except OwnershipLost:
            return
