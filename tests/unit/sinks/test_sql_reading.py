"""Texts of a target's columns with the digits of the source's."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sidecar.shared.model.nouns import Column, Kind
from spark_merge.sinks.mysql.reading import _scaled


@pytest.mark.parametrize(
    ("kind", "scale", "texts", "expected"),
    [
        ("decimal", 2, ["1.5000", None, "-100.0100", "1.5001"], ["1.50", None, "-100.01", "1.5001"]),
        ("decimal", 0, ["100.00", "0.00", "0.10"], ["100", "0", "0.10"]),
        ("decimal", 2, [None, "100", "0"], [None, "100.00", "0.00"]),
        ("datetime", 3, ["2024-01-01 00:00:00", None], ["2024-01-01 00:00:00.000", None]),
        ("timestamp", 0, ["2024-01-01 00:00:10.000", "2024-01-01 00:00:00.010"], ["2024-01-01 00:00:10", "2024-01-01 00:00:00.010"]),
        ("time", 1, ["-838:59:59.100000"], ["-838:59:59.1"]),
        ("decimal", 2, ["1.50", None], ["1.50", None]),
        ("decimal", 2, [None, None], [None, None]),
        ("text", 0, ["1.00"], ["1.00"]),
    ],
)
def test_zeros_are_added_and_taken_and_no_other_digit(kind: Kind, scale: int, texts: list[str | None], expected: list[str | None]) -> None:
    result = _scaled(pa.table({"c": pa.array(texts, pa.string())}), [Column("c", kind, scale=scale)])
    assert result["c"].to_pylist() == expected
