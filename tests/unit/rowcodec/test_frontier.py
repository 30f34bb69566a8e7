"""How far a range is: the lowest of its parts, as a model says that has a ts for every key."""

from __future__ import annotations

from itertools import pairwise
from time import process_time

from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.shared.model.nouns import CommitTs
from sidecar.shared.rowcodec.frontier import Frontier
from sidecar.shared.rowcodec.key_values import KeyRange
from tests.lanes import examples

KEYS = [bytes([number]) for number in range(10, 30)]
WHOLE = KeyRange(KEYS[3], KEYS[-3])


def frontier() -> Frontier:
    return Frontier(WHOLE, CommitTs(5))


def test_a_range_begins_where_it_was_wanted_from() -> None:
    assert (frontier().ts(), frontier().pieces()) == (5, 1)


def test_a_range_is_as_far_as_its_slowest_part() -> None:
    result = frontier()
    result.forward(KeyRange(KEYS[3], KEYS[6]), CommitTs(20))
    assert result.ts() == 5
    result.forward(KeyRange(KEYS[6], KEYS[-3]), CommitTs(10))
    assert result.ts() == 10
    result.forward(WHOLE, CommitTs(30))
    assert (result.ts(), result.pieces()) == (30, 1)


def test_a_part_does_not_go_back() -> None:
    result = frontier()
    result.forward(WHOLE, CommitTs(20))
    result.forward(KeyRange(KEYS[5], KEYS[6]), CommitTs(10))
    assert (result.ts(), result.pieces()) == (20, 1)


def test_parts_outside_the_range_and_empty_ones_say_nothing() -> None:
    result = frontier()
    for part in (KeyRange(KEYS[0], KEYS[3]), KeyRange(KEYS[-3], KEYS[-1]), KeyRange(KEYS[5], KEYS[5]), KeyRange(KEYS[6], KEYS[5])):
        result.forward(part, CommitTs(99))
    assert (result.ts(), result.pieces()) == (5, 1)


@settings(max_examples=examples(300))
@given(st.lists(st.tuples(st.sampled_from(KEYS), st.sampled_from(KEYS), st.integers(1, 30)), max_size=40))
def test_it_is_the_lowest_ts_of_any_key(parts: list[tuple[bytes, bytes, int]]) -> None:
    """Neighbours of one ts are one piece."""
    result = frontier()
    model = {key: 5 for key in KEYS if key in WHOLE}
    for start, end, ts in parts:
        result.forward(KeyRange(start, end), CommitTs(ts))
        model = {key: max(at, ts) if start <= key < end else at for key, at in model.items()}
        assert result.ts() == min(model.values())
        values = list(model.values())
        assert result.pieces() == 1 + sum(one != other for one, other in pairwise(values))


def test_ten_thousand_regions_that_advance_each_by_itself_are_little_work() -> None:
    """Quadratic work would be minutes."""
    edges = [number.to_bytes(3, "big") for number in range(10_001)]
    result = Frontier(KeyRange(edges[0], edges[-1]), CommitTs(0))
    started = process_time()
    for ts in range(1, 6):
        for number in range(10_000):
            result.forward(KeyRange(edges[number], edges[number + 1]), CommitTs(10 * ts + number % 7))
            result.ts()
        assert result.ts() == 10 * ts
    assert process_time() - started < 60
