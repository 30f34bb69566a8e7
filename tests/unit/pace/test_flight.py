"""How much of a dump is on its way: enough that sinks do not wait for marks, and little more."""

from __future__ import annotations

import pytest

from sidecar.core.dump_start import Demand
from sidecar.pace.flight import FIRST_ROWS, LEAST_ROWS_S, STOCK_SHARE, Flight


def trip(flight: Flight, number: int, *, ready: tuple[int, ...], starved: bool, seconds: float = 1.0, width: int = 100) -> int:
    """Round trip `number`, of a window that opens at its begin; `ready` rows at each look in it."""
    for at, rows in enumerate((0, *ready)):
        waiting = int(at < len(ready))
        demand = Demand(ready_rows=rows, opened=number, waiting=waiting, starved=starved)
        flight.look(demand, width_rows=width, window_rows=50, now_s=number * 10 + seconds * at / len(ready))
    return flight.rows


def test_what_is_on_its_way_doubles_in_each_round_trip_in_which_nothing_lay_ready() -> None:
    flight = Flight()
    assert [trip(flight, number, ready=(9_000, 40, 9_000), starved=True) for number in (1, 2, 3)] == [FIRST_ROWS * 2**n for n in (1, 2, 3)]
    assert flight.trip_s == pytest.approx(1.0)


def test_a_dump_that_wanted_no_more_gets_no_more() -> None:
    flight = Flight()
    assert trip(flight, 1, ready=(0, 0), starved=False) == FIRST_ROWS


def test_half_of_what_lay_ready_all_the_time_is_taken_away_and_some_stock_stays() -> None:
    flight = Flight()
    least = int(FIRST_ROWS * STOCK_SHARE)
    assert trip(flight, 1, ready=(least, 9_000), starved=True) == FIRST_ROWS
    assert trip(flight, 2, ready=(8_000, 12_000), starved=True) == FIRST_ROWS - 4_000


def test_there_is_a_width_and_a_least_pace_however_long_a_mark_takes() -> None:
    flight = Flight()
    for number in range(1, 20):
        trip(flight, number, ready=(20_000, 20_000), starved=False, seconds=2.0, width=700)
    assert flight.rows == pytest.approx(2 * LEAST_ROWS_S, abs=1)
    assert trip(flight, 20, ready=(20_000,), starved=False, seconds=0.1, width=700) == 700


def test_a_dump_that_gave_all_up_begins_another_round() -> None:
    flight = Flight()
    flight.look(Demand(opened=1, waiting=1), width_rows=1, window_rows=1, now_s=1.0)
    flight.look(Demand(opened=1), width_rows=1, window_rows=1, now_s=2.0)
    flight.look(Demand(opened=2, waiting=1, starved=True), width_rows=1, window_rows=1, now_s=3.0)
    assert flight.look(Demand(opened=3, waiting=1, starved=True), width_rows=1, window_rows=1, now_s=5.0) == 2 * FIRST_ROWS
    assert flight.trip_s == pytest.approx(2.0)


def test_the_next_term_begins_with_what_this_one_has_learned_and_with_windows_of_its_own() -> None:
    flight = Flight()
    assert trip(flight, 7, ready=(0,), starved=True) == 2 * FIRST_ROWS
    later = flight.resumed()
    assert trip(later, 1, ready=(0,), starved=True) == 4 * FIRST_ROWS
