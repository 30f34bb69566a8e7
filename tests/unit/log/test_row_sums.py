"""The sum of a chunk's row hashes, against the words of its specification."""

from __future__ import annotations

import hashlib

import pyarrow as pa
import pytest

from sidecar.shared.log.absent import with_absent
from sidecar.shared.log.row_sums import BATCH_ROWS_MAX, rows_sum
from sidecar.shared.model.chunk import ABSENT

ROWS = pa.table({"id": ["1", "2", "3"], "name": ["a", None, "\u00e4:~"], "note": ["", "1:1", None]})


def slow(rows: pa.Table) -> str:
    """As the page says it, without Arrow and numpy."""
    total = 0
    for row in rows.to_pylist():
        parts = [str(value).lower() if isinstance(value, bool) else value for value in row.values()]
        texts = [b"~:~" if part is None else b"%d:%b" % (len(part.encode()), part.encode()) for part in parts]
        total += int.from_bytes(hashlib.sha256(b":".join(texts)).digest()[:16], "big")
    return f"{total % 2**128:032x}"


@pytest.mark.parametrize(
    "rows",
    [
        ROWS,
        ROWS.slice(1, 1),
        ROWS.slice(0, 0),
        pa.concat_tables([ROWS] * 5000),
        with_absent(ROWS, ("id",), [("8",), ("9",)]),
        pa.table({"id": pa.chunked_array([["1"], ["2", "3"]])}),
    ],
    ids=["some", "a slice", "none", "many", "absent keys", "in parts"],
)
def test_it_is_what_the_page_says(rows: pa.Table) -> None:
    assert rows_sum(rows) == slow(rows)
    assert pa.concat_tables([ROWS] * 5000).num_rows > BATCH_ROWS_MAX


def test_the_order_of_rows_does_not_count_and_how_often_a_row_is_there_does() -> None:
    assert rows_sum(ROWS.take([2, 0, 1])) == rows_sum(ROWS)
    assert rows_sum(ROWS.take([0, 0, 1, 2])) != rows_sum(ROWS)
    assert rows_sum(ROWS.take([0, 0, 1, 1])) != rows_sum(ROWS.take([0, 1]))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([["a"], ["b"]], [["b"], ["a"]]),
        ([[None], ["x"]], [["~"], ["x"]]),
        ([["a:b"], ["c"]], [["a"], ["b:c"]]),
        ([[""], ["x"]], [[None], ["x"]]),
        ([["a", "b"], ["x", "y"]], [["a", "b"], ["y", "x"]]),
    ],
    ids=["columns", "null", "a border", "empty", "values of two rows"],
)
def test_other_rows_have_another_sum(one: list[list[str | None]], other: list[list[str | None]]) -> None:
    sums = [rows_sum(pa.table([pa.array(column, pa.string()) for column in columns], ["a", "b"])) for columns in (one, other)]
    assert sums[0] != sums[1]


def test_a_key_that_is_absent_is_no_row() -> None:
    absent = with_absent(ROWS.slice(1, 2).select(["id"]), ("id",), [("1",)])
    assert ABSENT in absent.column_names
    assert rows_sum(absent) != rows_sum(ROWS.select(["id"]))
