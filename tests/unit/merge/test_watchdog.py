"""What is a hang: a step that does not end. Many slow steps are none, whatever they come to together."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from threading import Thread

import pytest

from sidecar.shared.log.storage import Folder, open_folder, s3
from sidecar.shared.process.background import Background
from sidecar.shared.process.progress import may_take, progressed, side_by_side, watched_by
from spark_merge.delivery import watchdog
from spark_merge.delivery.watchdog import HANG_S, Watchdog
from spark_merge.testing.histories import check, random_history, write_log
from tests.support.eventually import PATIENCE_S
from tests.support.scripted_http import Answer, scripted
from tests.support.watched import deliver_watched

# ---- deadlines, by a clock of the test's own -----------------------------------------------------------------------------------


class Timer:
    """Python's, of which a process has one. `ends_s`: when it would end the process, None: never."""

    def __init__(self) -> None:
        self.now_s = 1_000.0
        self.ends_s: float | None = None
        self.started = 0

    def passes(self, seconds: float) -> None:
        self.now_s += seconds
        assert self.ends_s is None or self.now_s < self.ends_s, "it ends the process"

    def start(self, left_s: float, *, exit: bool) -> None:
        assert exit
        self.started += 1
        self.ends_s = self.now_s + left_s

    def cancel(self) -> None:
        self.ends_s = None


@pytest.fixture
def timer(monkeypatch: pytest.MonkeyPatch) -> Timer:
    result = Timer()
    monkeypatch.setattr(watchdog, "monotonic", lambda: result.now_s)
    monkeypatch.setattr("faulthandler.dump_traceback_later", result.start)
    monkeypatch.setattr("faulthandler.cancel_dump_traceback_later", result.cancel)
    return result


def in_this_thread(act: Callable[[], None]) -> None:
    act()


def in_a_thread_of_it(act: Callable[[], None]) -> None:
    working = Background(lambda _: act(), name="of the work")
    working.close()
    working.check()


def in_a_pool_of_it(act: Callable[[], None]) -> None:
    with side_by_side(2) as pool:
        pool.submit(act).result()


@pytest.mark.parametrize("somewhere", [in_this_thread, in_a_thread_of_it, in_a_pool_of_it])
def test_answers_that_take_long_together_are_no_hang(timer: Timer, somewhere: Callable[[Callable[[], None]], None]) -> None:
    with Watchdog(hang_s=300.0).watched():
        for _ in range(300):
            timer.passes(250.0)
            somewhere(progressed)
    assert timer.ends_s is None, "nothing is watched any more"


def test_what_makes_no_progress_ends_when_it_is_due(timer: Timer) -> None:
    with Watchdog(hang_s=300.0).watched():
        progressed()
        assert timer.ends_s == pytest.approx(1_300.0)
        timer.passes(200.0)
        progressed()
        assert timer.ends_s == pytest.approx(1_500.0)


def test_a_call_may_take_as_long_as_its_own_timeout(timer: Timer) -> None:
    with Watchdog(hang_s=300.0).watched():
        for timeout_s in (60.0, 280.0, 300.0, 900.0):
            with may_take(timeout_s):
                timer.passes(timeout_s)
            assert timer.ends_s == pytest.approx(timer.now_s + 300.0), "and no longer than that"


def test_an_answer_beside_a_long_call_does_not_shorten_it(timer: Timer) -> None:
    with Watchdog(hang_s=300.0).watched(), may_take(900.0):
        timer.passes(10.0)
        with may_take(20.0):
            timer.passes(10.0)
        timer.passes(870.0)


def test_a_call_that_fails_does_not_hang(timer: Timer) -> None:
    with Watchdog(hang_s=300.0).watched():
        for _ in range(3):
            with suppress(TimeoutError), may_take(200.0):
                timer.passes(200.0)
                raise TimeoutError


def test_progress_of_other_work_extends_nothing(timer: Timer) -> None:
    """Work around it, work beside it, and what nobody watches."""
    dog = Watchdog(hang_s=300.0)
    with dog.watched():
        timer.passes(100.0)
        with dog.watched():
            progressed()
            with may_take(1_000.0):
                pass
        assert timer.ends_s == 1_300.0, "that of the outer one"
        beside = Thread(target=progressed)
        beside.start()
        beside.join()
        assert timer.ends_s == 1_300.0
    with dog.watched():
        timer.passes(100.0)
        with dog.watched():
            timer.passes(100.0)
        progressed()
        assert timer.ends_s == timer.now_s + 300.0, "nor does what has ended hold it back"


