"""Die once between every two durable steps of a short life, one life for each point (of very many, at as many as the lane says):
nothing is lost, repeats are harmless."""

from __future__ import annotations

from random import Random

import pytest

from tests.lanes import LANE
from tests.simulation.world import run

STEPS = 40
STEP_NAMES = {"chunk file", "segment data", "manifest", "progress", "acknowledge"}


@pytest.mark.parametrize("seed", [3, 5, 8, 13])
def test_a_death_at_any_point_changes_nothing_in_the_end(seed: int) -> None:
    points = run(seed, steps=STEPS, die_at=0).points
    died: set[str] = set()
    for point in Random(seed).sample(range(1, points + 1), min(points, LANE.deaths)):
        try:
            died |= set(run(seed, steps=STEPS, die_at=point).crashes)
        except Exception as error:
            raise AssertionError(f"seed {seed}, death at point {point} of {points}") from error
    assert died == {f"{when} {step}" for when in ("before", "after") for step in STEP_NAMES}
