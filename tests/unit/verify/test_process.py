"""A worker's verifications in a process of their own: it carries out what is asked, stops at once, and ends with whoever started it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Event, Thread
from time import monotonic, sleep
from typing import Any
from unittest.mock import Mock, call

import pytest

from sidecar.shared.errors import SinkError
from sidecar.shared.log import storage
from sidecar.shared.log.verification import CheckState, TableReport, VerifyReport, begun_name, decoded, report_name, stop_name
from sidecar.shared.log.verification_files import end_stopped, read_report
from sidecar.shared.log.verification_state import DEATHS_MAX, Beginnings
from sidecar.shared.model.nouns import OperationId
from sidecar.shared.process.background import Background
from sidecar.shared.process.kept_secrets import keep
from spark_merge.sinks.mysql.server import SqlServer
from spark_merge.verify import process as process_module
from spark_merge.verify.child import NICE, CountedVerifications, WorkerLink
from spark_merge.verify.lateness import Lateness
from spark_merge.verify.link import BeginVerifying, RunState
from spark_merge.verify.process import END_S, IDLE_S, VerifyProcess, WorkCluster, _Child
from spark_merge.verify.starvation import WINDOW_S, Scheduled, Starvation
from tests.support.eventually import PATIENCE_S, eventually
from tests.support.verified import World
from tests.unit.verify.test_child import lives
from tests.unit.verify.test_runner import asked, settings_of
from tests.unit.verify.test_table_check import world_of

V1 = OperationId("v1")
NO_SERVER = SqlServer((("127.0.0.1", 1),), "nobody")


class Worker:
    """With sink `mine`, which can be read back, and `shown`, which cannot."""

    def __init__(self, folder: Path) -> None:
        self.uri = f"sqlite:///{folder}/out.db?name=mine"
        self.world: World = world_of(folder, 3, self.uri, snapshots=True)
        self.log = self.world.job.log
        self.notices: list[str] = []
        self.late = False
        self.scheduled: dict[int, Scheduled] = {}
        self.made = self.process(NO_SERVER)

    def process(self, server: SqlServer) -> VerifyProcess:
        begin = BeginVerifying(self.world.job, (self.uri, "console:?name=shown"), "log-1", server, on_spark=False, cores=2)
        lateness = Lateness(lambda: {"mine": 9.0 * self.late}, dict)
        starvation = Starvation(lambda _: dict(self.scheduled))  # what these tests wait for may take long on a busy machine
        return VerifyProcess(begin, lateness, notice=self.notices.append, now_ms=lambda: 7, starvation=starvation)

    def steps(self) -> VerifyProcess:
        self.made._step(monotonic())
        return self.made

    def begun(self) -> _Child:
        """The process, once it has begun a verification."""

        def child() -> _Child | None:
            result = self.steps()._child
            return result if result is not None and result.running else None

        begun: _Child = eventually(child)
        return begun

    def report(self, operation_id: str = "v1") -> VerifyReport | None:
        self.steps()
        return read_report(self.log, OperationId(operation_id))


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Worker]:
    made = Worker(tmp_path)
    yield made
    eventually(made.made._end)


@contextmanager
def waiting(worker: Worker, cluster: WorkCluster | None = None) -> Iterator[_Child]:
    """The process, while it waits for a server that has taken its connection and says nothing: only what the test does ends `v1`."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = SqlServer((listening.getsockname(),), "nobody")
        keep(server.SECRET_KIND, str(server), "")
        worker.made = worker.process(server)
        worker.made.begin, worker.made.cluster = replace(worker.made.begin, on_spark=cluster is not None), cluster
        asked(worker.world, "mine")
        child = worker.begun()
        listening.settimeout(PATIENCE_S)
        connection, _ = listening.accept()
        with connection:
            yield child


def test_it_carries_out_what_is_requested_of_sinks_by_their_names_and_is_there_for_no_longer(worker: Worker) -> None:
    worker.steps()
    assert worker.made._child is None, "nothing is asked"
    asked(worker.world, "shown", "other")
    report: VerifyReport = eventually(lambda: (result := worker.report()) and result.state is CheckState.FAILED and result)
    assert [one.why for one in report.tables] == ["its rows cannot be read back", "there is no sink other"]
    child = worker.made._child
    assert child is not None
    asked(worker.world, "shown", operation_id="v2")
    eventually(lambda: (result := worker.report("v2")) and result.state is CheckState.FAILED)
    assert worker.made._child is child, "one after another in one process"
    worker.made._step(monotonic() + 1)
    worker.made._step(monotonic() + IDLE_S + 2)
    eventually(lambda: worker.steps()._child is None)
    assert child.exit_code() == -signal.SIGKILL
    assert worker.notices == []


