"""Many lives (world.py; the lane says how many): whatever dies when, output equals source and no key goes back (P1, P2, P4, P5)."""

from __future__ import annotations

import pytest

from tests.lanes import LANE
from tests.simulation.world import run

SEEDS_A_TEST = 50


@pytest.mark.parametrize("first", range(0, LANE.lives, SEEDS_A_TEST))
def test_every_life_ends_with_the_output_equal_to_the_source(first: int) -> None:
    dump_rows = crashes = snapshots = late_marks = fenced = repaired = deleted = beside = queued = held = 0
    one_sink = verified = differing = 0
    for seed in range(first, first + SEEDS_A_TEST):
        try:
            result = run(seed)
        except Exception as error:
            raise AssertionError(f"seed {seed}: live through it again with `make sim SEED={seed}`") from error
        dump_rows, crashes, snapshots = dump_rows + result.dump_rows, crashes + len(result.crashes), snapshots + result.snapshots
        late_marks, fenced = late_marks + result.late_marks, fenced + result.fenced
        repaired, deleted = repaired + result.repaired, deleted + result.deleted
        beside, queued, held = beside + result.beside, queued + result.queued, held + result.held
        one_sink, verified, differing = one_sink + result.one_sink, verified + result.verified, differing + result.differing
    assert dump_rows > 1000, "these lives dumped too little to prove anything"
    assert crashes > 20, "these lives died too seldom to prove anything"
    assert snapshots > 500, "too few positions were compared after a complete dump"
    assert repaired > 100, "too few spoilt rows were repaired"
    assert deleted > 25, "too few keys that the source does not have were deleted"
    assert beside > 20, "too few dumps ran beside others"
    assert queued > 20, "too few dumps waited for others"
    assert one_sink > 100, "too few dumps were for one sink"
    assert verified > 100, "too few verifications came to their end"
    assert differing > 10, "too few spoilt rows were reported by a verification"
    assert held > 500, "too few windows waited for sinks to leave room"
    assert late_marks > 20, "too few marks were given up and came later"
    assert fenced <= 1, "a late mark was taken for another writer's, and none of a former owner's other dump"


def test_a_seed_gives_the_same_life_again() -> None:
    assert run(7) == run(7)
