"""Cases that take turns: each is made within as many commits as there are shares, and of each test at least one."""

from __future__ import annotations

from pathlib import Path

from tests.turns import Share, in_turn, is_turn, turn

CASES = [
    *(Share.of(f"t.py::test_a[{number}]", 3) for number in range(7)),
    Share.of("t.py::test_b[x]", 3),
    Share.of("t.py::test_c", 3),
]


def test_each_case_has_its_turn_and_each_test_one_in_each_run() -> None:
    runs = [in_turn(CASES, number) for number in range(3)]
    assert set().union(*runs) == {one.case for one in CASES}
    for run in runs:
        assert {case.partition("[")[0] for case in run} == {"t.py::test_a", "t.py::test_b", "t.py::test_c"}
        assert len(run) <= 5


def test_cases_of_a_kind_take_turns_whatever_their_tests() -> None:
    cases = [Share.of(f"{name}.py::test", 2, "whole") for name in "abcde"]
    runs = [in_turn(cases, number) for number in range(2)]
    assert sorted(map(len, runs)) == [2, 3]
    assert set().union(*runs) == {one.case for one in cases}
    assert in_turn(cases[:1], 1) == {cases[0].case}


def test_a_name_has_one_turn_of_as_many_as_there_are() -> None:
    assert [is_turn("any", 10, number) for number in range(10)].count(True) == 1


def test_without_git_it_is_the_first_turn(tmp_path: Path) -> None:
    assert turn(tmp_path) == 0
