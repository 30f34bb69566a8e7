"""Texts in groups."""

from __future__ import annotations

import pytest

from spark_merge.sinks.kit.grouped import grouped


@pytest.mark.parametrize(
    ("texts", "rows_max", "bytes_max", "expected"),
    [
        ([], 2, 9, []),
        (["a", "b", "c"], 2, 9, [["a", "b"], ["c"]]),
        (["aaa", "bb", "c"], None, 5, [["aaa", "bb"], ["c"]]),
        (["aaaaaaa", "b", "ccccccc"], None, 5, [["aaaaaaa"], ["b"], ["ccccccc"]]),
    ],
)
def test_a_group_has_so_many_texts_and_bytes_or_one_text(
    texts: list[str], rows_max: int | None, bytes_max: int, expected: list[list[str]]
) -> None:
    assert list(grouped(iter(texts), rows_max=rows_max, bytes_max=bytes_max)) == expected
