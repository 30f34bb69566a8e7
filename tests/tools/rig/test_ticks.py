"""What looks for rows that go back finds them."""

from __future__ import annotations

import pytest

from tests.tools.rig.ticks import Floors

Rows = list[tuple[str | None, ...]]


@pytest.mark.parametrize(
    "looks",
    [
        [[("1", "5")], [("1", "4")]],
        [[("1", "5"), ("2", "6")], [("2", "6")], [("1", "5"), ("2", "6")]],
        [[("1", "5")], [], [], [("1", "3")]],
    ],
    ids=["older", "deleted and there again", "deleted and older"],
)
def test_a_look_at_a_row_that_went_back_is_refused(looks: list[Rows]) -> None:
    floors = Floors()
    for rows in looks[:-1]:
        floors.look(rows)
    with pytest.raises(AssertionError, match="row 1 goes back from 5"):
        floors.look(looks[-1])


def test_rows_that_go_on_are_let_pass() -> None:
    floors = Floors()
    for rows in ([("1", "5")], [("1", "5")], [("1", "7"), ("2", "6")], [("2", "6")], [("1", "9"), ("2", "6")]):
        floors.look(rows)
    assert floors.looks == 5


@pytest.mark.parametrize("brought_back", [("insert", ("1", "5")), ("I", ("1", "4"))])
def test_a_log_that_brings_a_row_back_is_refused(brought_back: tuple[str, tuple[str, str]]) -> None:
    floors = Floors()
    floors.follow([("insert", ("1", "4")), ("update", ("1", "4")), ("update", ("1", "5")), ("D", ("1", None))])
    with pytest.raises(AssertionError, match="row 1 goes back"):
        floors.follow([brought_back])
    floors.follow([("insert", ("1", "6"))])
