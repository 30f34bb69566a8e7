"""Every state within the bounds keeps the invariants, and no planted mistake does."""

from __future__ import annotations

import pytest

from tests.lanes import LANE
from tests.model.explore import INVARIANTS, explore
from tests.model.gaps import GAPS
from tests.model.measures import MEASURES, Measure
from tests.model.mistakes import MISTAKES, Mistake
from tests.model.rules import Rules

PLANTED = [*MISTAKES, *GAPS]


@pytest.mark.parametrize("measure", [one for one in MEASURES if LANE.whole or not one.large], ids=lambda one: one.name)
def test_every_state_within_the_bounds_keeps_the_invariants(measure: Measure) -> None:
    exploration = explore(measure.bounds)
    assert exploration.violation is None, exploration.story()
    assert exploration.states >= measure.states_min, "it ended early, and proves nothing"
    assert exploration.ends, "no run comes to its end"


@pytest.mark.parametrize("mistake", [one for one in PLANTED if LANE.whole or not one.large], ids=lambda one: one.name)
def test_a_planted_mistake_breaks_an_invariant(mistake: Mistake) -> None:
    exploration = explore(mistake.bounds, mistake.rules())
    assert exploration.violation is not None, f"{exploration.states:,} states, and none shows it"
    assert exploration.violation.invariant == mistake.breaks, exploration.story()


def test_each_invariant_is_broken_by_a_mistake_and_each_rule_is_one_that_a_mistake_replaces() -> None:
    rules = {name for name in vars(Rules) if not name.startswith("_")}
    assert {rule for one in PLANTED for rule in one.rule.split()} == rules
    assert {one.breaks for one in PLANTED} == INVARIANTS.keys()
    assert len({one.name for one in PLANTED}) == len(PLANTED)
    assert len(MISTAKES) >= 20
