"""A range cut along the regions that PD tells, and the keys of both."""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import pairwise
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.shared.errors import MessageUnreadable
from sidecar.shared.rowcodec.key_values import KeyRange
from sidecar.shared.tikv import regions as tikv_regions
from sidecar.shared.tikv.regions import Region, borders, cut, decoded, encoded
from tests.support.kv_encoder import memcomparable_bytes

WANTED = KeyRange(b"b", b"y")


def region(number: int, start: bytes, end: bytes, *, leader: int | None = 1) -> Region:
    return Region(number, encoded(start) if start else b"", encoded(end) if end else b"", 1, 1, leader)


def parts(*regions: Region) -> list[tuple[bytes, bytes, int | None]]:
    return [(part.range.start, part.range.end, part.region and part.region.id) for part in cut(WANTED, regions)]


@given(st.binary(max_size=40), st.binary(max_size=40))
def test_encoded_keys_have_the_order_of_raw_ones(one: bytes, other: bytes) -> None:
    assert decoded(encoded(one)) == one
    assert encoded(one) == memcomparable_bytes(one)
    assert (encoded(one) < encoded(other)) == (one < other)


def test_the_border_of_a_recorded_region() -> None:
    assert decoded(bytes.fromhex("748000fffffffffffffe5f720000000000fa")) == bytes.fromhex("748000fffffffffffe5f72")


@pytest.mark.parametrize("border", [b"", b"abc", encoded(b"abc") + b"x", b"\x00" * 8 + b"\x01"])
def test_a_border_that_is_not_encoded_is_refused(border: bytes) -> None:
    with pytest.raises(MessageUnreadable, match="region border"):
        decoded(border)


def test_one_region_of_all_keys_has_all_of_it() -> None:
    assert parts(region(1, b"", b"")) == [(b"b", b"y", 1)]


def test_borders_inside_cut_and_those_outside_clip() -> None:
    assert parts(region(1, b"", b"g"), region(2, b"g", b"m"), region(3, b"m", b"z")) == [(b"b", b"g", 1), (b"g", b"m", 2), (b"m", b"y", 3)]


def test_regions_beside_the_range_do_not_count() -> None:
    assert parts(region(1, b"", b"b"), region(2, b"b", b"y"), region(3, b"y", b"")) == [(b"b", b"y", 2)]


def test_what_pd_does_not_know_is_a_part_without_a_region() -> None:
    assert parts(region(1, b"c", b"d"), region(2, b"f", b"g")) == [
        (b"b", b"c", None),
        (b"c", b"d", 1),
        (b"d", b"f", None),
        (b"f", b"g", 2),
        (b"g", b"y", None),
    ]
    assert parts() == [(b"b", b"y", None)]


def test_a_region_without_a_leader_is_a_part_without_a_region() -> None:
    assert parts(region(1, b"", b"g"), region(2, b"g", b"", leader=None)) == [(b"b", b"g", 1), (b"g", b"y", None)]


def test_of_regions_that_overlap_the_first_has_the_keys() -> None:
    """PD tells such for a moment after a merge."""
    assert parts(region(1, b"", b"m"), region(2, b"g", b"")) == [(b"b", b"m", 1), (b"m", b"y", 2)]


keys = st.binary(max_size=3)


@given(st.lists(st.tuples(keys, keys), max_size=8), keys, keys)
def test_parts_are_the_whole_range_without_gap_or_overlap(pairs: list[tuple[bytes, bytes]], one: bytes, other: bytes) -> None:
    wanted = KeyRange(min(one, other), max(one, other) + b"x")
    regions = [region(number, min(pair), max(pair)) for number, pair in enumerate(pairs, 1) if min(pair) < max(pair)]
    regions.sort(key=lambda it: it.start)
    results = cut(wanted, regions)
    assert results[0].range.start == wanted.start
    assert results[-1].range.end == wanted.end
    assert all(before.range.end == after.range.start for before, after in pairwise(results))
    assert all(part.range.start < part.range.end for part in results)
    for part in results:
        if part.region is not None:
            assert part.region.start <= encoded(part.range.start)
            assert not part.region.end or encoded(part.range.end) <= part.region.end


# ---- borders --------------------------------------------------------------------------------------------------------


def answers(starts: Sequence[bytes], page: int) -> Callable[[bytes], list[Region]]:
    """Of a PD with regions that begin at these raw keys, the first at the lowest key, `page` of them an answer."""

    def regions_from(key: bytes) -> list[Region]:
        first = bisect_right(starts, key) - 1
        ends = [*starts[1:], b""]
        return [region(number, starts[number], ends[number]) for number in range(first, min(first + page, len(starts)))]

    return regions_from


@given(st.sets(keys), st.sets(keys, min_size=2), st.integers(1, 4))
def test_borders_are_starts_of_ranges_and_of_regions_inside_of_them(starts: set[bytes], edges: set[bytes], page: int) -> None:
    all_starts, points = sorted({b"", *starts}), sorted(edges)
    ranges = [KeyRange(*pair) for pair in zip(points[::2], points[1::2], strict=False)]
    inside = {start for start in all_starts if any(start in range_ for range_ in ranges)}
    assert [*borders(ranges, answers(all_starts, page))] == sorted({*inside, *(range_.start for range_ in ranges)})


def lines_of(module: Any, act: Callable[[], object]) -> int:
    """How many lines of it are executed."""
    count = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal count
        if frame.f_code.co_filename != module.__file__:
            return None
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        act()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize(("ranges", "regions"), [(800, 1), (800, 800), (100, 6_400), (1, 6_400), (800, 6_400)])
def test_borders_take_steps_for_each_range_and_each_region_and_not_for_each_pair(ranges: int, regions: int) -> None:
    wanted = [KeyRange(b"%06d" % (number * 10), b"%06d" % (number * 10 + 5)) for number in range(ranges)]
    starts = [b"", *(b"%06d" % (number * 10 * ranges // regions) for number in range(1, regions))]
    steps = lines_of(tikv_regions, lambda: [*borders(wanted, answers(starts, 1024))])
    of_a_key = lines_of(tikv_regions, lambda: decoded(encoded(b"000000")))
    assert steps < (10 + 2 * of_a_key) * (ranges + regions)


def test_regions_between_ranges_that_are_far_apart_are_not_queried() -> None:
    starts = [b"", *(b"%06d" % number for number in range(1, 100_000))]
    requests: list[bytes] = []
    answer = answers(starts, 1024)

    def regions_from(key: bytes) -> list[Region]:
        requests.append(key)
        return answer(key)

    wanted = [KeyRange(b"000010", b"000012"), KeyRange(b"090010", b"090012")]
    expected = [b"000010", b"000011", b"090010", b"090011"]
    assert [*borders(wanted, regions_from)] == expected
    assert requests == [b"000010", b"090010"]
