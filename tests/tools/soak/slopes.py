"""How a series grows: the median of the slopes between its samples (Theil-Sen), which a few outliers do not move.

Only its second half counts, when caches have filled, and only pairs of samples of one process's life: what dies gives everything back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import median

from tests.tools.soak.sampling import Sample, Series

_S_AN_HOUR = 3600
_SAMPLES_MAX = 400
"""Of a life: pairs are their square."""


@dataclass(frozen=True, slots=True)
class Growth:
    """`an_hour` is None where no life has two samples. `share`: an hour's growth by the median value."""

    name: str
    samples: int
    lives: int
    lowest: float
    median: float
    highest: float
    an_hour: float | None

    @property
    def share(self) -> float | None:
        return None if self.an_hour is None or not self.median else self.an_hour / self.median


def growth(name: str, samples: Sequence[Sample]) -> Growth:
    begin_s, end_s = samples[0].at_s, samples[-1].at_s
    late = [one for one in samples if one.at_s >= (begin_s + end_s) / 2]
    lives = [thinned(list(life)) for _, life in groupby(late, key=lambda one: one.of)]
    slopes = [slope for life in lives for slope in _slopes(life)]
    values = [one.value for one in late]
    an_hour = median(slopes) * _S_AN_HOUR if slopes else None
    return Growth(name, len(late), len(lives), min(values), median(values), max(values), an_hour)


def thinned(life: list[Sample]) -> list[Sample]:
    return life[:: -(-len(life) // _SAMPLES_MAX)]


def _slopes(life: Sequence[Sample]) -> list[float]:
    return [
        (later.value - earlier.value) / (later.at_s - earlier.at_s)
        for number, later in enumerate(life)
        for earlier in life[:number]
        if later.at_s > earlier.at_s
    ]


def table(series: Series) -> str:
    """A line a series."""
    heads = ("what", "samples", "lives", "lowest", "median", "highest", "growth an hour", "of the median")
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for one in (growth(name, samples) for name, samples in series.items() if samples):
        an_hour = "-" if one.an_hour is None else f"{one.an_hour:+.2f}"
        share = "-" if one.share is None else f"{one.share:+.1%}"
        numbers = (f"{number:.1f}" for number in (one.lowest, one.median, one.highest))
        lines.append(f"| {' | '.join((one.name, str(one.samples), str(one.lives), *numbers, an_hour, share))} |")
    return "\n".join(lines)