BEGINS = "import sys; from tests.unit.verify.test_process import begin_and_stay; begin_and_stay(sys.argv[1])"


def begin_and_stay(folder: str) -> None:
    """Prints the ids of the process, and of one that holds the connection open."""
    worker = Worker(Path(folder))
    with waiting(worker) as child:
        holder = subprocess.Popen(["sleep", "600"], stdout=subprocess.DEVNULL, pass_fds=[child._link._connection.fileno()])
        print(child._process.pid, holder.pid, flush=True)  # noqa: T201  # read by the test
        sleep(600)


def test_it_ends_with_the_worker_also_before_it_learns_of_that(tmp_path: Path) -> None:
    """Of idle priority on a busy machine it would learn too late that its connection has ended, and continue beside its successor."""
    with subprocess.Popen([sys.executable, "-c", BEGINS, str(tmp_path)], stdout=subprocess.PIPE, text=True) as began:
        assert began.stdout is not None
        child, holder = map(int, began.stdout.readline().split())
        began.kill()
    try:
        eventually(lambda: not lives(child))
    finally:
        os.kill(holder, signal.SIGKILL)


def test_it_has_the_lowest_priority(worker: Worker) -> None:
    with waiting(worker) as child:
        assert os.getpriority(os.PRIO_PROCESS, child._process.pid) == NICE
        assert os.sched_getscheduler(child._process.pid) == os.SCHED_IDLE
        assert os.getsid(child._process.pid) == os.getsid(0), "in another session a priority says nothing of ours"
        eventually(worker.made._end)


@pytest.mark.parametrize("by_the_sidecar", [True, False])
def test_a_stop_ends_one_that_waits_for_a_server_which_says_nothing(
    worker: Worker, by_the_sidecar: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_module, "IDLE_S", 3600.0)  # it is not ended because nothing is left to do
    with waiting(worker) as child:
        asked(worker.world, "shown", operation_id="v2", asked_ms=1)
        assert child.running == "v1"
        storage.write_atomically(worker.log, stop_name(V1), b"")
        if by_the_sidecar:
            end_stopped(worker.log, V1, 7)
        eventually(lambda: worker.steps()._child is not child)
        assert child.exit_code() == -signal.SIGKILL, "it is not waited for"
        report = read_report(worker.log, V1)
        assert report is not None
        assert report.state is CheckState.STOPPED
        assert report.ended_ms > 0
        assert [one.state for one in report.tables] == [CheckState.STOPPED]
        assert not [name for name in storage.list_names(worker.log, deep=True) if "/work/" in name]
        eventually(lambda: (result := worker.report("v2")) and result.state is CheckState.FAILED)
        assert worker.notices == [], "a stop is no death"


def test_one_that_gets_no_processor_is_reported_once_and_for_as_long_as_that_is_so(worker: Worker) -> None:
    with waiting(worker) as child:
        worker.scheduled = {child.group: Scheduled()}
        worker.made.starvation.forget()
        now_s = monotonic()
        for window, (ran_s, starves) in enumerate([(0.0, False), (0.1, True), (0.2, True), (60.0, False)]):
            worker.scheduled = {child.group: Scheduled(ran_s, window * WINDOW_S)}
            worker.made._see_starvation(child, now_s + window * WINDOW_S, late=False)
            assert worker.made.starvation.waits_for.startswith("a processor: it had 0.3%") is starves
        assert [one.partition(":")[0] for one in worker.notices] == ["verifications get next to nothing done"]
        worker.scheduled = {child.group: Scheduled(60.0, 5 * WINDOW_S)}
        worker.made._see_starvation(child, now_s + 4 * WINDOW_S, late=False)
        assert worker.made.starvation.waits_for
        eventually(worker.made._end)
        assert worker.made.starvation.waits_for == "", "there is nothing that waits"


