"""The verifications of a worker in a process of their own, on what deliveries leave. This is the worker's side; child.py is the other.

- The process is there while something is to be verified, and IDLE_S longer. It has the lowest priority of the scheduler (nice), so a busy
  machine slows the verification down and no delivery. It learns whether deliveries are late, and pauses (runner.py). Where it gets next
  to nothing done, this side says so (starvation.py): the process itself would need a core for that.
- `dumpverify --stop` ends a verification at once: where the process does not end it within STOP_S, the process is killed.
- Whatever it dies of ends nothing else. It is started again after a pause, and continues where the reports are; what it dies of again and
  again it gives up (child.py).
- It ends with the worker, also if that is killed: its end of the connection is closed then.
- A process that was killed is there until it has had a core for its end, and one of the lowest priority may wait for that. So it gets the
  usual one, and none is begun, and nothing said to have stopped, before it has gone with all that it started.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial
from math import inf
from multiprocessing import Pipe
from threading import Event
from time import monotonic, time
from typing import Any, Protocol

from sidecar.shared.errors import SinkError, SparkLost, TicdcDumpError
from sidecar.shared.log import storage
from sidecar.shared.log.storage import Folder
from sidecar.shared.log.verification import stop_name
from sidecar.shared.log.verification_files import end_stopped, read_state, remove_work, request_ids, set_aside, take_back_beginning
from sidecar.shared.model.nouns import OperationId
from sidecar.shared.process.background import Background
from sidecar.shared.process.group import await_end, lives, members
from spark_merge.delivery.task_errors import error_text
from spark_merge.verify.lateness import Lateness
from spark_merge.verify.link import BeginVerifying, LateState, Link, Notice, RunState, SparkDone, SparkWork
from spark_merge.verify.starvation import Starvation

LOOK_S = 0.25
"""Between two looks at the process, at how late deliveries are, and at what an operator has stopped."""
REQUESTED_EVERY_S = 1.0
"""Between two looks for requests; each lists a folder."""
STOP_S = 0.5
IDLE_S = 30.0
CHILD_RETRY_FIRST_S, CHILD_RETRY_MAX_S = 1.0, 60.0
LONG_LIFE_S = 60.0
END_S = 5.0
STUCK_S = 60.0
"""A killed process may be in a call that nothing interrupts, of a storage."""
GROUP_END_S = 1.0


class WorkCluster(Protocol):
    """What does large work of the process's (`spark_tasks.SparkTasks`)."""

    def each_or_cores(self, work: Sequence[Callable[[], Any]] | None) -> list[Any]: ...

    def cancel(self) -> None: ...


class _Child:
    """`cluster`: None where the process does all work itself."""

    def __init__(self, begin: BeginVerifying, cluster: WorkCluster | None, notice: Callable[[str], object]) -> None:
        self._cluster, self._notice = cluster, notice
        self._works: list[Background] = []
        self.running: OperationId | None = None
        """The verification that is under way."""
        self._sent_late = False
        ours, theirs = Pipe()
        with theirs:
            # A group, and no session: Linux gives each session the same share of a core, whatever priority is in it (autogroup, sched(7)).
            command = [sys.executable, "-m", "spark_merge.verify.child", str(theirs.fileno()), str(os.getpid())]
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()], process_group=0)
        self.began_s = monotonic()
        self._link = Link(ours)
        self._link.send(begin)
        self.listening = Background(self._listen, name="verify-link")

    def tell(self, late: bool) -> None:
        """What has changed alone: one that stands still would take a few hundred messages, and then nobody else's word."""
        if late != self._sent_late:
            self._sent_late = late
            with suppress(OSError):  # its death is seen by `exit_code`
                self._link.send(LateState(late))

    @property
    def group(self) -> int:
        """Of the process and of all that it has started."""
        return self._process.pid

    def exit_code(self) -> int | None:
        return self._process.poll()

    def kill(self) -> bool:
        """Whether it has gone with all that it started; else call it again. Unkilled, the one that frees semaphores ends last.
        Its work on a cluster is ended here: that would continue to read, and write files that nobody removes."""
        self._process.kill()
        if self._process.poll() is None:
            _hurry(self._process.pid)
        if self._cluster is not None and any(one.alive for one in self._works):
            with suppress(SinkError, SparkLost):  # then its work is over, too
                self._cluster.cancel()
            for one in self._works:
                one.close(END_S)
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            return False
        group = self.group
        for process in members(group):
            _hurry(process)
        await_end(group, GROUP_END_S)
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)
        await_end(group, END_S)
        return not lives(group)

    def _listen(self, _: Event) -> None:
        with closing(self._link), suppress(EOFError, OSError, pickle.UnpicklingError):
            while True:
                match self._link.receive():
                    case RunState(verification):
                        self.running = verification
                    case Notice(text):
                        self._notice(text)
                    case SparkWork(number, work):
                        self._works = [one for one in self._works if one.alive]
                        self._works.append(Background(partial(self._work, number, work), name=f"verify-{number}"))

    def _work(self, number: int, work: Sequence[Callable[[], Any]] | None, _: Event) -> None:
        assert self._cluster is not None
        try:
            done = SparkDone(number, self._cluster.each_or_cores(work))
        except Exception as error:  # noqa: BLE001  # the other end raises it
            done = SparkDone(number, [], error_text(error))
        with suppress(OSError):
            self._link.send(done)


