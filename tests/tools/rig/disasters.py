"""What goes wrong around one sink of the whole product while a dump is on its way: its server, its merge worker, Spark's tasks.

disasters = Disasters(sidecar, worker, target, says="127.0.0.1:3306")
status = dump_amid(disasters, ["worker_dies", "target_is_away"])          TimeoutError if anything stands still
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from tests.lanes import LANE
from tests.support.eventually import eventually
from tests.support.services.freezing import freeze, thaw
from tests.tools.rig.sidecar_process import MergeWorkerProcess, SidecarProcess

DEADLINE_S = 600.0
AWAY_S = 32.0 if LANE.whole else 3.0
"""In the whole lane longer than the sink's own retries, so that its loop retries."""


class Target(Protocol):
    """What is behind a sink. What it had is there when it starts again."""

    def kill(self) -> object: ...
    def start(self) -> object: ...
    def freeze(self) -> object: ...
    def thaw(self) -> object: ...


class Nowhere:
    """For a sink that has only a folder."""

    def kill(self) -> None:
        raise AssertionError("a folder does not go away")

    start = freeze = thaw = kill


class Disasters:
    """Each ends with the product whole again. `says`: what `dumpquery` names a target by that is away."""

    def __init__(self, sidecar: SidecarProcess, worker: MergeWorkerProcess, target: Target, *, says: str) -> None:
        self.sidecar, self.worker, self.target, self.says = sidecar, worker, target, says

    def target_dies(self) -> None:
        self.target.kill()
        self.target.start()

    def target_freezes(self) -> None:
        self.target.freeze()
        time.sleep(AWAY_S)
        self.target.thaw()

    def target_is_away(self) -> None:
        """`dumpquery` says which sink waits for it, as soon as the sink's own patience is over."""
        self.target.kill()
        time.sleep(AWAY_S)
        if LANE.whole:
            self.sidecar.await_status(lambda value: self.says in value["last_error"], timeout_s=DEADLINE_S)
        self.target.start()

    def worker_dies(self) -> None:
        self.worker.kill()
        self.worker.start()

    def tasks_die(self) -> None:
        """The worker may end by that, and its supervisor starts it again."""
        for pid in eventually(self._tasks, "Spark has no task", within_s=DEADLINE_S):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        before = self._delivered_tso()
        eventually(
            lambda: self.worker.ended() is not None or self._delivered_tso() > before,
            "nothing continues without its tasks",
            within_s=DEADLINE_S,
        )
        if self.worker.ended() is not None:
            self.worker_dies()

    def tasks_freeze(self) -> None:
        frozen = eventually(self._tasks, "Spark has no task", within_s=DEADLINE_S)
        for pid in frozen:
            with suppress(ProcessLookupError, FileNotFoundError):
                freeze(pid)
        time.sleep(AWAY_S)
        for pid in frozen:
            with suppress(ProcessLookupError):
                thaw(pid)

    def worker_freezes(self) -> None:
        """Another one takes over; what the frozen one wakes up to is no longer its own. (One that has not opened its sinks yet when it
        freezes would be the later of the two.)"""
        previous = self.worker._process
        assert previous is not None
        self.await_delivery()
        os.killpg(previous.pid, signal.SIGSTOP)
        self.worker.start()
        self.await_delivery()
        os.killpg(previous.pid, signal.SIGCONT)
        eventually(lambda: previous.poll() is not None, "an earlier worker that woke up does not end", within_s=DEADLINE_S)
        with suppress(ProcessLookupError):
            os.killpg(previous.pid, signal.SIGKILL)  # Spark's JVM, if it ends more slowly

    def await_delivery(self) -> dict[str, Any]:
        """Of a batch, or more."""
        before = self._delivered_tso()
        return self.sidecar.await_status(lambda value: int(value["delivered_tso"]) > before, timeout_s=DEADLINE_S)

    def _delivered_tso(self) -> int:
        return int(self.sidecar.await_status(lambda _: True, timeout_s=DEADLINE_S)["delivered_tso"])

    def _tasks(self) -> list[int]:
        """Spark's Python workers: children of the daemon that Spark's JVM has."""
        result = {pid: (parent, command) for pid, parent, command in _processes()}
        daemons = {pid for pid, (_, command) in result.items() if "-m spark_merge.worker.daemon" in command and self._is_ours(pid)}
        return [pid for pid, (parent, _) in result.items() if parent in daemons]

    def _is_ours(self, pid: int) -> bool:
        with suppress(ProcessLookupError):
            return os.getsid(pid) == self.worker.pid
        return False


def _processes() -> Iterator[tuple[int, int, str]]:
    """Id, parent, command."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            with suppress(FileNotFoundError, ProcessLookupError):
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                yield int(folder.name), parent, (folder / "cmdline").read_text().replace("\0", " ")


def start_dump(sidecar: SidecarProcess, *, rows_per_s: int) -> None:
    sidecar.await_status(lambda value: int(value["delivered_tso"]) > 0, timeout_s=DEADLINE_S)
    sidecar.ask("dumpstart", "--chunk-rows", "50", "--rows-per-second", str(rows_per_s))


def pass_through(disasters: Disasters, names: Sequence[str], *, rows_per_s: int) -> None:
    """After each disaster see the dump continue. Another one is started where the last one has ended before the next disaster."""
    sidecar = disasters.sidecar
    for name in names:
        result = sidecar.await_status(lambda _: True, timeout_s=DEADLINE_S)
        if result["state"] == "finished":
            start_dump(sidecar, rows_per_s=rows_per_s)
        result = await_progress(sidecar, lambda status: rows(status) > 0)
        print(f"{time.strftime('%X')} {name}: {rows(result)} rows, {result['state']}")  # noqa: T201  # beside what was logged of a run that fails
        disaster: Callable[[], None] = getattr(disasters, name)
        disaster()
        before = rows(disasters.await_delivery())
        await_progress(sidecar, lambda status, above=before: rows(status) > above or status["state"] == "finished")  # type: ignore[misc]  # bound now


def await_finished(sidecar: SidecarProcess) -> None:
    done = await_progress(sidecar, lambda value: value["state"] in ("finished", "failed"))
    assert done["state"] == "finished", done["reason"]


def await_progress(sidecar: SidecarProcess, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """As long as delivery continues, however slowly; else TimeoutError."""
    delivered_tso = 0
    while True:
        progress = sidecar.await_status(
            lambda status, above=delivered_tso: wanted(status) or int(status["delivered_tso"]) > above,  # type: ignore[misc]  # bound now
            timeout_s=DEADLINE_S,
        )
        if wanted(progress):
            return progress
        delivered_tso = int(progress["delivered_tso"])


def rows(status: dict[str, Any]) -> int:
    return sum(int(table["rows"]) for table in status["tables"])


def peak_bytes(pid: int | None) -> int:
    """The most memory that the process has had at once."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) << 10
