"""When verifications get next to nothing done, and what they say they wait for."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_merge.verify.lateness import LATE
from spark_merge.verify.starvation import LEFT_MIN, READY_MIN, WINDOW_S, Scheduled, Starvation, scheduled
from tests.support.eventually import eventually

GROUP = 7
SECONDS = st.floats(0.0, 4 * WINDOW_S)


def looked(*states: dict[int, Scheduled]) -> Starvation:
    """A look at the beginning of each window and at its end."""
    times = iter(states)
    made = Starvation(lambda group: next(times))
    for number in range(len(states)):
        made.look(GROUP, 100.0 + number * WINDOW_S, late=False)
    return made


@given(st.lists(st.tuples(SECONDS, SECONDS), min_size=1, max_size=4), st.tuples(SECONDS, SECONDS))
def test_it_starves_where_it_has_little_of_what_it_could_have_used(spent: list[tuple[float, float]], before: tuple[float, float]) -> None:
    """Of all threads together, those among them that began in the window; what was before the window does not count."""
    first = {0: Scheduled(*before), 9: Scheduled(5.0, 5.0)}
    last = {number: Scheduled(*each) for number, each in enumerate(spent)}
    last[0] = Scheduled(before[0] + last[0].ran_s, before[1] + last[0].waited_s)
    ran_s, waited_s = sum(each[0] for each in spent), sum(each[1] for each in spent)
    waits_for = looked(first, last).waits_for
    if abs(ran_s - LEFT_MIN * (ran_s + waited_s)) > 1e-6 and abs(waited_s - READY_MIN * WINDOW_S) > 1e-6:
        starves = waited_s > READY_MIN * WINDOW_S and ran_s < LEFT_MIN * (ran_s + waited_s)
        assert waits_for.startswith("a processor: it had") is starves


@pytest.mark.parametrize("lates", range(21))
def test_it_starves_where_deliveries_are_late_nearly_all_the_time(lates: int) -> None:
    made = Starvation(lambda _: {})
    for number in range(21):
        made.look(GROUP, 100.0 + number * WINDOW_S / 20, late=number < lates)
    assert made.waits_for == (LATE if lates >= 19 else "")


def test_what_was_said_holds_until_the_next_window_or_process() -> None:
    starving = {1: Scheduled(0.0, 0.0)}, {1: Scheduled(0.1, 29.0)}
    made = looked(*starving)
    assert made.waits_for.startswith("a processor: it had 0.3% of what it needed in the last 30 s")
    made.look(GROUP, 100.0 + 1.5 * WINDOW_S, late=False)
    assert made.waits_for
    made.forget()
    assert made.waits_for == ""


@pytest.fixture
def beside() -> Iterator[subprocess.Popen[bytes]]:
    """A process of the lowest priority that would use a processor, beside one of the usual priority that has it."""
    works = "import os, sys; os.sched_setaffinity(0, {int(sys.argv[1])}); exec(sys.argv[2])\nwhile True: pass"
    idle = "os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))"
    core = str(min(os.sched_getaffinity(0)))
    with ExitStack() as ending:
        made = []
        for what in ("pass", idle):
            process = subprocess.Popen([sys.executable, "-c", works, core, what], process_group=0)
            ending.callback(process.wait)
            ending.callback(process.kill)
            made.append(process)
        yield made[1]


def test_the_kernel_counts_what_a_process_waits_for_a_processor(beside: subprocess.Popen[bytes]) -> None:
    def waited() -> bool:
        result = scheduled(beside.pid)
        assert result.keys() <= {beside.pid}
        return any(each.waited_s > 0.05 for each in result.values())

    assert eventually(waited)
