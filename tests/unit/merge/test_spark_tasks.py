"""When there is a Spark, with one that does as the test says, and a clock of the test's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from threading import Event, Lock
from typing import TypeVar

import pytest

from sidecar.shared.errors import ConfigError, SinkError, SparkLost
from sidecar.shared.process.background import Background
from spark_merge.worker.spark_tasks import AGAIN_FIRST_S, AGAIN_MAX_S, BESIDE, SparkTasks
from tests.lanes import examples
from tests.support.eventually import PATIENCE_S, eventually

T = TypeVar("T")
R = TypeVar("R")

IDLE_S = 600.0


class Machine:
    """Of which each Spark is one at a time. `starts` and `ends`: held up while they are cleared."""

    def __init__(self) -> None:
        self.starts, self.ends = Event(), Event()
        self.starts.set()
        self.ends.set()
        self.now_s = 1_000.0
        self.begun = 0
        self.there: MadeSpark | None = None
        self.errors: list[Exception] = []
        """What the next starts fail with."""
        self.loads: list[Exception] = []
        """What the next starts fail with once there is a Spark."""
        self.lock = Lock()

    def begin(self) -> MadeSpark:
        assert self.starts.wait(PATIENCE_S)
        if self.errors:
            raise self.errors.pop(0)
        with self.lock:
            assert self.there is None, "two of them at once"
            self.there = made = MadeSpark(self)
            self.begun += 1
        return made

    def tasks(self, *, when_needed: bool = True, idle_s: float = IDLE_S) -> SparkTasks:
        return SparkTasks(self.begin, when_needed=when_needed, idle_s=idle_s, now_s=lambda: self.now_s)


class MadeSpark:
    """`spark_tasks.RunningSpark`. Work of a group is carried out as it is, and all other work is nothing."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.under_way, self.is_ended, self.has_died = 0, False, False

    def cores(self) -> int:
        return 2

    def work(self, task: Callable[[T], R], over: Sequence[T], *, pool: str, group: str = "") -> list[R]:
        with self._machine.lock:
            assert not self.is_ended, "it has work, and has ended"
            self.under_way += 1
        try:
            if pool == BESIDE and not group and self._machine.loads:
                raise self._machine.loads.pop()
            return [one() for one in over if callable(one)] if group else []
        finally:
            with self._machine.lock:
                self.under_way -= 1

    def cancel(self, group: str) -> None: ...

    def driver_host(self) -> str:
        return "here"

    def check(self) -> None:
        if self.has_died:
            raise SparkLost("its JVM has ended", hint="nothing")

    def end(self) -> None:
        with self._machine.lock:
            assert not self.under_way, "it has ended amid work"
            self.is_ended = True
        assert self._machine.ends.wait(PATIENCE_S)
        with self._machine.lock:
            self._machine.there = None


@pytest.fixture
def machine() -> Machine:
    return Machine()


def is_ready(tasks: SparkTasks) -> None:
    eventually(lambda: tasks.ready)
    tasks.check()


def test_it_starts_when_it_is_wanted_and_nobody_waits_for_that(machine: Machine) -> None:
    machine.starts.clear()
    tasks = machine.tasks()
    assert (tasks.begun, tasks.ready) == (False, False)
    tasks.want()
    tasks.want()
    assert (tasks.begun, tasks.ready) == (True, False)
    machine.starts.set()
    is_ready(tasks)
    assert (tasks.begun, machine.begun) == (True, 1)


def test_it_starts_at_once_and_stays_where_it_is_always_needed(machine: Machine) -> None:
    tasks = machine.tasks(when_needed=False)
    is_ready(tasks)
    machine.now_s += 100 * IDLE_S
    tasks.end_if_idle()
    assert tasks.ready


@pytest.mark.parametrize("used", [SparkTasks.want, lambda tasks: tasks.each([partial(int, "7")]), SparkTasks.driver_host])
def test_it_ends_when_it_was_neither_wanted_nor_used_for_long(machine: Machine, used: Callable[[SparkTasks], object]) -> None:
    tasks = machine.tasks()
    tasks.want()
    is_ready(tasks)
    machine.now_s += IDLE_S - 1
    used(tasks)
    machine.now_s += IDLE_S - 1
    tasks.end_if_idle()
    assert tasks.ready
    machine.now_s += 1
    tasks.end_if_idle()
    assert (tasks.begun, tasks.ready) == (False, False)
    eventually(lambda: machine.there is None)
    tasks.want()
    is_ready(tasks)
    assert machine.begun == 2


