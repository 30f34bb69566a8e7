"""Which segments are samples of live delivery."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.pace.live import AWAY_S, CATCH_UP_MAX_S, LIVE_BATCHES_MIN, LIVE_OVER_S, Live


class Log:
    """A segment each `every_s`, and the batches of a worker that takes all that is there and looks four times as often. `sampled`:
    how long each sample took."""

    def __init__(self, every_s: float = 1.0) -> None:
        self.live, self.every_s = Live(), every_s
        self.now_s = 0.0
        self.sampled: list[float] = []
        self._next = 0

    def pause(self, seconds: float) -> None:
        self.now_s += seconds

    def deliver(self, *seconds: float, most: int = 1_000_000) -> None:
        """One batch after the other, of at most so many segments."""
        for batch_s in seconds:
            while not (there := int(self.now_s / self.every_s) + 1 - self._next):
                self.now_s += self.every_s / 4
            began_s, self.now_s = self.now_s, self.now_s + batch_s
            written = [number * self.every_s for number in range(self._next, self._next + min(there, most))]
            self._next += len(written)
            left_s = self._next * self.every_s
            left_s = left_s if left_s <= self.now_s else inf
            self.sampled += self.live.accepted(written, began_s=began_s, at_s=self.now_s, left_s=left_s)


def test_the_p99_is_over_ten_seconds_or_the_last_batches_of_a_slow_sink() -> None:
    log = Log(0.1)
    assert log.live.quantile_s(0.99) == 0.0
    log.deliver(*[0.01] * 10, 3.0, *[0.01] * 2)
    assert log.live.quantile_s(0.99) > 2.9
    log.deliver(*[0.01] * int(LIVE_OVER_S / 0.1))
    assert log.live.quantile_s(0.99) < 0.2
    slow = Log()
    slow.deliver(*[30.0] * 20)
    assert len(slow.live._batches) == LIVE_BATCHES_MIN
    assert 30 <= slow.live.quantile_s(0.5) < slow.live.quantile_s(0.99) <= 60


@pytest.mark.parametrize("first_s", [0.01, 5.0])
@pytest.mark.parametrize("away_s", [0.0, 3.0, 60.0])
@pytest.mark.parametrize("batches_before", [0, 20])
def test_what_waited_for_the_worker_or_behind_that_is_no_sample(batches_before: int, away_s: float, first_s: float) -> None:
    log = Log(0.2)
    log.deliver(*[0.01] * batches_before)
    log.sampled.clear()
    log.pause(away_s)
    log.deliver(first_s, *[0.01] * 20)
    away = away_s > AWAY_S or not batches_before
    assert (max(log.sampled) < 0.5) is (away or first_s < 0.5), "nothing was away: a slow sink took so long"


def test_a_catch_up_of_many_batches_is_over_with_the_one_that_leaves_nothing_that_was_there() -> None:
    log = Log(0.2)
    log.deliver(*[0.01] * 5)
    log.sampled.clear()
    log.pause(100.0)
    log.deliver(*[5.0] * 5, most=100)
    assert not log.sampled
    log.deliver(*[0.01] * 50, most=100)
    assert 0 < max(log.sampled) < 0.5


@pytest.mark.parametrize("batch_s", [0.05, 0.5, 5.0, 40.0])
def test_a_slow_sink_is_there_and_each_of_its_segments_is_a_sample(batch_s: float) -> None:
    log = Log(0.2)
    log.deliver(*[batch_s] * 10)
    assert max(log.sampled) >= batch_s
    assert len(log.sampled) >= 6 * max(batch_s / 0.2, 1.0)


def test_what_was_accepted_before_this_term_says_nothing_of_the_worker() -> None:
    live = Live()
    assert live.accepted([], began_s=0.0, at_s=0.1, left_s=inf) == []
    assert live.accepted([0.2], began_s=6.0, at_s=7.0, left_s=inf) == []
    assert live.accepted([7.1], began_s=7.2, at_s=7.3, left_s=inf) == [pytest.approx(0.2)]


@given(lag_s=st.floats(2.0, 300.0), takes_s=st.floats(0.2, 5.0))
def test_a_sink_that_never_catches_up_is_slow_and_not_late_for_ever(lag_s: float, takes_s: float) -> None:
    """It is behind by the same all the time, from the worker's start on."""
    live, end_s = Live(), 0.0
    while end_s < CATCH_UP_MAX_S + lag_s + 2 * takes_s:
        began_s, end_s = end_s, end_s + takes_s
        took_s = live.accepted([end_s - lag_s], began_s=began_s, at_s=end_s, left_s=end_s - lag_s)
        if end_s < min(CATCH_UP_MAX_S, lag_s):
            assert took_s == []
    took_s = live.accepted([end_s], began_s=end_s, at_s=end_s + lag_s, left_s=inf)
    assert took_s
    assert abs(live.quantile_s(1.0) - lag_s) < 1e-6
