"""Many lives of owners that freeze and wake (owners.py): none of them breaks the log for another."""

from __future__ import annotations

import pytest

from tests.lanes import LANE
from tests.simulation.owners import Life, live

LIVES_A_LANE = 2
"""Times the lives of the simulated cluster: these are short."""
SEEDS_A_TEST = 100


@pytest.mark.parametrize("first", range(0, LANE.lives * LIVES_A_LANE, SEEDS_A_TEST))
def test_no_owner_breaks_the_log_of_another(first: int) -> None:
    total = Life()
    for seed in range(first, first + SEEDS_A_TEST):
        try:
            life = live(seed)
        except Exception as error:
            raise AssertionError(f"seed {seed}: live through it again with `python -m tests.simulation.owners {seed}`") from error
        total += life
    assert total.commits > 500, "these owners wrote too little to prove anything"
    assert total.removed > 200, "too few segments were retained away"
    assert total.woken > 50, "too few owners woke beside another one"
    assert total.fenced > 15, "too few of them were fenced off"
    assert total.came_back > 50, "too few layouts came back in a later owner's life"
