"""How many states each exploration has, and the story of a violation: `python -m tests.model [a part of its name]`."""

from __future__ import annotations

import sys
from time import monotonic

from tests.model.explore import explore
from tests.model.measures import MEASURES

for measure in MEASURES:
    if "".join(sys.argv[1:]) in measure.name:
        began_s = monotonic()
        result = explore(measure.bounds)
        seconds = monotonic() - began_s
        print(f"{measure.name}: {result.states:,} states, {result.steps:,} steps, {result.ends:,} ends, {seconds:.1f} s")  # noqa: T201  # a command
        if result.violation is not None:
            print(result.story())  # noqa: T201  # a command
