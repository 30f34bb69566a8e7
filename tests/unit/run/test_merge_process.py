"""The merge worker as a child: started again when it dies, gone when its parent is."""

from __future__ import annotations

import errno
import signal
import subprocess
import sys
from pathlib import Path
from queue import Queue

import pytest

from sidecar.run import merge_process
from sidecar.run.log_events import worker_died
from sidecar.run.merge_process import Death, MergeProcess, environment, spark_places, unexplained
from sidecar.shared.errors import StorageFull
from sidecar.shared.log.delivery_report import DeliveryReport
from sidecar.shared.model.nouns import CommitTs, Seq
from sidecar.shared.model.sink_delivery import BatchDone, SinkDelivery
from sidecar.shared.process.scratch import PREFIX, Scratch
from tests.support.eventually import PATIENCE_S, eventually

LIVES_UNTIL_STDIN_ENDS = "import os, pathlib, sys; pathlib.Path(sys.argv[1]).write_text(str(os.getpid())); sys.stdin.read()"


def child(script: str, *arguments: object) -> list[str]:
    return [sys.executable, "-c", script, *map(str, arguments)]


def written(path: Path) -> int:
    return int(eventually(lambda: path.exists() and path.read_text(), "the child never came up"))


def gone(pid: int) -> bool:
    """Whether the process ends; a zombie has ended."""

    def ended() -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
        except FileNotFoundError:
            return True

    return bool(eventually(ended))


def test_a_worker_that_dies_is_started_again_and_each_death_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge_process, "RESTART_FIRST_S", 0.01)
    reported: Queue[Death] = Queue()
    worker = MergeProcess(child("raise SystemExit(7)"), reported.put)
    worker.start()
    first, second = reported.get(timeout=PATIENCE_S), reported.get(timeout=PATIENCE_S)
    worker.close(at_once=True)
    assert (first.exit_code, second.exit_code) == (7, 7)
    assert first.lived_s > 0
    assert 0 < first.again_in_s < second.again_in_s
    assert worker.deaths >= 2


def test_a_worker_that_runs_is_reported_and_those_after_it_have_the_other_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge_process, "RESTART_FIRST_S", 0.01)
    script = "import pathlib, sys; pathlib.Path(sys.argv[1]).write_text('1'); pathlib.Path(sys.argv[2]).write_text(sys.stdin.readline())"
    worker = MergeProcess(child(script, tmp_path / "up", tmp_path / "first"), lambda _: None)
    worker.start()
    written(tmp_path / "up")
    worker.serve(child(LIVES_UNTIL_STDIN_ENDS, tmp_path / "second"), b"4\n")
    assert written(tmp_path / "first") == 4
    written(tmp_path / "second")
    worker.close(at_once=True)


def test_the_last_line_is_of_each_worker_until_there_is_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge_process, "RESTART_FIRST_S", 0.01)
    monkeypatch.setattr(merge_process, "RESTART_MAX_S", 0.01)
    reported: Queue[Death] = Queue()
    worker = MergeProcess(child("import sys; raise SystemExit(int(sys.stdin.readline()))"), reported.put)
    worker.tell(b"3\n")
    worker.start()
    assert [reported.get(timeout=PATIENCE_S).exit_code for _ in range(2)] == [3, 3]
    worker.tell(b"4\n")
    eventually(lambda: reported.get(timeout=PATIENCE_S).exit_code == 4)
    worker.close(at_once=True)


def test_a_worker_that_does_not_read_its_input_holds_up_nobody(tmp_path: Path) -> None:
    """The pipeline's thread says how many readers are wanted."""
    worker = MergeProcess(child("import sys, time; open(sys.argv[1], 'w').write('1'); time.sleep(600)", tmp_path / "up"), lambda _: None)
    worker.start()
    written(tmp_path / "up")
    for _ in range(200):
        worker.tell(b"x" * 2000 + b"\n")
    assert worker._unsent.endswith(b"x\n"), "its pipe is full, and what it does not take waits here"
    worker.close(at_once=True)


def of_worker(pid: int, *, error: str = "", batches: int = 0, at_ms: int = 2000, state: str = "running") -> DeliveryReport:
    sinks = (SinkDelivery("a", Seq(1), (BatchDone(Seq(1), 1, 1, 0, 0.1, 0.1, 1),) * batches),)
    return DeliveryReport(Seq(1), CommitTs(9), state, at_ms, pid=pid, error=error, sinks=sinks)


def test_a_worker_that_died_without_a_word_is_reported_until_a_later_one_has_delivered() -> None:
    death = Death(-signal.SIGKILL, 12.4, 2.0, pid=7, at_ms=1000)
    reported = unexplained(death, None)
    assert reported.startswith("the merge worker ended after 12 s with SIGKILL and did not say why\n  what to do: ")
    assert "exit code 1" in unexplained(Death(1, 1.0, 1.0), None)
    assert unexplained(death, of_worker(7, batches=3, at_ms=900)) == reported, "what it told before it died explains nothing"
    assert unexplained(death, of_worker(6, batches=3, at_ms=900)) == reported, "nor what a former one had delivered"
    assert unexplained(death, of_worker(8)) == reported, "the next one has begun, and no more"
    assert unexplained(death, of_worker(8, batches=1)) == ""
    assert unexplained(death, of_worker(7, error="no room left", state="stopped")) == "", "its own words are better"
    assert unexplained(death, of_worker(7, error="no room left")) == reported, "what a former one died of is not what it died of"
    assert unexplained(None, None) == ""