def test_nothing_is_begun_or_said_to_have_stopped_before_a_killed_process_has_gone(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine one of the lowest priority may wait for a core, for its own end."""
    with waiting(worker) as child:
        os.kill(child._process.pid, signal.SIGSTOP)  # so that it does not end what is stopped itself
        monkeypatch.setattr(process_module, "IDLE_S", 3600.0)
        monkeypatch.setattr(process_module, "end_stopped", said := Mock(wraps=end_stopped))
        with monkeypatch.context() as starved:
            starved.setattr(child._process, "wait", Mock(side_effect=subprocess.TimeoutExpired("child", END_S)))
            storage.write_atomically(worker.log, stop_name(V1), b"")
            eventually(lambda: worker.steps()._ending)
            for _ in range(3):
                worker.steps()
            assert worker.made._child is child
            assert not said.called
        eventually(lambda: (result := worker.report()) and result.state is CheckState.STOPPED)
        assert worker.made._child is not child
    assert child.exit_code() == -signal.SIGKILL
    assert worker.notices == []


def test_what_it_has_started_ends_with_it_and_is_waited_for(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine it would read and write on, beside a successor."""
    monkeypatch.setattr(process_module, "GROUP_END_S", 0.0)
    monkeypatch.setattr(process_module, "_hurry", hurried := Mock(wraps=process_module._hurry))
    with waiting(worker) as child, subprocess.Popen(["sleep", "600"], process_group=child._process.pid) as started:
        with monkeypatch.context() as starved:
            starved.setattr(process_module, "lives", lambda group: group == child._process.pid)
            eventually(lambda: not worker.made._end() and started.poll() is not None)
            worker.steps()
            assert worker.notices == []
            starved.setattr(process_module, "STUCK_S", 0.0)
            for _ in range(3):
                worker.steps()
            assert [one.partition(":")[0] for one in worker.notices] == ["a process of verifications was killed and has not ended"]
        assert started.wait() == -signal.SIGKILL
        assert call(started.pid) in hurried.call_args_list
        eventually(worker.made._end)


def test_one_whose_connection_has_ended_and_that_does_not_end_is_reported_once(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_module, "STUCK_S", 0.0)
    with waiting(worker) as child:
        with socket.fromfd(child._link._connection.fileno(), socket.AF_UNIX, socket.SOCK_STREAM) as ours:
            ours.shutdown(socket.SHUT_RDWR)
        eventually(lambda: not child.listening.alive)
        with monkeypatch.context() as starved:
            starved.setattr(child, "kill", lambda: False)
            for _ in range(4):
                worker.steps()
            assert worker.made._child is child
            assert [one.partition(":")[0] for one in worker.notices] == ["a process of verifications was killed and has not ended"]


def test_one_that_is_to_end_has_the_usual_priority() -> None:
    with subprocess.Popen(["sleep", "300"]) as process:
        os.setpriority(os.PRIO_PROCESS, process.pid, NICE)
        os.sched_setscheduler(process.pid, os.SCHED_IDLE, os.sched_param(0))
        process_module._hurry(process.pid)
        result = os.sched_getscheduler(process.pid), os.getpriority(os.PRIO_PROCESS, process.pid)
        process.kill()
    assert result == ((os.SCHED_OTHER, 0) if os.geteuid() == 0 else (os.SCHED_IDLE, NICE)), "who is not root may not raise it"
    process_module._hurry(process.pid)  # it has gone


def test_one_that_dies_is_noticed_and_another_one_continues(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_module, "CHILD_RETRY_FIRST_S", 0.0)
    with waiting(worker) as first:
        os.kill(first._process.pid, signal.SIGKILL)
        eventually(lambda: worker.begun() is not first)
        eventually(worker.made._end)
    assert worker.notices == ["the process of verifications ended with exit code -9, and is started again: see its lines above"]


def test_each_death_is_followed_by_a_longer_pause(worker: Worker) -> None:
    asked(worker.world, "mine")
    worker.steps()
    for pause_s in (1.0, 2.0, 4.0):
        child = worker.made._child
        assert child is not None
        worker.made._died(child, -9, 100.0)
        worker.made._step(100.0 + pause_s - 0.1)
        assert worker.made._child is None
        worker.made._step(100.0 + pause_s)
    assert worker.made._child is not None


def test_it_ends_with_the_worker(worker: Worker) -> None:
    """Whose end of the connection is closed, however it ends."""
    with waiting(worker) as child:
        with socket.fromfd(child._link._connection.fileno(), socket.AF_UNIX, socket.SOCK_STREAM) as ours:
            ours.shutdown(socket.SHUT_RDWR)
        eventually(lambda: child.exit_code() is not None)


def test_nothing_that_happens_to_it_ends_the_worker(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_module, "LOOK_S", 0.0)
    ending, errors = Event(), iter([OSError("no room for a process"), ZeroDivisionError("a defect"), ZeroDivisionError("a defect")])

    def step(now_s: float) -> None:
        if (error := next(errors, None)) is not None:
            raise error
        ending.set()

    monkeypatch.setattr(worker.made, "_step", step)
    thread = Thread(target=partial(worker.made.run, ending))
    thread.start()
    thread.join(300)
    assert not thread.is_alive()
    assert len(worker.notices) == 2, "each once"


def test_one_that_is_stuck_is_ended_whatever_it_has_not_read(worker: Worker) -> None:
    """It takes no more messages after some hundreds, and nobody may wait for it then."""
    with waiting(worker) as child:
        os.kill(child._process.pid, signal.SIGSTOP)
        for _ in range(2_000):
            worker.steps()
        storage.write_atomically(worker.log, stop_name(V1), b"")
        eventually(lambda: worker.steps()._child is not child)
    assert child.exit_code() == -signal.SIGKILL


def test_a_verification_that_its_process_dies_of_again_and_again_is_given_up_though_all_dies_with_it(worker: Worker) -> None:
    """Else it holds the log for ever. Nothing is in memory between two lives."""
    request = asked(worker.world, "mine")
    tables = [TableReport("mine", "s", "t", CheckState.RUNNING, parts=9, parts_done=3)]
    report = VerifyReport(V1, CheckState.RUNNING, 1, tables=tables, needs_from=0)

    class Death(BaseException):
        """The kernel's."""

    class Dies(WorkerLink):
        def __init__(self) -> None: ...

        def send(self, message: object) -> None:
            if message == RunState(V1):
                raise Death

    def life() -> VerifyReport:
        settings = replace(settings_of(worker.world, mine=worker.uri), notice=worker.notices.append)
        return CountedVerifications(settings, Dies()).carry_out(request, Event())

    for done in (3, 4):
        tables[0].parts_done = done  # a piece of work was done
        storage.write_atomically(worker.log, report_name(V1), report.to_json())
        for _ in range(DEATHS_MAX):
            with pytest.raises(Death):
                life()
    result = life()
    assert read_report(worker.log, V1) == result
    assert (result.state, result.needs_from, result.tables[0].state) == (CheckState.FAILED, None, CheckState.FAILED)
    assert result.tables[0].why.startswith(f"its process ended {DEATHS_MAX} times at the same place")
    assert len(worker.notices) == 1


def test_the_orderly_end_of_a_worker_is_no_death(worker: Worker) -> None:
    with waiting(worker):
        assert storage.exists(worker.log, begun_name(V1))
        ending = Event()
        ending.set()
        worker.made.run(ending)
    begun = decoded(Beginnings, storage.read_file(worker.log, begun_name(V1)))
    assert (begun.times, begun.in_all) == (0, 0)


class Busy:
    """A cluster that is at work until that is cancelled."""

    def __init__(self) -> None:
        self.begun, self.cancelled = Event(), Event()

    def each_or_cores(self, work: Sequence[Callable[[], Any]] | None) -> list[Any]:
        self.begun.set()
        self.cancelled.wait(600)
        raise SinkError("it was cancelled", hint="nothing")

    def cancel(self) -> None:
        self.cancelled.set()


def test_its_work_on_a_cluster_ends_with_it(worker: Worker) -> None:
    cluster = Busy()
    with waiting(worker, cluster) as child:
        child._works.append(Background(partial(child._work, 1, None), name="work"))  # as the process asks for it
        assert cluster.begun.wait(300)
        eventually(worker.made._end)
    assert cluster.cancelled.is_set()
    assert not any(one.alive for one in child._works)
