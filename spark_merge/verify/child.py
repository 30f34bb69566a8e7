"""The process that carries out a worker's verifications; process.py, its other side, has the rules.

    python -m spark_merge.verify.child FD PARENT  FD: its end of the connection, of which BeginVerifying is the first message

It ends with PARENT, or when the connection does, and the processes that it has started with it. Two that verify the same would remove each
other's files: so the kernel ends it, which has the lowest priority and might not learn of it before its successor is at work.

What it dies of may be the memory of the whole container, and then nobody is left to count its deaths. So it counts its beginnings, beside
the report: a verification that was begun too often, without a piece of work done or in all, is given up.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from functools import partial
from itertools import count
from multiprocessing.connection import Connection
from queue import SimpleQueue
from threading import Event, Lock
from time import sleep
from typing import Any, TypeVar

import sidecar.shared.process.plain_arrow  # noqa: F401  # before anything makes an array
from sidecar.shared.errors import SinkError
from sidecar.shared.log.verification import VerifyReport, VerifyRequest
from sidecar.shared.log.verification_files import count_beginning, end_stopped, remove_work
from sidecar.shared.process.background import Background
from sidecar.shared.process.end_with_parent import end_with_parent
from sidecar.shared.process.limits import limits
from spark_merge.delivery.task_errors import error_of_task, notifying
from spark_merge.sinks.registry import name_of, open_sink
from spark_merge.verify.context import TaskRunner
from spark_merge.verify.link import BeginVerifying, LateState, Link, Notice, RunState, SparkDone, SparkWork
from spark_merge.verify.runner import Verifications, VerifySettings
from spark_merge.verify.source import SqlSource

R = TypeVar("R")

NICE = 19
"""The lowest priority: a core that is busy with deliveries gives this process a hundredth of it. The scheduler's policy for idle work is
set besides: a delivery that wakes up does not wait for this process at all (sched(7))."""

PARENT_LOOK_S = 0.1

PROCESS_BYTES = 300 << 20
"""Of one that reads rows: 200 MB, measured, and a bucket."""
FREE_SHARE = 0.5
"""Of the memory that is free when the first one begins: the rest is for deliveries, and for Spark, which may not have begun yet."""

HERE_ROWS = 5_000
"""A table that has no more is compared in this process: other processes, or Spark, take longer to begin."""


class WorkerLink:
    """This process's end. A thread of its own receives, and calls `ended` when the other end is gone."""

    def __init__(self, link: Link, ended: Callable[[], object]) -> None:
        self._link, self._ended = link, ended
        self.late = False
        self._numbers = count()
        self._answers: dict[int, SimpleQueue[SparkDone]] = {}
        self._lock = Lock()
        Background(self._listen, name="verify-link")

    def send(self, message: object) -> None:
        self._link.send(message)

    def ask(self, work: Sequence[Callable[[], Any]] | None) -> list[Any]:
        """What Spark has made of it. Raises what that raises."""
        with self._lock:
            number = next(self._numbers)
            answer = self._answers[number] = SimpleQueue()
        self._link.send(SparkWork(number, work))
        done = answer.get()
        if done.error:
            raise error_of_task(RuntimeError(done.error)) or RuntimeError(done.error)
        return done.results

    def _listen(self, _: Event) -> None:
        try:
            while True:
                match self._link.receive():
                    case LateState(late):
                        self.late = late
                    case SparkDone() as done:
                        with self._lock:
                            answer = self._answers.pop(done.number)
                        answer.put(done)
        finally:
            self._ended()


class OwnProcesses:
    """`context.TaskRunner` on this machine: what is large is done by processes of its own, one a core."""

    def __init__(self, cores: int) -> None:
        self.cores = cores
        self._lock = Lock()
        self._pool: ProcessPoolExecutor | None = None

    def run(self, work: Sequence[Callable[[], R]], *, rows: int) -> list[R]:
        if rows <= HERE_ROWS:
            return [one() for one in work]
        try:
            return list(self._processes().map(carried_out, work))
        except BrokenProcessPool as error:
            with self._lock:
                self._pool = None
            raise SinkError(
                "a process of the verification ended while it read rows", hint="see its lines above; most often the memory is too small"
            ) from error
        except RuntimeError as error:
            raise error_of_task(error) or error from error

    def _processes(self) -> ProcessPoolExecutor:
        with self._lock:
            if self._pool is None:
                spawn = multiprocessing.get_context("spawn")
                self._pool = ProcessPoolExecutor(self.cores, mp_context=spawn, initializer=end_with, initargs=(os.getpid(),))
            return self._pool


def process_count(cores: int, free_bytes: int) -> int:
    """How many processes there may be. One, however little memory there is: a verification that dies of that says so."""
    return max(1, min(cores, int(free_bytes * FREE_SHARE) // PROCESS_BYTES))


def end_with(parent: int) -> None:
    """In a process of the pool, which does not hear of its parent's death."""

    def watch(_: Event) -> None:
        while os.getppid() == parent:
            sleep(PARENT_LOOK_S)
        os._exit(1)

    Background(watch, name="parent")


@notifying
def carried_out(work: Callable[[], R]) -> R:
    """In a process of the pool."""
    return work()


class OnSpark:
    """`context.TaskRunner` on the worker's cluster."""

    def __init__(self, link: WorkerLink) -> None:
        self._link = link

    @property
    def cores(self) -> int:
        return int(self._link.ask(None)[0])

    def run(self, work: Sequence[Callable[[], R]], *, rows: int) -> list[R]:
        return [one() for one in work] if rows <= HERE_ROWS else self._link.ask(work)


class CountedVerifications(Verifications):
    """The worker learns which one is under way."""

    def __init__(self, settings: VerifySettings, link: WorkerLink) -> None:
        super().__init__(settings)
        self._link = link
        self._begun: set[str] = set()

    def carry_out(self, request: VerifyRequest, ending: Event) -> VerifyReport:
        if request.id not in self._begun and (why := count_beginning(self._log, request.id).given_up):
            self._settings.notice(f"verification {request.id} is given up: {why}")
            remove_work(self._log, request.id)
            return end_stopped(self._log, request.id, self._settings.now_ms(), why=why)
        self._begun.add(request.id)
        self._link.send(RunState(request.id))
        try:
            return super().carry_out(request, ending)
        finally:
            self._link.send(RunState(None))


def main() -> None:
    end_with_parent(int(sys.argv[2]))
    os.nice(NICE)
    with suppress(OSError):  # a sandbox that knows no policies has the priority
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    link = Link(Connection(int(sys.argv[1])))
    begin: BeginVerifying = link.receive()
    worker = WorkerLink(link, lambda: os.kill(os.getpid(), signal.SIGKILL))
    runner: TaskRunner = OnSpark(worker) if begin.on_spark else OwnProcesses(process_count(begin.cores, limits().free_bytes))
    settings = VerifySettings(
        begin.job,
        SqlSource(begin.server),
        runner,
        {name_of(uri): partial(open_sink, uri, log_id=begin.log_id) for uri in begin.uris},
        late=lambda: worker.late,
        notice=lambda text: worker.send(Notice(text)),
    )
    CountedVerifications(settings, worker).run(Event())


if __name__ == "__main__":
    main()
