"""How much a run plays. `make fast`, `make rest` and `make matrix` name the lane; whatever differs between them stands here alone.
`make test` is the first two: the tests without servers play what `fast` says, all others what `test` says.

A lane plays fewer of the same: every promise is judged in each of them by the same assertions.
"""

from __future__ import annotations

import os
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Lane:
    """`examples`: of hypothesis, where a test asks for 100. `lives`: of the simulated cluster; `deaths`: points of one life to die at.
    `schedules`: of a recording with one kind of brackets, by the slow rule; `whole`: each of them on every feed, and every feed through
    Spark with all kinds of brackets, and examples sought at random; else they are shared out among the feeds, and examples are the same in
    each run. `interleavings`: of a recording's key-values. `writes_per_s`: of the workload amid which the whole product dumps. `pushed`:
    the recording that is pushed to the whole product."""

    examples: int
    lives: int
    deaths: int
    schedules: int
    whole: bool
    interleavings: int
    writes_per_s: int
    pushed: str


LANES = {
    "fast": Lane(examples=25, lives=200, deaths=100, schedules=10, whole=False, interleavings=2, writes_per_s=200, pushed="shop"),
    "test": Lane(examples=50, lives=200, deaths=100, schedules=10, whole=False, interleavings=2, writes_per_s=200, pushed="shop"),
    "matrix": Lane(examples=200, lives=1000, deaths=1000, schedules=20, whole=True, interleavings=4, writes_per_s=500, pushed="ddl"),
}
LANE = LANES[os.environ.get("TICDC_DUMP_LANE", "test")]


def examples(of_a_hundred: int) -> int:
    """How many for a test that wants `of_a_hundred` where others have 100: more for what is cheap, fewer for what is dear."""
    return max(10, of_a_hundred * LANE.examples // 100)
