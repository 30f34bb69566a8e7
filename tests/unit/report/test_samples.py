"""Samples of a long dump: bounded, regular, and the slowest delivery is kept."""

from __future__ import annotations

from itertools import pairwise

import pytest

from sidecar.report.samples import ThinnedSamples
from sidecar.shared.log.certificate_parts import SampleLine, SinkSample


def sample(number: int, live_s: float = 0.1) -> SampleLine:
    return SampleLine(number * 2000, 1, (), 0.0, 0.0, 0.0, 0.0, 0, "", (SinkSample("s", 0.1, live_s, 0.5, 0.5),))


def thinned(samples: list[SampleLine], kept_max: int = 8) -> list[SampleLine]:
    thinned_samples = ThinnedSamples(kept_max)
    assert list(thinned_samples.passed(samples)) == samples
    return thinned_samples.kept()


@pytest.mark.parametrize("count", [0, 1, 7])
def test_few_are_all_kept(count: int) -> None:
    samples = [sample(number) for number in range(count)]
    assert thinned(samples) == samples


@pytest.mark.parametrize("count", [8, 9, 63, 64, 1000])
def test_many_are_bounded_and_regular(count: int) -> None:
    sample_lines = thinned([sample(number) for number in range(count)])
    assert 4 <= len(sample_lines) <= 9
    distances = {after.at_ms - one.at_ms for one, after in pairwise(sample_lines)}
    assert len(distances) == 1


@pytest.mark.parametrize("slowest", [0, 17, 511, 998, 999])
def test_the_slowest_delivery_is_kept(slowest: int) -> None:
    sample_lines = thinned([sample(number, 9.0 if number == slowest else 0.1) for number in range(1000)])
    assert max(one.sinks[0].live_s for one in sample_lines) == 9.0


def test_samples_of_an_owner_that_took_over_are_in_the_order_of_their_time() -> None:
    assert [one.at_ms for one in thinned([sample(3), sample(1), sample(2)])] == [2000, 4000, 6000]
