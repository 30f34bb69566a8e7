"""A table is brought to its end by steps, each on the table as it is then, also where others commit between them."""

from __future__ import annotations

from random import Random

import pytest

from sidecar.shared.errors import SinkError
from spark_merge.sinks.lake.steps import STEPS_MAX, Outpaced, at_its_end

OVERTAKEN = SinkError("overtaken", hint="none")


@pytest.mark.parametrize("seed", range(50))
def test_each_step_is_taken_once_however_often_others_are_faster(seed: int) -> None:
    rng, table, taken = Random(seed), [0, 0, 0], list[int]()

    def step(there: tuple[int, ...]) -> str | None:
        at = next((number for number, done in enumerate(there) if not done), None)
        if at is None:
            return "the end"
        if rng.random() < 0.3:
            raise Outpaced
        if rng.random() < 0.3:
            table[at] = 1  # somebody else has done it
            return None
        taken.append(at)
        table[at] = 1
        return None

    assert at_its_end(lambda: tuple(table), step, OVERTAKEN) == "the end"
    assert taken == sorted(set(taken))


def test_who_is_overtaken_for_ever_gives_up() -> None:
    looks = list[int]()

    def outpaced(_: None) -> None:
        raise Outpaced

    with pytest.raises(SinkError, match="overtaken"):
        at_its_end(lambda: looks.append(1), outpaced, OVERTAKEN)
    assert len(looks) == STEPS_MAX