def test_without_a_watch_progress_is_nothing_and_after_it_too(timer: Timer) -> None:
    progressed()
    with may_take(1.0):
        pass
    dog = Watchdog(hang_s=300.0)
    with dog.watched():
        (late,) = dog._watches
    with watched_by(late):
        timer.passes(100.0)
        progressed()
        with may_take(2_000.0):
            pass
    assert timer.ends_s is None


def test_progress_of_each_row_starts_no_timer(timer: Timer) -> None:
    """It is a thread."""
    with Watchdog(hang_s=300.0).watched():
        started = timer.started
        for _ in range(10_000):
            timer.passes(0.001)
            progressed()
        assert timer.started - started <= 4


def test_all_tries_of_a_request_to_s3_end_before_it_is_a_hang() -> None:
    result = s3.fs(open_folder("s3://bucket/out?access-key=watched&secret-access-key=x"))
    tries_of_botocore, pauses_s = 5, 15
    assert result.retries * (tries_of_botocore * (result.connect_timeout + result.read_timeout) + pauses_s) < HANG_S


# ---- processes that end --------------------------------------------------------------------------------------------------------

HANGS = """
import sys, threading, time
from spark_merge.delivery.watchdog import Watchdog
dog = Watchdog(hang_s=float(sys.argv[1]))
def quick():
    for _ in range(20):
        with dog.watched():
            time.sleep(0.001)
def for_ever():
    where_it_hangs = threading.Lock()
    where_it_hangs.acquire()
    where_it_hangs.acquire()
other = threading.Thread(target=quick)
with dog.watched():
    other.start()
    other.join()
    if len(sys.argv) > 2:
        for_ever()
print("went on")
"""


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", HANGS, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=2 * PATIENCE_S, check=False)


def check_killed(value: subprocess.CompletedProcess[str]) -> None:
    assert value.returncode == 1, value
    assert "Timeout" in value.stderr
    assert " in for_ever\n" in value.stderr, value.stderr
    assert value.stdout == ""


def test_a_hang_ends_the_process_and_says_where() -> None:
    check_killed(run("8", "hang"))


def test_what_ends_in_time_ends_nothing() -> None:
    result = run("60")
    assert (result.returncode, result.stdout) == (0, "went on\n"), result.stderr


LIMIT_S, EACH_S = 4.0, 0.1
"""Of no progress, and what a step takes: the machine may be forty times slower than the step."""


@pytest.fixture
def log(tmp_path: Path) -> Folder:
    return open_folder(str(tmp_path / "log"))


def test_a_storage_that_is_slow_with_each_file_is_no_hang(tmp_path: Path, log: Folder) -> None:
    history, out = random_history(Random(3)), tmp_path / "out"
    manifests = write_log(log, history)
    result = deliver_watched(log, f"file://{out}?format=jsonl", hang_s=LIMIT_S, file_s=str(EACH_S))
    assert result.returncode == 0, result.stderr
    assert float(result.stdout) > LIMIT_S
    check(history, manifests, open_folder(str(out)))


def test_a_receiver_that_is_slow_with_each_body_is_no_hang(log: Folder) -> None:
    write_log(log, random_history(Random(3)))
    with scripted() as receiver:
        answer = receiver.asked

        def slowly(method: str, headers: dict[str, str], body: bytes) -> Answer:
            time.sleep(EACH_S)
            return answer(method, headers, body)

        receiver.asked = slowly  # type: ignore[method-assign]
        result = deliver_watched(log, f"{receiver.url}?body-rows=4", hang_s=LIMIT_S)
    assert result.returncode == 0, result.stderr
    assert float(result.stdout) > LIMIT_S
    assert receiver.state


@pytest.mark.parametrize("how", ["hang", "hang-accept"])
def test_a_storage_that_hangs_ends_the_process(tmp_path: Path, log: Folder, how: str) -> None:
    """In a task, and where a batch is accepted."""
    write_log(log, random_history(Random(3)))
    check_killed(deliver_watched(log, f"file://{tmp_path / 'out'}?format=jsonl", hang_s=LIMIT_S, file_s=how))
