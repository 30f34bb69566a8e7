"""Rows of an output that has a stream of versions: how its files are shared out."""

from __future__ import annotations

from spark_merge.sinks.kit.row_versions import dealt


def test_files_are_dealt_by_their_sizes() -> None:
    sizes = [1, 9, 5, 4, 1]
    assert sorted(map(sum, dealt(sizes, int, 2))) == [10, 10]
    assert [len(group) for group in dealt(sizes, int, 9)] == [1] * 5
    assert dealt([], int, 3) == []
    assert dealt(sizes, int, 1) == [(9, 5, 4, 1, 1)]
