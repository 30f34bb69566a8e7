"""An output's life as the suite plays it: a log, what the slow rule makes of it, workers that die at any step, a reader between them."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import chain, cycle, product
from pathlib import Path
from random import Random
from threading import Barrier
from typing import Any, NoReturn

import pytest

from sidecar.shared.errors import OwnershipLost
from sidecar.shared.log.manifest import Manifest
from sidecar.shared.log.storage import open_folder
from sidecar.shared.model.chunk import ClosedWindow
from sidecar.shared.model.nouns import TableName, TableSchema
from spark_merge.delivery.batches import Delivery, JobSettings, TaskWork
from spark_merge.delivery.complete import received
from spark_merge.delivery.sink_record import SinkId
from spark_merge.merge.cut import BatchLimits
from spark_merge.port.contract import Accepted, Batch, MasksColumns, Outcome, Sink, Standing
from spark_merge.port.readable import Readable, Reading
from spark_merge.port.readable import newest as newest_rows
from spark_merge.sinks.kit.position import PositionKeeper
from spark_merge.testing import histories
from spark_merge.testing.histories import RandomHistory
from spark_merge.testing.places import Here, Place, Shown, accepted

WAIT_S = 600
"""For another thread: a limit for one that hangs."""

TABLES = 3
"""Of each random history: enough for several units a segment."""


class Died(Exception):
    """The worker's process is gone; its sink and its tasks with it."""


def dying(*_: object, **__: object) -> NoReturn:
    """In place of a step that a worker dies at."""
    raise Died


@dataclass
class WorkerLife:
    """Steps until the worker dies; a negative number: it does not."""

    left: int

    def step(self) -> None:
        if self.left == 0:
            raise Died
        self.left -= 1


def mortal(monkeypatch: pytest.MonkeyPatch, owner: object, *names: str) -> WorkerLife:
    """Of the process, which may die before and after each of these calls of `owner`."""
    life = WorkerLife(-1)

    def around(call: Callable[..., object]) -> Callable[..., object]:
        def step(*args: object, **named: object) -> object:
            life.step()
            result = call(*args, **named)
            life.step()
            return result

        return step

    for name in names:
        monkeypatch.setattr(owner, name, around(getattr(owner, name)))
    return life


Dying = Callable[[int], AbstractContextManager[object]]
"""Within it the worker dies at the step of that number, if it comes to it."""


def of(life: WorkerLife) -> Dying:
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


def die_under_changing_names(story: Story, dying: Dying, steps: Iterable[int]) -> None:
    """As `die_after_each`, and the sink has another name in each life."""
    for at, name in zip(steps, cycle(story.names), strict=False):
        with suppress(Died), dying(at):
            story.finish(segments_max=3, name=name)
            break
    else:
        pytest.fail("it never came to its end")
    story.check_end_under_changing_names()


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

    def race(_: int) -> Delivery | None:
        together.wait(timeout=WAIT_S)
        with suppress(OwnershipLost):
            return story.delivery(segments_max=2)
        return None

    with ThreadPoolExecutor(2) as pool:
        return [delivery for delivery in pool.map(race, range(2)) if delivery is not None]


def change_names_between_steps(story: Story) -> None:
    """One worker after another, each under another name than the one before it, dies between two calls of the sink or tasks."""
    for lived, name in zip(range(1, 200), cycle(story.names), strict=False):
        life = WorkerLife(lived)
        with suppress(Died):
            sizes = story.random.choice([1, 2, 4])
            sink, tasks = Mortal(story.place.sink(), life), Here(before=life.step)
            delivery = story.delivery(sink, segments_max=sizes, tasks=tasks, name=name)
            while delivery.deliver():
                pass
            break
    else:
        pytest.fail("it never came to its end")
    story.check_end_under_changing_names()


class Mortal:
    """A sink whose worker may die before and after each call of it."""

    def __init__(self, sink: Sink, life: WorkerLife) -> None:
        self._sink, self._life = sink, life
        if isinstance(sink, MasksColumns):
            self.rules_identity = sink.rules_identity

    def _between(self, call: Any) -> Any:
        self._life.step()
        result = call()
        self._life.step()
        return result

    def look(self) -> Accepted | None:
        return self._sink.look()

    def open(self, *, epoch: int | None) -> Standing:
        standing: Standing = self._between(lambda: self._sink.open(epoch=epoch))
        return standing

    def plan(self, heads: Any, *, cores: int) -> Batch:
        batch: Batch = self._between(lambda: self._sink.plan(heads, cores=cores))
        return batch

    def accept(self, batch: Batch, outcomes: Sequence[Outcome]) -> None:
        self._between(lambda: self._sink.accept(batch, outcomes))

    def close(self) -> None:
        self._sink.close()