def test_without_a_time_it_stays_once_it_has_started(machine: Machine) -> None:
    tasks = machine.tasks(idle_s=0.0)
    tasks.want()
    is_ready(tasks)
    machine.now_s += 100 * IDLE_S
    tasks.end_if_idle()
    assert tasks.ready


def test_it_does_not_end_amid_work_however_long_that_takes(machine: Machine) -> None:
    tasks, goes_on = machine.tasks(), Event()
    work = Background(lambda _: tasks.each([goes_on.wait]), name="work")
    eventually(lambda: machine.there is not None and machine.there.under_way)
    machine.now_s += 100 * IDLE_S
    tasks.end_if_idle()
    assert tasks.ready
    goes_on.set()
    work.close()
    work.check()
    tasks.end_if_idle()
    assert tasks.ready, "the time begins when the work is done"


def test_what_comes_while_it_ends_waits_for_the_end_and_has_the_next_one(machine: Machine) -> None:
    tasks = machine.tasks()
    tasks.want()
    is_ready(tasks)
    machine.ends.clear()
    machine.now_s += IDLE_S
    tasks.end_if_idle()
    results: list[int] = []
    work = Background(lambda _: results.extend(tasks.each([partial(int, "7")])), name="work")
    eventually(lambda: tasks.begun)
    assert (tasks.ready, machine.begun) == (False, 1)
    machine.ends.set()
    work.close()
    work.check()
    assert (results, machine.begun) == ([7], 2)


def test_nothing_that_is_cancelled_starts_one(machine: Machine) -> None:
    tasks = machine.tasks()
    tasks.cancel()
    assert not tasks.begun


@pytest.mark.parametrize("error", [SinkError("a task failed", hint="x"), SparkLost("gone", hint="x"), OSError("no java")])
def test_what_keeps_it_from_starting_is_raised_to_who_waits_and_who_looks(machine: Machine, error: Exception) -> None:
    machine.errors = [error]
    tasks = machine.tasks()
    with pytest.raises(SparkLost, match="Spark ended while it started"):
        tasks.each([partial(int, "7")])
    with pytest.raises(SparkLost, match="Spark ended while it started"):
        tasks.check()


def test_a_setting_that_keeps_it_from_starting_is_named(machine: Machine) -> None:
    machine.errors = [ConfigError("Spark at x does not start", hint="see its lines")]
    with pytest.raises(ConfigError, match="Spark at x"):
        machine.tasks().cores(())


def fails(tasks: SparkTasks) -> None:
    """It is wanted, and its start fails, which ends nothing."""
    tasks.want()
    assert tasks.begun

    def is_over() -> bool:
        tasks.check()
        return not tasks.begun

    eventually(is_over)
    assert tasks.error is not None


@pytest.mark.parametrize("error", [ConfigError("Spark at x does not start", hint="x"), SparkLost("gone", hint="x"), OSError("no java")])
def test_a_start_that_was_only_wanted_and_failed_is_tried_again_after_a_while_that_grows_to_a_bound(
    machine: Machine, error: Exception
) -> None:
    tasks, wait_s = machine.tasks(), AGAIN_FIRST_S
    for _ in range(10):
        machine.errors = [error]
        fails(tasks)
        machine.now_s += wait_s - 1
        tasks.want()
        assert not tasks.begun, "it would take a core from what runs without it"
        machine.now_s += 1
        wait_s = min(2 * wait_s, AGAIN_MAX_S)
    assert wait_s == AGAIN_MAX_S
    tasks.want()
    is_ready(tasks)
    assert tasks.error is None
    machine.now_s += IDLE_S
    tasks.end_if_idle()
    machine.errors = [error]
    fails(tasks)
    machine.now_s += AGAIN_FIRST_S
    tasks.want()
    is_ready(tasks)


def test_what_must_be_sparks_waits_for_no_while_and_fails_with_the_start_that_it_waits_for(machine: Machine) -> None:
    tasks = machine.tasks()
    machine.errors = [ConfigError("Spark at x does not start", hint="x")]
    fails(tasks)
    assert tasks.each([partial(int, "7")]) == [7]
    machine.now_s += IDLE_S
    tasks.end_if_idle()
    machine.starts.clear()
    machine.errors = [ConfigError("Spark at x does not start", hint="x")]
    tasks.want()
    work = Background(lambda _: tasks.each([partial(int, "7")]), name="work")
    eventually(lambda: tasks._needed)
    machine.starts.set()
    work.close()
    for check in (work.check, tasks.check):
        with pytest.raises(ConfigError):
            check()


