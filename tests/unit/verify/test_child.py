"""The process of verifications: where its work is done, and what it raises."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import Pipe
from pathlib import Path
from threading import Event, Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.shared.errors import SinkError, SparkLost
from spark_merge.delivery.task_errors import error_text
from spark_merge.verify.child import FREE_SHARE, HERE_ROWS, PROCESS_BYTES, OnSpark, OwnProcesses, WorkerLink, process_count
from spark_merge.verify.link import LateState, Link, SparkDone, SparkWork
from tests.support.eventually import eventually


@dataclass(frozen=True)
class Pid:
    def __call__(self) -> int:
        return os.getpid()


@dataclass(frozen=True)
class Raises:
    """`ours`: an error of the error tree."""

    ours: bool

    def __call__(self) -> int:
        if self.ours:
            raise SinkError("its server is away", hint="start it")
        raise ZeroDivisionError("a defect")


@dataclass(frozen=True)
class Dies:
    def __call__(self) -> int:
        os.kill(os.getpid(), signal.SIGKILL)
        return 0


@pytest.fixture(scope="module")
def processes() -> OwnProcesses:
    return OwnProcesses(2)


def test_little_is_done_here_and_more_by_other_processes(processes: OwnProcesses) -> None:
    assert processes.run([Pid()] * 3, rows=HERE_ROWS) == [os.getpid()] * 3
    results = processes.run([Pid()] * 3, rows=HERE_ROWS + 1)
    assert len(results) == 3
    assert os.getpid() not in results


@pytest.mark.parametrize(("ours", "kind"), [(True, SinkError), (False, ZeroDivisionError)])
def test_what_work_raises_is_raised(processes: OwnProcesses, ours: bool, kind: type[Exception]) -> None:
    for rows in (0, HERE_ROWS + 1):
        work: list[Callable[[], int]] = [Pid(), Raises(ours)]
        with pytest.raises(kind):
            processes.run(work, rows=rows)


def test_a_process_that_dies_is_an_error_of_that_work_and_the_next_work_is_done(processes: OwnProcesses) -> None:
    with pytest.raises(SinkError, match="ended while it read rows"):
        processes.run([Dies()], rows=HERE_ROWS + 1)
    assert len(processes.run([Pid()], rows=HERE_ROWS + 1)) == 1


@given(st.integers(1, 256), st.integers(0, 64 << 30))
def test_there_are_as_many_processes_as_cores_and_memory_allow(cores: int, free_bytes: int) -> None:
    result = process_count(cores, free_bytes)
    assert 1 <= result <= cores
    assert result == 1 or result * PROCESS_BYTES <= free_bytes * FREE_SHARE
    assert result == cores or (result + 1) * PROCESS_BYTES > free_bytes * FREE_SHARE


class Worker:
    """The other end. `answers`: makes what is answered to each work."""

    def __init__(self, answers: Callable[[SparkWork], SparkDone]) -> None:
        ours, theirs = Pipe()
        self.is_gone = Event()
        self.link, self.child = Link(ours), WorkerLink(Link(theirs), self.is_gone.set)
        Thread(target=self._serve, args=(answers,), daemon=True).start()

    def _serve(self, answers: Callable[[SparkWork], SparkDone]) -> None:
        while True:
            self.link.send(answers(self.link.receive()))


def on_two_cores(work: SparkWork) -> SparkDone:
    return SparkDone(work.number, [2] if work.work is None else [one() for one in work.work])


def test_on_a_cluster_the_worker_has_spark_do_what_is_large() -> None:
    runner = OnSpark(Worker(on_two_cores).child)
    assert runner.cores == 2
    assert runner.run([Pid(), Pid()], rows=HERE_ROWS + 1) == [os.getpid()] * 2
    assert runner.run([Pid()], rows=0) == [os.getpid()]


@pytest.mark.parametrize(
    ("error", "kind"), [(SparkLost("its session is gone", hint="nothing"), SparkLost), (ZeroDivisionError("a defect"), RuntimeError)]
)
def test_what_the_worker_could_not_do_is_raised(error: Exception, kind: type[Exception]) -> None:
    runner = OnSpark(Worker(lambda work: SparkDone(work.number, [], error_text(error))).child)
    with pytest.raises(kind, match=r"gone|a defect"):
        runner.run([Pid()], rows=HERE_ROWS + 1)


def test_it_knows_whether_deliveries_are_late() -> None:
    worker = Worker(on_two_cores)
    assert not worker.child.late
    worker.link.send(LateState(late=True))
    eventually(lambda: worker.child.late)
    worker.link.send(LateState(late=False))
    eventually(lambda: not worker.child.late)


def test_the_end_of_the_worker_is_noticed() -> None:
    ours, theirs = Pipe()
    is_gone = Event()
    WorkerLink(Link(theirs), is_gone.set)
    ours.close()
    assert is_gone.wait(10)


STARTED = """
import sys, time
from multiprocessing import resource_tracker
from spark_merge.verify.child import HERE_ROWS, OwnProcesses
from tests.unit.verify.test_child import Pid
processes = OwnProcesses(2)
pids = processes.run([Pid()] * 4, rows=HERE_ROWS + 1)
print(*{*pids, resource_tracker._resource_tracker._pid}, flush=True)
time.sleep(600)
"""


def test_its_processes_end_with_it_and_the_one_that_frees_their_semaphores_after_them() -> None:
    """Killed with them it leaves five files in /dev/shm each time."""
    with subprocess.Popen([sys.executable, "-c", STARTED], stdout=subprocess.PIPE, text=True) as started:
        assert started.stdout is not None
        pids = [int(pid) for pid in started.stdout.readline().split()]
        assert len(pids) >= 2
        started.kill()
    eventually(lambda: not [pid for pid in pids if lives(pid)])


def lives(pid: int) -> bool:
    """One that nobody has reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