class Story:
    """A log, what the slow rule makes of it, and one output. `made`: who makes the log. `name`: of the sink, which receives dumps for it
    alone, too; the rule sees what it receives."""

    def __init__(
        self,
        folder: Path,
        place: Place,
        *,
        seed: int,
        made: Callable[[Random], RandomHistory] | None = None,
        name: str = "",
        names: Sequence[str] = (),
    ) -> None:
        """`names`: that the sink can have, one after another; some dumps are for one of them only."""
        self.place, self.random, self._name, self.names = place, Random(seed), name, tuple(names)
        self.history = (made or histories.random_history)(self.random)
        if names:
            self.history.windows = [[self._for_some(window, names) for window in windows] for windows in self.history.windows]
        self.log = open_folder(str(folder / "log"))
        written = histories.write_log(self.log, self.history)
        self.manifests: list[Manifest] = written if names else [received(one, name) for one in written]
        self.tables = {row.table for row in self.history.merged(self.manifests)}
        self.shown: dict[tuple[TableName, tuple[str | None, ...]], int] = {}
        """How many of each row's changes had taken effect, at the least, when a target that keeps the newest was looked at last."""

    def settings(self, *, epoch: int | None = None, segments_max: int = 2) -> JobSettings:
        return JobSettings(self.log, limits=BatchLimits(segments_max=segments_max), epoch_max=epoch)

    def delivery(
        self,
        sink: Sink | None = None,
        *,
        epoch: int | None = None,
        segments_max: int = 2,
        tasks: Here | None = None,
        name: str = "",
    ) -> Delivery:
        """`name`: what the sink is called now; empty: as the story has it."""
        settings, called = self.settings(epoch=epoch, segments_max=segments_max), name or self._name
        sink_id = SinkId(called, self.place.uri) if called else None
        return Delivery(sink or self.place.sink(), settings, tasks or Here(), sink_id=sink_id)

    def _for_some(self, window: ClosedWindow, names: Sequence[str]) -> ClosedWindow:
        return replace(window, sinks=self.random.choice([(), *((name,) for name in names)]))

    def check_end_under_changing_names(self) -> None:
        """Each segment is received under one of the names; of a versioned target also under several, as an earlier attempt wrote rows."""
        choices = [(name,) for name in self.names] + ([self.names] if self.place.versioned else [])
        result = self.place.rows()
        for table in self.tables:
            of_segments = [[self._expected_as(manifest, names, table) for names in choices] for manifest in self.manifests]
            rows = result.get(table, [])
            if self.place.versioned or self.place.newest:
                expected = (list(chain.from_iterable(chosen)) for chosen in product(*of_segments))
                assert any(self._same_newest(rows, one) for one in expected), table
                continue
            for seq, expected_one in enumerate(of_segments):
                there = [row for row in rows if row[0] == seq]
                fits = [there == one if self.place.in_order else sorted(map(repr, there)) == sorted(map(repr, one)) for one in expected_one]
                assert any(fits), f"segment {seq} of {table} is {there}, and is one of {expected_one}"

    def _expected_as(self, manifest: Manifest, names: Sequence[str], table: TableName) -> list[Shown]:
        windows = tuple(window for window in manifest.windows if not window.sinks or {*window.sinks} & {*names})
        rows = histories.expected(self.history, [replace(manifest, windows=windows)], table)
        return [(seq, ts, op, key, after) for seq, ts, op, key, _, after, _ in rows]  # type: ignore[misc]  # the columns of a Shown

    def _same_newest(self, rows: list[Shown], expected: list[Shown]) -> bool:
        if self.place.versioned:
            return {row[3]: row[4] for row in rows} == {row[3]: row[4] for row in expected}
        return newest(rows) == newest(expected)

    def finish(self, *, segments_max: int = 2, name: str = "") -> None:
        delivery = self.delivery(segments_max=segments_max, name=name)
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
        result = self.place.rows()
        assert result.keys() <= self.tables
        for table in self.tables:
            rows, expected = result.get(table, []), self.expected(table)
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

    def _check_rows_go_forward(self, table: TableName, value: Newest, expected: list[Shown]) -> None:
        """Each alone: those of different keys are written side by side, and a worker may die between them."""
        states: dict[tuple[str | None, ...], list[tuple[str | None, ...] | None]] = {}
        for _, _, _, key, after in expected:
            states.setdefault(key, [None]).append(after)
        assert value.keys() <= states.keys(), table
        for key, before in states.items():
            least = self.shown.get((table, key), 0)
            at = next((at for at in range(least, len(before)) if before[at] == value.get(key)), None)
            assert at is not None, f"row {key} of {table} goes back to {value.get(key)}, or never was so"
            self.shown[table, key] = at

    def check_read_back(self, *, end: bool = False) -> None:
        """By the sink's own reader: rows as of its position, or, where it says so, as of a later one."""
        sink = self.place.sink()
        if not isinstance(sink, Readable):
            return
        for table in sorted(self.tables):
            schema = TableSchema(table, histories.COLUMNS, ("id", "part"), definition=histories.DEFINITION)
            for parts in (1, 3):
                reading: Reading = pickle.loads(pickle.dumps(sink.reading(schema, parts=parts)))
                upto = -1 if reading.accepted is None else reading.accepted.seq
                assert not end or upto == histories.SEGMENTS - 1
                expected = newest([row for row in self.expected(table) if row[0] <= upto])
                columns = newest_rows(reading, reading.schema or schema)
                result = {row[:2]: row for row in zip(*(column.to_pylist() for column in columns), strict=True)}
                assert not reading.exact or result == expected, (table, parts)
                assert not end or result == expected, (table, parts)
        sink.close()

    def check_readers_amid_a_commit(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A worker died between what its batch left at the target and the position, and the next one's batches are shorter."""
        with monkeypatch.context() as patch, suppress(Died):
            patch.setattr(PositionKeeper, "accept", dying)
            self.delivery(segments_max=4).deliver()
        for _ in range(3):
            self.delivery(segments_max=2).deliver()
            self.check_read_back()

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
            self.delivery(Dying(sink, WorkerLife(-1)), epoch=epoch, tasks=Catch()).deliver()
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
