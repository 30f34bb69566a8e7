"""Whether deliveries are late beside a verification."""

from __future__ import annotations

import pytest

from spark_merge.verify.lateness import BESIDE_MAX, LATE_S, Lateness


@pytest.mark.parametrize(
    ("before", "now", "late"),
    [
        ({}, {}, False),
        ({}, {"copy": LATE_S}, False),
        ({}, {"copy": LATE_S + 0.1}, True),
        ({"copy": [0.1] * 5}, {"copy": LATE_S}, False),
        ({"lake": [2.0, 9.0, 1.0]}, {"lake": BESIDE_MAX * 2.0}, False),
        ({"lake": [2.0, 9.0, 1.0]}, {"lake": BESIDE_MAX * 2.0 + 0.1}, True),
        ({"lake": [2.0] * 3, "copy": [0.1] * 3}, {"lake": 2.0, "copy": 0.6}, True),
        ({"lake": [2.0] * 2}, {"lake": 0.6}, True),
    ],
)
def test_a_sink_is_late_by_what_its_own_batches_took_before(before: dict[str, list[float]], now: dict[str, float], late: bool) -> None:
    made = Lateness(lambda: now, lambda: before)
    made.begin()
    before.clear()
    assert made.late() is late


def test_what_batches_take_beside_a_verification_is_not_the_measure() -> None:
    before = {"lake": [2.0] * 3}
    made = Lateness(lambda: {"lake": 5.0}, lambda: before)
    made.begin()
    before["lake"] = [5.0] * 3
    assert made.late()
    made.begin()
    assert not made.late(), "the next one, after a while without"


def test_a_sink_that_had_too_few_batches_when_the_verification_began_is_taken_as_it_is_since_then() -> None:
    """Of a worker that has just started: else a lake would be late throughout."""
    before: dict[str, list[float]] = {}
    made = Lateness(lambda: {"lake": 5.0}, lambda: before)
    made.begin()
    assert made.late()
    before["lake"] = [5.0] * 3
    assert not made.late()
    before["lake"] = [1.0] * 3
    assert not made.late(), "it is known"
