"""Moments of the worker's clock in the sidecar's seconds."""

from __future__ import annotations

from sidecar.pace.clocks import DELAY_MAX_S, Clocks
from sidecar.shared.model.sink_delivery import ReportTimes


def test_the_fastest_reading_reports_the_difference() -> None:
    clocks = Clocks()
    for written_ms, read_s in ((1_000_000, 10.2), (1_001_000, 11.01), (1_002_000, 12.25)):
        clocks.receive(ReportTimes(written_ms, read_s))
    assert abs(clocks.at_s(1_002_500, at_most_s=13.0) - 12.51) < 1e-9


def test_nothing_is_accepted_later_than_it_is_reported() -> None:
    clocks = Clocks()
    assert clocks.at_s(5, at_most_s=7.0) == 7.0
    clocks.receive(ReportTimes(1_000, 2.0))
    assert clocks.at_s(9_000, at_most_s=3.0) == 3.0


def test_a_report_that_is_read_again_says_nothing_more() -> None:
    clocks = Clocks()
    for read_s in (2.0, 1.0):
        clocks.receive(ReportTimes(1_000, read_s))
    assert clocks.at_s(1_500, at_most_s=99.0) == 2.5


def test_a_clock_that_was_set_is_learnt_again() -> None:
    clocks = Clocks()
    clocks.receive(ReportTimes(1_000, 2.0))
    clocks.receive(ReportTimes(500, 3.0))
    assert clocks.at_s(500, at_most_s=99.0) == 3.0
    clocks.receive(ReportTimes(600, 3.1 + DELAY_MAX_S + 1))
    assert clocks.at_s(600, at_most_s=99.0) == 3.1 + DELAY_MAX_S + 1
