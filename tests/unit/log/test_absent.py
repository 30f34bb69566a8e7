"""Keys without a row in a chunk's file: before its rows, with the key's columns alone."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sidecar.shared.log.absent import parted, with_absent
from sidecar.shared.model.chunk import ABSENT

ROWS = pa.table({"v": ["x", None], "a": ["1", "2"], "b": ["3", "4"]})


def test_what_is_put_together_is_split_with_the_keys_columns_alone() -> None:
    absent, rows = parted(with_absent(ROWS, ("b", "a"), [("5", "6"), ("7", "8")]))
    assert absent.to_pylist() == [{"v": None, "a": "6", "b": "5"}, {"v": None, "a": "8", "b": "7"}]
    assert rows.equals(ROWS)


def test_without_absent_keys_a_file_is_as_any_chunks() -> None:
    assert with_absent(ROWS, ("a", "b"), ()) is ROWS
    absent, rows = parted(ROWS)
    assert (absent.num_rows, rows) == (0, ROWS)


def test_absent_keys_behind_rows_are_rejected() -> None:
    with pytest.raises(pa.ArrowInvalid, match="behind rows"):
        parted(ROWS.append_column(ABSENT, pa.array([False, True])))