def test_of_a_start_that_failed_with_a_spark_nothing_is_left(machine: Machine) -> None:
    tasks = machine.tasks()
    machine.loads = [SparkLost("its JVM has died", hint="x")]
    fails(tasks)
    assert machine.there is None
    machine.now_s += AGAIN_FIRST_S
    tasks.want()
    is_ready(tasks)


def test_where_it_is_always_needed_a_start_that_fails_is_raised(machine: Machine) -> None:
    machine.errors = [ConfigError("Spark at x does not start", hint="x")]
    tasks = machine.tasks(when_needed=False)
    with pytest.raises(ConfigError):
        eventually(tasks.check)


def test_one_that_has_died_is_noticed_though_nobody_uses_it(machine: Machine) -> None:
    tasks = machine.tasks()
    tasks.want()
    is_ready(tasks)
    assert machine.there is not None
    machine.there.has_died = True
    with pytest.raises(SparkLost):
        tasks.check()


def test_one_that_dies_while_it_ends_has_ended(machine: Machine) -> None:
    tasks = machine.tasks()
    tasks.want()
    is_ready(tasks)
    assert machine.there is not None
    machine.ends.clear()
    machine.now_s += IDLE_S
    machine.there.has_died = True
    tasks.end_if_idle()
    tasks.check()
    machine.ends.set()
    assert tasks.each([partial(int, "7")]) == [7]


@pytest.mark.parametrize("seed", range(examples(40)))
def test_in_any_order_of_what_happens_all_work_is_done_by_one_spark_at_a_time(machine: Machine, seed: int) -> None:
    """Work begins and ends, it is wanted, time passes, starts fail, and starts and ends of Spark are held up: `Machine` and `MadeSpark` see
    to it that there is one at a time, that none ends amid work, and that no work meets one that has ended. A start that fails ends the
    worker, and so the order, if work waits for it, and only then."""
    chance, tasks = Random(seed), machine.tasks()
    under_way: list[tuple[Event, Background]] = []
    kept: list[Background] = []

    def begin_work() -> None:
        goes_on = Event()
        under_way.append((goes_on, Background(lambda _: tasks.each([partial(goes_on.wait, PATIENCE_S)]), name="work")))

    def end_work() -> None:
        if under_way:
            goes_on, work = under_way.pop(chance.randrange(len(under_way)))
            goes_on.set()
            kept.append(work)

    def passes() -> None:
        machine.now_s += chance.choice([1.0, IDLE_S / 2, 2 * IDLE_S])

    def turn() -> None:
        gate = chance.choice([machine.starts, machine.ends])
        (gate.clear if gate.is_set() else gate.set)()

    def break_next() -> None:
        if not under_way:
            (machine.errors if chance.random() < 0.5 else machine.loads).append(SparkLost("broken", hint="x"))

    def check() -> bool:
        """Whether the worker continues."""
        try:
            tasks.check()
        except SparkLost:
            eventually(lambda: any(has_failed(work) for _, work in under_way) or any(map(has_failed, kept)))
            for gate in (machine.starts, machine.ends, *(goes_on for goes_on, _ in under_way)):
                gate.set()
            return False
        return True

    steps = [begin_work, end_work, end_work, passes, passes, tasks.end_if_idle, tasks.end_if_idle, tasks.want, tasks.want, turn, break_next]
    for _ in range(60):
        chance.choice(steps)()
        if not check():
            return
        if chance.random() < 0.5:
            eventually(lambda: not check() or tasks.ready or not tasks.begun or not machine.starts.is_set() or not machine.ends.is_set())
            if not check():
                return
    machine.errors.clear()
    machine.loads.clear()
    machine.starts.set()
    machine.ends.set()
    for goes_on, work in under_way:
        goes_on.set()
        kept.append(work)
    for work in kept:
        work.close(PATIENCE_S)
        assert not work.alive
    if check():
        assert not any(map(has_failed, kept))


def has_failed(work: Background) -> bool:
    try:
        work.check()
    except SparkLost:
        return True
    return False
