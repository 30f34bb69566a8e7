"""How large the explorations are. `states_min`: an exploration that ends early has fewer, and proves nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tests.model.mistakes import BOTH, BOTH_AND_A_DEATH, COMMITTING, HIDDEN, LONGER, OWNERS, RESTORED, UNDER_A_WORKER, WINDOWS
from tests.model.state import Bounds, Left


@dataclass(frozen=True, slots=True)
class Measure:
    """`large`: for `make matrix` alone."""

    name: str
    bounds: Bounds
    states_min: int
    large: bool = False


WHOLE = Bounds(1, 2, 2, ("committing",), Left(freezes=1, lapses=1), frozen=("owner", "loop"))
THREE_CHANGES = Left(freezes=2, deaths=1)

MEASURES = [
    Measure("two owners, one freezes", OWNERS, 7_000),
    Measure("an owner dies with a window open", replace(OWNERS, faults=Left(deaths=1, windows=1)), 2_000),
    Measure("two workers of a hidden sink", HIDDEN, 4_000),
    Measure("two workers of a committing sink", COMMITTING, 5_000),
    Measure("two owners and two workers", WHOLE, 6_000),
    Measure("sinks of both kinds", BOTH, 800),
    Measure("a log is restored", replace(RESTORED, changes=2), 4_000),
    Measure("a sink is restored", replace(RESTORED, changes=2, faults=Left(deaths=1, sink_restores=1), forgets=True), 4_000),
    Measure("two owners, each freezes", replace(OWNERS, faults=Left(freezes=2, lapses=1)), 40_000, True),
    Measure("two owners, a lease runs out twice", replace(OWNERS, faults=Left(freezes=1, lapses=2)), 150_000, True),
    Measure("an owner freezes with a window open", replace(LONGER, faults=Left(freezes=1, lapses=1, windows=1)), 150_000, True),
    Measure("windows of three segments", replace(WINDOWS, faults=Left(deaths=1, windows=2)), 12_000, True),
    Measure("two workers of a hidden sink, each freezes", replace(HIDDEN, changes=3, faults=THREE_CHANGES), 130_000, True),
    Measure("two workers of a committing sink, each freezes", replace(COMMITTING, changes=3, faults=THREE_CHANGES), 150_000, True),
    Measure("two owners and two workers, two of them freeze", replace(WHOLE, faults=Left(freezes=2, lapses=1)), 80_000, True),
    Measure("two owners and two workers, two changes", replace(WHOLE, changes=2), 45_000, True),
    Measure("sinks of both kinds, and a death", BOTH_AND_A_DEATH, 20_000, True),
    Measure("a log is restored that had three changes", RESTORED, 20_000, True),
    Measure("a log is restored that a sender has forgotten", replace(RESTORED, forgets=True), 10_000, True),
    Measure("a log is restored under a worker", UNDER_A_WORKER, 30_000, True),
    Measure("a log is restored under a hidden sink", replace(RESTORED, kinds=("hidden",)), 15_000, True),
    Measure(
        "a sink is restored that had three changes", replace(RESTORED, faults=Left(deaths=1, sink_restores=1), forgets=True), 20_000, True
    ),
]