@dataclass
class VerifyProcess:
    """For one thread. `lateness`: of deliveries. `cluster`: as of _Child. `now_ms`: of reports."""

    begin: BeginVerifying
    lateness: Lateness
    cluster: WorkCluster | None = None
    notice: Callable[[str], object] = lambda _: None
    now_ms: Callable[[], int] = lambda: int(time() * 1000)
    starvation: Starvation = field(default_factory=Starvation)

    def __post_init__(self) -> None:
        self._child: _Child | None = None
        self._ending = False
        self._killed_s: float | None = None
        self._over: set[OperationId] = set()
        self._due_ids: list[OperationId] = []
        self._requested_s = self._wanted_s = -REQUESTED_EVERY_S
        self._begin_s = 0.0
        self._retry_s = CHILD_RETRY_FIRST_S
        self._stop_s: tuple[OperationId | None, float] = None, 0.0

    @property
    def _log(self) -> Folder:
        return self.begin.job.log

    def run(self, ending: Event) -> None:
        """Until the worker ends. Raises nothing."""
        last = ""
        try:
            while not ending.wait(LOOK_S):
                try:
                    with set_aside(self._log):
                        self._step(monotonic())
                    last = ""
                except Exception as error:  # noqa: BLE001  # of the log's storage, or a defect: it may not end deliveries
                    text = str(error) if isinstance(error, TicdcDumpError) else f"a defect: {error!r}"
                    if text != last:
                        self.notice(f"verifications do not continue, and are tried again: {text}")
                    last = text
        finally:
            running = self._child.running if self._child is not None else None
            if self._end() and running is not None:
                with suppress(TicdcDumpError):  # then this end counts as a death
                    take_back_beginning(self._log, running)

    def _step(self, now_s: float) -> None:
        if now_s - self._requested_s >= REQUESTED_EVERY_S:
            before, self._requested_s, self._due_ids = self._due_ids, now_s, self._due()
            if self._due_ids and not before:
                self.lateness.begin()
        self._wanted_s = now_s if self._due_ids else self._wanted_s
        if self._ending and not self._end():
            return
        child = self._child
        if child is not None and not child.listening.alive:
            gone = self._kill(child)
            child.listening.check()
            if not gone:
                return
        if child is None:
            if self._due_ids and now_s >= self._begin_s:
                self._child = _Child(self.begin, self.cluster, self.notice)
        elif (code := child.exit_code()) is not None:
            self._died(child, code, now_s)
        elif now_s - self._wanted_s >= IDLE_S:
            self._end()
        else:
            self._stop(child, now_s)
            child.tell(late := self.lateness.late())
            self._see_starvation(child, now_s, late)

    def _see_starvation(self, child: _Child, now_s: float, late: bool) -> None:
        before = self.starvation.waits_for
        if self._due_ids:
            self.starvation.look(child.group, now_s, late=late)
        else:
            self.starvation.forget()
        if (waits_for := self.starvation.waits_for) and not before:
            self.notice(f"verifications get next to nothing done: they wait for {waits_for}")

    def _due(self) -> list[OperationId]:
        """Those that are requested and not over."""
        ids: list[OperationId] = []
        for operation_id in request_ids(self._log):
            if operation_id not in self._over:
                state = read_state(self._log, operation_id)
                if state is not None and state.is_over:
                    self._over.add(operation_id)
                else:
                    ids.append(operation_id)
        return ids

    def _stop(self, child: _Child, now_s: float) -> None:
        running = child.running
        is_stopped = running is not None and storage.exists(self._log, stop_name(running))
        if running is None or not is_stopped:
            self._stop_s = None, now_s
        elif self._stop_s[0] != running:
            self._stop_s = running, now_s
        elif now_s - self._stop_s[1] >= STOP_S and self._end():
            end_stopped(self._log, running, self.now_ms())
            remove_work(self._log, running)

    def _died(self, child: _Child, code: int, now_s: float) -> None:
        self._end()
        self._retry_s = CHILD_RETRY_FIRST_S if now_s - child.began_s >= LONG_LIFE_S else self._retry_s
        self._begin_s, self._retry_s = now_s + self._retry_s, min(2 * self._retry_s, CHILD_RETRY_MAX_S)
        self.notice(f"the process of verifications ended with exit code {code}, and is started again: see its lines above")

    def _end(self) -> bool:
        """Whether there is none any more; else the next step calls it again."""
        self._ending = self._child is not None and not self._kill(self._child)
        if not self._ending:
            self._child = None
            self.starvation.forget()
        return not self._ending

    def _kill(self, child: _Child) -> bool:
        """Whether it has gone. One that has not gone for long is reported, once."""
        gone, now_s = child.kill(), monotonic()
        if gone or self._killed_s is None:
            self._killed_s = None if gone else now_s
        elif now_s - self._killed_s >= STUCK_S:
            self._killed_s = inf
            self.notice("a process of verifications was killed and has not ended: none begins before it has; a storage may hang")
        return gone


def _hurry(pid: int) -> None:
    """The usual priority for each thread, which has to run to its end. Where this user may not give it, the end takes longer."""
    threads: list[str] = []
    with suppress(OSError):
        threads = os.listdir(f"/proc/{pid}/task")
    for thread in map(int, threads):
        with suppress(OSError):
            os.sched_setscheduler(thread, os.SCHED_OTHER, os.sched_param(0))
            os.setpriority(os.PRIO_PROCESS, thread, 0)
