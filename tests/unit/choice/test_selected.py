"""What pytest runs of a choice."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.choice.choose import SCARCER, Choice
from tests.choice.selected import VARIABLE, Case, head, needs, running, selected, turn_of, write

CHOICE = Choice(
    chosen={"tests/a.py": ["test_one", "TestAll"]},
    turns={"tests/a.py": {"test_two": 2}, "tests/b.py": {"test_three": 2}},
    report=["run: 2 of 9 tests"],
)
CASES = [
    Case("tests/a.py::test_one[1]", "tests/a.py", "test_one"),
    Case("tests/a.py::test_one[2]", "tests/a.py", "test_one"),
    Case("tests/a.py::TestAll::test_x", "tests/a.py", "TestAll"),
    *(Case(f"tests/a.py::test_two[{n}]", "tests/a.py", "test_two") for n in range(3)),
    Case("tests/b.py::test_three", "tests/b.py", "test_three"),
    Case("tests/b.py::test_four", "tests/b.py", "test_four"),
    Case("tests/c.py::test_one", "tests/c.py", "test_one"),
]


def test_chosen_run_in_each_run_and_the_others_in_their_turn() -> None:
    runs = [running(CHOICE, CASES, number) for number in range(2)]
    chosen = {one.id for one in CASES[:3]}
    assert runs[0] & runs[1] == chosen
    assert runs[0] | runs[1] == chosen | {one.id for one in CASES[3:7]}
    assert [len(run) for run in runs] == [5, 5]


def test_a_file_without_a_test_that_can_run_is_not_loaded() -> None:
    assert [needs(CHOICE, f"tests/{name}.py") for name in "abc"] == [True, True, False]


def test_a_choice_is_read_as_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "of" / "choice.json"
    monkeypatch.setenv(VARIABLE, str(path))
    write(CHOICE, path)
    assert selected.__wrapped__() == replace(CHOICE, head=head())


@pytest.mark.parametrize("text", ['{"chosen": {"tests/a.py": ["test_one"]}, "report": ["run: 1"], "head": "another"}', "{}"])
def test_a_choice_of_another_commit_and_none_are_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    path = tmp_path / "choice.json"
    path.write_text(text)
    monkeypatch.setenv(VARIABLE, str(path))
    with pytest.raises(ValueError, match="is no choice for the present commit"):
        selected.__wrapped__()


def test_cases_with_a_mark_are_scarcer_and_each_has_its_turn() -> None:
    cases = [Case(f"tests/a.py::test_one[{n}]", "tests/a.py", "test_one", 2, "whole") for n in range(12)]
    runs = [running(CHOICE, cases, turn_of(str(number))) for number in range(100)]
    assert {len(run) for run in runs} == {12 // (2 * SCARCER)}
    assert set().union(*runs) == {one.id for one in cases}


def test_everything_runs_where_nothing_is_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "choice.json"))
    write(Choice("why"), tmp_path / "choice.json")
    assert selected.__wrapped__() is None
    monkeypatch.delenv(VARIABLE)
    assert selected.__wrapped__() is None
