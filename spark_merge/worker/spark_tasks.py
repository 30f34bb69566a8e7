"""Tasks on Spark, and when there is one. It knows no session: `begin` makes what it uses (session.py).

    absent ── wanted, or work ──► starting ──► ready ── idle_s without either ──► ending ──► absent

Where it is `when_needed`, on this machine's cores:

- It is wanted by a backlog of large batches, of a dump or of live rows (delivery/places.py). The manifests say how large they are, to a
  worker that no sidecar has started, too. An idle stream never wants it, nor does a dump whose batches are small or that is over in
  seconds: Spark would not run them, and its start would take a core from them for many seconds.
- Nobody waits for what is only wanted. Work that must be Spark's (`run`, `each`, `cores`, `driver_host`) waits until it is ready.
- A start that fails ends the worker only if such work waits for it. One that was only wanted is `error`, for a notice, and nothing is left
  of it; it is tried again when Spark is wanted after a while, which doubles with each failure. Work that must be Spark's tries at once.
- It ends only while no work is under way; both are decided under one lock. So work has a Spark until it is done, or starts one again; and
  the next start waits until the end before it is over, for two of them would take the memory of two.
- The JVM dies: while it starts or is ready, `check` raises SparkLost, and the worker ends with it. While it ends, it has ended.
- The worker dies, at any line: its JVM ends when its standard input does. Nothing is written of it, so the next worker has none, and
  starts one when a batch wants it.

Everywhere else it starts at once, and stays.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from threading import Condition, current_thread
from time import monotonic
from typing import Protocol, TypeVar

import stamina

from sidecar.shared.errors import ConfigError, SinkError, SparkLost
from sidecar.shared.process.background import Background
from spark_merge.delivery.batches import TaskWork
from spark_merge.delivery.task_errors import notifying
from spark_merge.delivery.watchdog import HANG_S, Watchdog
from spark_merge.merge.cut import BatchLimits
from spark_merge.port.contract import Head, Outcome

T = TypeVar("T")
R = TypeVar("R")

JOBS_MEASURED = 8
"""Of which what a job takes besides its tasks is the least: a minute or less of a dump."""

LOAD_TRIES = 3
"""Of what tasks need, because Spark on one machine does not retry a task."""

LOOK_S = 0.1
"""Between two looks at what keeps Spark from starting."""

AGAIN_FIRST_S, AGAIN_MAX_S = 60.0, 3_600.0
"""Between a start that failed, though nobody waited for it, and the next one: each takes a core for seconds."""

LOST_HINT = "nothing: the worker ends, and begins where the sinks are"

SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""Set where spark-submit started this process."""

BESIDE = "ticdc-dump-beside"
"""Of jobs that are no delivery's."""


class RunningSpark(Protocol):
    """A Spark that is there (`session.OpenSession`). For several threads at once. Each but `end` raises SparkLost where it is gone."""

    def cores(self) -> int: ...

    def work(self, task: Callable[[T], R], over: Sequence[T], *, pool: str, group: str = "") -> list[R]:
        """What a task for each of `over` returns. Raises the error of ours that one died of, or SinkError."""

    def cancel(self, group: str) -> None: ...

    def driver_host(self) -> str: ...

    def check(self) -> None: ...

    def end(self) -> None:
        """Once it is over, nothing of it is left, and another one may begin."""


