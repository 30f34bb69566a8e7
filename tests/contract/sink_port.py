"""What every sink keeps, of whatever kind (spark_merge/contract.py): a suite to be run on each, by a class that gives it `place`.

A random log with windows is delivered by sinks that die, freeze, wake up and are redone in other cuts; in the end a consumer has what the
slow rule says: exactly once and in order where the output is a stream, in its end state where the greatest version wins.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from threading import Barrier, Thread
from typing import Any

import pytest

from sidecar.core.model import Seq, TableName
from sidecar.errors import OwnershipLost, SinkError
from sidecar.log import segment_log, storage
from sidecar.log.identity import name_of
from sidecar.log.layout import manifest_name
from sidecar.log.manifest import Manifest, to_json
from sidecar.log.storage import open_folder
from spark_merge.contract import Accepted, Batch, Outcome, Sink, Standing
from spark_merge.cut import BatchLimits
from spark_merge.delivery import Delivery, JobSettings, TaskWork
from spark_merge.sinks.folder.layout import LIVE_PARTS
from spark_merge.sinks.memory import hidden, versioned
from tests.support import histories
from tests.support.eventually import PATIENCE_S
from tests.support.sinks import Here, Place, Shown, accepted

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


def mortal(monkeypatch: pytest.MonkeyPatch, owner: object, *names: str) -> Life:
    """Of the process, which may die before and after each of these calls of `owner`."""
    life = Life(-1)

    def around(call: Callable[..., object]) -> Callable[..., object]:
        def step(*args: object) -> object:
            life.step()
            found = call(*args)
            life.step()
            return found

        return step

    for name in names:
        monkeypatch.setattr(owner, name, around(getattr(owner, name)))
    return life


Dying = Callable[[int], AbstractContextManager[object]]
"""Within it the worker dies at the step of that number, if it comes to it."""


def of(life: Life) -> Dying:
    @contextmanager
    def dying(at: int) -> Iterator[None]:
        life.left = at
        try:
            yield
        finally:
            life.left = -1

    return dying


def die_after_each(story: Story, dying: Dying, steps: range) -> int:
    """Lives that end at each of these steps, one after another, until one comes to the log's end; how many died. A reader looks after each
    death, and sees nothing go back."""
    died = 0
    for at in steps:
        try:
            with dying(at):
                story.finish(segments_max=3)
            break
        except Died:
            died += 1
            story.check_beginning()
    else:
        pytest.fail("it never came to its end")
    story.check_end()
    return died


def before_each(patch: pytest.MonkeyPatch, act: Callable[[], object], kind: type[Any], *names: str) -> None:
    """`act` before each call of these methods."""

    def acting(call: Callable[..., object]) -> Callable[..., object]:
        def step(*args: Any, **named: Any) -> object:
            act()
            return call(*args, **named)

        return step

    for name in names:
        patch.setattr(kind, name, acting(getattr(kind, name)))


def opened_at_once(story: Story) -> list[Delivery]:
    """By two workers; without one that lost the output while it opened it."""
    together = Barrier(2)
    found: list[Delivery] = []

    def race() -> None:
        together.wait(timeout=PATIENCE_S)
        with suppress(OwnershipLost):
            found.append(story.delivery(segments_max=2))

    racers = [Thread(target=race) for _ in range(2)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join(timeout=PATIENCE_S)
    return found


class Mortal:
    """A sink whose worker may die before and after each call of it."""

    def __init__(self, sink: Sink, life: Life) -> None:
        self._sink, self._life = sink, life

    def _between(self, call: Any) -> Any:
        self._life.step()
        found = call()
        self._life.step()
        return found

    def look(self) -> Accepted | None:
        return self._sink.look()

    def open(self, *, epoch: int | None) -> Standing:
        found: Standing = self._between(lambda: self._sink.open(epoch=epoch))
        return found

    def plan(self, heads: Any, *, cores: int) -> Batch:
        found: Batch = self._between(lambda: self._sink.plan(heads, cores=cores))
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
        self.tables = {row.table for row in self.history.merged(self.manifests)}
        self.shown: dict[tuple[TableName, tuple[str | None, ...]], int] = {}
        """How many of each row's changes had taken effect, at the least, when a target that keeps the newest was looked at last."""

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

    def seen(self) -> dict[TableName, list[str]]:
        """What a reader finds, in its order where the place has one."""
        ordered = self.place.in_order and not self.place.newest
        return {table: [*map(repr, rows)] if ordered else sorted(map(repr, rows)) for table, rows in self.place.rows().items()}

    def check_end(self) -> None:
        found = self.place.rows()
        assert found.keys() <= self.tables
        for table in self.tables:
            rows, expected = found.get(table, []), self.expected(table)
            if self.place.versioned:
                assert {row[3]: row[4] for row in rows} == {row[3]: row[4] for row in expected}, table
            elif self.place.newest:
                assert newest(rows) == newest(expected), table
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
            if self.place.newest:
                self._check_rows_go_forward(table, newest(rows), expected)
            elif self.place.in_order:
                assert rows == expected[: len(rows)], table
            else:
                last = max((row[0] for row in rows), default=-1)
                assert sorted(map(repr, rows)) == sorted(repr(row) for row in expected if row[0] <= last), table

    def _check_rows_go_forward(self, table: TableName, found: Newest, expected: list[Shown]) -> None:
        """Each by itself: those of different keys are written side by side, and a worker may die between them."""
        states: dict[tuple[str | None, ...], list[tuple[str | None, ...] | None]] = {}
        for _, _, _, key, after in expected:
            states.setdefault(key, [None]).append(after)
        assert found.keys() <= states.keys(), table
        for key, before in states.items():
            least = self.shown.get((table, key), 0)
            at = next((at for at in range(least, len(before)) if before[at] == found.get(key)), None)
            assert at is not None, f"row {key} of {table} goes back to {found.get(key)}, or never was so"
            self.shown[table, key] = at

    def begin(self, sink: Sink, *, epoch: int | None = None) -> tuple[Batch, list[TaskWork]]:
        """The first batch of a sink and its tasks, stage after stage, none of them run."""
        caught: list[TaskWork] = []
        planned: list[Batch] = []

        class Catch(Here):
            def run(self, work: Sequence[TaskWork]) -> list[Outcome]:
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
        if (accepted(self.place.sink()) or 0) < histories.SEGMENTS - 1:
            Here().run(self.begin(self.place.sink())[1])


