"""The merge worker as a child: started again when it dies, gone when its parent is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from queue import Queue
from time import monotonic

import pytest

from sidecar.run import merge_process
from sidecar.run.merge_process import Death, MergeProcess

LIVES_UNTIL_STDIN_ENDS = "import os, pathlib, sys; pathlib.Path(sys.argv[1]).write_text(str(os.getpid())); sys.stdin.read()"
DEADLINE_S = 20.0


def child(script: str, *arguments: object) -> list[str]:
    return [sys.executable, "-c", script, *map(str, arguments)]


def written(path: Path) -> int:
    until_s = monotonic() + DEADLINE_S
    while not (path.exists() and path.read_text()):
        assert monotonic() < until_s, "the child never came up"
        os.sched_yield()
    return int(path.read_text())


def gone(pid: int) -> bool:
    """Whether the process ends before the deadline; a zombie has ended."""
    until_s = monotonic() + DEADLINE_S
    while monotonic() < until_s:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except FileNotFoundError:
            return True
        os.sched_yield()
    return False


def test_a_worker_that_dies_is_started_again_and_each_death_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge_process, "RESTART_FIRST_S", 0.01)
    told: Queue[Death] = Queue()
    worker = MergeProcess(child("raise SystemExit(7)"), told.put)
    worker.start()
    first, second = told.get(timeout=DEADLINE_S), told.get(timeout=DEADLINE_S)
    worker.close(at_once=True)
    assert (first.exit_code, second.exit_code) == (7, 7)
    assert first.lived_s > 0
    assert 0 < first.again_in_s < second.again_in_s
    assert worker.deaths >= 2


def test_waits_longer_after_each_short_life(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge_process, "RESTART_FIRST_S", 0.01)
    monkeypatch.setattr(merge_process, "RESTART_MAX_S", 0.03)
    told: Queue[Death] = Queue()
    worker = MergeProcess(child("raise SystemExit(1)"), told.put)
    worker.start()
    for _ in range(3):
        told.get(timeout=DEADLINE_S)
    worker.close(at_once=True)
    assert worker.deaths >= 3


def test_the_worker_ends_by_itself_when_its_input_does(tmp_path: Path) -> None:
    worker = MergeProcess(child(LIVES_UNTIL_STDIN_ENDS, tmp_path / "pid"), lambda what: None)
    worker.start()
    pid = written(tmp_path / "pid")
    assert worker.pid() == pid
    worker.close(at_once=False)
    assert gone(pid)
    assert worker.pid() is None
    assert worker.deaths == 0


def test_a_worker_that_may_not_deliver_any_more_is_killed_with_all_it_started(tmp_path: Path) -> None:
    script = (
        "import pathlib, signal, subprocess, sys\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "below = subprocess.Popen([sys.executable, '-c', 'import signal; signal.pause()'])\n"
        "pathlib.Path(sys.argv[1]).write_text(str(below.pid))\n"
        "signal.pause()\n"
    )
    worker = MergeProcess(child(script, tmp_path / "below"), lambda what: None)
    worker.start()
    below = written(tmp_path / "below")
    worker.close(at_once=True)
    assert gone(below)


def test_a_sidecar_that_is_killed_leaves_no_worker_behind(tmp_path: Path) -> None:
    parent_script = (
        "import signal, sys\n"
        "from sidecar.run.merge_process import MergeProcess\n"
        f"MergeProcess([sys.executable, '-c', {LIVES_UNTIL_STDIN_ENDS!r}, sys.argv[1]], print).start()\n"
        "signal.pause()\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", parent_script, str(tmp_path / "pid")])
    try:
        pid = written(tmp_path / "pid")
    finally:
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    assert gone(pid)
