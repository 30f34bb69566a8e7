"""What a sink's batches cost, with and without a dump's rows."""

from __future__ import annotations

import pytest

from sidecar.pace.cost import Cost
from sidecar.shared.model.nouns import Seq
from sidecar.shared.model.sink_delivery import BatchDone


def reported(*batches: tuple[float, int]) -> Cost:
    """Batches of (seconds, dump rows), one after the other, a row being 100 bytes."""
    cost, at_s = Cost(), 0.0
    for number, (seconds, rows) in enumerate(batches):
        at_s += seconds
        cost.batch(BatchDone(Seq(number), 1, 10, rows, seconds, 0.0, 0), at_s=at_s, dump_bytes=rows * 100)
    return cost


def test_nothing_is_known_before_the_first_batch() -> None:
    assert (reported().quiet_s, reported().row_s, reported().byte_s) == (0.0, None, None)
    assert reported((0.1, 0)).row_s is None


def test_quiet_batches_and_what_rows_add() -> None:
    cost = reported((1.0, 0), (1.0, 0), (1.5, 50_000), (1.25, 25_000))
    assert (cost.quiet_s, round(cost.row_s or 0, 9), round(cost.byte_s or 0, 11)) == (1.0, 1e-5, 1e-7)


def test_without_quiet_batches_what_differs_distinguishes_the_two() -> None:
    cost = reported(*[(30.4, 40_000), (31.2, 120_000), (32.0, 200_000), (30.8, 80_000)] * 5)
    assert abs(cost.quiet_s - 30.0) < 1.5
    assert 0.5e-5 < (cost.row_s or 0) < 3e-5


def test_one_batch_that_stalled_counts_for_nothing_and_two_in_a_row_are_how_it_is() -> None:
    steady = [(0.01, 0), (0.01, 0), *[(0.41, 40_000)] * 6]
    assert reported(*steady).rows_in(0.4) > 30_000
    assert reported(*steady, (60.0, 40_000)).rows_in(0.4) > 20_000
    assert reported(*steady, (4.01, 40_000), (4.01, 40_000)).rows_in(0.4) < 10_000


@pytest.mark.parametrize("disturbed", [((1.06, 6_000), (0.98, 3_000)), ((1.06, 6_000), (1.2, 6_000)), ((0.8, 3_000), (1.1, 6_000))])
@pytest.mark.parametrize("rows", [(3_000,) * 4, (1_800,) * 6, (3_000, 1_800) * 3, (1_800, 1_800, 1_200, 1_200, 1_200, 1_800)])
def test_after_two_disturbed_batches_a_row_soon_costs_no_more_than_a_batch_shows(
    rows: tuple[int, ...], disturbed: tuple[tuple[float, int], ...]
) -> None:
    """A fixed cost cannot be below nothing: what a batch says besides is the row's."""

    def taken(rows: tuple[int, ...]) -> list[tuple[float, int]]:
        return [(0.11 + each * 8e-6, each) for each in rows]

    cost = reported(*[(0.02, 0)] * 3, *taken((2_000, 5_000, 3_000, 6_000)) * 4, *disturbed, *taken(rows))
    seconds, last = taken(rows)[-1]
    assert (cost.row_s or 0) * last <= 1.1 * seconds
    assert cost.rows_in(0.4) > 5_000


def test_what_a_quiet_batch_takes_is_of_ten_seconds_or_of_three_batches() -> None:
    quick = [(0.02, 0)] * 4 + [(0.3, 0)] * 2
    assert {reported(*(quick * 20)[:more]).quiet_s for more in range(90, 120)} == {0.02}
    assert reported(*[(20.0, 0)] * 9, (5.0, 0), (5.0, 0)).quiet_s == 5.0


def test_rows_that_seem_to_cost_nothing_may_cost_what_batches_differ_in_anyway() -> None:
    assert reported((30.0, 0), (30.0, 500)).rows_in(1.0) <= 500


def test_what_fitted_twice_fits_again_though_batches_take_long_by_themselves() -> None:
    cost = reported(*[(0.02, 0)] * 3, (0.248, 100), (0.29, 8_000), (0.268, 8_000))
    assert cost.job_s > 0.1
    assert cost.rows_in(0.4) > 8_000


def test_what_is_sure_grows_with_batches_of_different_sizes() -> None:
    quiet, differing = [(0.02, 0)] * 3, [(0.12 + rows * 5e-6, rows) for rows in (100, 1_000, 5_000, 20_000)]
    widths = [reported(*quiet, *differing * times).rows_in(0.3) for times in (1, 2, 4)]
    assert widths[0] < widths[1] < widths[2] < 60_000
    assert widths[0] > 10_000


def test_a_dump_s_batch_by_itself_is_separate_from_its_rows_once_batches_differ() -> None:
    job_s, row_s = 0.1, 5e-6
    quiet = [(0.02, 0)] * 3
    alike = reported(*quiet, *[(0.02 + job_s + 1_000 * row_s, 1_000)] * 4)
    assert (alike.row_s or 0) > 10 * row_s, "batches of one size say only what they cost"
    differing = reported(*quiet, *[(0.02 + job_s + rows * row_s, rows) for rows in (100, 1_000, 5_000, 20_000)] * 2)
    assert abs((differing.row_s or 0) - row_s) < 1e-6
    assert abs(differing.job_s - job_s) < 0.01


def test_where_no_quiet_batch_was_seen_for_long_the_job_is_what_it_was() -> None:
    dumps = [(0.12 + rows * 5e-6, rows) for rows in (100, 1_000, 5_000, 20_000)]
    cost = reported(*[(0.02, 0)] * 3, *dumps * 2, (0.02, 0), *dumps * 5)
    assert abs(cost.job_s - 0.1) < 0.01
    assert abs(cost.quiet_s - 0.02) < 0.01
