"""Rows of a task that wait for their file."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.shared.model.nouns import Seq
from spark_merge.port.contract import DumpPass
from spark_merge.sinks.kit import held
from spark_merge.sinks.kit.held import HeldByFile, HeldRows


def rows(*values: int) -> pa.Table:
    return pa.table({"n": pa.array(values, pa.int64())})


def test_the_largest_becomes_a_file_when_all_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held, "HELD_BYTES_MAX", 32 + 2 * held.COLUMN_BYTES)
    written: list[tuple[str, list[int]]] = []
    waiting = HeldByFile[str](lambda under, one: written.append((under, one.rows()["n"].to_pylist())))
    waiting.add("a", Seq(1), rows(1, 2))
    waiting.add("b", Seq(1), rows(3))
    assert written == []
    waiting.add("a", Seq(2), rows(4, 5))
    assert written == [("a", [1, 2, 4, 5])]
    waiting.add("b", Seq(3), rows(6), copies=4)
    assert written[1:] == [("b", [3, 6])]
    waiting.add("a", Seq(3), rows(7))
    waiting.write_all()
    assert written[2:] == [("a", [7])]


@pytest.mark.parametrize("columns", [3, 60])
def test_what_many_small_parts_take_is_bounded(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one live row of each of many segments: a part alone costs a hundred times its values."""
    monkeypatch.setattr(held, "HELD_BYTES_MAX", 8 << 20)
    written: list[HeldRows] = []
    waiting = HeldByFile[str](lambda _, one: written.append(one))
    most = 0
    for number in range(2_000):
        waiting.add("a", Seq(number), pa.table({f"c{column}": pa.array([number], pa.int64()) for column in range(columns)}))
        held_now = waiting._held.get("a")
        most = max(most, 0 if held_now is None else sum(len(part.columns) * part.column(0).num_chunks for part in held_now.parts))
    waiting.write_all()
    assert most <= columns * (held.PARTS_JOINED + 2_000 // held.PARTS_JOINED + 1), "objects of Arrow"
    assert [row["c0"] for one in written for row in one.rows().to_pylist()] == list(range(2_000))
    assert len(written) == 1, "the values alone are few"


def test_a_text_takes_the_buffer_of_the_block_that_it_is_a_part_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held, "HELD_BYTES_MAX", 1 << 20)
    written: list[HeldRows] = []
    waiting = HeldByFile[str](lambda _, one: written.append(one))
    block = pa.array(["short", "x" * (1 << 20)])
    waiting.add("a", Seq(1), pa.table({"text": block.slice(0, 1)}))
    assert len(written) == 1


def test_what_a_file_is_of_is_known() -> None:
    written: list[HeldRows] = []
    waiting = HeldByFile[str](lambda _, one: written.append(one))
    waiting.add("a", Seq(7), rows(1), dump_pass=DumpPass("d", Seq(0)))
    waiting.add("a", Seq(3), rows(2), dump_pass=DumpPass("d", Seq(1)))
    waiting.write_all()
    (one,) = written
    assert (one.first, one.last, one.passes) == (3, 7, {DumpPass("d", Seq(0)), DumpPass("d", Seq(1))})


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 5))), st.integers(0, 64))
def test_each_row_is_in_one_file_in_order(added: list[tuple[str, int]], bound: int) -> None:
    written: list[tuple[str, list[int]]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(held, "HELD_BYTES_MAX", bound)
        waiting = HeldByFile[str](lambda under, one: written.append((under, one.rows()["n"].to_pylist())))
        for under, value in added:
            waiting.add(under, Seq(1), rows(value))
        waiting.write_all()
    for under in "abc":
        assert [value for of, values in written if of == under for value in values] == [value for of, value in added if of == under]
