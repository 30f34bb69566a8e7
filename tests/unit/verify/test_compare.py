"""Two sides of a bucket: of each key the newest version, by count and sum first, then key by key."""

from __future__ import annotations

from itertools import permutations
from random import Random

import pyarrow as pa
import pytest

from spark_merge.verify.compare import BucketDifference, compared, sum_of, total
from spark_merge.verify.digest import DIGESTS

Digest = tuple[str, int, int, int, int, bool]


def table(*rows: Digest) -> pa.Table:
    return pa.table([pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), DIGESTS.types, strict=True)], schema=DIGESTS)


def row(key: str, high: int = 1, low: int = 1, commit_ts: int = 0, rank: int = 0, *, deleted: bool = False) -> Digest:
    return key, high, low, commit_ts, rank, deleted


def found(difference: BucketDifference) -> dict[str, list[str]]:
    kinds = {kind: getattr(difference, kind).to_pylist() for kind in ("missing", "extra", "different", "duplicate")}
    return {kind: keys for kind, keys in kinds.items() if keys}


def test_each_kind_of_difference_is_named_by_its_key() -> None:
    source = table(row("a"), row("b"), row("c"), row("d"))
    sink = table(row("d"), row("b", high=2), row("c", low=2), row("e"))
    assert found(compared(source, sink)) == {"missing": ["a"], "extra": ["e"], "different": ["b", "c"]}


@pytest.mark.parametrize("other", [row("a", high=2), row("a", low=2)])
def test_as_many_rows_of_another_sum_are_not_equal(other: Digest) -> None:
    assert found(compared(table(row("a"), row("b")), table(row("b"), other))) == {"different": ["a"]}


def test_another_order_is_equal_and_sums_wrap() -> None:
    most = (1 << 64) - 1
    source = table(row("a", most, most), row("b", most, 2))
    difference = compared(source, table(*reversed(list(zip(*source.to_pydict().values(), strict=True)))))
    assert found(difference) == {}
    assert difference.source == difference.sink == (2, most - 1, 1)
    assert total([sum_of(source), sum_of(source)]) == (4, most - 3, 2)


def test_of_a_key_the_version_of_the_greatest_commit_ts_and_rank_counts() -> None:
    versions = [
        row("a", 9, commit_ts=5), row("a", 1, commit_ts=7, rank=1), row("a", 9, commit_ts=7), row("a", 9, commit_ts=6, rank=2),
        row("gone", commit_ts=5), row("gone", commit_ts=6, deleted=True), row("back", 9, commit_ts=1, deleted=True),
        row("back", 1, commit_ts=1, rank=1), row("a", 1, commit_ts=7, rank=1),
    ]  # fmt: skip
    for seed in range(10):
        Random(seed).shuffle(versions)
        assert found(compared(table(row("a"), row("back")), table(*versions))) == {}


@pytest.mark.parametrize("wrong", [row("b"), row("b", high=2)], ids=["the same row", "another row"])
def test_a_key_that_is_there_twice_is_a_difference_of_its_own_whatever_its_rows_have_and_however_they_are_read(wrong: Digest) -> None:
    source = table(row("a"), row("b"), row("c", high=3))
    for rows in permutations([row("a"), row("b"), wrong, row("c")]):
        assert found(compared(source, table(*rows))) == {"different": ["c"], "duplicate": ["b"]}
    assert found(compared(table(row("b")), table(wrong, wrong))) == {"duplicate": ["b"]}


def test_a_key_that_the_source_does_not_have_is_extra_and_counts_once() -> None:
    assert found(compared(table(row("a")), table(row("a"), row("b"), row("b")))) == {"extra": ["b"]}


def test_a_key_of_a_log_comes_as_often_as_it_has_versions() -> None:
    assert found(compared(table(row("a")), table(row("a", 9, commit_ts=5), row("a", commit_ts=6), row("a", commit_ts=6)))) == {}


def test_a_side_without_rows_is_compared() -> None:
    empty = DIGESTS.empty_table()
    assert found(compared(table(row("a")), empty)) == {"missing": ["a"]}
    assert found(compared(empty, table(row("a"), row("b", deleted=True)))) == {"extra": ["a"]}
    assert found(compared(empty, table(row("b", deleted=True)))) == {}
