"""How a recording's time goes by."""

from __future__ import annotations

import pytest

from sidecar.replay.recorded_time import recorded_time, tick
from sidecar.shared.model.nouns import CommitTs
from tests.support.eventually import PATIENCE_S


class Hand:
    """A clock that only its own waits move."""

    def __init__(self) -> None:
        self.time_s = 100.0

    def now_s(self) -> float:
        return self.time_s

    def wait(self, seconds: float) -> None:
        self.time_s += seconds


def test_twice_the_speed_is_half_the_wait() -> None:
    hand = Hand()
    time = recorded_time(2.0, hand, hand.wait)
    assert time is not None
    time.let_pass(3000, timeout_s=PATIENCE_S)
    assert (hand.time_s, time.passed_ms()) == (101.5, 3000)


def test_no_wait_is_longer_than_its_timeout() -> None:
    hand = Hand()
    time = recorded_time(1.0, hand, hand.wait)
    assert time is not None
    time.let_pass(3000, timeout_s=0.25)
    assert time.passed_ms() == 250
    for missing_ms, timeout_s in ((0, 1.0), (-5, 1.0), (1000, 0.0)):
        time.let_pass(missing_ms, timeout_s=timeout_s)
    assert time.passed_ms() == 250


def test_full_speed_needs_no_clock_and_any_other_does() -> None:
    assert recorded_time(None, None, lambda _s: None) is None
    with pytest.raises(ValueError, match="clock"):
        recorded_time(1.0, None, lambda _s: None)


def test_a_tick_takes_no_commit_of_the_recording() -> None:
    assert tick(7, {CommitTs(8), CommitTs(9), None}) == 10
    assert tick(7, frozenset()) == 8