def test_the_last_death_is_kept_with_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge_process, "RESTART_FIRST_S", 0.01)
    reported: Queue[Death] = Queue()
    worker = MergeProcess(child("import os; print(os.getpid()); raise SystemExit(5)"), reported.put)
    worker.start()
    first = reported.get(timeout=PATIENCE_S)
    worker.close(at_once=True)
    assert first.pid > 0
    assert worker.last is not None
    assert worker.last.at_ms >= first.at_ms > 0


def test_no_room_for_its_folder_holds_the_worker_alone_and_is_reported_until_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lacks: list[Exception] = [OSError(errno.EAGAIN, "no more processes"), StorageFull("no room for a folder", hint="make room")]

    def folder(places: list[str]) -> Scratch:
        if lacks:
            raise lacks.pop()
        return Scratch(places)

    monkeypatch.setattr(merge_process, "RESTART_FIRST_S", 0.01)
    monkeypatch.setattr(merge_process, "Scratch", folder)
    reported: Queue[Death] = Queue()
    worker = MergeProcess(child(LIVES_UNTIL_STDIN_ENDS, tmp_path / "pid"), reported.put)
    worker.start()
    first = reported.get(timeout=PATIENCE_S)
    assert unexplained(first, None).startswith("no room for a folder\n  what to do: make room")
    assert "no more processes\n  what to do: " in str(reported.get(timeout=PATIENCE_S).unborn)
    assert worker_died(first).event == "merge worker cannot start"
    pid = written(tmp_path / "pid")
    worker.check()
    assert unexplained(worker.last, of_worker(pid, batches=1, at_ms=first.at_ms + 60_000)) == ""
    worker.close(at_once=True)


def test_a_worker_whose_folder_cannot_be_noted_does_not_live_beside_the_next_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    noted: list[int] = []

    def full_once(_: Scratch, group: int) -> None:
        noted.append(group)
        if len(noted) == 1:
            raise OSError(errno.ENOSPC, "no room")

    monkeypatch.setattr(merge_process, "RESTART_FIRST_S", 0.01)
    monkeypatch.setattr(Scratch, "used_by", full_once)
    reported: Queue[Death] = Queue()
    worker = MergeProcess(child(LIVES_UNTIL_STDIN_ENDS, tmp_path / "pid"), reported.put)
    worker.start()
    assert "no room" in reported.get(timeout=PATIENCE_S).unborn
    assert gone(noted[0])
    worker.close(at_once=True)


def test_waits_longer_after_each_short_life(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge_process, "RESTART_FIRST_S", 0.01)
    monkeypatch.setattr(merge_process, "RESTART_MAX_S", 0.03)
    reported: Queue[Death] = Queue()
    worker = MergeProcess(child("raise SystemExit(1)"), reported.put)
    worker.start()
    for _ in range(3):
        reported.get(timeout=PATIENCE_S)
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


OUTLIVED = """
import os, subprocess, sys
subprocess.Popen([sys.executable, "-c", '''
import os, pathlib, sys
worker = os.getppid()
pathlib.Path(sys.argv[1], "up").write_text(str(worker))
while os.getppid() == worker:
    os.sched_yield()
pathlib.Path(sys.argv[1], "told").write_text(os.environ["SPARK_LOCAL_DIRS"])
''', sys.argv[1]])
sys.stdin.read()
"""
"""As a JVM does: it ends a moment after the worker, and what it does then is part of a graceful end."""


def test_a_graceful_end_lets_the_jvm_remove_its_files_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place := tmp_path / "spark").mkdir()
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(place))
    worker = MergeProcess(child(OUTLIVED, tmp_path), lambda what: None)
    worker.start()
    written(tmp_path / "up")
    worker.close(at_once=False)
    folder = Path((tmp_path / "told").read_text())
    assert folder.parent == place
    assert folder.name.startswith(PREFIX)
    assert not list(place.iterdir())


def test_a_worker_that_is_killed_leaves_nothing_either(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place := tmp_path / "spark").mkdir()
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(place))
    script = (
        "import os, pathlib, signal, sys\n"
        "pathlib.Path(os.environ['TMPDIR'], 'block').write_text('a row')\n"
        "pathlib.Path(sys.argv[1]).write_text(str(os.getpid()))\n"
        "signal.pause()\n"
    )
    worker = MergeProcess(child(script, tmp_path / "up"), lambda what: None)
    worker.start()
    written(tmp_path / "up")
    worker.close(at_once=True)
    assert not list(place.iterdir())


def test_spark_python_and_the_jvm_write_aside_in_the_workers_own_folders() -> None:
    result = environment({"PATH": "/bin", "SPARK_SUBMIT_OPTS": "-Da=b"}, [Path("/x/one two"), Path("/y/2")])
    assert result == {
        "PATH": "/bin",
        "SPARK_LOCAL_DIRS": "/x/one two,/y/2",
        "TMPDIR": "/x/one two",
        "SPARK_SUBMIT_OPTS": '-Da=b "-Djava.io.tmpdir=/x/one two"',
    }
    assert spark_places({"SPARK_LOCAL_DIRS": "/a, /b,"}) == ["/a", "/b"]
    assert len(spark_places({})) == 1