Newest = dict[tuple[str | None, ...], tuple[str | None, ...]]


def newest(rows: Sequence[Shown]) -> Newest:
    """Each key's last row, without those that are deleted."""
    last = {key: after for _, _, _, key, after in rows}
    return {key: after for key, after in last.items() if after is not None}


class SinkPort:
    """Subclasses give a fixture `place` for each output to try, new for each test."""

    @pytest.fixture
    def story(self, tmp_path: Path, place: Place, monkeypatch: pytest.MonkeyPatch) -> Story:
        """Where a sink may have a segment's live rows in several units, most of its segments are large enough for it."""
        monkeypatch.setattr(histories, "TABLES", TABLES)
        monkeypatch.setattr(segment_log, "ROW_GROUP_ROWS_MAX", 3)
        monkeypatch.setitem(LIVE_PARTS, "parquet", 2)
        for twin in (hidden, versioned):
            monkeypatch.setattr(twin, "LIVE_PART_ROWS", 2)
        return Story(tmp_path, place, seed=7)

    @pytest.mark.parametrize("segments_max", [1, 3, 100])
    def test_whatever_the_cut_the_end_is_the_rules(self, story: Story, segments_max: int) -> None:
        assert story.place.sink().look() is None
        story.finish(segments_max=segments_max)
        story.check_end()
        assert accepted(story.place.sink()) == histories.SEGMENTS - 1

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
        before = story.seen()
        for _ in range(2):
            with pytest.raises(OwnershipLost):
                former.accept(batch, outcomes)
            assert story.seen() == before or story.place.versioned
            while successor.deliver():
                pass
            before = story.seen()
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

            def twin(one: TaskWork = one, together: Barrier = together, found: list[Outcome] = found) -> None:
                together.wait(timeout=PATIENCE_S)
                found.append(pickle.loads(pickle.dumps(one)).carry_out())

            twins = [Thread(target=twin) for _ in range(2)]
            for thread in twins:
                thread.start()
            for thread in twins:
                thread.join(timeout=PATIENCE_S)
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
        assert accepted(story.place.sink()) == 0
        while delivery.deliver():
            pass
        story.check_end()

    def test_a_batch_that_was_accepted_is_refused(self, story: Story) -> None:
        sink = story.place.sink()
        batch, work = story.begin(sink)
        sink.accept(batch, Here().run(work))
        with pytest.raises((SinkError, OwnershipLost)):
            sink.accept(batch, Here().run(work))
        assert accepted(story.place.sink()) == batch.heads[-1].seq
        story.finish()
        story.check_end()

    def test_an_output_that_names_only_the_changefeed_becomes_this_logs_once(self, story: Story) -> None:
        story.delivery().deliver()
        mine, others = name_of("log-1", "a" * 32), name_of("log-1", "b" * 32)
        there = story.place.sink(mine).look()
        assert there is not None
        assert story.place.sink(mine).open(epoch=None).accepted == there
        assert story.place.sink(mine).look() == there
        for other in (others, "log-2"):
            with pytest.raises(SinkError, match="a" * 32):
                story.place.sink(other).look()

    @pytest.mark.parametrize("kept", [1, histories.SEGMENTS], ids=["restored from a backup", "and written on"])
    def test_a_log_that_is_not_the_one_that_it_has_is_refused_and_takes_nothing_over(self, story: Story, tmp_path: Path, kept: int) -> None:
        """Its numbers are the same, its segments are not: rows would be missing without a word."""
        delivery = story.delivery(segments_max=3)
        delivery.deliver()
        mine, story.log = story.log, open_folder(str(tmp_path / "restored"))
        written = histories.write_log(story.log, story.history, made="once more")
        storage.remove(story.log, [manifest_name(manifest.seq) for manifest in written[kept:]])
        storage.remove(story.log, [manifest.data for manifest in written[kept:] if manifest.data])
        with pytest.raises(SinkError, match="the output has accepted segment"):
            story.delivery()
        story.log = mine
        while delivery.deliver():  # the worker of the right log was not fenced off
            pass
        story.check_end()

    def test_a_log_that_is_replaced_under_a_worker_is_noticed(self, story: Story, tmp_path: Path) -> None:
        delivery = story.delivery(segments_max=2)
        delivery.deliver()
        elsewhere = open_folder(str(tmp_path / "restored"))
        later = histories.write_log(elsewhere, story.history, made="once more", moved_ts=5)
        storage.write_atomically(story.log, manifest_name(Seq(2)), to_json(later[2]))
        with pytest.raises(SinkError, match=r"segment 2 of the log .* begins at"):
            delivery.deliver()
        assert accepted(story.place.sink()) == 1

    def test_another_log_is_refused(self, story: Story) -> None:
        story.finish()
        other = story.place.sink("log-2")
        for act in (other.look, lambda: other.open(epoch=None)):
            with pytest.raises(SinkError, match="log-1"):
                act()
        story.check_end()

    def run_late(self, work: TaskWork) -> None:
        """It may be refused, and then for this reason only."""
        try:
            work.carry_out()
        except OwnershipLost:
            return