class SparkTasks:
    """`batches.Tasks`: each task is one of a Spark job. `begin` makes a Spark, in the background. `when_needed`, `idle_s`: see above;
    `idle_s` 0: it does not end. Each thread's jobs are a pool of their own, with a fair share of the cores. A task that makes no progress
    for `hang_s` ends its Python worker, and so fails (delivery/watchdog.py). `now_s`: a clock."""

    def __init__(
        self,
        begin: Callable[[], RunningSpark],
        *,
        hang_s: float = HANG_S,
        when_needed: bool = False,
        idle_s: float = 0.0,
        now_s: Callable[[], float] = monotonic,
    ) -> None:
        self._begin, self._hang_s, self._now_s = begin, hang_s, now_s
        self._idle_s, self._when_needed = idle_s if when_needed else 0.0, when_needed
        self._parallel = 1
        self._jobs_s: deque[float] = deque(maxlen=JOBS_MEASURED)
        self._changed = Condition()
        self._running: RunningSpark | None = None
        self._starting: Background | None = None
        self._ending: Background | None = None
        """The last end: what a start waits for."""
        self._under_way, self._wanted_s = 0, now_s()
        self.error: ConfigError | SparkLost | None = None
        """What the last start failed of, if nobody waited for it; until one succeeds."""
        self._again_s, self._again_after_s = 0.0, AGAIN_FIRST_S
        self._needed = False
        """Somebody has waited for the last start."""
        if not when_needed:
            self.want()

    @property
    def ready(self) -> bool:
        return self._running is not None

    @property
    def begun(self) -> bool:
        """Whether it starts, or is there."""
        return self._starting is not None

    def want(self) -> None:
        """It is of use, or will be soon: it starts, if it has not and did not fail just now, and nobody waits for it."""
        with self._changed:
            self._wanted_s = self._now_s()
            if self._starting is None and (self.error is None or self._wanted_s >= self._again_s):
                self._needed = not self._when_needed
                self._starting = Background(partial(self._start, self._ending), name="spark")

    def end_if_idle(self) -> None:
        """Called often. Nobody waits for the end."""
        with self._changed:
            running, idle_s = self._running, self._now_s() - self._wanted_s
            if running is None or not self._idle_s or self._under_way or idle_s < self._idle_s:
                return
            self._running = self._starting = None
            self._ending = Background(lambda _: running.end(), name="spark-end")

    @property
    def job_s(self) -> float:
        """What a job takes besides its tasks: the least of the last ones, for tasks that wait for a core make it look more."""
        return min(self._jobs_s, default=0.0)

    def limits(self, most: BatchLimits) -> BatchLimits:
        return most

    def check(self) -> None:
        """Raises what kept it from starting, if somebody has waited for that, or from ending, and SparkLost when its JVM has ended without
        that."""
        with self._changed:
            if self._starting is not None:
                self._check_start(self._starting)
            if self._ending is not None:
                self._ending.check()
            if self._running is not None:
                self._running.check()

    def _check_start(self, starting: Background) -> None:
        try:
            starting.check()
        except (ConfigError, SparkLost) as error:
            if self._needed:
                raise
            self.error, self._starting = error, None
            self._again_s, self._again_after_s = self._now_s() + self._again_after_s, min(2 * self._again_after_s, AGAIN_MAX_S)

    def cores(self, heads: Sequence[Head]) -> int:  # noqa: ARG002  # Spark has as many for each batch
        with self._used() as running:
            self._parallel = running.cores()  # executors come and go
        return self._parallel

    def run(self, work: Sequence[TaskWork]) -> list[Outcome]:
        """Raises SparkLost where Spark is gone: it does not come back in this process."""
        with self._used() as running:
            began_s = monotonic()
            done = running.work(notifying(partial(_carried_out, self._hang_s)), work, pool=current_thread().name)
        took_s = [seconds for seconds, _ in done]
        self._jobs_s.append(max(monotonic() - began_s - max(max(took_s), sum(took_s) / self._parallel), 0.0))
        return [outcome for _, outcome in done]

    def each(self, work: Sequence[Callable[[], R]], *, group: str = BESIDE) -> list[R]:
        """What each returns. Picklable work that is no sink's; `cancel` ends that of a group. Raises as `run`."""
        with self._used() as running:
            return running.work(notifying(partial(_called, self._hang_s)), work, pool=current_thread().name, group=group)

    def cancel(self, group: str = BESIDE) -> None:
        """End the work of `each` that is under way: its caller is gone. Raises as `run`."""
        if (running := self._running) is not None:
            running.cancel(group)

    def driver_host(self) -> str:
        """Where executors reach this machine. Raises as `run`."""
        with self._used() as running:
            return running.driver_host()

    def each_or_cores(self, work: Sequence[Callable[[], R]] | None) -> list[R] | list[int]:
        """As `each`; without work how many cores there are."""
        return [self.cores(())] if work is None else self.each(work)

    @contextmanager
    def _used(self) -> Iterator[RunningSpark]:
        """Once it is ready; it does not end before the body has."""
        with self._changed:
            while (running := self._running) is None:
                self.check()
                self._again_s = 0.0
                self.want()
                self._needed = True
                self._changed.wait(LOOK_S)
            self._under_way += 1
        try:
            yield running
        finally:
            with self._changed:
                self._under_way -= 1
                self._wanted_s = self._now_s()

    def _start(self, before: Background | None, _: object) -> None:
        """Python workers too: they load what tasks need, seconds that the first window need not wait for. One may die of that, as a task
        may; what fails each time is what keeps every task from running."""
        if before is not None:
            before.close()
        running: RunningSpark | None = None
        try:
            running = self._begin()
            self._parallel = running.cores()
            for attempt in stamina.retry_context(on=SinkError, attempts=LOAD_TRIES):
                with attempt:
                    self._load(running)
            began_s = monotonic()
            self._load(running)
            self._jobs_s.append(monotonic() - began_s)
        except (SinkError, SparkLost, OSError) as error:
            if running is not None and not self._needed:  # else it ends with this process
                running.end()
            what = error.message if isinstance(error, SinkError | SparkLost) else error
            raise SparkLost(
                f"Spark ended while it started: {what}", hint="see Spark's own lines above; `ticdc-dump check --spark` tries it alone"
            ) from error
        with self._changed:
            self._running, self._wanted_s = running, self._now_s()
            self.error, self._again_after_s = None, AGAIN_FIRST_S
            self._changed.notify_all()

    def _load(self, running: RunningSpark) -> None:
        running.work(_nothing, range(self._parallel), pool=BESIDE)


def _carried_out(hang_s: float, work: TaskWork) -> tuple[float, Outcome]:
    """In a Python worker, which carries out a task at a time: how long it took, too."""
    began_s = monotonic()
    with Watchdog(hang_s).watched():
        outcome = work.carry_out()
    return monotonic() - began_s, outcome


def _called(hang_s: float, work: Callable[[], R]) -> R:
    with Watchdog(hang_s).watched():
        return work()


def _nothing(_: int) -> None:
    """In a task: unpickling this function has loaded this module and all that tasks need."""
